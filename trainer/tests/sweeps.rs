//! Whether published orders hold, on given numbers; what a sweep's file means; what a report claims.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hindsearch_trainer::sweep::{Expect, Finding, Report, Spread, State, Sweep, Verdict};

const SWEEP: &str = r#"
index = "index"
model = "model"
seeds = [3, 5, 8]
settings = { steps = 2, imitation = { steps = 7 } }
[[arms]]
name = "a"
[[arms]]
name = "b"
preset = "gspo"
override = { objective.kl.weight = 0.5 }
[[expect]]
better = "b"
than = "a"
source = "a paper, table 2"
"#;

fn expect() -> Expect {
    Expect { better: "b".into(), than: "a".into(), source: "a paper, table 2".into() }
}

fn found(better: &[(u64, f64)], than: &[(u64, f64)]) -> (Verdict, String) {
    let finding = Finding::new(&expect(), better, than);
    (finding.verdict, finding.to_string())
}

#[test]
fn an_order_holds_does_not_hold_or_is_not_decided() {
    let than = [(3, 0.40), (5, 0.50), (8, 0.45)];
    // The seeds differ more than the arms: pairs tell them apart. Differences 0.05, 0.06, 0.07: 4.303 * 0.01 / sqrt(3) = 0.0248.
    let (verdict, told) = found(&[(5, 0.56), (3, 0.45), (8, 0.52)], &than);
    assert_eq!(verdict, Verdict::Holds);
    assert_eq!(
        told,
        "`b` above `a` (a paper, table 2): holds here. The difference is +0.0600 (standard deviation 0.0100, 95 % interval \
         +0.0352 to +0.0848, n = 3 seeds, paired), above 0 in 3 of 3."
    );
    let (verdict, told) = found(&[(3, 0.35), (5, 0.44), (8, 0.38)], &than);
    assert_eq!(verdict, Verdict::DoesNotHold);
    assert!(
        told.contains("does not hold here. The difference is -0.0600") && told.contains("above 0 in 0 of 3"),
        "{told}"
    );
    // Above in each seed, and yet too far apart.
    let (verdict, told) = found(&[(3, 0.41), (5, 0.60), (8, 0.46)], &than);
    assert_eq!(verdict, Verdict::NotDecided);
    assert!(
        told.contains("not decided") && told.contains("above 0 in 3 of 3") && told.contains("to +0.1691"),
        "{told}"
    );
    // Equal, or all the same apart.
    assert_eq!(found(&than, &than).0, Verdict::NotDecided);
    assert_eq!(found(&[(3, 0.5), (5, 0.6), (8, 0.55)], &than).0, Verdict::NotDecided);
}

#[test]
fn what_is_not_there_decides_nothing() {
    let (verdict, told) = found(&[(3, 0.9)], &[(3, 0.1), (5, 0.2)]);
    assert_eq!(verdict, Verdict::NotDecided);
    assert!(told.contains("+0.8000 (n = 1 seed: nothing is known of its spread)"), "{told}");
    let (verdict, told) = found(&[(3, 0.9)], &[(5, 0.2)]);
    assert_eq!(verdict, Verdict::NotDecided);
    assert!(told.ends_with("No seed has ended in both arms."), "{told}");
    assert_eq!(found(&[(3, f64::NAN)], &[(3, 0.2)]).0, Verdict::NotDecided);
}

#[test]
fn intervals_are_students() {
    // Hours of sleep gained, by which Student (1908, Biometrika 6) shows his method; R's `t.test` of them says 0.7001142 to 2.4598858.
    let hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
    let spread = Spread::of(&hours).expect("values");
    let (low, high) = spread.interval().expect("an interval");
    let deviation = spread.deviation.expect("a deviation");
    assert!((spread.mean - 1.58).abs() < 1e-12 && (deviation - 1.2300).abs() < 1e-4);
    assert!((low - 0.7001142).abs() < 1e-4 && (high - 2.4598858).abs() < 1e-4, "{low} {high}");
    assert_eq!(Spread::of(&[]), None);
    assert_eq!(Spread::of(&[2.0]).and_then(|one| one.interval()), None);
    assert!(Spread::of(&vec![0.5; 200]).and_then(|many| many.interval()).is_some());
}

