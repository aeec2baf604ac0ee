//! Retrieved text cannot change what an episode earns, what was done in it, or why it ended; it cannot leave its observation; and
//! accepted answers reach nothing that a policy or a client can read.
//!
//! Each payload is shown to every preset, and the episode is compared with one in which a benign passage was shown.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hindsearch_env::{
    Action, Budget, Decision, FourCharacters, JsonForm, LastTurn, Measure, Message, Overflow, PRESETS, Preset,
    QueryForm, Reward, Rules, Stop, Task, Trajectory, escape, unescape,
};
use hindsearch_retriever::{Passage, Ranked};
use proptest::prelude::*;

#[path = "hostile_text/payloads.rs"]
mod payloads;

use payloads::{ALL, STORED, TAGS, hostile, payloads, presets, tags, tags_of, tokens};

const GOLD: &str = "Paris";
const BENIGN: &str = "\"Lyon\"\nLyon is a city on the Rhône.";

fn ranked(contents: &[String]) -> Vec<Ranked> {
    let one = |(rank, contents): (usize, &String)| Ranked {
        row: rank as u64,
        score: 0.9 - rank as f32 / 100.0,
        // A corpus's ids are no safer than its texts.
        passage: Passage::from_contents(contents.chars().take(40).collect(), contents),
    };
    contents.iter().enumerate().map(one).collect()
}

fn search(preset: &Preset) -> String {
    let tags = &preset.grammar.search;
    match &preset.grammar.query {
        QueryForm::Text => format!("{} the query {}", tags.open, tags.close),
        QueryForm::Call { name, argument } => {
            let call = serde_json::json!({"name": name, "arguments": {argument: "the query"}});
            format!("{}{call}{}", tags.open, tags.close)
        }
    }
}

fn answer(preset: &Preset, text: &str) -> String {
    let prompt = [preset.prompt.system.as_deref().unwrap_or_default(), &preset.prompt.user].concat();
    let text = if prompt.contains("\\boxed") { format!("\\boxed{{{text}}}") } else { text.to_owned() };
    let thought = if preset.prompt.assistant.is_some() { "I know.</think>" } else { "<think>I know.</think>" };
    match &preset.grammar.answer {
        Some(tags) => format!("{thought} {} {text} {}", tags.open, tags.close),
        None => format!("I know. Answer: {text}"),
    }
}

/// What the policy does, whatever it is shown.
#[derive(Debug, Clone, Copy)]
enum Script {
    Right,
    Wrong,
    Nothing,
    SearchOnly,
}

const SCRIPTS: [Script; 4] = [Script::Right, Script::Wrong, Script::Nothing, Script::SearchOnly];

fn play(rules: &Rules, script: Script, found: &[Ranked]) -> (Trajectory, Reward) {
    let preset = rules.preset();
    let task = Task::new("What is the capital of France?".into(), vec![GOLD.into()], "test".into());
    let mut episode = rules.begin(&task, 0);
    let mut turn = 0;
    while episode.stop.is_none() && turn < 3 {
        let text = match (turn, script) {
            (0, _) | (_, Script::SearchOnly) => search(preset),
            (_, Script::Right) => answer(preset, GOLD),
            (_, Script::Wrong) => answer(preset, "Lyon"),
            (_, Script::Nothing) => "I say nothing of use.".into(),
        };
        if let Decision::Search(queries) = rules.decide(&mut episode, Message::text(text)).unwrap() {
            rules.observe(&mut episode, &vec![found.to_vec(); queries.len()]).unwrap();
        }
        turn += 1;
    }
    let reward = preset.reward.score(preset, task.gold(), &episode);
    (episode, reward)
}

/// All of an episode that must not depend on what a passage says.
fn verdict(played: &(Trajectory, Reward)) -> (Vec<Action>, Option<Stop>, Vec<String>, Reward) {
    let (episode, reward) = played;
    let actions = episode.turns.iter().map(|turn| turn.action.clone()).collect();
    (actions, episode.stop, episode.policy_texts().map(str::to_owned).collect(), reward.clone())
}

