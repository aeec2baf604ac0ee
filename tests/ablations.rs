//! Methods compared at the command line: arms with seeds, stopped and gone on with, and a report that claims no more than was found.

mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use common::training::world;
use common::{Bench, Outcome, root};
use hindsearch::env::Preset;
use hindsearch::trainer::sweep::Sweep;
use serde_json::Value;

/// Two arms and two seeds.
fn sweep(bench: &Bench, model: &str, more: &str) {
    bench.write("sweep.toml", format!("{}{more}", shared(model)));
}

fn shared(model: &str) -> String {
    format!(
        r#"
index = "index"
model = "{model}"
tasks = ["tasks.jsonl"]
held_out = 3
recipe = "recipe.toml"
settings_file = "settings.toml"
seeds = [0, 1]
[settings]
steps = 2
[warm_start]
[[arms]]
name = "plain"
preset = "grpo"
[[arms]]
name = "sequences"
preset = "gspo"
override = {{ objective.kl.weight = 0.01 }}
[[expect]]
better = "sequences"
than = "plain"
source = "written for this test"
"#
    )
}

fn json(bench: &Bench, name: &str) -> Value {
    serde_json::from_slice(&fs::read(bench.path(name)).expect("a file")).expect("JSON")
}

fn written(bench: &Bench, name: &str) -> SystemTime {
    fs::metadata(bench.path(name)).and_then(|file| file.modified()).expect("a file")
}

#[test]
fn arms_are_trained_with_each_seed_and_compared() {
    let (bench, model) = world();
    sweep(&bench, &model, "");
    let told = bench.ok(&["ablate", "sweep.toml", "--out", "out"]).stdout;
    let report = fs::read_to_string(bench.path("out/report.md")).expect("a report");
    assert_eq!(told, report);
    for words in
        ["n = 2 seeds (0, 1)", "on 2 held-out tasks", "| plain | 2 of 2 |", "not decided", "written for this test"]
    {
        assert!(report.contains(words), "{words}: {report}");
    }
    assert!(report.contains("same number of steps") && report.contains("objective.kl.weight = 0.01"), "{report}");
    let report = json(&bench, "out/report.json");
    let arm = &report["arms"][1];
    assert_eq!((&arm["name"], &arm["end"]["n"], &arm["start"]["n"]), (&"sequences".into(), &2.into(), &2.into()));
    assert!(arm["step_seconds"]["mean"].as_f64().is_some_and(|seconds| seconds > 0.0), "{arm}");
    assert_eq!(report["expectations"][0]["difference"]["n"], 2);
    let curves = fs::read_to_string(bench.path("out/curves.svg")).expect("curves");
    assert!(curves.contains("plain") && curves.contains("sequences") && curves.contains("class=\"band\""), "{curves}");

    // Both arms begin with the model of their seed's imitation, and imitate nothing themselves.
    let start = |arm: usize, run: usize| report["arms"][arm]["runs"][run]["scores"]["start"].as_f64().expect("a score");
    (0..2).for_each(|run| assert_eq!(start(0, run).to_bits(), start(1, run).to_bits()));
    let config = |run: &str| -> toml::Table {
        fs::read_to_string(bench.path(run).join("config.toml")).expect("settings").parse().expect("TOML")
    };
    let warm = config("out/warm-start/seed-1");
    assert_eq!((warm["steps"].as_integer(), warm["imitation"]["steps"].as_integer()), (Some(0), Some(2)));
    let arm = config("out/arms/sequences/seed-1");
    assert_eq!((arm["steps"].as_integer(), arm["imitation"]["steps"].as_integer()), (Some(2), Some(0)));
    assert_eq!(
        (arm["seed"].as_integer(), arm["objective"]["policy-gradient"]["ratio"].as_str()),
        (Some(1), Some("sequence"))
    );
    // An arm is what `hindsearch train` makes of the same settings.
    let alone = "train index --model out/warm-start/seed-0/model --out alone --tasks tasks.jsonl --held-out 3 --recipe recipe.toml \
                 --preset gspo --settings settings.toml --override steps=2 --override imitation.steps=0 --override objective.kl.weight=0.01";
    bench.ok(&alone.split_whitespace().collect::<Vec<_>>());
    let learnt = |run: &str| fs::read(bench.path(run).join("model/model.safetensors")).expect("a model");
    assert_eq!(learnt("alone"), learnt("out/arms/sequences/seed-0"));
}

