//! Our own protocol over HTTP: batches of episodes that go by the rules, each item with an answer or an error of its own.
#![cfg(feature = "serve")]

mod service_support;

use std::collections::HashSet;
use std::time::Duration;

use hindsearch_env::tasks::{TaskSet, pick};
use hindsearch_env::{Preset, Trajectory};
use serde_json::{Value, json};
use service_support::{Client, Playground, get, id, post, post_with, refused, until};

#[test]
fn an_episode_is_a_prompt_searches_and_an_answer_that_is_scored() {
    let play = Playground::new();
    let begun = play.item("reset", &json!({ "task_id": id(3) }));
    assert_eq!(
        (&begun["task_id"], &begun["preset"], &begun["source"]),
        (&json!(id(3)), &json!("hindsearch"), &json!("numbers"))
    );
    assert!(begun["messages"][0]["content"].as_str().expect("a prompt").contains("What is number 3?"), "{begun}");
    assert_eq!(begun["messages"][0]["role"], "user");
    assert_eq!(begun["stop"], json!(["</search>", "</answer>"]));
    assert_eq!((&begun["limits"]["turns"], &begun["tools"]), (&json!(4), &json!([])));
    let episode = begun["episode_id"].as_str().expect("an id");

    let seen = play.step(episode, "<think>t</think><search> three </search> and more");
    let text = seen["observation"].as_str().expect("an observation");
    assert!(text.starts_with("\n\n<information>[1] ") && text.ends_with("</information>\n\n"), "{text}");
    assert_eq!(seen["segments"][0], json!({ "text": "<think>t</think><search> three </search>", "source": "policy" }));
    assert_eq!(seen["segments"][1], json!({ "text": text, "source": "environment" }));
    assert_eq!(seen["messages"], json!([{ "role": "assistant", "content": text }]));
    assert_eq!((&seen["reward"], &seen["terminated"], &seen["truncated"]), (&json!(0.0), &json!(false), &json!(false)));
    let info = &seen["info"];
    assert_eq!(
        (&info["action"], &info["valid"], &info["queries"]),
        (&json!("search"), &json!(true), &json!(["three"]))
    );
    assert_eq!((&info["turns"], &info["searches"], &info["stop"]), (&json!(1), &json!(1), &Value::Null));
    let passages = info["passages"][0].as_array().expect("passages");
    assert_eq!(passages.len(), 3);
    assert!(passages.iter().all(|passage| passage["id"].is_string() && passage["score"].is_number()));
    assert_eq!(info["index"]["generation"], 1);
    assert_eq!(info["index"]["fingerprint"].as_str().map(str::len), Some(64));

    let invalid = play.step(episode, "hm");
    assert_eq!((&invalid["info"]["action"], &invalid["info"]["valid"]), (&json!("invalid"), &json!(false)));
    assert!(invalid["info"]["index"].is_null());
    let last = play.step(episode, "<answer>3</answer>");
    assert_eq!((&last["reward"], &last["terminated"], &last["observation"]), (&json!(1.0), &json!(true), &json!("")));
    assert_eq!((&last["info"]["stop"], &last["messages"]), (&json!("answer"), &json!([])));
    assert_eq!(last["info"]["reward"]["terms"][0], json!({ "name": "em", "weight": 1.0, "value": 1.0 }));
    refused(&play.step(episode, "<answer>3</answer>"), "invalid_input", false);
}