fn observation(episode: &Trajectory) -> &str {
    episode.turns[0].observation.map_or("", |span| &episode.spans[span].text)
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// One observation, whole, and nothing in it that another reader could take for more.
fn check_frame(preset: &Preset, text: &str, benign: &str, at: &str) {
    let rules = &preset.observation;
    let inside = text.strip_prefix(rules.before.as_str()).and_then(|rest| rest.strip_suffix(rules.after.as_str()));
    let inside = inside.unwrap_or_else(|| panic!("{at}: not framed: {text:?}"));
    for tag in tags(preset) {
        assert_eq!(count(text, &tag), count(benign, &tag), "{at}: {tag} in {text:?}");
    }
    for tag in tags_of(&rules.before).iter().chain(&tags_of(&rules.after)) {
        let framed = count(&rules.before, tag) + count(&rules.after, tag);
        assert_eq!(count(text, tag), framed, "{at}: {tag} in {text:?}");
    }
    if rules.json != JsonForm::None {
        let read: BTreeMap<String, String> =
            serde_json::from_str(inside).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(read.keys().collect::<Vec<_>>(), ["result"], "{at}");
    }
}

fn raw(mut preset: Preset) -> Preset {
    preset.observation.escape = false;
    preset
}

#[test]
fn there_are_enough_payloads() {
    let payloads = payloads();
    let names: BTreeSet<&str> = payloads.iter().map(|payload| payload.name.as_str()).collect();
    assert_eq!(names.len(), payloads.len());
    assert!(payloads.len() >= 250, "{}", payloads.len());
    assert_eq!(STORED.families.len(), 6);
}

#[test]
fn the_right_answer_earns_more_than_a_wrong_one() {
    for preset in presets() {
        let rules = Rules::new(Arc::new(preset));
        let earned = |script| play(&rules, script, &ranked(&[BENIGN.into()])).1.total;
        assert!(earned(Script::Right) > earned(Script::Wrong), "{}", rules.preset().name);
    }
}

#[test]
fn a_hostile_passage_changes_no_reward_no_action_and_no_stop_reason() {
    let payloads = payloads();
    for preset in presets().flat_map(|preset| [raw(preset.clone()), preset]) {
        let (name, escapes) = (preset.name.clone(), preset.observation.escape);
        let rules = Rules::new(Arc::new(preset));
        for script in SCRIPTS {
            let benign: Vec<_> =
                (0..3).map(|n| verdict(&play(&rules, script, &ranked(&vec![BENIGN.into(); n])))).collect();
            for payload in &payloads {
                let hostile = verdict(&play(&rules, script, &ranked(&payload.contents)));
                assert_eq!(
                    hostile,
                    benign[payload.contents.len()],
                    "{name}, escape {escapes}, {script:?}, {}",
                    payload.name
                );
            }
        }
    }
}

#[test]
fn a_hostile_passage_stays_in_its_observation() {
    let payloads = payloads();
    for preset in presets() {
        let rules = Rules::new(Arc::new(preset.clone()));
        for payload in &payloads {
            let at = format!("{}, {}", preset.name, payload.name);
            let (benign, _) = play(&rules, Script::Right, &ranked(&vec![BENIGN.into(); payload.contents.len()]));
            let (hostile, _) = play(&rules, Script::Right, &ranked(&payload.contents));
            let (text, benign) = (observation(&hostile), observation(&benign));
            check_frame(&preset, text, benign, &at);
            for token in tokens() {
                assert_eq!(count(text, token), count(benign, token), "{at}: {token} in {text:?}");
            }
            let written = serde_json::to_string(&hostile).unwrap();
            assert_eq!(serde_json::from_str::<Trajectory>(&written).unwrap(), hostile, "{at}");
        }
    }
}

#[test]
fn a_tag_cannot_be_put_together_from_texts_that_were_escaped_apart() {
    let replaced = ["&lt;", "&amp;", "&#91;"];
    for whole in TAGS.iter().chain(tokens()).map(String::as_str).chain(replaced) {
        for (at, _) in whole.char_indices() {
            let (one, other) = whole.split_at(at);
            let joined = format!("{}{}", escape(one), escape(other));
            assert_eq!(unescape(&joined), whole, "{one:?} and {other:?}");
            assert!(replaced.contains(&whole) || !joined.contains(whole), "{one:?} and {other:?}: {joined:?}");
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for preset in presets() {
        let (one, other) = (Rules::new(Arc::new(preset.clone())), Rules::new(Arc::new(preset.clone())));
        for payload in payloads() {
            let bytes =
                |rules| serde_json::to_vec(&play(rules, Script::SearchOnly, &ranked(&payload.contents)).0).unwrap();
            assert_eq!(bytes(&one), bytes(&other), "{}, {}", preset.name, payload.name);
        }
    }
}

#[test]
fn what_a_call_says_about_another_tool_is_inert_too() {
    for preset in presets().filter(|preset| preset.invalid.unknown_tool.is_some()) {
        let rules = Rules::new(Arc::new(preset.clone()));
        let task = Task::new("q?".into(), vec![GOLD.into()], "test".into());
        for token in tokens() {
            let mut episode = rules.begin(&task, 0);
            let call = serde_json::json!({"name": format!("x{token}y"), "arguments": {}}).to_string();
            // A tag of the call itself would end the call.
            let text = format!("<tool_call>{call}</tool_call>");
            let Decision::Next(next) = rules.decide(&mut episode, Message::text(text)).unwrap() else {
                panic!("{}: a search for {token}", preset.name)
            };
            assert_eq!(count(&next.observation, token), 0, "{}: {}", preset.name, next.observation);
        }
    }
}

#[test]
fn accepted_answers_reach_no_prompt_no_observation_and_no_file() {
    const CANARY: &str = "canary-7f3a-gold-答え";
    for preset in presets() {
        let mut preset = preset;
        preset.limits.turns = preset.limits.turns.min(3);
        let rules = Rules::new(Arc::new(preset.clone()));
        let task = Task::new("What is it?".into(), vec![CANARY.into(), format!("the {CANARY}")], "test".into());
        let other = "{\"name\": \"browse\", \"arguments\": {}}";
        let messages =
            [search(&preset), "nothing".into(), format!("<tool_call>{other}</tool_call>"), answer(&preset, "wrong")];
        for first in &messages {
            let mut episode = rules.begin(&task, 0);
            for message in [first].into_iter().chain(&messages) {
                if episode.stop.is_some() {
                    break;
                }
                if let Decision::Search(queries) = rules.decide(&mut episode, Message::text(message)).unwrap() {
                    rules.observe(&mut episode, &vec![ranked(&[BENIGN.into()]); queries.len()]).unwrap();
                }
            }
            let reward = preset.reward.score(&preset, task.gold(), &episode);
            episode.reward = Some(reward);
            let shown: String = episode.messages().into_iter().map(|(_, text)| text).collect();
            let written = serde_json::to_string(&episode).unwrap();
            for text in [shown, written, format!("{task:?} {episode:?} {preset:?}")] {
                assert!(!text.contains("canary") && !text.contains("答え"), "{}: {text}", preset.name);
            }
        }
    }
}

/// Counts bytes, so that a character may be more than a token.
struct Octets;

impl Measure for Octets {
    fn length(&self, text: &str) -> usize {
        text.len()
    }

    fn head(&self, text: &str, most: usize) -> usize {
        text.floor_char_boundary(most)
    }
}

/// An observation with that much room, and how many passages of each query it shows.
fn with_room(
    preset: &Preset,
    budget: Option<Budget>,
    measure: Arc<dyn Measure>,
    found: &[Vec<Ranked>],
) -> (String, Vec<usize>) {
    let mut preset = preset.clone();
    (preset.observation.budget, preset.observation.overflow) = (budget, Overflow::Passages);
    (preset.limits.turns, preset.limits.last_turn) = (2, LastTurn::ExtraAnswer);
    preset.limits.context_tokens = 1 << 30;
    preset.limits.force.clear();
    let text = match &preset.grammar.query {
        QueryForm::Call { name, argument } if found.len() > 1 => {
            let queries: Vec<String> = (0..found.len()).map(|number| number.to_string()).collect();
            let call = serde_json::json!({"name": name, "arguments": {argument: queries}});
            format!("{}{call}{}", preset.grammar.search.open, preset.grammar.search.close)
        }
        _ => search(&preset),
    };
    let rules = Rules::measured(Arc::new(preset), measure);
    let task = Task::new("q?".into(), vec![GOLD.into()], "test".into());
    let mut episode = rules.begin(&task, 0);
    assert!(matches!(rules.decide(&mut episode, Message::text(text)).unwrap(), Decision::Search(_)));
    let next = rules.observe(&mut episode, found).unwrap();
    let passages = episode.turns[0].found.as_ref().unwrap();
    for ranking in passages {
        assert!(
            ranking.is_sorted_by_key(|found| !found.shown),
            "the best passages are those that are shown: {ranking:?}"
        );
    }
    let shown: Vec<usize> = passages.iter().map(|ranking| ranking.iter().filter(|found| found.shown).count()).collect();
    let is_whole = shown.iter().zip(found).all(|(&shown, found)| shown == found.len());
    assert!(next.truncated || is_whole, "what was left out is reported");
    (next.observation, shown)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

    #[test]
    fn escaped_text_can_be_had_back(one in hostile(), other in hostile(), any in any::<String>()) {
        for text in [&one, &any] {
            let escaped = escape(text);
            prop_assert_eq!(unescape(&escaped), text.as_str());
        }
        // Passages are escaped one by one, and put together.
        let joined = format!("{}{}", escape(&one), escape(&other));
        prop_assert_eq!(unescape(&joined), one + &other);
    }

    #[test]
    fn escaped_texts_hold_no_tag_and_no_token_however_they_are_joined(one in hostile(), other in hostile()) {
        let joined = format!("{}{}", escape(&one), escape(&other));
        for token in TAGS.iter().chain(tokens()) {
            prop_assert!(!joined.contains(token), "{} in {:?}", token, joined);
        }
    }

    #[test]
    fn hostile_texts_change_nothing(contents in prop::collection::vec(hostile(), 1..4), which in 0..PRESETS.len(), script in 0..SCRIPTS.len(), escapes: bool) {
        let preset = ALL[which].clone();
        let preset = if escapes { preset } else { raw(preset) };
        let rules = Rules::new(Arc::new(preset.clone()));
        let hostile = play(&rules, SCRIPTS[script], &ranked(&contents));
        let benign = play(&rules, SCRIPTS[script], &ranked(&vec![BENIGN.into(); contents.len()]));
        prop_assert_eq!(verdict(&hostile), verdict(&benign));
        if escapes {
            check_frame(&preset, observation(&hostile.0), observation(&benign.0), &preset.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn an_observation_fits_is_whole_and_drops_the_lowest_ranks_first(
        which in 0..PRESETS.len(),
        tokens in 16_usize..4096,
        sizes in prop::collection::vec(prop::collection::vec(prop_oneof![0_usize..200, 0_usize..20_000], 0..6), 1..4),
        filling in prop::sample::select(vec!["word ", "東京", "😀", "x", "</information>", "<", "a\n", "[INST]"]),
    ) {
        let preset = ALL[which].clone();
        let many = matches!(&preset.grammar.query, QueryForm::Call { argument, .. } if argument == "query_list");
        let text = |size: usize| format!("\"Title\"\n{}", filling.repeat(size / filling.len()));
        let rankings = if many { &sizes[..] } else { &sizes[..1] };
        let found: Vec<Vec<Ranked>> = rankings.iter().map(|sizes| ranked(&sizes.iter().map(|&size| text(size)).collect::<Vec<_>>())).collect();
        let budgets: [(Budget, Arc<dyn Measure>, usize); 3] = [
            (Budget::Tokens(tokens), Arc::new(FourCharacters), tokens),
            (Budget::Tokens(tokens + 64), Arc::new(Octets), tokens + 64),
            (Budget::Characters(tokens + 64), Arc::new(FourCharacters), tokens + 64),
        ];
        for (budget, measure, most) in budgets {
            let (seen, shown) = with_room(&preset, Some(budget), measure.clone(), &found);
            let length = |text: &str| match budget {
                Budget::Tokens(_) => measure.length(text),
                Budget::Characters(_) => text.chars().count(),
            };
            prop_assert!(length(&seen) <= most, "{}: {} of {most} in {seen:?}", preset.name, length(&seen));
            prop_assert!(seen.starts_with(&preset.observation.before) && seen.ends_with(&preset.observation.after), "{seen:?}");
            // No passage is left out that is better than one that is shown.
            let worst = shown.iter().max().copied().unwrap_or(0);
            for (passages, &shown) in found.iter().zip(&shown) {
                prop_assert!(shown == passages.len() || shown + 1 >= worst, "{shown} of {}, elsewhere {worst}", passages.len());
            }
            // And none for which there is room.
            if shown.iter().sum::<usize>() > 1 {
                let next = (0..found.len()).filter(|&query| shown[query] < found[query].len()).min_by_key(|&query| (shown[query], query));
                if let Some(next) = next {
                    let more: Vec<Vec<Ranked>> = found.iter().enumerate().map(|(query, passages)| passages[..shown[query] + usize::from(query == next)].to_vec()).collect();
                    let (whole, _) = with_room(&preset, None, measure.clone(), &more);
                    prop_assert!(length(&whole) > most, "{}: there was room for another passage", preset.name);
                }
            }
        }
    }
}
