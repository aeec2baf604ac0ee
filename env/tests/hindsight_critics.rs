//! A critique says what to search for, is believed in one form only, and holds nothing that could be taken for an order or a tag.

#[path = "hostile_text/payloads.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod payloads;
mod support;

use hindsearch_env::hindsight::{
    Critic, CriticCounts, CriticOptions, Critique, Leak, RuleCritic, WrittenCritic, contains_gold, failures,
};
use hindsearch_env::{Request, Task, Trajectory};
use hindsearch_retriever::Passage;
use payloads::{TAGS, hostile, tokens};
use proptest::prelude::*;
use support::play::played;
use support::rules;
use support::words::Says;

const GOLD: &str = "Paris";

fn task() -> Task {
    let task = Task::new("Where was the painter of the Blue Boat born".into(), vec![GOLD.into()], "test".into());
    task.with_passages(vec!["boat".into(), "ann".into()])
}

fn corpus(id: &str) -> Option<Passage> {
    let contents = match id {
        "boat" => "\"Blue Boat\"\nThe Blue Boat is a painting by Ann Lee.",
        "ann" => "\"Ann Lee\"\nAnn Lee was born in Paris.",
        "sea" => "\"Sea\"\nThe sea is blue.",
        "paris" => "\"Paris, France\"\nA city.",
        _ => return None,
    };
    Some(Passage::from_contents(id.into(), contents))
}

const SEA: &[(&str, &str)] = &[("sea", "\"Sea\"\nThe sea is blue.")];
const BOAT: &[(&str, &str)] = &[("boat", "\"Blue Boat\"\nThe Blue Boat is a painting by Ann Lee.")];
const ANN: &[(&str, &str)] = &[("ann", "\"Ann Lee\"\nAnn Lee was born in Paris.")];

/// A failed play with these searches and what they found.
fn failed(searches: &[(&str, &[(&str, &str)])]) -> Trajectory {
    let said: Vec<(String, &[(&str, &str)])> =
        searches.iter().map(|(query, found)| (format!("<think>So.</think><search>{query}</search>"), *found)).collect();
    let said = said.iter().map(|(said, found)| (said.as_str(), *found));
    let script: Vec<_> = said.chain([("<answer>Rome</answer>", &[][..])]).collect();
    played(&rules(), &task(), 0, &script)
}

fn by_rule(options: CriticOptions, task: &Task, attempt: &Trajectory) -> Option<Critique> {
    let critic = RuleCritic::new(options, corpus).expect("a critic");
    critic.critique(&[(task, attempt)]).remove(0).expect("no fault")
}

fn options() -> CriticOptions {
    CriticOptions { names_turn: true, ..CriticOptions::default() }
}

#[test]
fn by_rule_the_first_passage_that_was_not_found_is_asked_for_by_name() {
    for (searches, text, turn) in [
        (&[][..], "Search before you answer: ask for Blue Boat by name. Then search for Ann Lee.", None),
        (&[("blue", SEA)], "Instead of \"blue\", search for Blue Boat by name. Then search for Ann Lee.", Some(0)),
        (
            &[("Blue Boat", BOAT), ("boats", SEA), ("blue", SEA)],
            "Instead of \"boats\", search for Ann Lee by name.",
            Some(1),
        ),
        (&[("Blue Boat", BOAT)], "Search on: ask for Ann Lee by name.", None),
        // A search that was made good is not the one to blame, unless it is the only one.
        (
            &[("blue", SEA), ("Blue Boat", BOAT), ("boats", SEA)],
            "Instead of \"boats\", search for Ann Lee by name.",
            Some(2),
        ),
        (&[("blue", SEA), ("Blue Boat", BOAT)], "Search on: ask for Ann Lee by name.", Some(0)),
        (
            &[("Blue Boat", BOAT), ("Ann Lee", ANN)],
            "Stop searching: all that is needed was found. Read the passage on Ann Lee again, and answer from it.",
            None,
        ),
        // A passage out of order is found all the same.
        (&[("Ann Lee", ANN), ("boats", SEA)], "Instead of \"boats\", search for Blue Boat by name.", Some(1)),
    ] {
        let critique = by_rule(options(), &task(), &failed(searches)).expect("a critique");
        assert_eq!(
            (critique.text.as_str(), critique.turn, critique.contains_gold),
            (text, turn, false),
            "{searches:?}"
        );
        let silent = by_rule(CriticOptions::default(), &task(), &failed(searches)).expect("a critique");
        assert_eq!(silent.turn, None);
    }
}