#[test]
fn runs_that_have_ended_are_left_and_others_go_on() {
    let (bench, model) = world();
    sweep(&bench, &model, "");
    let mut command = bench.command(&["ablate", "sweep.toml", "--out", "out"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    // In the midst of it.
    while !bench.path("out/arms/sequences/seed-0/metrics.jsonl").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let outcome = Outcome::of(child.wait_with_output().expect("an end"));
    assert!(sent.success() && outcome.code == Some(130), "{outcome:?}");
    let first = written(&bench, "out/arms/plain/seed-0/curve.svg");
    let plan = bench.ok(&["ablate", "sweep.toml", "--out", "out", "--dry-run", "--json"]).json();
    let states: Vec<&str> =
        plan["runs"].as_array().expect("runs").iter().filter_map(|run| run["state"].as_str()).collect();
    assert!(states.len() == 6 && states[..2] == ["ended", "ended"] && states[5] != "ended", "{states:?}");
    // What has ended is told at any time.
    let report = bench.ok(&["ablate", "sweep.toml", "--out", "out", "--report", "--json"]).json();
    let ended =
        |arm: usize| report["arms"][arm]["runs"].as_array().expect("runs").iter().filter(|run| run["state"] == "ended");
    assert_eq!(ended(0).count(), states.iter().skip(1).step_by(3).filter(|state| **state == "ended").count());
    assert_eq!(report["expectations"][0]["verdict"], "not-decided");

    bench.ok(&["ablate", "sweep.toml", "--out", "out"]);
    assert_eq!(written(&bench, "out/arms/plain/seed-0/curve.svg"), first);
    bench.ok(&["ablate", "sweep.toml", "--out", "whole"]);
    let learnt =
        |out: &str| fs::read(bench.path(out).join("arms/sequences/seed-0/model/model.safetensors")).expect("a model");
    assert_eq!(learnt("out"), learnt("whole"));
    let ends = |out: &str| {
        let report = json(&bench, &format!("{out}/report.json"));
        report["arms"].as_array().expect("arms").iter().map(|arm| arm["end"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ends("out"), ends("whole"));
}

#[test]
fn a_sweep_goes_on_as_it_was_begun_and_may_grow() {
    let (bench, model) = world();
    let text = shared(&model).replace("seeds = [0, 1]", "seeds = [0]");
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from));
        bench.write("sweep.toml", text.replace(from, to));
    };
    bench.write("sweep.toml", &text);
    bench.ok(&["ablate", "sweep.toml", "--out", "out"]);
    let all = ["ablate", "sweep.toml", "--out", "out"];
    changed("steps = 2", "steps = 3");
    bench.refused(&all, 2, &["arms/plain/seed-0", "`steps`", "2, with which it was begun", "3"]);
    changed("weight = 0.01", "weight = 0.02");
    bench.refused(&all, 2, &["arms/sequences/seed-0", "`objective.kl.weight`"]);
    changed("held_out = 3", "held_out = 4");
    bench.refused(&all, 2, &["tasks", "with which it was begun"]);
    changed("[settings]", "[settings]\nimitation.steps = 1");
    bench.refused(&all, 2, &["warm-start/seed-0", "`imitation.steps`"]);
    let learnt = bench.path("out/arms/plain/seed-0/model").to_string_lossy().into_owned();
    changed(&model, &learnt);
    bench.refused(&all, 2, &["model", "warm-start/seed-0"]);
    // Another arm and another seed are no change.
    changed("seeds = [0]", "seeds = [0, 3]");
    let before = written(&bench, "out/arms/plain/seed-0/curve.svg");
    let more = "[[arms]]\nname = \"more\"\noverride = { rollout.samples = 2 }\n";
    bench.write("sweep.toml", text.replace("seeds = [0]", "seeds = [0, 3]") + more);
    let report = bench.ok(&all).stdout;
    assert!(report.contains("| more | 2 of 2 |") && report.contains("n = 2 seeds (0, 3)"), "{report}");
    assert!(report.contains("not equal") && report.contains("rollout.samples"), "{report}");
    assert_eq!(written(&bench, "out/arms/plain/seed-0/curve.svg"), before);
}

#[test]
fn a_run_that_fails_is_told_and_the_others_go_on() {
    let (bench, model) = world();
    let text = shared(&model).replace(
        "[[arms]]\nname = \"plain\"",
        "[[arms]]\nname = \"broken\"\noverride = { device = \"cuda\" }\n[[arms]]\nname = \"plain\"",
    );
    bench.write("sweep.toml", text.replace("seeds = [0, 1]", "seeds = [0]"));
    let outcome = bench.run(&["ablate", "sweep.toml", "--out", "out"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("broken, seed 0 failed: device"), "{outcome:?}");
    for words in [
        "| broken | 0 of 1 |",
        "| plain | 1 of 1 |",
        "| sequences | 1 of 1 |",
        "- broken, seed 0: device",
        "nothing is known of its spread",
    ] {
        assert!(outcome.stdout.contains(words), "{words}: {outcome:?}");
    }
}

#[test]
fn a_sweep_that_cannot_be_is_refused_before_it_begins() {
    let (bench, model) = world();
    let text = shared(&model);
    for (from, to, code, words) in [
        ("seeds = [0, 1]", "seeds = [1, 1]", 2, ["seeds", "each once"]),
        ("name = \"plain\"", "name = \"sequences\"", 2, ["sequences", "twice"]),
        ("name = \"plain\"", "name = \"../plain\"", 2, ["../plain", "letters"]),
        ("preset = \"gspo\"", "preset = \"gspa\"", 3, ["gspa", "grpo, gspo"]),
        ("preset = \"gspo\"", "preset = \"search-r1-v0.3\"", 2, ["search-r1-v0.3", "recipe"]),
        ("better = \"sequences\"", "better = \"others\"", 2, ["others", "expect"]),
        ("kl.weight", "kl.weigth", 2, ["weigth", "arm `sequences`"]),
        ("objective.kl.weight = 0.01", "seed = 4", 2, ["override.seed", "`seeds`"]),
        ("objective.kl.weight = 0.01", "imitation.steps = 4", 2, ["override.imitation", "warm_start"]),
        ("objective.kl.weight = 0.01", "evaluation.every = 0", 2, ["evaluation.every", "sequences"]),
        ("held_out = 3", "held_out = 50", 2, ["50", "12"]),
        ("recipe.toml", "none.toml", 3, ["none.toml", "read"]),
        ("steps = 2", "stepz = 2", 2, ["stepz", "settings"]),
        ("index = ", "indexx = ", 2, ["sweep.toml", "indexx"]),
    ] {
        assert!(text.contains(from), "{from}");
        bench.write("sweep.toml", text.replace(from, to));
        bench.refused(&["ablate", "sweep.toml", "--out", "out"], code, &words);
        assert!(!bench.path("out").exists(), "{to}");
    }
    sweep(&bench, &model, "");
    bench.refused(&["ablate", "sweep.toml", "--out", "index"], 2, &["index", "--out"]);
    bench.refused(&["ablate", "sweep.toml", "--out", "none", "--report"], 3, &["none", "arms"]);
    let plan = bench.ok(&["ablate", "sweep.toml", "--dry-run"]).stdout;
    assert!(plan.contains("runs/sweep/arms/plain/seed-1") && plan.contains("6 runs"), "{plan}");
    assert!(!bench.path("runs").exists());
}

#[test]
fn the_example_is_a_sweep() {
    let sweep = Sweep::read(&root().join("examples/small_world/sweep.toml")).expect("a sweep");
    for run in sweep.runs() {
        sweep.settings_of(run).unwrap_or_else(|error| panic!("{run}: {error}"));
        Preset::load(&sweep.recipe_of(run).expect("a recipe")).expect("a recipe");
    }
}
