//! Scores of answers: question by question, the same however questions are batched or ordered.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use hindsearch_env::evaluate::{QaReport, QuestionScore};
use hindsearch_env::{Message, Task, Trajectory};
use support::rules;

fn answered(source: &str, number: usize, answer: &str) -> (Task, Trajectory) {
    let task = Task::new(format!("Question {number}"), vec!["New York".into(), "NYC".into()], source.into());
    let rules = rules();
    let mut episode = rules.begin(&task, 0);
    rules.decide(&mut episode, Message::text(format!("<think>x</think><answer>{answer}</answer>"))).unwrap();
    (task, episode)
}

fn score(source: &str, number: usize, answer: &str) -> QuestionScore {
    let (task, episode) = answered(source, number, answer);
    QuestionScore::of(&task, &episode).unwrap()
}

#[test]
fn an_answer_is_exact_overlaps_or_covers() {
    for (answer, em, f1, cover, words) in [
        ("The New York", 1.0, 1.0, 1.0, 3),
        ("nyc.", 1.0, 1.0, 1.0, 1),
        ("in York", 0.0, 0.5, 0.0, 2),
        ("New York City", 0.0, 0.8, 1.0, 3),
        ("Boston", 0.0, 0.0, 0.0, 1),
    ] {
        let score = score("s", 0, answer);
        assert_eq!((score.em, score.cover, score.words), (em, cover, words), "{answer}");
        assert!((score.f1 - f1).abs() < 1e-12, "{answer}: {}", score.f1);
    }
}

#[test]
fn what_something_outside_has_spoilt_has_no_score_and_no_answer_is_wrong() {
    let (task, mut episode) = answered("s", 0, "NYC");
    episode.error = Some("away".into());
    assert_eq!(QuestionScore::of(&task, &episode), None);
    let rules = rules();
    let mut silent = rules.begin(&task, 0);
    while silent.stop.is_none() {
        rules.decide(&mut silent, Message::text("hm")).unwrap();
    }
    let score = QuestionScore::of(&task, &silent).unwrap();
    assert_eq!((score.em, score.f1, score.cover, score.answer, score.words), (0.0, 0.0, 0.0, None, 0));
}

#[test]
fn no_score_depends_on_the_order_or_the_batches_of_questions() {
    let answers = |source: &str, count: usize, right: usize| -> Vec<QuestionScore> {
        (0..count).map(|number| score(source, number, if number < right { "NYC" } else { "Boston" })).collect()
    };
    // 125 items behind 387 others: with batches of 512 that are averaged, the last item would count as much as the 124 before it.
    let mut scores = [answers("big", 387, 100), answers("small", 125, 41)].concat();
    let report = QaReport::of(&scores).unwrap();
    assert_eq!((report.all.n, report.sources["small"].n), (512, 125));
    assert!((report.sources["small"].em.mean - 41.0 / 125.0).abs() < 1e-12);
    assert!((report.all.em.mean - 141.0 / 512.0).abs() < 1e-12);
    let (em, ..) = report.mean_of_sources();
    assert!((em - (100.0 / 387.0 + 41.0 / 125.0) / 2.0).abs() < 1e-12);
    let small = &report.sources["small"].em;
    assert!(small.low < small.mean && small.mean < small.high && small.high - small.low < 0.2, "{small:?}");
    scores.reverse();
    assert_eq!(QaReport::of(&scores).unwrap(), report);
    assert!(QaReport::of(&[]).is_none());
}