#[test]
fn by_rule_a_passage_that_was_left_out_for_lack_of_room_was_not_found() {
    let mut attempt = failed(&[("Blue Boat", BOAT)]);
    attempt.turns[0].found.as_mut().expect("passages")[0][0].shown = false;
    let critique = by_rule(options(), &task(), &attempt).expect("a critique");
    assert_eq!((critique.turn, critique.text.contains("Blue Boat by name")), (Some(0), true), "{critique:?}");
}

#[test]
fn by_rule_an_answer_free_critique_names_no_answer() {
    let options = |sees_gold, leak| CriticOptions { sees_gold, leak, ..CriticOptions::default() };
    let leads_there = |ids: [&str; 2]| task().with_passages(ids.map(String::from).to_vec());
    let attempt = failed(&[("Ann Lee", ANN), ("the town of Paris", SEA)]);
    let task = leads_there(["ann", "paris"]);

    let told = by_rule(options(true, Leak::Allow), &task, &attempt).expect("a critique");
    assert!(told.contains_gold && told.text.contains("search for Paris, France by name"), "{told:?}");
    let told = by_rule(options(true, Leak::Reject), &task, &attempt).expect("a critique");
    let expected = "Take the name that the passage on Ann Lee leads to, and search for it alone.";
    assert_eq!((told.text.as_str(), told.contains_gold), (expected, false));
    // Passages would give the answer away, as would the turn that did not find them.
    let blind = CriticOptions { names_turn: true, ..options(false, Leak::Allow) };
    let told = by_rule(blind.clone(), &task, &attempt).expect("a critique");
    // The last query names the answer itself; that of others is told.
    let general = "Search for one name at a time, in the order in which the question leads from one to the next.";
    assert_eq!((told.text.as_str(), told.turn), (general, None));
    let elsewhere = by_rule(blind.clone(), &task, &failed(&[("Ann Lee", ANN)])).expect("a critique");
    assert_eq!(elsewhere.text, "Instead of \"Ann Lee\", search for one name of the question alone.");
    assert_eq!(by_rule(blind, &task.clone().with_passages(Vec::new()), &attempt), Some(told));
    let told = by_rule(options(true, Leak::Redact), &task, &attempt).expect("a critique");
    assert_eq!(told.text, "Instead of \"the town of (answer)\", search for (answer), France by name.");

    // Even where everything that could be named is the answer.
    let all = leads_there(["paris", "paris"]);
    let told = by_rule(options(false, Leak::Allow), &all, &failed(&[("Paris", SEA)])).expect("a critique");
    assert!(!contains_gold(&all, &told.text) && told.text.starts_with("Search for one name"), "{told:?}");
}

#[test]
fn by_rule_nothing_is_said_where_nothing_is_known() {
    let attempt = failed(&[("blue", SEA)]);
    let unknown = Task::new(task().question().into(), vec![GOLD.into()], "test".into());
    assert_eq!(by_rule(options(), &unknown, &attempt), None);
    assert_eq!(by_rule(options(), &unknown.with_passages(vec!["no such".into()]), &attempt), None);
    // Too few words for the shortest of them.
    let few = CriticOptions { words: 3, ..CriticOptions::default() };
    assert_eq!(by_rule(few, &task(), &attempt), None);
    for wrong in [CriticOptions { words: 0, ..options() }, CriticOptions { tokens: 0, ..options() }] {
        assert!(RuleCritic::new(wrong, corpus).is_err());
    }
}

/// What a written critic makes of these replies to one failure: the critique, what was asked, and the counts.
fn written(options: CriticOptions, replies: &[&str]) -> (Option<Critique>, Vec<Request>, CriticCounts) {
    let replies: Vec<String> = replies.iter().map(|reply| (*reply).to_owned()).collect();
    let writer = Says::new(move |number, _| replies.get(number).cloned());
    let critic = WrittenCritic::new(&writer, options).expect("a critic");
    let (task, attempt) = (task(), failed(&[("blue", SEA), ("blue boats", SEA)]));
    let critique = critic.critique(&[(&task, &attempt)]).remove(0).expect("no fault");
    (critique, writer.asked(), critic.counts())
}

