//! Every scorer that is named after a recipe gives what that recipe's code gives: for each case of each golden file, or with a
//! reason why not. See `golden/scorers/README.md` for how the files were made.

mod scorers_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hindsearch_env::{Normalizer, Response, RewardRules, Verdict, reference_score};
use scorers_support::{Answer, Cases, DIFFERENCES, Field, GOLDENS, Golden, Number, Reason};
use scorers_support::{golden, list, scorer, text, verdict};
use serde_json::{Value, json};

/// What a check asked of our scorer came to.
struct Outcome {
    key: &'static str,
    field: Field,
    /// Whether ours is what the reference gives.
    agrees: bool,
    expected: Value,
    ours: Verdict,
}

fn outcomes(golden_file: &Golden, golden: &Value, case: &Value) -> Vec<Outcome> {
    let checks = golden_file.checks.iter().filter(|(key, ..)| case["expected"].get(*key).is_some());
    let outcome = |&(key, options, field): &(&'static str, &'static str, Field)| {
        let (expected, ours) = (&case["expected"][key], verdict(golden_file.file, golden, case, options));
        let agrees = match field {
            Number => expected.as_f64().is_some_and(|expected| (expected - ours.value).abs() < 1e-12),
            Answer => expected.as_str() == ours.answer.as_deref(),
            Reason => expected.as_str() == ours.reason.as_deref(),
        };
        Outcome { key, field, agrees, expected: expected.clone(), ours }
    };
    checks.map(outcome).collect()
}

/// A case that a difference covers must differ, and one that none covers must not.
#[test]
fn every_scorer_gives_what_its_reference_gives() {
    let mut wrong = Vec::new();
    let (mut compared, mut used) = (0, BTreeMap::new());
    for golden_file in GOLDENS {
        let golden = golden(golden_file.file);
        for case in list(&golden["cases"]) {
            let outcomes = outcomes(golden_file, &golden, case);
            let of = |outcome: &Outcome| {
                let Outcome { key, expected, ours, .. } = outcome;
                format!("{}, {}: `{key}` is {expected} there, here {ours:?}", golden_file.file, case["name"])
            };
            compared += outcomes.len();
            let differs = outcomes.iter().any(|outcome| !outcome.agrees);
            let covering = DIFFERENCES.iter().position(|difference| difference.covers(golden_file.file, case));
            let Some(index) = covering else {
                wrong.extend(outcomes.iter().filter(|outcome| !outcome.agrees).map(of));
                continue;
            };
            *used.entry((index, golden_file.file)).or_insert(0) += 1;
            let difference = &DIFFERENCES[index];
            if !differs {
                wrong.push(format!("{}, {}: no longer differs ({})", golden_file.file, case["name"], difference.why));
            }
            let other = |outcome: &&Outcome| {
                !outcome.agrees
                    && outcome.field == Number
                    && difference.ours.is_some_and(|ours| ours != outcome.ours.value)
            };
            wrong.extend(outcomes.iter().filter(other).map(of));
        }
    }
    for (index, difference) in DIFFERENCES.iter().enumerate() {
        for file in difference.files {
            let count = used.get(&(index, *file)).copied().unwrap_or(0);
            let is_right = match difference.cases {
                Cases::Named(names) => count == names.len(),
                Cases::Raising(..) => count > 0,
            };
            if !is_right {
                wrong.push(format!("{file}: {count} cases differ ({})", difference.why));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} values:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 17_000, "only {compared} values were compared");
}

/// Where the accepted answers came in a form of the reference's own, and in another one, ours must be the former's value.
#[test]
fn accepted_answers_in_any_form_score_as_in_the_reference_s_own() {
    for golden_file in GOLDENS {
        let golden = golden(golden_file.file);
        let forms = list(&golden["cases"]).iter().filter(|case| text(&case["name"]).starts_with("form/"));
        for accepted in [json!(["Paris"]), json!(["yes"])] {
            let same: Vec<&Value> = forms.clone().filter(|case| case["golds"] == accepted).collect();
            // Where the only case of a kind is in a foreign form, there is nothing to compare with.
            if same.len() < 2 {
                continue;
            }
            let agree = |case: &&&Value| outcomes(golden_file, &golden, case).iter().all(|outcome| outcome.agrees);
            assert!(same.iter().any(|case| agree(&case)), "{}: {accepted} in no form", golden_file.file);
        }
    }
}

#[test]
fn every_golden_value_is_compared_or_skipped_for_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/scorers");
    let files = std::fs::read_dir(folder).expect("the golden files").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let names: BTreeSet<String> = files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    let known = GOLDENS.iter().map(|golden| golden.file).chain(["normalisation"]).map(str::to_owned);
    assert_eq!(names, known.collect());
    for golden_file in GOLDENS {
        let (mut keys, checked) = (BTreeSet::new(), golden_file.checks.iter().map(|(key, ..)| *key));
        for case in list(&golden(golden_file.file)["cases"]) {
            keys.extend(case["expected"].as_object().expect("an object").keys().cloned());
        }
        keys.remove("error");
        let known = checked.chain(golden_file.skipped.iter().map(|(key, _)| *key)).map(str::to_owned);
        assert_eq!(keys, known.collect(), "{}", golden_file.file);
        assert!(golden_file.skipped.iter().all(|(_, why)| !why.is_empty()));
    }
}

