//! A hint changes nothing of what the policy wrote, wherever it stands and whatever it holds; and which tokens are a query is known from
//! the record alone.

#[path = "hostile_text/payloads.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod payloads;
mod support;

use hindsearch_env::hindsight::{Hint, Placement, QuerySpan, placed, placed_by_turn};
use hindsearch_env::{Author, Role, Span, Task, Trajectory, escape};
use payloads::{TAGS, hostile, tokens};
use proptest::prelude::*;
use support::play::{played, tokenized};
use support::rules;

const GOLD: &str = "Paris";
const PLACEMENTS: [Placement; 5] = [
    Placement::UserPrefix,
    Placement::RawPrefix,
    Placement::UserSuffix,
    Placement::SystemSuffix,
    Placement::StepPrefix,
];

fn task() -> Task {
    Task::new("What is the capital of France".into(), vec![GOLD.into()], "test".into())
}

fn two_searches(query: &str) -> Trajectory {
    let found: &[(&str, &str)] = &[("a", "\"Lyon\"\nLyon is a city.")];
    let first = format!("<think>Well.</think><search>{query}</search>");
    let messages =
        [(first.as_str(), found), ("<search> city of light </search>", found), ("<answer>Lyon</answer>", &[])];
    let mut episode = played(&rules(), &task(), 0, &messages);
    // As a trainer has it: every span has its tokens.
    for span in episode.spans.iter_mut().filter(|span| span.author != Author::Policy) {
        let message = tokenized(&span.text, 2);
        (span.tokens, span.ends) = (message.tokens, message.ends);
    }
    episode
}

/// The spans that are not the prompt's, without those that a hint has added.
fn response(episode: &Trajectory, hint: &str) -> Vec<Span> {
    let added =
        |span: &Span| span.author == Author::Environment && !hint.is_empty() && span.text == format!("{hint}\n\n");
    episode.spans.iter().filter(|span| span.author != Author::Prompt && !added(span)).cloned().collect()
}

/// What each turn says that it was, and the texts that it says are its own.
fn turns(episode: &Trajectory) -> Vec<(&str, Option<&str>, Option<&str>)> {
    let turn = |turn: &hindsearch_env::Turn| {
        let text = episode.spans[turn.span].text.as_str();
        let observation = turn.observation.map(|at| episode.spans[at].text.as_str());
        (text, turn.content.clone().map(|content| &text[content]), observation)
    };
    episode.turns.iter().map(turn).collect()
}

#[test]
fn a_hint_stands_where_it_is_wanted() {
    let episode = two_searches("France");
    let user =
        |placed: &Trajectory| placed.spans.iter().find(|span| span.role == Role::User).expect("a user").text.clone();
    let question = user(&episode);
    let texts = |placement| placed(&episode, "Do so.", placement);

    let prefix = texts(Placement::UserPrefix);
    assert_eq!((user(&prefix.episode), prefix.before.as_str()), (format!("Do so.\n\n{question}"), ""));
    assert_eq!(user(&texts(Placement::UserSuffix).episode), format!("{}\n\nDo so.", question.trim_end()));
    let raw = texts(Placement::RawPrefix);
    assert_eq!((raw.before.as_str(), &raw.episode), ("Do so.\n\n", &episode));
    // The recipe has no system message; one that is there goes on.
    let mut system = texts(Placement::SystemSuffix).episode;
    assert_eq!((system.spans[0].role, system.spans[0].text.as_str()), (Role::System, "Do so."));
    system = placed(&system, "And so.", Placement::SystemSuffix).episode;
    assert_eq!(system.spans[0].text, "Do so.\n\nAnd so.");

    let step = texts(Placement::StepPrefix).episode;
    let authors: Vec<(Author, bool)> = step.spans.iter().map(|span| (span.author, span.text == "Do so.\n\n")).collect();
    use Author::{Environment, Policy, Prompt};
    let expected = [
        (Prompt, false),
        (Environment, true),
        (Policy, false),
        (Environment, false),
        (Environment, true),
        (Policy, false),
        (Environment, false),
        (Policy, false),
    ];
    assert_eq!(authors, expected, "before each search, and not before the answer");
    assert!(step.spans.iter().all(|span| span.role == Role::User || span.role == Role::Assistant));
}