#[test]
fn many_episodes_are_stepped_in_one_request_and_a_bad_item_costs_only_itself() {
    let play = Playground::new();
    let items: Vec<Value> =
        (0..200).map(|number| json!({ "task_id": id(number % 10), "sample": number / 10 })).collect();
    let episodes = play.items("reset", &json!(items));
    let ids: HashSet<&str> = episodes.iter().map(|begun| begun["episode_id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), 200);
    let step = |action: &dyn Fn(usize) -> String| -> Vec<Value> {
        let items = episodes.iter().enumerate();
        let items = items.map(|(at, begun)| json!({ "episode_id": begun["episode_id"], "action": action(at) }));
        play.items("step", &json!(items.collect::<Vec<_>>()))
    };
    let seen = step(&|at| format!("<search>query {at}</search>"));
    assert!(seen.iter().enumerate().all(|(at, seen)| seen["info"]["queries"] == json!([format!("query {at}")])));
    // Half of them are right.
    let last = step(&|at| format!("<answer>{}</answer>", if at % 2 == 0 { at % 10 } else { 77 }));
    let rewards: Vec<f64> = last.iter().map(|last| last["reward"].as_f64().expect("a reward")).collect();
    assert!(rewards.iter().enumerate().all(|(at, reward)| *reward == f64::from(u8::from(at % 2 == 0))), "{rewards:?}");

    let episode = play.begin(1);
    let answers = play.items(
        "step",
        &json!([
            { "episode_id": "nobody", "action": "x" },
            { "episode_id": episode, "action": 7 },
            { "episode_id": episode, "action": "x", "unknown": 1 },
            { "action": "x" },
            7,
            ["nobody", "x"],
            { "episode_id": episode, "action": "<answer>1</answer>" },
        ]),
    );
    refused(&answers[0], "not_found", false);
    answers[1..6].iter().for_each(|answer| refused(answer, "invalid_input", false));
    assert_eq!(answers[6]["reward"], 1.0, "{}", answers[6]);
    let answers = play.items(
        "reset",
        &json!([
            { "task_id": "none" }, { "task_id": id(1), "task": { "question": "q", "ground_truth": "g" } },
            { "task": { "question": "q" } }, { "task": "q" }, { "preset": "none" }, { "overrides": { "limits": { "turns": 0 } } },
            { "overrides": { "limits": { "turn": 1 } } }, { "overrides": { "observation": { "top_k": 100_000 } } }, { "seed": -1 },
            { "task": { "question": "q", "ground_truth": ["g"], "data_source": "mine" } },
        ]),
    );
    refused(&answers[0], "not_found", false);
    refused(&answers[4], "not_found", false);
    [1, 2, 3, 5, 6, 7, 8].iter().for_each(|&at: &usize| refused(&answers[at], "invalid_input", false));
    assert_eq!(answers[9]["source"], "mine", "{}", answers[9]);
    for body in [
        json!({}),
        json!([]),
        json!({ "items": {} }),
        json!({ "items": [], "more": 1 }),
        json!({ "items": vec![0; 4097] }),
    ] {
        play.ask(&post("/env/v1/step", &body)).assert_fault(422);
    }
    assert_eq!(play.items("step", &json!([])).len(), 0);
}

#[test]
fn a_step_that_is_asked_for_again_is_answered_the_same_and_not_done_twice() {
    let play = Playground::new();
    let episode = play.begin(2);
    let step = |key: &str, action: &str| {
        post("/env/v1/step", &json!({ "items": [{ "episode_id": episode, "action": action, "idempotency_key": key }] }))
    };
    let first = play.ask(&step("a", "<search>two</search>"));
    assert_eq!(first.json()["items"][0]["info"]["turns"], 1);
    for _ in 0..3 {
        assert_eq!(play.ask(&step("a", "<search>two</search>")).body, first.body);
    }
    assert_eq!(play.encoder.times("two"), 1);
    refused(&play.ask(&step("a", "<search>three</search>")).json()["items"][0], "invalid_input", false);
    refused(&play.ask(&step(&"k".repeat(256), "hm")).json()["items"][0], "invalid_input", false);
    // All at the same time, while the search is under way.
    play.encoder.hold();
    let together: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| play.ask(&step("b", "<search>four</search>")))).collect();
        until("a search that is under way", Duration::from_secs(30), || play.encoder.waiting() > 0);
        play.encoder.go_on();
        asked.into_iter().map(|asked| asked.join().expect("an answer").body).collect()
    });
    assert!(together.iter().all(|body| *body == together[0]));
    assert_eq!(play.encoder.times("four"), 1);
    // Also when the episode is over.
    let last = play.ask(&step("c", "<answer>2</answer>"));
    assert_eq!(last.json()["items"][0]["info"]["turns"], 3);
    assert_eq!(play.ask(&step("c", "<answer>2</answer>")).body, last.body);
}

