//! Tasks are chosen and mixed by seed, training and evaluation are kept apart, and answers are never shown.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::fs;
use std::marker::PhantomData;
use std::path::Path;

use hindsearch_env::tasks::{TaskSet, mix, pick};
use hindsearch_env::{Gold, Task};
use serde::Serialize;
use serde_json::{Value, json};

type Check = Result<(), Box<dyn Error>>;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}

fn task(question: &str, answers: &[&str], source: &str) -> Task {
    Task::new(question.into(), strings(answers), source.into())
}

fn numbered(source: &str, count: usize) -> TaskSet {
    TaskSet::new((0..count).map(|n| task(&n.to_string(), &["x"], source)))
}

#[test]
fn draws_are_the_same_for_a_seed_on_every_machine() -> Check {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tasks/draws.json");
    let golden: Value = serde_json::from_str(&fs::read_to_string(golden)?)?;
    let seed = golden["seed"].as_u64().ok_or("no seed")?;
    let drawn = numbered("a", 20).sample(seed, 20);
    let drawn: Vec<u64> = drawn.tasks().iter().map(|task| task.question().parse()).collect::<Result<_, _>>()?;
    assert_eq!(json!(drawn), golden["sample"]);

    let picked: Vec<Option<usize>> = (0..20).map(|seed| pick(seed, 218)).collect();
    assert_eq!(json!(picked), golden["pick"]);
    assert_eq!(pick(1, 0), None);

    let sets = [numbered("0", 3), numbered("1", 5)];
    let weights = golden["weights"].as_array().ok_or("no weights")?.iter().filter_map(Value::as_f64);
    let parts: Vec<_> = sets.iter().zip(weights).collect();
    let number = |text: &str| text.parse::<u64>();
    let drawn: Vec<[u64; 2]> = mix(&parts, seed, 40)?
        .iter()
        .map(|task| Ok([number(task.source())?, number(task.question())?]))
        .collect::<Result<_, std::num::ParseIntError>>()?;
    assert_eq!(json!(drawn), golden["mix"]);
    Ok(())
}

#[test]
fn a_mixture_follows_its_weights_and_repeats_nothing_before_all_was_drawn() -> Check {
    let (a, b, never) = (numbered("a", 7), numbered("b", 400), numbered("never", 3));
    let drawn = mix(&[(&a, 1.0), (&never, 0.0), (&b, 3.0)], 5, 4000)?;
    let of =
        |source: &str| drawn.iter().filter(|task| task.source() == source).map(|task| task.id()).collect::<Vec<_>>();
    assert_eq!(of("never").len(), 0);
    // Five standard deviations of a binomial draw are 137.
    assert!(of("a").len().abs_diff(1000) < 137, "{}", of("a").len());
    for (source, size) in [("a", 7), ("b", 400)] {
        for round in of(source).chunks(size) {
            assert_eq!(round.iter().collect::<HashSet<_>>().len(), round.len(), "{source}");
        }
    }
    assert_ne!(mix(&[(&b, 1.0)], 5, 20)?, mix(&[(&b, 1.0)], 6, 20)?);
    let none = TaskSet::default();
    let bad: [&[(&TaskSet, f64)]; 6] = [
        &[],
        &[(&a, 0.0)],
        &[(&a, -1.0), (&b, 2.0)],
        &[(&a, f64::NAN)],
        &[(&none, 1.0)],
        &[(&a, f64::MAX), (&b, f64::MAX)],
    ];
    for sets in bad {
        assert!(mix(sets, 0, 1).is_err(), "{:?}", sets.iter().map(|(_, weight)| weight).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn sets_are_cut_down_and_hold_each_task_once() {
    let again = task("3", &["x"], "a").with_split(Some("test".into()));
    let set = TaskSet::new(numbered("a", 5).tasks().iter().cloned().chain([again.clone()]));
    assert_eq!(set.tasks(), numbered("a", 5).tasks());
    assert_eq!(set.duplicates(), [again]);
    let few = numbered("a", 9).filter(|task| task.question() > "3").take(2);
    assert_eq!(few.tasks().iter().map(Task::question).collect::<Vec<_>>(), ["4", "5"]);
    let sample = numbered("a", 9).sample(1, 4);
    assert_eq!(sample.tasks().iter().map(Task::id).collect::<HashSet<_>>().len(), 4);
    assert_eq!(numbered("a", 9).sample(1, 100).tasks().len(), 9);
    assert!(TaskSet::default().sample(1, 3).tasks().is_empty());
}

#[test]
fn questions_of_the_evaluation_are_found_in_the_training_set() {
    let training = TaskSet::new([
        task("who wrote  \"Émile\"", &["Rousseau"], "nq"),
        task("who wrote Emil", &["Kästner"], "nq"),
        task("Where is O'Hare?", &["Chicago"], "nq"),
    ]);
    let evaluation = TaskSet::new([
        task("Where is O’Hare", &["Chicago, Illinois"], "bamboogle"),
        task("Who wrote ÉMILE?", &["Jean-Jacques Rousseau"], "bamboogle"),
        task("Who wrote it?", &["x"], "bamboogle"),
    ]);
    let found: Vec<_> = training.overlap(&evaluation).iter().map(|(a, b)| (a.question(), b.question())).collect();
    assert_eq!(found, [("who wrote  \"Émile\"", "Who wrote ÉMILE?"), ("Where is O'Hare?", "Where is O’Hare")]);
}

trait Hidden {
    const SHOWN: bool = false;
}

/// `Asked::<T>::SHOWN` is true for a `T` that has the trait: an inherent constant is found before one of `Hidden`.
macro_rules! shown {
    ($name:ident, $bound:ident) => {
        mod $name {
            use super::*;
            pub struct Asked<T>(PhantomData<T>);
            impl<T: $bound> Asked<T> {
                pub const SHOWN: bool = true;
            }
            impl<T> Hidden for Asked<T> {}
        }
    };
}

shown!(debug, Debug);
shown!(display, Display);
shown!(serialize, Serialize);

#[test]
fn accepted_answers_can_be_neither_formatted_nor_serialised() {
    const {
        assert!(debug::Asked::<String>::SHOWN && display::Asked::<String>::SHOWN && serialize::Asked::<String>::SHOWN);
        assert!(!debug::Asked::<Gold>::SHOWN && !display::Asked::<Gold>::SHOWN && !serialize::Asked::<Gold>::SHOWN);
        assert!(!display::Asked::<Task>::SHOWN && !serialize::Asked::<Task>::SHOWN);
    }
    let canary = task("Where?", &["CANARY"], "nq").with_augmented(strings(&["CANARY"]));
    let shown = format!("{canary:?} {:#?}", TaskSet::new([canary.clone(), canary.clone()]));
    assert!(shown.contains("Where?") && !shown.contains("CANARY"), "{shown}");
}