#[test]
fn each_message_can_have_a_hint_of_its_own() {
    let episode = two_searches("France");
    let placed = placed_by_turn(&episode, |turn| (turn != 1).then(|| format!("Turn {turn}.")));
    let hints: Vec<&str> =
        placed.spans.iter().map(|span| span.text.as_str()).filter(|text| text.starts_with("Turn ")).collect();
    assert_eq!(hints, ["Turn 0.\n\n", "Turn 2.\n\n"]);
    assert_eq!(turns(&placed), turns(&episode));
}

#[test]
fn an_episode_without_messages_of_the_prompt_gets_one_where_the_hint_needs_it() {
    let mut episode = two_searches("France");
    episode.spans.remove(0);
    for turn in &mut episode.turns {
        turn.span -= 1;
        turn.observation = turn.observation.map(|at| at - 1);
    }
    for placement in PLACEMENTS {
        let placed = placed(&episode, "Do so.", placement).episode;
        assert_eq!(response(&placed, "Do so."), response(&episode, ""), "{placement:?}");
        assert_eq!(turns(&placed), turns(&episode), "{placement:?}");
    }
}

#[test]
fn which_tokens_are_a_query_is_counted_with_its_tags_or_without() {
    // Tokens of three bytes: `<se`, `arc`, `h>a`, `b c`, `</s`, `ear`, `ch>`.
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    rules.decide(&mut episode, tokenized("<search>ab c</search>", 3)).expect("a search");
    assert_eq!(episode.query_mask(), [false; 7], "what was not searched for is no query");
    rules.observe(&mut episode, &[vec![]]).expect("an observation");
    let mask = |span| episode.span_mask(span).iter().map(|own| if *own { '1' } else { '0' }).collect::<String>();
    assert_eq!(mask(QuerySpan::Content), "0011000");
    assert_eq!(mask(QuerySpan::Inclusive), "1111111");
    assert_eq!(mask(QuerySpan::CloseOnly), "0011111");
    assert_eq!(episode.straddling(), 1);
    assert_eq!(episode.turn_mask(QuerySpan::Content, 0), episode.query_mask());
    assert_eq!(episode.turn_mask(QuerySpan::Content, 1), [false; 7]);
    assert_eq!(episode.answer_mask(), [false; 7]);
}

#[test]
fn a_character_of_several_tokens_is_of_the_query_with_all_of_them() {
    let rules = rules();
    let mut episode = rules.begin(&task(), 0);
    // `é` is two tokens; where it ends is where both end. The last token is the end of the turn: it says nothing.
    let mut message = tokenized("<search>é</search>", 1);
    message.tokens = vec![1, 2, 3, 4, 5];
    message.ends = vec![8, 10, 10, 19, 19];
    message.logprobs = vec![-1.0; 5];
    rules.decide(&mut episode, message).expect("a search");
    rules.observe(&mut episode, &[vec![]]).expect("an observation");
    assert_eq!(episode.query_mask(), [false, true, true, false, false]);
    assert_eq!(episode.span_mask(QuerySpan::Inclusive), [true, true, true, true, false]);
}

#[test]
fn the_answer_is_no_query_and_a_query_is_no_answer() {
    let episode = two_searches("France");
    let (queries, answers) = (episode.query_mask(), episode.answer_mask());
    assert!(queries.iter().zip(&answers).all(|(query, answer)| !(query & answer)));
    assert!(queries.contains(&true) && answers.contains(&true));
    let by_turn: usize =
        (0..2).map(|turn| episode.turn_mask(QuerySpan::Content, turn).iter().filter(|own| **own).count()).sum();
    assert_eq!(by_turn, queries.iter().filter(|own| **own).count());
}

