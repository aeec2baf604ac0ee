//! A block of siblings tells queries and verdicts, and nothing else unless it is asked to; every variant of it keeps its word.

#[path = "hostile_text/payloads.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod payloads;
mod support;

use std::collections::HashMap;

use hindsearch_env::hindsight::{
    BetterOptions, Content, Labels, SiblingOptions, Siblings, Which, evidence, failures, gold, is_correct,
};
use hindsearch_env::{Message, Preset, Rules, Task, Trajectory};
use hindsearch_retriever::Passage;
use payloads::{TAGS, hostile, tokens};
use proptest::prelude::*;
use support::play::{Said, played};
use support::rules;

const GOLD: &str = "Paris";
const FOUND: &[(&str, &str)] = &[("a", "\"Lyon\"\nA document about the Rhône.")];

fn task() -> Task {
    Task::new("What is the capital of France".into(), vec![GOLD.into(), "City of Paris".into()], "test".into())
}

/// Right after two searches; right after one; wrong without one; wrong after one; one that shares a word with the accepted answer.
fn group() -> Vec<Trajectory> {
    let scripts: [&[Said<'_>]; 5] = [
        &[
            ("<think>A secret thought.</think><search>capital of France</search>", FOUND),
            ("<search>capital of France</search>", FOUND),
            ("<answer>Paris</answer>", &[]),
        ],
        &[("<search>France government seat</search>", FOUND), ("<answer>paris.</answer>", &[])],
        &[("<think>Easy.</think><answer>Marseille</answer>", &[])],
        &[("<search>largest French port</search>", FOUND), ("<answer>Nice</answer>", &[])],
        &[("<search>city list</search>", FOUND), ("<answer>the old city</answer>", &[])],
    ];
    (0..).zip(scripts).map(|(sample, script)| played(&rules(), &task(), sample, script)).collect()
}

fn with(own: usize, see: impl FnOnce(&Siblings<'_>)) {
    let (task, group) = (task(), group());
    let attempts: Vec<&Trajectory> = group.iter().collect();
    see(&Siblings { task: &task, attempts: &attempts, own });
}

fn block(own: usize, options: &SiblingOptions) -> String {
    let mut text = String::new();
    with(own, |siblings| text = siblings.block(options, 7).map_or(String::new(), |hint| hint.text()));
    text
}

#[test]
fn a_block_tells_queries_and_verdicts_and_nothing_else() {
    let expected = "\
Attempts at this question that were made before, with what they searched for and whether the answer was right:
Attempt 1: CORRECT
  search: capital of France
  search: capital of France
Attempt 2: CORRECT
  search: France government seat
Attempt 3: INCORRECT
  (no search)
Attempt 4: INCORRECT
  search: largest French port
Attempt 5: CORRECT
  search: city list
Use this only as guidance for what to search.
";
    for own in 0..5 {
        assert_eq!(block(own, &SiblingOptions::default()), expected, "the own attempt is not singled out");
    }
    for secret in ["secret", "Rhône", "Lyon", "Nice", "Paris", "paris"] {
        assert!(!expected.contains(secret), "{secret}");
    }
}

#[test]
fn without_future_masking_all_is_told() {
    let all = block(0, &SiblingOptions { future_masking: false, ..SiblingOptions::default() });
    for told in ["thought: A secret thought.", "found: ", "Rhône", "answer: Paris", "answer: Nice", "search: city list"]
    {
        assert!(all.contains(told), "{told} in {all}");
    }
}

#[test]
fn a_verdict_is_whether_the_answer_shares_more_than_rho() {
    with(0, |siblings| {
        assert_eq!(siblings.labels(0.0), [true, true, false, false, true]);
        assert_eq!(siblings.labels(0.9), [true, true, false, false, false]);
        assert_eq!(siblings.labels(1.0), [false; 5]);
    });
}

#[test]
fn variants_tell_other_attempts() {
    let of = |own, which| block(own, &SiblingOptions { which, ..SiblingOptions::default() });
    let told = |text: String| {
        let numbers = text.lines().filter_map(|line| line.strip_prefix("Attempt ")?.split(':').next()?.parse().ok());
        numbers.collect::<Vec<usize>>()
    };
    assert_eq!(told(of(3, Which::All)), [1, 2, 3, 4, 5]);
    assert_eq!(told(of(3, Which::CorrectOnly)), [1, 2, 5]);
    assert_eq!(told(of(3, Which::OwnOnly)), [4]);
    for own in 0..5 {
        let others: Vec<usize> = (1..=5).filter(|number| *number != own + 1).collect();
        assert_eq!(told(of(own, Which::LeaveOneOut)), others, "exactly the own one is left out");
    }
    let none = block(0, &SiblingOptions { labels: Labels::None, ..SiblingOptions::default() });
    assert!(!none.contains("CORRECT") && !none.contains("right"), "{none}");
    let merged = block(0, &SiblingOptions { merge: true, ..SiblingOptions::default() });
    assert_eq!(merged.matches("capital of France").count(), 1);
    let documents = block(0, &SiblingOptions { content: Content::StepDocuments, ..SiblingOptions::default() });
    assert_eq!(documents.matches("Rhône").count(), 2, "a search each");
    assert!(!documents.contains("Attempt") && documents.contains("Search 2:"), "{documents}");
    assert_eq!(block(2, &SiblingOptions { content: Content::StepDocuments, ..SiblingOptions::default() }), "");
}

#[test]
fn chance_changes_places_and_verdicts_and_never_their_numbers() {
    let counts = |text: &str| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let told = text.lines().filter_map(|line| line.split_once(": "));
        told.for_each(|(_, rest)| *counts.entry(rest.to_owned()).or_default() += 1);
        counts
    };
    let plain = block(0, &SiblingOptions::default());
    let (mut labels, mut orders) = (Vec::new(), Vec::new());
    with(0, |siblings| {
        for seed in 0..20 {
            let text = |options: SiblingOptions| siblings.block(&options, seed).expect("a block").text();
            let shuffled = text(SiblingOptions { labels: Labels::Shuffled, ..SiblingOptions::default() });
            assert_eq!(counts(&shuffled), counts(&plain), "as many of each verdict");
            let order = text(SiblingOptions { shuffle: true, ..SiblingOptions::default() });
            assert_eq!(counts(&order), counts(&plain));
            // Each attempt keeps its own verdict.
            assert!(order.contains("Attempt 4: INCORRECT\n  search: largest French port"), "{order}");
            assert_eq!(text(SiblingOptions { shuffle: true, ..SiblingOptions::default() }), order, "a seed is a seed");
            labels.push(shuffled);
            orders.push(order);
        }
    });
    assert!(labels.iter().any(|text| *text != plain) && orders.iter().any(|text| *text != plain));
}

#[test]
fn a_budget_cuts_whole_attempts() {
    with(0, |siblings| {
        let mut hint = siblings.block(&SiblingOptions::default(), 0).expect("a block");
        let whole = hint.text();
        hint.shorten(|text| text.len() < whole.len());
        assert_eq!(hint.cut(), 1);
        assert_eq!(hint.text(), whole.replace("Attempt 5: CORRECT\n  search: city list\n", ""));
    });
}

#[test]
fn only_failures_are_failures() {
    let (task, mut group) = (task(), group());
    let mut attempts: Vec<&Trajectory> = group.iter().collect();
    // One word in common is no exact match.
    assert_eq!(failures(&task, &attempts), [2, 3, 4]);
    assert!(
        attempts
            .iter()
            .all(|attempt| is_correct(&task, attempt) == (attempt.reward.as_ref().expect("a reward").total == 1.0))
    );
    attempts.truncate(2);
    assert_eq!(failures(&task, &attempts), [0_usize; 0]);
    // Nobody's fault, and no attempt that a block tells of.
    (group[3].stop, group[3].error, group[3].reward) = (None, Some("no retriever".into()), None);
    let attempts: Vec<&Trajectory> = group.iter().collect();
    assert_eq!(failures(&task, &attempts), [2, 4]);
    let siblings = Siblings { task: &task, attempts: &attempts, own: 0 };
    let text = siblings.block(&SiblingOptions::default(), 0).expect("a block").text();
    assert!(!text.contains("Attempt 4") && text.contains("Attempt 5"), "{text}");
}

#[test]
fn answers_are_read_as_the_recipes_write_them() {
    for (preset, message, correct) in [
        ("search-o1", "It is \\boxed{Paris}", true),
        ("search-o1", "It is \\boxed{Lyon} and not Paris", false),
        ("research", "<think>So.</think> <answer> It is \\boxed{Paris} </answer>", true),
        ("search-r1", "<answer> Paris </answer>", true),
    ] {
        let rules = Rules::new(Preset::named(preset).expect("a preset").into());
        let mut episode = rules.begin(&task(), 0);
        rules.decide(&mut episode, Message::text(message)).expect("a turn");
        assert_eq!(is_correct(&task(), &episode), correct, "{preset}: {message}");
    }
}

#[test]
fn the_better_attempt_is_another_correct_one_that_took_less() {
    let better = |own, options| {
        let mut text = None;
        with(own, |siblings| text = siblings.better(options).map(|hint| hint.text()));
        text
    };
    let least = "\
An attempt at this question that was right:
  search: France government seat
  found: [1] \"Lyon\": A document about the Rhône.
  answer: paris.
Search as well as it did.
";
    for failed in [0, 2, 3, 4] {
        assert_eq!(better(failed, BetterOptions::default()).as_deref(), Some(least));
    }
    assert_eq!(better(1, BetterOptions::default()), None, "there is no better one, and it is not its own");
    let any = better(1, BetterOptions { takes_less: false, thoughts: true }).expect("the other one");
    assert!(any.contains("thought: A secret thought."), "{any}");
    let none = better(1, BetterOptions { takes_less: false, thoughts: false }).expect("the other one");
    assert!(!none.contains("secret"), "{none}");
}

#[test]
fn the_answer_and_the_evidence_can_be_told() {
    let text = gold(&task()).expect("a view").text();
    assert!(text.starts_with("The reference answer to this question is: Paris / City of Paris\n"), "{text}");
    assert_eq!(gold(&Task::new("?".into(), Vec::new(), "test".into())), None);

    let corpus = |id: &str| {
        let text = match id {
            "f" => {
                "\"France\"\nA country. It has hills. Its rivers are long. Its capital is Paris, J. Doe says. It is old."
            }
            "p" => "\"Paris\"\nA city. It has a tower. It lies in France.",
            "x" => "\"Lyon\"\nAnother city.",
            _ => return None,
        };
        Some(Passage::from_contents(id.into(), text))
    };
    let passages = |ids: [&str; 3]| task().with_passages(ids.map(String::from).to_vec());
    let text = evidence(&passages(["f", "p", "x"]), corpus).expect("a view").text();
    let expected = "\
What is needed for the answer stands in these passages:
France: A country. Its capital is Paris, J. Doe says.
Paris: A city. It lies in France.
Search for what leads to these.
";
    assert_eq!(text, expected, "two passages, and two sentences of each");
    assert_eq!(evidence(&task(), corpus), None);
    assert_eq!(evidence(&passages(["y", "y", "y"]), corpus), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn hostile_queries_documents_and_answers_open_no_tag_and_make_no_line(
        query in hostile(), document in hostile(), answer in hostile(), gold_text in hostile(), masked: bool,
    ) {
        let task = Task::new(document.clone(), vec![gold_text], "test".into());
        let (search, last) = (format!("<search>{query}</search>"), format!("<answer>{answer}</answer>"));
        let found: &[(&str, &str)] = &[("a", &document)];
        let episode = played(&rules(), &task, 0, &[(&search, found)]);
        // A query may hold an action of its own; what is told of it is as inert.
        let mut second = rules().begin(&task, 1);
        rules().decide(&mut second, Message::text(last)).expect("a turn");
        let mut attempts = [episode, second];
        attempts.iter_mut().for_each(|attempt| attempt.stop = attempt.stop.or(Some(hindsearch_env::Stop::Turns)));
        let attempts: Vec<&Trajectory> = attempts.iter().collect();
        let siblings = Siblings { task: &task, attempts: &attempts, own: 0 };
        let options = SiblingOptions { future_masking: masked, ..SiblingOptions::default() };
        let documents = SiblingOptions { content: Content::StepDocuments, ..SiblingOptions::default() };
        let texts = [
            siblings.block(&options, 0),
            siblings.block(&documents, 0),
            siblings.better(BetterOptions::default()),
            gold(&task),
            evidence(&task.clone().with_passages(vec!["a".into()]), |id| Some(Passage::from_contents(id.into(), &document))),
        ];
        for text in texts.into_iter().flatten().map(|hint| hint.text()) {
            for tag in TAGS.iter().chain(tokens()) {
                prop_assert!(!text.contains(tag), "{} in {:?}", tag, text);
            }
        }
        // An attempt's lines are those that the block makes.
        let text = siblings.block(&options, 0).expect("a block").text();
        let is_own = |line: &str| {
            ["Attempts at", "Attempt 1: ", "Attempt 2: ", "  search: ", "  found: ", "  answer: ", "  thought: ", "  (no search)", "Use this"]
                .iter()
                .any(|head| line.starts_with(head))
        };
        prop_assert!(text.lines().all(is_own), "{}", text);
    }
}
