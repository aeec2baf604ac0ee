//! Trainers elsewhere are told over HTTP what a teacher may be told: the same texts, places and masks as here, within limits, and no
//! accepted answer but in a hint.
#![cfg(feature = "serve")]

mod service_support;
mod support;

use std::sync::Arc;

use hindsearch_env::hindsight::{
    AlignOptions, CriticOptions, Placement, QuerySpan, SiblingOptions, Siblings, Which, align,
};
use hindsearch_env::{Author, Preset, Request, Rules, Task, Trajectory};
use serde_json::{Value, json};
use service_support::{CANARY, Playground, post, refused, tasks};
use support::play::{Said, played, tokenized};
use support::words::Says;

fn task() -> Task {
    tasks(2).tasks()[1].clone()
}

fn rules() -> Rules {
    Rules::new(Preset::named("hindsearch").expect("a built-in preset").into())
}

/// A play of task 1 with tokens on all of its spans.
fn play(sample: u32, messages: &[Said<'_>]) -> Trajectory {
    let mut episode = played(&rules(), &task(), sample, messages);
    for span in episode.spans.iter_mut().filter(|span| span.author != Author::Policy) {
        span.tokens = tokenized(&span.text, 4).tokens;
    }
    episode
}

fn wrong() -> Trajectory {
    play(0, &[("<search>a number</search>", &[("x", "\"X\"\nA text.")]), ("<answer>seven</answer>", &[])])
}

fn right() -> Trajectory {
    play(1, &[("<search>the first one</search>", &[]), ("<answer>1</answer>", &[])])
}

#[track_caller]
fn items(play: &Playground, route: &str, items: &Value) -> Vec<Value> {
    let answer = play.ask(&post(&format!("/hindsight/v1/{route}"), &json!({ "items": items })));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"].as_array().expect("items").clone()
}

/// The id and the title of a passage of the corpus.
fn passage(play: &Playground) -> (String, String) {
    let begun = play.begin(0);
    let found = play.step(&begun, "<search>three</search>");
    let id = found["info"]["passages"][0][0]["id"].as_str().expect("an id").to_owned();
    let told = play.ask(&service_support::get(&format!("/v1/passages/{id}"))).json();
    (id, told["title"].as_str().expect("a title").to_owned())
}

#[test]
fn a_failed_episode_is_criticised_by_the_passages_that_hold_its_answer() {
    let server = Playground::new();
    let (id, title) = passage(&server);
    let item = |trajectory: Trajectory, passages: &[&str]| json!({ "trajectory": trajectory, "passages": passages, "options": { "names_turn": true } });
    let told =
        items(&server, "critique", &json!([item(wrong(), &[&id]), item(right(), &[&id]), item(wrong(), &["no such"])]));
    let text = format!("Instead of \"a number\", search for {title} by name.");
    let critique = json!({ "text": text, "turn": 0, "contains_gold": false });
    assert_eq!(told[0], json!({ "failed": true, "critique": critique, "hint": format!("<HINT> {text} </HINT>") }));
    assert_eq!(told[1], json!({ "failed": false, "critique": null, "hint": null }));
    assert_eq!(told[2], json!({ "failed": true, "critique": null, "hint": null }));
}

#[test]
fn a_servers_judge_is_asked_about_failures_alone_and_all_of_them_at_once() {
    let judge = Arc::new(Says::new(|_, request: &Request| {
        let is_short = request.system.contains("at most 20 words");
        (!request.user.contains("fault"))
            .then(|| if is_short { "Ask for it.".into() } else { "Ask for it by name.".into() })
    }));
    let writer = Arc::clone(&judge);
    let server = Playground::with(|env| env.judge = Some(writer as _), |_| ());
    let fault = play(0, &[("<search>a fault</search>", &[]), ("<answer>seven</answer>", &[])]);
    let item = |trajectory: &Trajectory, words: usize| json!({ "trajectory": trajectory, "critic": "judge", "options": { "words": words, "sees_gold": false } });
    let asked =
        json!([item(&wrong(), 60), item(&right(), 60), item(&wrong(), 20), item(&fault, 60), item(&wrong(), 60)]);
    let told = items(&server, "critique", &asked);
    let texts: Vec<Option<&str>> = told.iter().map(|one| one["critique"]["text"].as_str()).collect();
    assert_eq!(texts, [Some("Ask for it by name."), None, Some("Ask for it."), None, Some("Ask for it by name.")]);
    assert_eq!(told[1]["failed"], false);
    refused(&told[3], "unavailable", true);
    let requests = judge.asked();
    assert!(requests.len() == 4 && requests.iter().all(|request| !request.user.contains(CANARY)), "{requests:?}");

    let without = Playground::new();
    refused(&items(&without, "critique", &json!([item(&wrong(), 60)]))[0], "not_found", false);
}

#[test]
fn a_block_is_the_one_that_is_made_here() {
    let server = Playground::new();
    let attempts = [wrong(), right(), wrong()];
    let (task, all) = (task(), attempts.iter().collect::<Vec<_>>());
    let options = SiblingOptions { which: Which::LeaveOneOut, shuffle: true, ..SiblingOptions::default() };
    let here = Siblings { task: &task, attempts: &all, own: 2 }.block(&options, 9).expect("a block");
    // Four characters are a token here.
    let whole = here.text().len().div_ceil(4);
    let item = json!({ "attempts": attempts, "own": 2, "options": options, "seed": 9 });
    let with = |key: &str, value: Value| {
        let mut item = item.clone();
        item[key] = value;
        item
    };
    let (id, title) = passage(&server);
    let mut evidence = with("view", json!("evidence"));
    evidence["passages"] = json!([id]);
    let asked = [
        item.clone(),
        with("budget", json!(whole - 1)),
        with("budget", json!(1)),
        with("view", json!("better")),
        with("view", json!("gold")),
        evidence,
    ];
    let told = items(&server, "block", &json!(asked));
    assert_eq!(told[0], json!({ "hint": here.text(), "cut": 0, "labels": [false, true, false] }));
    assert_eq!(
        (told[1]["cut"].as_u64(), told[1]["hint"].as_str().map(|text| text.matches("Attempt ").count())),
        (Some(1), Some(1))
    );
    assert_eq!((told[2]["cut"].as_u64(), &told[2]["hint"]), (Some(2), &Value::Null));
    let holds = |number: usize, text: &str| told[number]["hint"].as_str().is_some_and(|hint| hint.contains(text));
    assert!(holds(3, "search: the first one") && holds(4, CANARY) && holds(5, &title), "{told:?}");
}

#[test]
fn an_aligned_episode_has_the_same_response_and_the_teachers_prompt() {
    let server = Playground::new();
    let episode = wrong();
    let response: Vec<u32> = episode.spans[1..].iter().flat_map(|span| span.tokens.clone()).collect();
    for placement in ["user-prefix", "raw-prefix", "user-suffix", "system-suffix", "step-prefix"] {
        let options = json!({ "placement": placement, "span": "inclusive" });
        let item = json!({ "trajectory": episode, "hint": "<HINT> Do so. </HINT>", "options": options });
        let told = items(&server, "align", &json!([item])).remove(0);
        let own: AlignOptions = serde_json::from_value(options).expect("options");
        let here = align(&episode, "<HINT> Do so. </HINT>", &own).expect("an episode with tokens");
        assert_eq!(told, serde_json::to_value(&here).expect("JSON"));
        assert_eq!(
            (&here.response, here.policy_mask.len(), here.query_mask.len()),
            (&response, response.len(), response.len())
        );
        let texts: Vec<&str> = here.messages.iter().map(|message| message.content.as_str()).collect();
        let told = [
            &[here.before.as_str()],
            &texts[..],
            &here.inserts.iter().map(|insert| insert.text.as_str()).collect::<Vec<_>>(),
        ]
        .concat();
        assert_eq!(told.iter().filter(|text| text.contains("Do so.")).count(), 1, "{placement}");
        assert_eq!(
            here.inserts.iter().map(|insert| insert.at).collect::<Vec<_>>(),
            if placement == "step-prefix" { vec![0] } else { vec![] }
        );
        assert_eq!(here.straddling, 2, "`h>a` and `r</`");
    }
    let all =
        align(&episode, "", &AlignOptions { span: QuerySpan::Content, ..AlignOptions::default() }).expect("tokens");
    let asked = all.query_mask.iter().filter(|own| **own).count();
    assert_eq!(asked, 4, "`h>a`, ` nu`, `mbe`, `r</`");
    let first = AlignOptions { turn: Some(1), placement: Placement::RawPrefix, ..AlignOptions::default() };
    assert!(!align(&episode, "", &first).expect("tokens").query_mask.contains(&true), "that turn did not search");
}

#[test]
fn what_cannot_be_used_is_refused_by_name_and_costs_no_other() {
    let server = Playground::new();
    let mut bare = wrong();
    bare.spans[2].tokens.clear();
    let mut torn = wrong();
    torn.turns[0].span = 99;
    let mut unknown = wrong();
    unknown.task = "another".into();
    let told = items(
        &server,
        "align",
        &json!([
            { "trajectory": bare },
            { "trajectory": torn },
            { "trajectory": wrong(), "options": { "turn": 7 } },
            { "trajectory": wrong(), "options": { "placement": "nowhere" } },
            { "trajectory": wrong(), "hint": "x".repeat((1 << 20) + 1) },
            { "trajectory": wrong(), "sight": 1 },
            { "trajectory": wrong() },
        ]),
    );
    for (answer, words) in told.iter().zip(["span 2", "turn 0", "turn", "nowhere", "1048576", "sight"]) {
        refused(answer, "invalid_input", false);
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains(words)), "{words}: {answer}");
    }
    assert!(told[6]["response"].is_array());

    let many: Vec<Trajectory> = vec![wrong(); 257];
    let told = items(
        &server,
        "block",
        &json!([
            { "attempts": [], "own": 0 },
            { "attempts": [wrong()], "own": 1 },
            { "attempts": [wrong(), unknown], "own": 0 },
            { "attempts": many, "own": 0 },
            { "attempts": [wrong()], "own": 0, "options": { "labels": "false" } },
        ]),
    );
    told.iter().for_each(|answer| refused(answer, "invalid_input", false));

    let told = items(
        &server,
        "critique",
        &json!([{ "trajectory": unknown }, { "trajectory": unknown, "ground_truth": "7" }, { "trajectory": wrong(), "options": { "words": 0 } }]),
    );
    refused(&told[0], "not_found", false);
    assert_eq!(told[1]["failed"], true);
    refused(&told[2], "invalid_input", false);
}