#[test]
fn what_cannot_be_searched_changes_nothing_and_may_be_asked_again() {
    let play = Playground::new();
    let (lost, other) = (play.begin(1), play.begin(2));
    let items = json!([
        { "episode_id": lost, "action": "<search><fail></search>", "idempotency_key": "k" },
        { "episode_id": other, "action": "<search>fine</search>" },
    ]);
    let answers = play.items("step", &items);
    refused(&answers[0], "internal", true);
    assert!(answers[0].get("reward").is_none() && answers[0].get("observation").is_none());
    assert_eq!(answers[1]["info"]["searches"], 1, "{}", answers[1]);
    // The key is free, for nothing was done with it.
    let again =
        play.item("step", &json!({ "episode_id": lost, "action": "<search>ok</search>", "idempotency_key": "k" }));
    assert_eq!((&again["info"]["turns"], &again["info"]["searches"]), (&json!(1), &json!(1)), "{again}");

    // Nor does a search that is given up: by its time, or by a client that goes away.
    play.encoder.hold();
    let body = json!({ "items": [{ "episode_id": lost, "action": "<search>slow</search>" }] });
    let late = play.ask(&post_with("/env/v1/step", "X-Request-Timeout-Ms: 50\r\n", &body));
    refused(&late.json()["items"][0], "timeout", true);
    let mut client = Client::new(play.address()).expect("a connection");
    client.write(&post("/env/v1/step", &body)).expect("a request");
    until("a request under way", Duration::from_secs(30), || play.server.service.active() > 0);
    drop(client);
    until("a request that was given up", Duration::from_secs(30), || play.server.service.active() == 0);
    play.encoder.go_on();
    let seen = play.step(&lost, "<search>next</search>");
    assert_eq!((&seen["info"]["turns"], &seen["info"]["searches"]), (&json!(2), &json!(2)), "{seen}");
}

#[test]
fn episodes_have_room_and_time_and_those_without_are_told_when_to_come_back() {
    let play = Playground::with(|env| (env.capacity, env.idle) = (4, Duration::from_secs(60)), |_| ());
    let reset = |count: usize| play.ask(&post("/env/v1/reset", &json!({ "items": vec![json!({ "seed": 1 }); count] })));
    reset(5).assert_fault(422);
    let begun = reset(3).json();
    // All or none.
    let refusal = reset(2);
    refusal.assert_fault(503);
    assert_eq!(refusal.json()["code"], "overloaded");
    let last = play.begin(0);
    reset(1).assert_fault(503);
    // One that is over, and one that is closed, make room.
    play.step(&last, "<answer>x</answer>");
    assert_eq!(reset(1).status, 200);
    let first = begun["items"][0]["episode_id"].as_str().expect("an id");
    assert_eq!(play.item("close", &json!({ "episode_id": first }))["closed"], true);
    assert_eq!(play.item("close", &json!({ "episode_id": first }))["closed"], false);
    refused(&play.step(first, "hm"), "not_found", false);
    assert_eq!(reset(1).status, 200);
    // So do those that nobody asks for; one that is asked for stays.
    let kept = begun["items"][1]["episode_id"].as_str().expect("an id");
    play.wait(Duration::from_secs(40));
    assert_eq!(play.step(kept, "hm")["info"]["turns"], 1);
    play.wait(Duration::from_secs(40));
    assert_eq!(reset(3).status, 200);
    reset(1).assert_fault(503);
    assert_eq!(play.step(kept, "hm")["info"]["turns"], 2);
    refused(&play.step(begun["items"][2]["episode_id"].as_str().expect("an id"), "hm"), "not_found", false);
}