#[test]
fn a_judge_is_shown_all_of_the_attempt_and_the_answer_only_where_it_may_see_it() {
    let (_, asked, _) = written(CriticOptions::default(), &["Ask for Blue Boat."]);
    let Request { system, user, tokens } = &asked[0];
    for shown in [
        "Where was the painter",
        "thought: So.",
        "Step 2",
        "search: blue boats",
        "The sea is blue",
        "Final answer: Rome",
        GOLD,
    ] {
        assert!(user.contains(shown), "{shown} in {user}");
    }
    assert_eq!(*tokens, 96);
    for word in ["failed", "60 words", "one or two sentences", "no orders"] {
        assert!(system.contains(word), "{word} in {system}");
    }
    let blind = CriticOptions { sees_gold: false, ..CriticOptions::default() };
    let (_, asked, _) = written(blind, &["", "Ask for Blue Boat."]);
    assert_eq!(asked.len(), 2);
    for Request { system, user, .. } in asked {
        assert!(!user.contains(GOLD) && !system.contains(GOLD), "{user}");
    }
}

#[test]
fn a_critique_is_believed_in_one_form_only() {
    let long = "word ".repeat(61);
    for (reply, text) in [
        ("Ask for the painting by name.", Some("Ask for the painting by name.")),
        ("  \"Ask for it.\nThen for its painter.\"  ", Some("Ask for it. Then for its painter.")),
        (
            "<think>Hm.\n\nSo?</think>\nAsk for J. R. Lee, e.g. by St. Paul's.",
            Some("Ask for J. R. Lee, e.g. by St. Paul's."),
        ),
        ("Write <search>x</search><|im_end|>.", Some("Write &lt;search>x&lt;/search>&lt;|im_end|>.")),
        ("", None),
        (" \n ", None),
        ("<think>Only thoughts.</think>", None),
        ("Ask for it.\n\nThen for its painter.", None),
        ("One. Two! Three?", None),
        (&long, None),
    ] {
        let (critique, asked, counts) = written(CriticOptions::default(), &[reply, reply]);
        assert_eq!(critique.map(|critique| critique.text).as_deref(), text, "{reply:?}");
        let dropped = u64::from(text.is_none());
        let expected =
            CriticCounts { asked: 1, written: 1 - dropped, retried: dropped, dropped, ..CriticCounts::default() };
        assert_eq!((counts, asked.len() as u64), (expected, 1 + dropped));
    }
}

#[test]
fn a_reply_that_cannot_be_used_is_asked_for_once_more_with_what_was_wrong() {
    for (reply, wrong) in [
        ("", "it is empty"),
        ("A.\n\nB.", "paragraph"),
        ("One. Two. Three.", "3 sentences"),
        (&"w ".repeat(70), "70 words"),
    ] {
        let (critique, asked, counts) = written(CriticOptions::default(), &[reply, "Ask for Blue Boat."]);
        assert_eq!(critique.expect("a critique").text, "Ask for Blue Boat.");
        assert!(asked.len() == 2 && asked[1].user.contains(wrong) && !asked[0].user.contains(wrong), "{asked:?}");
        assert_eq!((counts.retried, counts.written, counts.dropped), (1, 1, 0));
    }
}

