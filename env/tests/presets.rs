//! The presets keep their promise: what each recipe says and shows, byte for byte as in transcripts that the recipes' own code made
//! (`presets/*.golden.json`, see `presets/make_goldens.py`); and a preset file with a mistake is refused with a word about it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_env::{
    Action, Author, Decision, Message, PRESETS, Preset, Role, Rules, Stop, Task, Trajectory, Transition,
};
use hindsearch_indexes::ErrorKind;
use hindsearch_retriever::{Passage, Ranked};
use serde::Deserialize;

/// A file of golden transcripts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    preset: String,
    #[allow(dead_code, reason = "for readers of the file")]
    made_by: String,
    #[allow(dead_code, reason = "for readers of the file")]
    sources: Vec<String>,
    prompts: BTreeMap<String, Vec<(Role, String)>>,
    episodes: Vec<Episode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Episode {
    name: String,
    question: String,
    #[serde(default, rename = "override")]
    changes: toml::Table,
    turns: Vec<Step>,
    messages: Vec<(Role, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    message: String,
    kept: Option<String>,
    action: Did,
    found: Option<Vec<Vec<Hit>>>,
    shown: Option<Vec<usize>>,
    observation: String,
    stop: Option<Stop>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Did {
    Search { queries: Vec<String> },
    Answer { text: String },
    End,
    Invalid,
}

#[derive(Deserialize)]
struct Hit {
    id: String,
    contents: String,
    score: f32,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("presets")
}

fn golden(name: &str) -> Golden {
    let path = folder().join(format!("{name}.golden.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The preset with some of its values replaced.
fn changed(name: &str, changes: &toml::Table) -> Preset {
    let mut table = toml::Table::try_from(Preset::named(name).unwrap()).unwrap();
    for (section, values) in changes {
        let section = table[section].as_table_mut().unwrap();
        section.extend(values.as_table().unwrap().clone());
    }
    table.try_into().unwrap()
}

fn ranked(found: &[Vec<Hit>]) -> Vec<Vec<Ranked>> {
    let one = |(row, hit): (usize, &Hit)| {
        let passage = Passage::from_contents(hit.id.clone(), &hit.contents);
        Ranked { row: row as u64, score: hit.score, passage }
    };
    found.iter().map(|passages| passages.iter().enumerate().map(one).collect()).collect()
}

fn done(action: &Action) -> Did {
    match action.clone() {
        Action::Search { queries } => Did::Search { queries },
        Action::Answer { text } => Did::Answer { text },
        Action::End => Did::End,
        Action::Invalid { .. } => Did::Invalid,
    }
}

fn next(rules: &Rules, episode: &mut Trajectory, step: &Step, at: &str) -> Transition {
    match rules.decide(episode, Message::text(&step.message)).unwrap() {
        Decision::Search(_) => {
            let found = step.found.as_ref().unwrap_or_else(|| panic!("{at}: passages were wanted, against the golden"));
            rules.observe(episode, &ranked(found)).unwrap()
        }
        Decision::Next(next) => {
            assert!(step.found.is_none(), "{at}: no passages were wanted, against the golden");
            next
        }
    }
}

/// A chat in which no message follows one of its own role.
fn merged(prompt: &[(Role, String)], after: &[(Role, String)]) -> Vec<(Role, String)> {
    let mut messages = prompt.to_vec();
    for (role, text) in after {
        match messages.last_mut() {
            Some((last, whole)) if last == role => whole.push_str(text),
            _ => messages.push((*role, text.clone())),
        }
    }
    messages
}

fn replay(golden: &Golden, episode: &Episode) {
    let at = format!("{}, {:?}", golden.preset, episode.name);
    let rules = Rules::new(Arc::new(changed(&golden.preset, &episode.changes)));
    let task = Task::new(episode.question.clone(), vec!["gold".into()], "test".into());
    let mut played = rules.begin(&task, 0);
    let prompt = &golden.prompts[&episode.question];
    assert_eq!(&played.messages(), prompt, "{at}: prompt");
    for (number, step) in episode.turns.iter().enumerate() {
        let at = format!("{at}, message {}", number + 1);
        let next = next(&rules, &mut played, step, &at);
        let turn = &played.turns[number];
        assert_eq!(done(&turn.action), step.action, "{at}: action");
        assert_eq!(&played.spans[turn.span].text, step.kept.as_ref().unwrap_or(&step.message), "{at}: what is kept");
        assert_eq!(next.observation, step.observation, "{at}: observation");
        assert_eq!((next.stop, played.stop), (step.stop, step.stop), "{at}: stop reason");
        let count = |passages: &Vec<_>| passages.iter().filter(|found: &&hindsearch_env::Found| found.shown).count();
        let shown = turn.found.as_ref().map(|found| found.iter().map(count).collect::<Vec<_>>());
        assert_eq!(shown, step.shown, "{at}: passages that are shown");
    }
    assert!(played.stop.is_some(), "{at}: the golden episode has an end");
    assert_eq!(played.messages(), merged(prompt, &episode.messages), "{at}: transcript");
    let authors: String =
        played.spans.iter().filter(|span| span.author != Author::Prompt).map(|s| s.text.as_str()).collect();
    assert_eq!(authors, episode.messages.iter().map(|(_, text)| text.as_str()).collect::<String>(), "{at}: joined");
}

#[test]
fn every_preset_replays_its_golden_transcripts() {
    for name in PRESETS {
        let golden = golden(name);
        assert_eq!(&golden.preset, name);
        assert!(golden.episodes.len() >= 15, "`{name}`: {} episodes", golden.episodes.len());
        golden.episodes.iter().for_each(|episode| replay(&golden, episode));
    }
}

#[test]
fn where_nothing_is_said_only_a_message_that_was_cut_off_goes_on() {
    let rules = Rules::new(Arc::new(Preset::named("asearcher").unwrap()));
    let task = Task::new("q?".into(), vec!["gold".into()], "test".into());
    for (cut_off, stop) in [(true, None), (false, Some(Stop::End))] {
        let mut episode = rules.begin(&task, 0);
        let message = Message { cut_off, ..Message::text("I think and think") };
        let next = Decision::Next(Transition { stop, ..Transition::default() });
        assert_eq!(rules.decide(&mut episode, message).unwrap(), next);
    }
}

#[test]
fn no_preset_file_is_forgotten() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut named: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    named.sort();
    let mut listed: Vec<&str> = PRESETS.to_vec();
    listed.sort_unstable();
    assert_eq!(named, listed);
}

#[test]
fn every_preset_has_the_name_of_its_file_and_says_where_it_is_from() {
    for name in PRESETS {
        let preset = Preset::named(name).unwrap();
        assert_eq!(&preset.name, name);
        let has_licence = ["Apache-2.0", "MIT"].iter().any(|licence| preset.source.contains(licence));
        assert!(*name == "hindsearch" || has_licence, "`{name}`: {}", preset.source);
    }
}

#[test]
fn a_preset_survives_being_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in PRESETS {
        let preset = Preset::named(name).unwrap();
        let path = folder.path().join(format!("{name}.toml"));
        std::fs::write(&path, toml::to_string(&preset).unwrap()).unwrap();
        assert_eq!(Preset::load(path.to_str().unwrap()).unwrap(), preset, "`{name}`");
    }
}

/// What is said about the text of `hindsearch.toml` with one thing changed.
fn refusal(from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(folder().join("hindsearch.toml")).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from:?} stands once in hindsearch.toml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    let error = Preset::load(path.to_str().unwrap()).expect_err(&format!("{from:?} to {to:?}"));
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let said = error.to_string();
    assert!(said.contains("mine.toml"), "{said}");
    said
}

#[test]
fn unknown_keys_are_refused_by_name() {
    for (from, to, named) in [
        ("[limits]", "[limits]\nturn = 3", "turn"),
        ("[grammar]", "[grammar]\nstops = []", "stops"),
        ("[reward]", "[reward]\nfoo = 1", "foo"),
        ("[prompt]", "[prompts]\nuser = \"{question}\"\n[prompt]", "prompts"),
        ("budget = { tokens = 600 }", "budget = { words = 600 }", "words"),
        ("think = { open = \"<think>\", close = \"</think>\" }", "think = { open = \"<think>\", end = \"x\" }", "end"),
    ] {
        let said = refusal(from, to);
        assert!(said.contains(&format!("`{named}`")), "{to:?}: {said}");
    }
}

#[test]
fn values_that_cannot_be_meant_are_refused_with_the_place_and_what_is_expected() {
    for (from, to, named) in [
        ("turns = 4", "turns = 0", "`limits.turns`"),
        ("turns = 4", "turns = -1", "turns"),
        ("turns = 4", "turns = \"four\"", "turns"),
        ("top_k = 3", "top_k = 0", "`observation.top_k`"),
        ("response_tokens = 500", "response_tokens = 0", "`limits.response_tokens`"),
        ("context_tokens = 4096", "context_tokens = 0", "`limits.context_tokens`"),
        ("context_tokens = 4096", "context_tokens = 4096\nsearches = 0", "`limits.searches`"),
        ("context_tokens = 4096", "context_tokens = 4096\nqueries = 0", "`limits.queries`"),
        ("context_tokens = 4096", "", "context_tokens"),
        ("last_turn = \"extra-answer\"", "last_turn = \"force\"", "`limits.force`"),
        ("last_turn = \"extra-answer\"", "last_turn = \"extra-answer\"\nforce = \"Answer now.\"", "`limits.force`"),
        ("last_turn = \"extra-answer\"", "last_turn = \"never\"", "extra-answer"),
        ("search = { open = \"<search>\"", "search = { open = \"\"", "`grammar.search`"),
        ("answer = { open = \"<answer>\", close = \"</answer>\" }", "", "`grammar.answer`"),
        ("Question: {question}\n", "Question:\n", "`prompt.user`"),
        ("question_mark = true", "question_mark = true\ntools = \"[]\"", "`prompt.tools`"),
        ("question_mark = true", "question_mark = true\ntools = \"no JSON\"", "`prompt.tools`"),
        ("trim = true", "clip = { characters = 0 }", "`observation.clip.characters`"),
        ("terms = [{ scorer = \"em\" }]", "terms = []", "`reward.terms`"),
        ("terms = [{ scorer = \"em\" }]", "terms = [{ scorer = \"em\", weight = inf }]", "weight = inf"),
        ("terms = [{ scorer = \"em\" }]", "terms = [{ scorer = \"best\" }]", "best"),
        ("[prompt]", "[prompt", "prompt"),
    ] {
        let said = refusal(from, to);
        assert!(said.contains(named) && said.contains("expected"), "{to:?}: {said}");
    }
}

#[test]
fn tools_must_hold_the_function_that_is_read() {
    let text = std::fs::read_to_string(folder().join("tinker.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    for (from, to) in [
        ("{ form = \"call\", name = \"search\"", "{ form = \"call\", name = \"find\""),
        ("argument = \"query_list\"", "argument = \"q\""),
    ] {
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let said = Preset::load(path.to_str().unwrap()).expect_err(to).to_string();
        assert!(said.contains("`prompt.tools`"), "{said}");
    }
}

#[test]
fn a_preset_that_there_is_not_is_answered_with_those_that_there_are() {
    let error = Preset::named("search-r2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    PRESETS.iter().for_each(|name| assert!(error.to_string().contains(name), "{error}"));
    let error = Preset::load("no-such-file.toml").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("no-such-file.toml"), "{error}");
}

#[test]
fn a_mistake_in_a_file_is_told_with_its_line_and_its_key() {
    let text = std::fs::read_to_string(folder().join("hindsearch.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    for (from, to, key) in [
        ("turns = 4", "turns = \"four\"", "limits.turns"),
        ("turns = 4", "turnz = 4", "limits.turnz"),
        ("turns = 4", "turns = 0", "limits.turns"),
        ("turns = 4", "turns = = 4", "turns = = 4"),
        ("cut = \"first-close\"", "cut = \"somewhere\"", "grammar.cut"),
        ("passage = \"[{number}]", "passage = \"[{nummer}]", "observation.passage"),
        ("terms = [{ scorer = \"em\" }]", "terms = [{ scorer = \"best\" }]", "reward.terms"),
    ] {
        let changed = text.replace(from, to);
        std::fs::write(&path, &changed).unwrap();
        let said = Preset::load(path.to_str().unwrap()).expect_err(to).to_string();
        let line = changed[..changed.find(to).unwrap()].matches('\n').count() + 1;
        for words in ["mine.toml", &format!("line {line}"), &format!("`{key}`")] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}

#[test]
fn a_placeholder_that_nothing_is_put_in_for_is_refused_and_the_known_ones_are_named() {
    let preset = Preset::named("hindsearch").unwrap();
    for (table, key, template, known) in [
        ("prompt", "user", "{question} {context}", "`{question}`"),
        ("prompt", "system", "Answer {question}", "nothing"),
        ("observation", "passage", "{Title}: {text}", "`{title}`"),
        ("observation", "untitled", "\\boxed{a} {text}{nr}", "`{number}`"),
        ("observation", "query", "{title}", "`{query}`"),
        ("observation", "before", "{query}", "nothing"),
        ("grammar", "answer_form", "{answer} {unit}", "`{answer}`"),
        ("invalid", "unknown_tool", "no {tool}", "`{name}`"),
    ] {
        let said = preset.with(&serde_json::json!({ table: { key: template } })).expect_err(template).to_string();
        assert!(said.contains(&format!("`{table}.{key}`")) && said.contains(known), "{said}");
    }
    // Commands of LaTeX and JSON are no placeholders.
    let kept = r#"{question} \boxed{Asia} \frac{a}{b} {"name": "x"} {} { question }"#;
    preset.with(&serde_json::json!({ "prompt": { "user": kept } })).unwrap();
}

#[test]
fn every_placeholder_that_is_known_is_filled() {
    let passage = "{number} {title} {name} {text} {contents} {id} {score} {query}";
    let shape = serde_json::json!({ "observation": { "passage": passage, "query": "{query} {number}" } });
    let rules = Rules::new(Arc::new(Preset::named("hindsearch").unwrap().with(&shape).unwrap()));
    let mut episode = rules.begin(&Task::new("q".into(), vec!["a".into()], "s".into()), 0);
    rules.decide(&mut episode, Message::text("<search>x</search>")).unwrap();
    let found = Ranked { row: 0, score: 0.5, passage: Passage::from_contents("7".into(), "\"T\"\nwords") };
    let seen = rules.observe(&mut episode, &[vec![found]]).unwrap().observation;
    assert!(!seen.contains(['{', '}']) && seen.contains("words"), "{seen}");
}

/// What stands between ticks behind "expected" in serde's word about a field that there is not.
#[cfg(feature = "schema")]
fn accepted(preset: &Preset, overrides: &serde_json::Value) -> std::collections::BTreeSet<String> {
    let said = preset.with(overrides).expect_err("an unknown field").to_string();
    let (_, behind) = said.rsplit_once("found ").unwrap();
    let ticked = behind.split('`').skip(1).step_by(2).map(str::to_owned);
    ticked.filter(|name| name != "no-such-key").collect()
}

/// Both what reads a preset and what lists its keys are made from the same types; this holds the one against the other.
#[cfg(feature = "schema")]
#[test]
fn the_keys_that_are_listed_are_those_that_are_read() {
    use serde_json::json;
    let preset = Preset::named("hindsearch").unwrap();
    let all = hindsearch_env::keys();
    assert!(all.iter().all(|key| !key.about.is_empty() && key.values.iter().all(|one| !one.about.is_empty())));
    let listed = |table: &str, only_with: Option<&str>| -> std::collections::BTreeSet<String> {
        let of = all.iter().filter(|key| key.only_with.as_deref() == only_with);
        of.filter_map(|key| Some(key.key.strip_prefix(table)?.to_owned())).filter(|key| !key.contains('.')).collect()
    };
    assert_eq!(accepted(&preset, &json!({ "no-such-key": 1 })), listed("", None));
    for table in ["prompt", "grammar", "observation", "invalid", "limits", "reward"] {
        assert_eq!(
            accepted(&preset, &json!({ table: { "no-such-key": 1 } })),
            listed(&format!("{table}."), None),
            "{table}"
        );
    }
    for (table, inside) in [("grammar", "think"), ("grammar", "search"), ("grammar", "answer"), ("observation", "clip")]
    {
        let found = accepted(&preset, &json!({ table: { inside: { "no-such-key": 1 } } }));
        assert_eq!(found, listed(&format!("{table}.{inside}."), None), "{table}.{inside}");
    }
    assert_eq!(listed("observation.budget.", None), ["characters", "tokens"].map(str::to_owned).into());
    let call = json!({ "grammar": { "query": { "form": "call", "no-such-key": 1 } } });
    assert_eq!(accepted(&preset, &call), listed("grammar.query.", Some("form = \"call\"")));

    let scorer = all.iter().find(|key| key.key == "reward.terms[].scorer").unwrap();
    let names: std::collections::BTreeSet<String> = scorer.values.iter().map(|one| one.value.clone()).collect();
    assert_eq!(accepted(&preset, &json!({ "reward": { "terms": [{ "scorer": "no-such-key" }] } })), names);
    for name in names {
        let term = json!({ "reward": { "terms": [{ "scorer": name, "no-such-key": 1 }] } });
        let options = listed("reward.terms[].", Some(&format!("scorer = \"{name}\"")));
        assert_eq!(accepted(&preset, &term), options, "{name}");
    }
    // The values of a key are those that it takes.
    for key in all.iter().filter(|key| !key.values.is_empty() && key.only_with.is_none() && !key.key.contains("[]")) {
        let Some((table, name)) = key.key.split_once('.').filter(|(_, name)| !name.contains('.')) else { continue };
        let values: std::collections::BTreeSet<String> = key.values.iter().map(|one| one.value.clone()).collect();
        assert_eq!(accepted(&preset, &json!({ table: { name: "no-such-key" } })), values, "{}", key.key);
    }
}