#[test]
fn the_memory_of_episodes_has_a_limit() {
    let play = Playground::with(|env| env.memory = 100_000, |_| ());
    let begin = |number: usize| {
        let wide = json!({ "task_id": id(number), "overrides": { "limits": { "context_tokens": 1_000_000 } } });
        play.item("reset", &wide)["episode_id"].as_str().expect("an id").to_owned()
    };
    let (long, short) = (begin(1), begin(2));
    let text = "x".repeat(90_000);
    assert_eq!(play.step(&long, &text)["info"]["turns"], 1);
    refused(&play.step(&short, &text), "overloaded", true);
    play.ask(&post("/env/v1/reset", &json!({ "items": vec![json!({ "seed": 1 }); 100] }))).assert_fault(503);
    assert_eq!(play.step(&short, "hm")["info"]["turns"], 1, "what did not fit was not done");
    // What is over goes first.
    play.step(&long, "<answer>1</answer>");
    assert_eq!(play.step(&short, &text)["info"]["turns"], 2);
}

#[test]
fn a_client_that_holds_the_record_needs_no_episode() {
    let play = Playground::new();
    let begun = play.item("reset", &json!({ "task_id": id(4), "record": true, "sample": 3 }));
    let episode = begun["episode_id"].as_str().expect("an id");
    let mut record = begun["trajectory"].clone();
    for action in ["<search>a</search>", "hm", "<search>b</search>", "<answer>4</answer>"] {
        let stepped = play.item("step", &json!({ "episode_id": episode, "action": action, "record": true }));
        let went = play.item("transition", &json!({ "trajectory": record, "action": action, "task_id": id(4) }));
        for field in ["observation", "messages", "segments", "reward", "terminated", "truncated", "info", "trajectory"]
        {
            assert_eq!(went[field], stepped[field], "{field} of {action}");
        }
        // The record names its task.
        assert_eq!(play.item("transition", &json!({ "trajectory": record, "action": action })), went);
        // Of one that the server does not have the answers are not known: that is no reward of 0.
        let mut foreign = record.clone();
        foreign["task"] = json!("none");
        let other = play.item("transition", &json!({ "trajectory": foreign, "action": action }));
        assert_eq!((&other["reward"], &other["info"]["reward"]), (&Value::Null, &Value::Null));
        assert_eq!(other["observation"], went["observation"]);
        record = went["trajectory"].clone();
    }
    let scored = play.item("score", &json!({ "trajectory": record }));
    assert_eq!(scored["total"], 1.0, "{scored}");
    let mut foreign = record.clone();
    foreign["task"] = json!("none");
    let unknown = play.item("score", &json!({ "trajectory": foreign }));
    refused(&unknown, "not_found", false);
    assert!(unknown["error"]["message"].as_str().is_some_and(|text| text.contains("`none`")), "{unknown}");
    let own = json!({ "trajectory": foreign, "ground_truth": "4" });
    assert_eq!(play.item("score", &own)["total"], 1.0);
    let record: Trajectory = serde_json::from_value(record).expect("a record");
    assert_eq!((record.sample, record.turns.len(), record.reward.map(|reward| reward.total)), (3, 4, Some(1.0)));

    let fresh = &begun["trajectory"];
    let went = play.item(
        "transition",
        &json!({ "trajectory": fresh, "action": "<answer>x</answer>", "ground_truth": ["y", "x"] }),
    );
    assert_eq!((&went["reward"], &went["terminated"]), (&json!(1.0), &json!(true)));
    refused(
        &play.item("transition", &json!({ "trajectory": went["trajectory"], "action": "hm" })),
        "invalid_input",
        false,
    );
    refused(
        &play.item("transition", &json!({ "trajectory": fresh, "action": "hm", "task_id": id(5) })),
        "invalid_input",
        false,
    );
    // A record that was tampered with is refused, whatever is wrong with it.
    let seen =
        play.item("transition", &json!({ "trajectory": fresh, "action": "<search>é</search>" }))["trajectory"].clone();
    let tampered: [&dyn Fn(&mut Value); 8] = [
        &|record| record["version"] = json!(99),
        &|record| record["turns"][0]["span"] = json!(99),
        &|record| record["turns"][0]["span"] = json!(0),
        &|record| record["turns"][0]["observation"] = json!(99),
        &|record| record["turns"][0]["content"] = json!({ "start": 0, "end": 999 }),
        &|record| record["turns"][0]["content"] = json!({ "start": 9, "end": 9 }),
        &|record| record["spans"][1]["logprobs"] = json!([-1.0]),
        &|record| record["preset"] = json!("none"),
    ];
    for (number, tamper) in tampered.into_iter().enumerate() {
        let mut record = seen.clone();
        tamper(&mut record);
        let answer = play.item("transition", &json!({ "trajectory": record, "action": "hm" }));
        assert!(answer["error"]["retryable"] == false, "{number}: {answer}");
    }
}