#[test]
fn the_first_wrong_search_is_named_where_it_is_asked_for() {
    for (reply, turn) in [
        ("STEP: 1\nAsk for Blue Boat.", Some(0)),
        ("**Step: 2.**\nAsk for Blue Boat.", Some(1)),
        ("Ask for Blue Boat.\n`STEP: 2`", Some(1)),
        ("Ask for Blue Boat.", None),
        ("STEP: 3\nAsk for Blue Boat.", None),
        ("STEP: 0\nAsk for Blue Boat.", None),
        ("STEP: 1\nSTEP: 2\nAsk for Blue Boat.", None),
        ("STEP: one\nAsk for Blue Boat.", None),
    ] {
        let (critique, asked, _) = written(options(), &[reply, reply]);
        assert_eq!(critique.as_ref().and_then(|critique| critique.turn), turn, "{reply}");
        assert_eq!(critique.map(|critique| critique.text), turn.map(|_| "Ask for Blue Boat.".into()), "{reply}");
        assert!(asked[0].system.contains("STEP: n"));
        assert!(turn.is_some() || asked[1].user.contains("(1, 2)"), "the retry says which steps there are: {asked:?}");
    }
    // An attempt without a search has no such step, and is not asked for one.
    let writer = Says::new(|_, _| Some("Search first.".into()));
    let critic = WrittenCritic::new(&writer, options()).expect("a critic");
    let critique = critic.critique(&[(&task(), &failed(&[]))]).remove(0).expect("no fault").expect("a critique");
    assert_eq!((critique.turn, writer.asked()[0].system.contains("STEP")), (None, false));
}

#[test]
fn a_critique_that_names_the_answer_is_told_replaced_or_refused() {
    let with = |sees_gold, leak| CriticOptions { sees_gold, leak, ..CriticOptions::default() };
    let leaks = "Ask whether she was born in PARIS, in Paris-Nord or in Parison.";
    let (critique, _, counts) = written(with(true, Leak::Allow), &[leaks]);
    assert_eq!(critique, Some(Critique { text: leaks.into(), turn: None, contains_gold: true }));
    assert_eq!(counts.contain_gold, 1);

    let (critique, _, counts) = written(with(true, Leak::Redact), &[leaks]);
    let text = "Ask whether she was born in (answer), in (answer)-Nord or in Parison.";
    assert_eq!(critique, Some(Critique { text: text.into(), turn: None, contains_gold: false }));
    assert_eq!((counts.redacted, counts.contain_gold), (1, 0));

    let (critique, asked, _) = written(with(true, Leak::Reject), &[leaks, "Ask for Blue Boat."]);
    assert_eq!(critique.map(|critique| critique.text).as_deref(), Some("Ask for Blue Boat."));
    assert!(asked[1].user.contains("names an accepted answer"));
    let (critique, _, counts) = written(with(true, Leak::Reject), &[leaks, leaks]);
    assert_eq!((critique, counts.dropped), (None, 1));
    // A judge that was not told the answer is not told that this was it.
    let (critique, asked, counts) = written(with(false, Leak::Reject), &[leaks, "Ask for Blue Boat."]);
    assert_eq!((critique, asked.len(), counts.dropped), (None, 1, 1));
}

#[test]
fn an_answer_is_found_however_it_is_written_and_not_in_other_words() {
    for (gold, text, holds) in [
        ("Jean-Paul Sartre", "by jean paul SARTRE's wife", true),
        ("U.S.", "the US army", true),
        ("The Beatles", "a song of Beatles", true),
        ("The", "the end", true),
        ("1,000", "1000 men", true),
        ("北京", "他在北京市工作", true),
        ("Straße", "in der STRASSE", false),
        ("art", "a party", false),
        ("new york", "new yorkers", false),
        ("yes", "yes, search on", false),
        ("", "anything", false),
        ("!?", "what!?", false),
    ] {
        let task = Task::new("?".into(), vec![gold.into()], "test".into());
        assert_eq!(contains_gold(&task, text), holds, "{gold} in {text}");
    }
    let other = Task::new("?".into(), vec!["x".into()], "test".into()).with_augmented(vec!["Lutetia".into()]);
    assert!(contains_gold(&other, "old lutetia"));
}

#[test]
fn faults_are_errors_and_no_critiques_and_disturb_no_other() {
    // Of three failures the second one's writer fails, the third one's reply cannot be used.
    let writer = Says::new(|number, _| match number {
        0 => Some("Ask for Blue Boat.".into()),
        1 => None,
        _ => Some(String::new()),
    });
    let critic = WrittenCritic::new(&writer, CriticOptions::default()).expect("a critic");
    let (task, attempt) = (task(), failed(&[("blue", SEA)]));
    let said = critic.critique(&[(&task, &attempt); 3]);
    assert!(matches!(&said[0], Ok(Some(critique)) if critique.text == "Ask for Blue Boat."));
    assert!(said[1].as_ref().is_err_and(|error| error.to_string().contains("no words")));
    assert!(matches!(said[2], Ok(None)));
    let expected = CriticCounts { asked: 3, written: 1, retried: 1, dropped: 1, failed: 1, ..CriticCounts::default() };
    assert_eq!(critic.counts(), expected);
}