#[test]
fn what_spells_the_answer_is_known_token_by_token() {
    let episode = two_searches("is it paris or not");
    let mask = episode.gold_mask(&task());
    let tokens = episode.spans.iter().flat_map(|span| {
        let starts = std::iter::once(0).chain(span.ends.iter().copied());
        starts.zip(&span.ends).map(|(start, &end)| &span.text[start..end])
    });
    let spelt: String = tokens.zip(&mask).filter(|(_, own)| **own).map(|(text, _)| text).collect();
    assert!(spelt.contains("paris") && spelt.len() <= "paris".len() + 4, "{spelt}");
}

#[test]
fn a_hint_is_cut_by_whole_pieces_and_says_so() {
    let mut hint = Hint::critique("Search for Ann. Then ask for her sister by name, e.g. Bea Lee.");
    assert_eq!(hint.text(), "<HINT> Search for Ann. Then ask for her sister by name, e.g. Bea Lee. </HINT>");
    assert_eq!(hint.pieces().len(), 2);
    hint.shorten(|text| text.len() <= 40);
    assert_eq!((hint.text().as_str(), hint.cut()), ("<HINT> Search for Ann. </HINT>", 1));
    hint.shorten(|text| text.len() <= 10);
    assert_eq!((hint.text().as_str(), hint.cut()), ("", 2), "not a part of a sentence");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_policys_tokens_and_their_order_are_the_same_wherever_a_hint_stands(
        hint in "(?s).{0,40}", query in "[^<>]{1,12}", which in 0..PLACEMENTS.len(),
    ) {
        let episode = two_searches(&query);
        let placed = placed(&episode, &hint, PLACEMENTS[which]);
        prop_assert_eq!(response(&placed.episode, &hint), response(&episode, ""));
        prop_assert_eq!(turns(&placed.episode), turns(&episode));
        // Masks go along: the same tokens of the policy are queries and the answer.
        let own = |episode: &Trajectory, mask: Vec<bool>| -> Vec<u32> {
            episode.tokens().into_iter().zip(mask).filter(|(_, own)| *own).map(|(token, _)| token).collect()
        };
        for span in [QuerySpan::Content, QuerySpan::Inclusive, QuerySpan::CloseOnly] {
            prop_assert_eq!(own(&placed.episode, placed.episode.span_mask(span)), own(&episode, episode.span_mask(span)));
        }
        prop_assert_eq!(own(&placed.episode, placed.episode.policy_mask()), own(&episode, episode.policy_mask()));
        if hint.is_empty() {
            prop_assert_eq!(&placed.episode, &episode, "an empty hint is none");
            prop_assert!(placed.before.is_empty());
        }
    }

    #[test]
    fn a_hint_that_was_cut_is_the_beginning_of_the_whole_one(pieces in prop::collection::vec("[a-z]{1,9}\\. ", 0..6), room in 0_usize..80) {
        let mut hint = Hint::new("[", pieces.clone(), "]");
        hint.shorten(|text| text.len() <= room);
        prop_assert!(hint.text().len() <= room);
        prop_assert_eq!(hint.pieces(), &pieces[..pieces.len() - hint.cut()]);
        // It was not cut more than it had to be.
        if hint.cut() > 0 {
            let more = Hint::new("[", pieces[..=pieces.len() - hint.cut()].to_vec(), "]");
            prop_assert!(more.text().len() > room);
        }
    }

    #[test]
    fn a_critique_cannot_leave_its_hint(text in hostile()) {
        let hint = Hint::critique(&text).text();
        let inside = hint.strip_prefix("<HINT> ").and_then(|rest| rest.strip_suffix("</HINT>")).unwrap_or_default();
        prop_assert!(hint.is_empty() || !inside.is_empty());
        for tag in TAGS.iter().chain(tokens()).map(String::as_str).chain(["<HINT>", "</HINT>"]) {
            prop_assert!(!inside.contains(tag), "{} in {:?}", tag, inside);
        }
        // What a critic has made inert stays as it is.
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        let inert = escape(&text);
        prop_assert_eq!(letters(&Hint::critique(&inert).pieces().concat()), letters(&inert));
    }
}