#[test]
fn normalizers_do_what_the_references_do() {
    let golden = golden("normalisation");
    let normalizers = [
        ("squad", Normalizer::Squad),
        ("r1_searcher", Normalizer::R1Searcher),
        ("asearcher_f1", Normalizer::Asearcher),
    ];
    let cases = list(&golden["cases"]);
    assert!(cases.len() > 300);
    for case in cases {
        let given = text(&case["input"]["text"]);
        for (key, normalizer) in normalizers {
            assert_eq!(normalizer.apply(&given), text(&case["expected"][key]), "{}, {key}: {given:?}", case["name"]);
        }
    }
}

#[test]
fn a_bad_form_takes_everything_in_asearcher() {
    let golden = golden("asearcher");
    let mut bad = 0;
    for case in list(&golden["cases"]) {
        let (Some(good), Some(score)) = (case["expected"]["format"].as_bool(), case["expected"]["score"].as_f64())
        else {
            continue;
        };
        if case["input"].get("ground_truth").is_some() {
            continue;
        }
        let ours = verdict("asearcher", &golden, case, r#"{"scorer": "asearcher", "format": true}"#).value;
        let expected = if good { score } else { 0.0 };
        assert!((ours - expected).abs() < 1e-12, "{}: {ours}, not {expected}", case["name"]);
        bad += usize::from(!good && score > 0.0);
    }
    assert!(bad > 3, "only {bad} right answers in a bad form");
}

#[test]
fn scorers_that_go_by_authors_refuse_a_text() {
    for name in ["format", "retrieval"] {
        let response = Response { prompt: "", messages: &["<answer> Paris </answer>".to_owned()], minimum_spans: 1 };
        let error = reference_score(&scorer(&json!({"scorer": name})), &response, &["Paris".to_owned()]);
        let error = error.expect_err("a refusal").to_string();
        assert!(error.contains(name) && error.contains("trajectory"), "{error}");
    }
}

#[test]
fn options_are_the_scorer_s_own() {
    let read = |text: &str| toml::from_str::<RewardRules>(text).map_err(|error| error.to_string());
    let rules = read(
        r#"terms = [
            { scorer = "search-r1-format", structure = 0.3, final = 0, name = "answer", weight = 0.5 },
            { scorer = "f1" },
        ]"#,
    )
    .expect("rules");
    assert_eq!((rules.terms[0].name.as_deref(), rules.terms[0].weight), (Some("answer"), 0.5));
    assert_eq!(rules.terms[0].scorer, scorer(&json!({"scorer": "search-r1-format", "structure": 0.3, "final": 0.0})));
    assert_eq!((rules.terms[1].name.as_deref(), rules.terms[1].weight), (None, 1.0));
    let again: RewardRules = toml::from_str(&toml::to_string(&rules).expect("TOML")).expect("rules");
    assert_eq!(again, rules);
    for (terms, said) in [
        (r#"terms = [{ scorer = "em", structure = 0.2 }]"#, "structure"),
        (r#"terms = [{ scorer = "f1", structure = 0.2 }]"#, "structure"),
        (r#"terms = [{ scorer = "bleu" }]"#, "search-r1-format"),
        (r#"terms = [{ weight = 1.0 }]"#, "scorer"),
        (r#"terms = [{ scorer = "em", weight = nan }]"#, "f64"),
        (r#"terms = [{ scorer = "em", wrong = inf }]"#, "f64"),
    ] {
        let error = read(terms).expect_err(terms);
        assert!(error.contains(said), "{terms}: {error}");
    }
}

#[test]
fn every_scorer_reads_back_under_its_name() {
    for golden_file in GOLDENS {
        for (_, options, _) in golden_file.checks {
            let options: Value = serde_json::from_str(options).expect("JSON");
            let scorer = scorer(&options);
            assert_eq!(scorer.name(), text(&options["scorer"]));
            let written = serde_json::to_value(&scorer).expect("JSON");
            assert_eq!(written["scorer"], options["scorer"]);
            assert_eq!(self::scorer(&written), scorer);
        }
    }
}