#[test]
fn each_run_has_its_settings_its_model_and_its_place() {
    let sweep = |warm: &str| {
        let text = SWEEP.replace("[[expect]]", &format!("{warm}\n[[expect]]"));
        Sweep::parse(&text, "the sweep").expect("a sweep")
    };
    let out = Path::new("out");
    let alone = sweep("");
    assert_eq!(alone.runs().len(), 6);
    let run = alone.runs()[1];
    let settings = alone.settings_of(run).expect("settings");
    assert_eq!((run.to_string().as_str(), run.folder(out).as_path()), ("b, seed 3", Path::new("out/arms/b/seed-3")));
    assert_eq!((settings.seed, settings.steps, settings.imitation.steps), (3, 2, 7));
    assert_eq!(settings.objectives().expect("objectives").kl.weight, 0.5);
    assert_eq!(alone.model_of(run, out), Path::new("model"));

    let warm = sweep("[warm_start]\noverride = { imitation.steps = 9 }");
    let names: Vec<String> = warm.runs().iter().map(ToString::to_string).collect();
    assert_eq!(names[..4], ["warm start, seed 3", "a, seed 3", "b, seed 3", "warm start, seed 5"]);
    let of = |at: usize| warm.settings_of(warm.runs()[at]).expect("settings");
    assert_eq!((of(0).steps, of(0).imitation.steps, of(0).evaluation.every), (0, 9, 0));
    assert_eq!((of(1).steps, of(1).imitation.steps), (2, 0));
    assert_eq!(warm.model_of(warm.runs()[4], out), Path::new("out/warm-start/seed-5/model"));

    let once = sweep("[warm_start]\nonce = \"per-sweep\"");
    assert_eq!(once.runs().len(), 7);
    assert_eq!(once.model_of(once.runs()[6], out), Path::new("out/warm-start/seed-3/model"));
}

/// A run that has ended.
fn leave(out: &Path, arm: &str, seed: u64, end: f64) {
    let folder = out.join("arms").join(arm).join(format!("seed-{seed}"));
    fs::create_dir_all(&folder).expect("a folder");
    let lines = [
        r#"{"step": 0, "seconds": 1.0, "values": {"test/reward/mean": 0.0}}"#.to_owned(),
        r#"{"step": 7, "seconds": 1.0, "values": {"test/reward/mean": 0.25, "test/episode/count": 64.0}}"#.to_owned(),
        r#"{"step": 8, "seconds": 2.0, "values": {"time/step": 2.0, "time/teacher": 0.5, "hindsight/gap_mean": 1.0}}"#
            .to_owned(),
        r#"{"step": 8, "seconds": 2.0, "values": {"test/reward/mean": 0.875}}"#.to_owned(),
        r#"{"step": 9, "seconds": 3.0, "values": {"time/step": 4.0, "time/teacher": 0.25, "hindsight/gap_mean": 3.0}}"#
            .to_owned(),
        format!(r#"{{"step": 9, "seconds": 3.0, "values": {{"test/reward/mean": {end}}}}}"#),
    ];
    fs::write(folder.join("metrics.jsonl"), lines.map(|line| line + "\n").concat()).expect("a file");
    fs::write(folder.join("config.toml"), "").expect("a file");
    fs::write(folder.join("curve.svg"), "").expect("a file");
}

#[test]
fn a_report_tells_what_runs_left_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path();
    let sweep = Sweep::parse(SWEEP, "the sweep").expect("a sweep");
    let failures = BTreeMap::from([("b, seed 8".to_owned(), "no disk |\nleft".to_owned())]);
    let report = Report::new(&sweep, out, &failures).expect("a report");
    assert_eq!(report.arms[0].end, None);
    assert!(report.curves().contains("no values yet") && report.to_markdown().contains("| a | 0 of 3 | - | - |"));

    for (seed, a, b) in [(3, 0.5, 0.6), (5, 0.4, 0.52)] {
        leave(out, "a", seed, a);
        leave(out, "b", seed, b);
    }
    // One that has not ended does not count.
    leave(out, "b", 8, 0.0);
    fs::remove_file(out.join("arms/b/seed-8/curve.svg")).expect("a file");
    let report = Report::new(&sweep, out, &failures).expect("a report");
    let b = &report.arms[1];
    let close = |spread: Option<Spread>, mean: f64| spread.is_some_and(|s| s.n == 2 && (s.mean - mean).abs() < 1e-12);
    assert!(close(b.start, 0.25) && close(b.end, 0.56) && close(b.step_seconds, 3.0) && close(b.teacher_share, 0.125));
    assert!(close(b.hindsight.get("hindsight/gap_mean").copied(), 2.0));
    assert_eq!(b.runs.iter().map(|run| run.state).collect::<Vec<_>>(), [State::Ended, State::Ended, State::Begun]);
    assert_eq!(b.runs[0].scores.as_ref().and_then(|scores| scores.best_step), Some(8));
    assert_eq!(report.expectations[0].verdict, Verdict::NotDecided);
    let told = report.to_markdown();
    for words in [
        "`test/reward/mean` on 64 held-out tasks; n = 3 seeds (3, 5, 8)",
        "| b | 2 of 3 | 0.2500 (sd 0.0000) | 0.5600 (sd 0.0566) |",
        "| 8, 8 | 3.00 s | 12.5 % |",
        "| b | `hindsight/gap_mean` | 2.0000 (sd 0.0000) |",
        "not decided. The difference is +0.1100",
        "- b, seed 8: no disk \\| left",
        "the same number of steps",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(report.curves().contains("class=\"band\""));

    // A number that no run has.
    let other = Sweep { metric: "test/f1".into(), ..sweep };
    let error = Report::new(&other, out, &failures).expect_err("refused").to_string();
    assert!(error.contains("test/f1") && error.contains("seed-3"), "{error}");
}