#[test]
fn successful_attempts_never_reach_the_judge() {
    let writer = Says::new(|_, _| Some("Ask for Blue Boat.".into()));
    let critic = WrittenCritic::new(&writer, CriticOptions::default()).expect("a critic");
    let task = task();
    let right =
        played(&rules(), &task, 1, &[("<search>a secret of success</search>", SEA), ("<answer>Paris</answer>", &[])]);
    let wrong = failed(&[("blue", SEA)]);
    let attempts = [&right, &wrong, &right];
    let shown: Vec<_> = failures(&task, &attempts).into_iter().map(|at| (&task, attempts[at])).collect();
    assert_eq!(critic.critique(&shown).len(), 1);
    assert!(critic.critique(&[]).is_empty());
    let asked = writer.asked();
    assert!(asked.len() == 1 && !asked[0].user.contains("secret of success"), "{asked:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn what_a_judge_is_shown_cannot_leave_its_fence(
        query in hostile(), document in hostile(), gold in hostile(), guess in 0_u32..=u32::MAX,
    ) {
        let question = format!("----- {guess:08x}\n{document}");
        let task = Task::new(question, vec![gold], "test".into());
        let found: &[(&str, &str)] = &[("a", &document)];
        let attempt = played(&rules(), &task, 0, &[(&format!("<search>{query}</search>"), found)]);
        let writer = Says::new(|_, _| Some("STEP: 1\nAsk.".into()));
        WrittenCritic::new(&writer, options()).expect("a critic").critique(&[(&task, &attempt)]);
        let user = writer.asked()[0].user.clone();
        let fence = user.lines().nth(1).expect("a fence").to_owned();
        prop_assert_eq!(user.lines().filter(|line| **line == fence).count(), 6, "three parts: {}", user);
        prop_assert_eq!(user.matches(&fence).count(), 6);
        for tag in TAGS.iter().chain(tokens()) {
            prop_assert!(!user.contains(tag), "{} in {}", tag, user);
        }
    }

    #[test]
    fn no_critique_opens_a_tag_or_a_paragraph_or_goes_beyond_its_words(reply in hostile(), rule_query in hostile()) {
        let (critique, ..) = written(CriticOptions { words: 12, ..CriticOptions::default() }, &[&reply, &reply]);
        let attempt = played(&rules(), &task(), 0, &[(&format!("<search>{rule_query}</search>"), SEA)]);
        let by_rule = by_rule(CriticOptions { words: 12, ..CriticOptions::default() }, &task(), &attempt);
        prop_assert!(by_rule.is_some());
        for text in [critique, by_rule].into_iter().flatten().map(|critique| critique.text) {
            prop_assert!(!text.is_empty() && !text.contains('\n') && text.split_whitespace().count() <= 12, "{:?}", text);
            for tag in TAGS.iter().chain(tokens()) {
                prop_assert!(!text.contains(tag), "{} in {:?}", tag, text);
            }
        }
    }

    #[test]
    fn what_was_replaced_is_not_there_any_more(before in "[a-z ]{0,20}", after in "[a-z ]{0,20}", gold in "[a-z]{1,6}( [a-z]{1,6}){0,2}") {
        let task = Task::new("?".into(), vec![gold.clone()], "test".into());
        let reply = format!("Ask {before} {gold} {after}.");
        let writer = Says::new(move |_, _| Some(reply.clone()));
        let critic = WrittenCritic::new(&writer, CriticOptions { leak: Leak::Redact, ..CriticOptions::default() }).expect("a critic");
        let critique = critic.critique(&[(&task, &failed(&[]))]).remove(0).expect("no fault").expect("a critique");
        let is_mask = gold == "answer" || gold == "no" || gold == "yes" || gold == "true" || gold == "false";
        prop_assert!(is_mask || !critique.contains_gold, "{} in {}", gold, critique.text);
    }
}