#[test]
fn texts_chats_and_records_are_scored() {
    let play = Playground::new();
    let score = |item: Value| play.item("score", &item);
    let right = json!("so <answer> Four</answer>");
    assert_eq!(score(json!({ "text": right, "ground_truth": { "target": ["four"] } }))["total"], 1.0);
    assert_eq!(score(json!({ "text": right, "ground_truth": "five" }))["total"], 0.0);
    assert_eq!(score(json!({ "text": "<answer>4</answer>", "task_id": id(4) }))["total"], 1.0);
    let long = "<answer>about four or so</answer>";
    assert_eq!(score(json!({ "text": long, "ground_truth": "four" }))["total"], 0.0);
    assert_eq!(score(json!({ "text": long, "ground_truth": "four", "scorer": "sub-em" }))["total"], 1.0);
    let reward = json!({ "terms": [{ "scorer": "em" }, { "scorer": "sub-em", "weight": 0.5, "name": "part" }] });
    let parts = score(json!({ "text": long, "ground_truth": "four", "reward": reward }));
    assert_eq!((&parts["total"], &parts["terms"][1]["name"]), (&json!(0.5), &json!("part")));
    // Only what the policy wrote counts.
    let chat = |last: &str| {
        json!([
            { "role": "user", "content": "<answer>four</answer>" }, { "role": "assistant", "content": "<search>a</search>" },
            { "role": "tool", "content": "<answer>four</answer>" }, { "role": "assistant", "content": last },
        ])
    };
    assert_eq!(score(json!({ "messages": chat("hm"), "ground_truth": "four" }))["total"], 0.0);
    assert_eq!(score(json!({ "messages": chat("<answer>four</answer>"), "ground_truth": "four" }))["total"], 1.0);
    // A record of a recipe that is not known here is not paid by another.
    let mut record = play.item("reset", &json!({ "task_id": id(4), "record": true }))["trajectory"].clone();
    record["preset"] = json!("nosuch");
    refused(&score(json!({ "trajectory": record })), "not_found", false);
    for bad in [
        json!({ "text": "x" }),
        json!({ "text": "x", "messages": [], "ground_truth": "y" }),
        json!({ "ground_truth": "y" }),
        json!({ "text": "x", "ground_truth": { "other": 1 } }),
        json!({ "text": "x", "ground_truth": "y", "scorer": "none" }),
        json!({ "text": "x", "ground_truth": "y", "reward": { "terms": [] } }),
        json!({ "messages": [{ "role": "king", "content": "x" }], "ground_truth": "y" }),
    ] {
        refused(&score(bad), "invalid_input", false);
    }
}

