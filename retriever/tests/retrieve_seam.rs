//! What every implementation of `Retrieve` promises, asked of each: the index on this machine, and a server of it.
#![cfg(feature = "remote")]

mod remote_support;

use hindsearch_retriever::{Ranked, Retrieve};
use remote_support::{Fault, Shelf};

const HARD: [&str; 9] = [
    "Who discovered radium?",
    "",
    " ",
    "\"quoted\" \\ and \u{0}\u{1}\u{1b}[31m",
    "Zażółć gęślą jaźń",
    "日本語の質問",
    "😀👩‍👩‍👧‍👦 e\u{301}",
    "\u{202e}right to left",
    "line\nbreaks\r\nand\ttabs\u{2028}",
];

/// Runs a check with each implementation; the second argument is what the index itself says.
fn with_each(check: impl Fn(&dyn Retrieve, &dyn Retrieve)) {
    let shelf = Shelf::new();
    let server = shelf.serve(|_| Fault::None);
    check(&*shelf.local, &*shelf.local);
    check(&server.client(|_| ()), &*shelf.local);
}

fn owned(queries: &[&str]) -> Vec<String> {
    queries.iter().map(|&query| query.to_owned()).collect()
}

fn ask(retriever: &dyn Retrieve, queries: &[String], top_k: usize) -> Vec<Vec<Ranked>> {
    retriever.retrieve(queries, top_k).expect("an answer")
}

#[test]
fn as_many_hits_as_asked_or_as_there_are_best_first() {
    with_each(|retriever, _| {
        for top_k in [0, 1, 3, 59, 60, 61, 1000] {
            let rankings = ask(retriever, &owned(&["river bridge", "Who found radium?"]), top_k);
            assert_eq!(rankings.len(), 2);
            for ranking in &rankings {
                assert_eq!(ranking.len(), top_k.min(60));
                assert!(ranking.iter().all(|hit| hit.score.is_finite() && (-1.001..=1.001).contains(&hit.score)));
                assert!(ranking.windows(2).all(|two| two[0].score >= two[1].score), "best first");
                let mut rows: Vec<u64> = ranking.iter().map(|hit| hit.row).collect();
                rows.sort_unstable();
                rows.dedup();
                assert_eq!(rows.len(), ranking.len(), "no passage twice");
            }
        }
    });
}

#[test]
fn no_queries_have_no_rankings() {
    with_each(|retriever, _| {
        for top_k in [0, 1, 3] {
            assert_eq!(ask(retriever, &[], top_k), Vec::<Vec<Ranked>>::new());
        }
    });
}

#[test]
fn answers_are_in_the_order_of_the_queries() {
    with_each(|retriever, _| {
        let queries = owned(&HARD);
        let together = ask(retriever, &queries, 5);
        let reversed = ask(retriever, &queries.iter().rev().cloned().collect::<Vec<_>>(), 5);
        assert!(together.iter().any(|ranking| ranking != &together[0]), "queries that all mean the same show nothing");
        for (at, query) in queries.iter().enumerate() {
            let alone = ask(retriever, std::slice::from_ref(query), 5);
            assert_same(&together[at], &alone[0]);
            assert_same(&together[at], &reversed[queries.len() - 1 - at]);
        }
    });
}

#[test]
fn passages_are_those_of_the_index_to_the_byte() {
    with_each(|retriever, index| {
        let queries = owned(&HARD);
        // All passages, so that every hard text is among them.
        let (found, expected) = (ask(retriever, &queries, 60), ask(index, &queries, 60));
        assert_eq!(found.len(), expected.len());
        found.iter().zip(&expected).for_each(|(found, expected)| assert_same(found, expected));
        let titles: Vec<_> = found[0].iter().map(|hit| hit.passage.title.as_deref()).collect();
        for title in
            [None, Some("Citibank"), Some("\"Radium\""), Some("\"\"Heroes\"\""), Some("\"a title\nof two lines\"")]
        {
            assert!(titles.contains(&title), "{title:?}");
        }
    });
}

#[test]
fn five_thousand_queries_are_one_call() {
    with_each(|retriever, index| {
        let queries: Vec<String> = (0..5000).map(|i| format!("{} number {i}", HARD[i % HARD.len()])).collect();
        let (found, expected) = (ask(retriever, &queries, 2), ask(index, &queries, 2));
        assert_eq!(found.len(), 5000);
        found.iter().zip(&expected).for_each(|(found, expected)| assert_same(found, expected));
    });
}

#[test]
fn threads_share_it() {
    with_each(|retriever, index| {
        let queries = owned(&HARD);
        let expected = ask(index, &queries, 3);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    ask(retriever, &queries, 3)
                        .iter()
                        .zip(&expected)
                        .for_each(|(found, expected)| assert_same(found, expected));
                });
            }
        });
    });
}

/// The same passages to the byte, scores to 1e-6.
#[track_caller]
fn assert_same(found: &[Ranked], expected: &[Ranked]) {
    let passages = |ranking: &[Ranked]| ranking.iter().map(|hit| (hit.row, hit.passage.clone())).collect::<Vec<_>>();
    assert_eq!(passages(found), passages(expected));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found.score - expected.score).abs() <= 1e-6, "{found:?} {expected:?}");
    }
}
