//! The measures are those of trec_eval, question files of all three forms are read, and rankings are written for TREC.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hindsearch_retriever::evaluate::{Evaluation, Gold, Question, choose_gold, read_questions, write_run};
use hindsearch_retriever::{Passage, Ranked};
use serde::Deserialize;

type Judgements = BTreeMap<String, f64>;

#[derive(Deserialize)]
struct Golden {
    qrels: BTreeMap<String, Judgements>,
    run: BTreeMap<String, Vec<String>>,
    expected: BTreeMap<String, BTreeMap<String, f64>>,
}

fn question(id: &str, relevant: Judgements, answers: &[&str]) -> Question {
    Question { id: id.into(), text: "?".into(), relevant, answers: answers.iter().map(|&a| a.into()).collect() }
}

fn ranking(passages: &[(&str, &str)]) -> Vec<Ranked> {
    let hit = |(row, (id, text)): (usize, &(&str, &str))| Ranked {
        row: row as u64,
        score: 1.0 - row as f32 / 100.0,
        passage: Passage { id: (*id).into(), title: None, text: (*text).into() },
    };
    passages.iter().enumerate().map(hit).collect()
}

#[test]
fn measures_are_those_of_trec_eval() {
    let golden: Golden = serde_json::from_str(include_str!("fixtures/trec_eval.json")).expect("the golden file");
    let mut evaluation = Evaluation::new(Gold::Id, &[1, 5, 20]);
    for (id, ids) in &golden.run {
        let hits: Vec<_> = ids.iter().map(|id| (id.as_str(), "text")).collect();
        evaluation.add(&question(id, golden.qrels[id].clone(), &[]), &ranking(&hits));
    }
    let report = evaluation.report();
    assert_eq!((report.questions, report.skipped), (40, 0));
    for score in &report.per_question {
        let found: BTreeMap<_, _> = score.measures.iter().cloned().collect();
        for (name, expected) in &golden.expected[&score.id] {
            assert!((found[name] - expected).abs() < 1e-9, "{} {name}: {} {expected}", score.id, found[name]);
        }
    }
    for (name, estimate) in &report.measures {
        let values: Vec<f64> = golden.expected.values().filter_map(|q| q.get(name).copied()).collect();
        if values.len() == 40 {
            let mean = values.iter().sum::<f64>() / 40.0;
            assert!((estimate.mean - mean).abs() < 1e-9, "{name}");
            assert!(estimate.low <= mean && mean <= estimate.high && estimate.high - estimate.low < 0.5, "{name}");
        }
    }
}

#[test]
fn answers_count_where_a_passage_holds_one() {
    let mut evaluation = Evaluation::new(Gold::Answer, &[1, 2]);
    let hits = ranking(&[("a", "nothing here"), ("b", "born in Warsaw, Poland"), ("c", "Warsaw")]);
    evaluation.add(&question("1", Judgements::new(), &["Kraków", "warsaw"]), &hits);
    evaluation.add(&question("2", Judgements::new(), &["Paris"]), &hits);
    evaluation.add(&question("3", Judgements::new(), &[]), &hits);
    let report = evaluation.report();
    let means: BTreeMap<_, _> = report.measures.iter().map(|(name, e)| (name.as_str(), e.mean)).collect();
    assert_eq!((report.questions, report.skipped), (2, 1));
    assert_eq!((means["success@1"], means["success@2"], means["mrr@2"]), (0.0, 0.5, 0.25));
    assert_eq!(report.per_question[0].first_gold_rank, Some(2));
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn flashrag_beir_and_trec_files_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let flashrag = file(
        &folder,
        "f.jsonl",
        "\u{feff}{\"id\": 7, \"question\": \"who?\", \"golden_answers\": [\"x\", 12], \"metadata\": {\"gold_passage_ids\": [\"3\", 4]}}\r\n\r\n",
    );
    let read = read_questions(&flashrag, None).expect("questions");
    assert_eq!(read[0].id, "7");
    assert_eq!(read[0].answers, ["x", "12"]);
    assert_eq!(read[0].relevant.keys().collect::<Vec<_>>(), ["3", "4"]);
    assert_eq!(choose_gold(&read).expect("gold"), Gold::Id);

    let beir = file(
        &folder,
        "queries.jsonl",
        "{\"_id\": \"q1\", \"text\": \"who?\"}\n{\"_id\": \"q2\", \"text\": \"what?\"}\n",
    );
    let qrels = file(&folder, "test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq9\td1\t1\n");
    let read = read_questions(&beir, Some(&qrels)).expect("questions");
    assert_eq!(read[0].relevant, Judgements::from([("d1".into(), 2.0), ("d2".into(), 0.0)]));
    assert!(read[1].relevant.is_empty());

    let topics = file(&folder, "topics.tsv", "q1\twho?\nq2\twhat?\n");
    let qrels = file(&folder, "qrels", "q2 0 d5 1\n");
    let read = read_questions(&topics, Some(&qrels)).expect("questions");
    assert_eq!((read[1].text.as_str(), read[1].relevant["d5"]), ("what?", 1.0));
}

#[test]
fn judgements_of_other_questions_and_broken_lines_are_errors_that_name_the_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let topics = file(&folder, "topics.tsv", "q1\twho?\n");
    let refused = |qrels: &str| {
        let qrels = file(&folder, "qrels", qrels);
        read_questions(&topics, Some(&qrels)).expect_err("an error").to_string()
    };
    assert!(refused("other 0 d 1\n").contains("none with a question id"));
    assert!(refused("q1 0 d 1\nq1 d\n").contains("line 2 (byte 9)"));
    assert!(refused("q1 0 d much\n").contains("number"));
    let twice = file(&folder, "twice.tsv", "q1\twho?\nq1\twhat?\n");
    assert!(read_questions(&twice, None).expect_err("an error").to_string().contains("line 2"));
    let broken = folder.path().join("broken");
    std::fs::write(&broken, b"q1\twho\xff\n").expect("a file");
    assert!(read_questions(&broken, None).expect_err("an error").to_string().contains("UTF-8"));
}

#[test]
fn only_judged_zero_is_no_gold() {
    let none = question("1", Judgements::from([("d".into(), 0.0)]), &[]);
    assert!(choose_gold(std::slice::from_ref(&none)).is_err());
    let answers = question("2", Judgements::new(), &["x"]);
    assert_eq!(choose_gold(&[none, answers]).expect("gold"), Gold::Answer);
}

#[test]
fn runs_have_six_columns_and_all_digits() {
    let mut run = Vec::new();
    let hits = ranking(&[("a b", "x"), ("c", "y")]);
    write_run(&mut run, &question("q\t1", Judgements::new(), &[]), &hits).expect("memory");
    assert_eq!(String::from_utf8(run).expect("text"), "q_1 Q0 a_b 1 1 hindsearch\nq_1 Q0 c 2 0.99 hindsearch\n");
}