#[test]
fn a_message_may_come_with_its_tokens_or_with_calls_of_tools() {
    let play = Playground::new();
    let episode = play.begin(1);
    let action = json!({
        "role": "assistant", "content": [{ "type": "text", "text": "<answer>1</answer>" }],
        "tokens": [5, 6, 7], "logprobs": [-0.5, 0.0, -1.25], "ends": [8, 9, 18],
    });
    let step = |episode: &str, action: &Value| {
        play.item(
            "step",
            &json!({ "episode_id": episode, "action": action, "finish_reason": "length", "record": true }),
        )
    };
    for (field, value) in
        [("tokens", json!([5])), ("logprobs", json!([1, 1, 1])), ("ends", json!("x")), ("content", json!(7))]
    {
        let mut bad = action.clone();
        bad[field] = value;
        refused(&step(&episode, &bad), "invalid_input", false);
    }
    let record = step(&episode, &action)["trajectory"].clone();
    assert_eq!(record["spans"][1]["tokens"], json!([5, 6, 7]));
    assert_eq!(record["spans"][1]["logprobs"], json!([-0.5, 0.0, -1.25]));
    assert_eq!((&record["turns"][0]["cut_off"], &record["reward"]["total"]), (&json!(true), &json!(1.0)));

    let grammar = json!({ "search": { "open": "<tool_call>", "close": "</tool_call>" }, "query": { "form": "call", "name": "find", "argument": "queries" } });
    let overrides = json!({ "grammar": grammar, "limits": { "turns": 9, "queries": null } });
    let begun = play.item("reset", &json!({ "task_id": id(1), "overrides": overrides }));
    assert_eq!(begun["tools"][0]["function"]["name"], "find");
    assert_eq!(begun["tools"][0]["function"]["parameters"]["required"], json!(["queries"]));
    assert_eq!(begun["limits"]["turns"], 9);
    let tooled = begun["episode_id"].as_str().expect("an id");
    for arguments in [json!({ "queries": ["a", "b"] }), json!("{\"queries\": [\"a\", \"b\"]}")] {
        let call = json!({ "id": "c", "type": "function", "function": { "name": "find", "arguments": arguments } });
        let seen = step(tooled, &json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        assert_eq!(seen["info"]["queries"], json!(["a", "b"]), "{seen}");
        assert_eq!(seen["info"]["passages"].as_array().map(Vec::len), Some(2));
    }
    let call = json!({ "content": "", "tool_calls": [{ "function": { "name": "search", "arguments": {} } }] });
    refused(&step(&play.begin(1), &call), "invalid_input", false);
}

#[test]
fn tasks_and_presets_are_listed() {
    let play = Playground::new();
    let page = |query: &str| play.ask(&get(&format!("/env/v1/tasks{query}")));
    let all = page("").json();
    assert_eq!((&all["total"], all["tasks"].as_array().map(Vec::len)), (&json!(10), Some(10)));
    assert_eq!(all["tasks"][3]["task_id"], id(3));
    assert_eq!(all["tasks"][3]["question"], "What is number 3");
    let part = page("?split=test&source=numbers&offset=1&limit=2").json();
    let ids: Vec<&Value> = part["tasks"].as_array().expect("tasks").iter().map(|task| &task["task_id"]).collect();
    assert_eq!((&part["total"], ids), (&json!(5), vec![&json!(id(3)), &json!(id(5))]));
    assert_eq!(page("?split=none").json()["total"], 0);
    for bad in ["?limit=0", "?limit=1001", "?offset=-1", "?limit=x"] {
        page(bad).assert_fault(422);
    }
    let presets = play.ask(&get("/env/v1/presets")).json();
    assert_eq!(presets["default"], "hindsearch");
    let known: Preset = serde_json::from_value(presets["presets"][0].clone()).expect("a preset");
    assert!(!known.name.is_empty());
}

#[test]
fn a_seed_chooses_the_same_task_again_and_different_ones_choose_all() {
    let play = Playground::new();
    let chosen =
        |seed: u64| play.item("reset", &json!({ "seed": seed }))["task_id"].as_str().expect("an id").to_owned();
    let many: Vec<String> = (0..200).map(chosen).collect();
    assert_eq!(many, (0..200).map(chosen).collect::<Vec<_>>());
    // By the rule that the program and the Python package choose by, too.
    assert_eq!(many, (0..200).filter_map(|seed| pick(seed, 10)).map(id).collect::<Vec<_>>());
    assert_eq!(many.iter().collect::<HashSet<_>>().len(), 10);
    let none = Playground::with(|env| env.tasks = TaskSet::default(), |_| ());
    refused(&none.item("reset", &json!({})), "not_found", false);
    assert!(none.item("reset", &json!({ "task": { "question": "q", "answer": "a" } }))["episode_id"].is_string());
}

#[test]
fn the_routes_are_described_and_behind_the_gate() {
    let token = hindsearch_retriever::serve::Token::new("secret").expect("a token");
    let play = Playground::with(|_| (), |serve| serve.tokens = vec![token]);
    let body = json!({ "items": [] });
    play.ask(&post("/env/v1/step", &body)).assert_fault(401);
    assert_eq!(play.ask(&post_with("/env/v1/step", "Authorization: Bearer secret\r\n", &body)).status, 200);
    let described = play.ask(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: secret\r\n\r\n").json();
    for (path, verb) in [
        ("/env/v1", "get"),
        ("/env/v1/reset", "post"),
        ("/env/v1/step", "post"),
        ("/env/v1/transition", "post"),
        ("/env/v1/score", "post"),
        ("/env/v1/close", "post"),
        ("/env/v1/tasks", "get"),
        ("/env/v1/presets", "get"),
    ] {
        assert!(described["paths"][path][verb]["responses"]["200"].is_object(), "{verb} {path}");
    }
}

#[test]
fn the_address_that_is_told_says_what_there_is() {
    let play = Playground::new();
    let index = play.ask(&get("/env/v1")).json();
    assert_eq!((&index["tasks"], &index["default_preset"]), (&json!(10), &json!("hindsearch")));
    assert!(index["presets"].as_array().is_some_and(|all| all.contains(&json!("search-r1"))), "{index}");
    let routes = index["routes"].as_array().expect("routes");
    let described = play.ask(&get("/openapi.json")).json();
    for path in ["/env/v1/reset", "/openenv/step", "/verify", "/nemo-gym/verify", "/get_observation"] {
        let route = routes.iter().find(|route| route["path"] == path).unwrap_or_else(|| panic!("{path}: {index}"));
        let verb = route["method"].as_str().expect("a method").to_lowercase();
        assert_eq!(described["paths"][path][verb]["summary"], route["summary"], "{path}");
    }
}

/// The fields that the description of a route names are those that it takes and gives.
#[test]
fn bodies_of_other_packages_are_described_by_their_fields() {
    let play = Playground::new();
    let described = play.ask(&get("/openapi.json")).json();
    let schema = |path: &str, of: &str| {
        let operation = &described["paths"][path]["post"];
        let body = if of == "request" { &operation["requestBody"] } else { &operation["responses"]["200"] };
        body["content"]["application/json"]["schema"].clone()
    };
    let row = json!({ "question": "What?", "ground_truth": "4" });
    let said = json!([{ "type": "message", "role": "assistant", "content": "<answer>4</answer>" }]);
    let answered = json!({ "question": "What?", "ground_truth": "4", "response": { "output": said } });
    let actions = json!({
        "trajectory_ids": ["a"], "actions": ["hm"], "finish": [false], "extra_fields": [{ "question": "What?", "ground_truth": "4" }],
    });
    let rows = json!({ "verify_responses": [{ "reward": 1.0 }] });
    for (path, body) in [
        ("/seed_session", &row),
        ("/reset", &row),
        ("/nemo-gym/verify", &answered),
        ("/aggregate_metrics", &rows),
        ("/search_passages", &json!({ "query": "a" })),
        ("/get_observation", &actions),
    ] {
        let answer = play.ask(&post(path, body));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let answer = answer.json();
        for (of, body) in [("request", body), ("response", &answer)] {
            let schema = schema(path, of);
            let known = schema["properties"].as_object();
            let is_open = schema["additionalProperties"] == true;
            for name in body.as_object().expect("an object").keys() {
                let is_known = known.is_some_and(|known| known.contains_key(name));
                assert!(is_known || is_open && of == "response", "{path}, {of}: `{name}` in {schema}");
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(body.get(name.as_str().expect("a name")).is_some(), "{path}, {of}: {name} in {body}");
            }
        }
    }
}