#[test]
fn an_accepted_answer_is_in_no_answer_but_in_a_hint() {
    let server = Playground::new();
    let (id, _) = passage(&server);
    let quiet = CriticOptions { sees_gold: false, ..CriticOptions::default() };
    let wrong = wrong();
    let asked = [
        ("critique", json!({ "trajectory": wrong, "passages": [id], "options": quiet, "ground_truth": [CANARY] })),
        ("critique", json!({ "trajectory": wrong, "passages": [id], "ground_truth": { "target": [CANARY] } })),
        ("critique", json!({ "trajectory": wrong, "ground_truth": [[CANARY]] })),
        ("block", json!({ "attempts": [wrong], "own": 0, "ground_truth": [CANARY] })),
        ("block", json!({ "attempts": [wrong], "own": 0, "view": "evidence", "ground_truth": { "other": CANARY } })),
        ("align", json!({ "trajectory": wrong })),
    ];
    for (route, item) in asked {
        let told = items(&server, route, &json!([item])).remove(0);
        assert!(!told.to_string().contains(CANARY), "{route}: {told}");
    }
}

#[test]
fn the_routes_are_described_and_behind_the_gate() {
    let token = hindsearch_retriever::serve::Token::new("secret").expect("a token");
    let server = Playground::with(|_| (), |serve| serve.tokens = vec![token]);
    let described = server.ask(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: secret\r\n\r\n").json();
    for route in ["critique", "block", "align"] {
        let path = format!("/hindsight/v1/{route}");
        server.ask(&post(&path, &json!({ "items": [] }))).assert_fault(401);
        assert!(described["paths"][&path]["post"]["responses"]["200"].is_object(), "{path}");
    }
}
