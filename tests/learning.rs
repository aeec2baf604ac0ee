//! Learning at the command line: a run and what it leaves, stopped and gone on with; a plan; the losses of episodes from elsewhere.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::training::{RECIPE, world};
use serde_json::Value;

fn arguments<'a>(model: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = ["train", "index", "--model", model, "--out", out, "--tasks", "tasks.jsonl", "--held-out", "3"];
    [&all[..], &["--recipe", "recipe.toml", "--settings", "settings.toml"], more].concat()
}

/// The numbers of a run, without what the clock says.
fn numbers(run: &Path) -> Vec<(u64, BTreeMap<String, String>)> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let record = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let values = line["values"].as_object().expect("values").iter();
        let kept = values.filter(|(name, _)| !name.starts_with("time/") && !name.starts_with("speed/"));
        (line["step"].as_u64().expect("a step"), kept.map(|(name, value)| (name.clone(), value.to_string())).collect())
    };
    text.lines().map(record).collect()
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_run_leaves_what_its_help_says_and_goes_on_with_the_same_bits() {
    let (bench, model) = world();
    bench.ok(&arguments(&model, "whole", &["--json"]));
    let whole = bench.path("whole");
    for name in
        ["config.toml", "metrics.jsonl", "curve.svg", "trajectories/step-000005.jsonl", "evaluation/step-000004.jsonl"]
    {
        assert!(whole.join(name).is_file(), "{name}");
    }
    let events = std::fs::read_dir(&whole).expect("the run").filter_map(Result::ok);
    assert!(events.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("tfevents")));
    assert!(numbers(&whole).iter().any(|(step, values)| *step == 5 && values.contains_key("reward/mean")));

    // The same run, cut in two.
    bench.ok(&arguments(&model, "halves", &["--override", "steps=1"]));
    bench.ok(&arguments(&model, "halves", &[]));
    let halves = bench.path("halves");
    assert_eq!(bytes(&halves.join("model/model.safetensors")), bytes(&whole.join("model/model.safetensors")));
    // A run that ends after step 3 is tested there.
    let tested = |(step, values): &(u64, BTreeMap<String, String>)| {
        *step == 3 && values.keys().any(|name| name.starts_with("test/"))
    };
    let same: Vec<_> = numbers(&halves).into_iter().filter(|record| !tested(record)).collect();
    assert_eq!(same, numbers(&whole));
}

#[test]
fn adapters_are_written_for_peft() {
    let (bench, model) = world();
    let lora = ["--override", "lora.rank=4", "--override", "imitation.steps=0", "--override", "steps=1"];
    bench.ok(&arguments(&model, "run", &lora));
    for name in ["adapter/adapter_config.json", "adapter/adapter_model.safetensors", "model/config.json"] {
        assert!(bench.path("run").join(name).is_file(), "{name}");
    }
}

#[test]
fn a_run_is_gone_on_with_in_its_own_way_only() {
    let (bench, model) = world();
    bench.ok(&arguments(&model, "run", &["--override", "steps=1"]));
    bench.refused(&arguments(&model, "run", &["--override", "seed=1"]), 2, &["run", "seed"]);
    bench.refused(&arguments(&model, "new", &["--override", "stepz=1"]), 2, &["stepz"]);
    bench.refused(&arguments(&model, "new", &["--override", "device=cuda"]), 2, &["device", "--features cuda"]);
    bench.refused(&arguments("nowhere", "new", &[]), 3, &["nowhere"]);
    assert!(!bench.path("new").exists());
}

#[test]
fn a_plan_trains_nothing() {
    let (bench, model) = world();
    let plan = bench.ok(&arguments(&model, "run", &["--dry-run", "--json"])).json();
    assert!(plan["plan"].is_object() && plan["settings"]["steps"] == 3, "{plan}");
    let told = bench.ok(&arguments(&model, "run", &["--dry-run", "--override", "device=cuda"])).stdout;
    assert!(told.contains("H200"), "{told}");
    assert!(!bench.path("run").exists());
}

#[test]
fn episodes_from_elsewhere_have_losses() {
    let (bench, model) = world();
    bench.ok(&arguments(&model, "run", &["--override", "imitation.steps=0", "--override", "steps=1"]));
    let losses = |file: &str, more: &[&str]| {
        let all = ["losses", file, "--model", &model, "--recipe", "recipe.toml", "--json", "--override", "steps=1"];
        bench.ok(&[&all[..], more].concat()).json()
    };
    let played = "run/trajectories/step-000001.jsonl";
    let found = losses(played, &["--out", "told.jsonl", "--override", "imitation.steps=0"]);
    // What the update of the run itself said of the same episodes.
    let (_, run) = numbers(&bench.path("run"))
        .into_iter()
        .find(|(step, values)| *step == 1 && values.contains_key("loss"))
        .expect("a step");
    for (name, of_run) in
        [("loss", "loss"), ("gradient_norm", "update/gradient_norm"), ("policy/ratio_max", "policy/ratio_max")]
    {
        let expected: f64 = run[of_run].parse().expect("a number");
        let value = found[name].as_f64().expect("a number");
        // The file has the episodes in the order in which they ended: sums are rounded otherwise.
        assert!((value - expected).abs() <= 1e-5 * expected.abs(), "{name}: {value}, {expected}");
    }
    assert_eq!((&found["episodes"], &found["episodes_without_reward"]), (&6.into(), &0.into()));

    // This model is the one that wrote them: it finds each token as likely as it did then, to the last bit.
    let read = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(bench.path(name)).expect("lines");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let written: BTreeMap<(String, u64), Vec<Value>> = read(played)
        .into_iter()
        .map(|episode| {
            let spans = episode["spans"].as_array().expect("spans").iter();
            let logprobs = spans.filter_map(|span| span["logprobs"].as_array()).flatten().cloned().collect();
            (
                (episode["task"].as_str().expect("a task").into(), episode["sample"].as_u64().expect("a number")),
                logprobs,
            )
        })
        .collect();
    let told = read("told.jsonl");
    assert_eq!(told.len(), 6);
    for line in told {
        let key = (line["task"].as_str().expect("a task").to_owned(), line["sample"].as_u64().expect("a number"));
        assert_eq!(line["logprobs"].as_array(), Some(&written[&key]));
        assert_eq!(line["places"].as_array().map(Vec::len), line["logprobs"].as_array().map(Vec::len));
    }

    // Another objective, other losses; an episode without a reward is left out and counted.
    assert_ne!(
        losses(played, &["--override", "objective=gspo", "--override", "imitation.steps=0"])["loss"],
        Value::Null
    );
    let mut episodes = read(played);
    episodes[0].as_object_mut().expect("an episode").remove("reward");
    bench.write("some.jsonl", episodes.iter().map(|line| format!("{line}\n")).collect::<String>());
    let found = losses("some.jsonl", &[]);
    assert_eq!((&found["episodes"], &found["episodes_without_reward"]), (&5.into(), &1.into()));
    episodes.iter_mut().for_each(|episode| drop(episode.as_object_mut().expect("an episode").remove("reward")));
    bench.write("none.jsonl", episodes.iter().map(|line| format!("{line}\n")).collect::<String>());
    bench.refused(
        &["losses", "none.jsonl", "--model", &model, "--recipe", "recipe.toml"],
        2,
        &["none.jsonl", "env score"],
    );
}

#[test]
fn a_run_goes_on_with_its_model_its_tasks_and_its_recipe_only() {
    let (bench, model) = world();
    let shorter = ["--override", "imitation.steps=0", "--override", "steps=1"];
    bench.ok(&arguments(&model, "run", &shorter));
    let other = |from: &str, to: &str| {
        let mut all = arguments(&model, "run", &shorter);
        let place = all.iter().position(|argument| *argument == from).expect("an argument") + 1;
        all[place] = to;
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let refused = |all: Vec<String>, what: &str| {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        bench.refused(&all, 2, &[what, "run", "with which it was begun"]);
    };
    bench.write("recipe2.toml", RECIPE.replace("turns = 2", "turns = 1"));
    refused(other("--recipe", "recipe2.toml"), "recipe");
    let tasks = std::fs::read_to_string(bench.path("tasks.jsonl")).expect("tasks");
    bench.write("tasks2.jsonl", tasks.replace("Topic 1\"", "Another\""));
    refused(other("--tasks", "tasks2.jsonl"), "tasks");
    // The model that was learnt is of the same shape, and another.
    let learnt = bench.path("run/model").to_string_lossy().into_owned();
    refused(other("--model", &learnt), "model");
    // What was played is scored by the recipe that the run wrote down.
    let found = bench.ok(&["losses", "run", "--model", &model, "--json"]).json();
    assert_eq!(found["episodes"], 6);
}

#[test]
fn what_is_refused_begins_no_run() {
    let (bench, model) = world();
    for (setting, words) in [
        ("lora.targets=[\"q_prj\"]", ["lora.targets", "q_prj"]),
        ("lora.rank=0", ["lora.rank", "0"]),
        ("optimizer.beta2=1.5", ["beta2", "1.5"]),
        ("update.micro_tokens=0", ["update.micro_tokens", "0"]),
        ("objective.kl.weigth=0.1", ["weigth", "weight"]),
        ("objective={preset=\"gsp\"}", ["gsp", "gspo"]),
        ("schedule.floor=-5.0", ["schedule.floor", "-5"]),
        ("schedule.floor=nan", ["schedule.floor", "NaN"]),
        ("imitation.rate=1e300", ["imitation.rate", "0 to 1"]),
        ("rollout.sampling.temperature=1e-300", ["temperature", "0.01"]),
        ("rollout.samples=4294967295", ["rollout.samples", "16384"]),
    ] {
        bench.refused(&arguments(&model, "new", &["--override", setting]), 2, &words);
        assert!(!bench.path("new").exists(), "{setting}");
    }
}

#[test]
fn one_value_of_a_preset_changes_nothing_else() {
    let (bench, model) = world();
    let objective = |settings: &[&str]| {
        let all: Vec<&str> = settings.iter().flat_map(|setting| ["--override", setting]).collect();
        let plan = bench.ok(&[&arguments(&model, "run", &["--dry-run"])[..], &all[..]].concat()).stdout;
        let settings: toml::Table = plan
            .split("\n\n")
            .take_while(|part| !part.contains(" weights, "))
            .collect::<Vec<_>>()
            .join("\n\n")
            .parse()
            .expect("TOML");
        settings["objective"].as_table().expect("a table").clone()
    };
    for preset in [None, Some("objective=gspo")] {
        let mut expected = objective(preset.as_slice());
        expected["kl"]["weight"] = toml::Value::Float(0.25);
        let changed = objective(&[preset.as_slice(), &["objective.kl.weight=0.25"]].concat());
        assert_eq!(changed, expected);
    }
    let table = objective(&["objective={preset=\"gspo\",kl={weight=0.25}}"]);
    assert_eq!(table, objective(&["objective=gspo", "objective.kl.weight=0.25"]));
    // The learning rate alone.
    bench.ok(&arguments(&model, "run", &["--dry-run", "--override", "schedule.peak=1e-5"]));
}

#[test]
fn a_step_longer_than_all_tasks_plays_each_once() {
    let (bench, model) = world();
    let huge = ["--override", "rollout.tasks=9223372036854775807", "--override", "imitation.tasks=9223372036854775807"];
    bench.ok(&arguments(&model, "run", &[&huge[..], &["--override", "steps=1"]].concat()));
    let (_, last) = numbers(&bench.path("run"))
        .into_iter()
        .rev()
        .find(|(_, values)| values.contains_key("episode/count"))
        .expect("a step");
    assert_eq!(last["episode/count"].parse::<f64>(), Ok(9.0 * 3.0));
}

#[test]
fn a_run_without_its_metrics_goes_on_and_keeps_what_is_not_its_own() {
    let (bench, model) = world();
    bench.ok(&arguments(&model, "run", &["--override", "steps=1"]));
    std::fs::remove_file(bench.path("run/metrics.jsonl")).expect("metrics");
    bench.write("run/model/mine.txt", "mine");
    bench.refused(&arguments(&model, "run", &[]), 2, &["mine.txt", "move it away"]);
    std::fs::remove_file(bench.path("run/model/mine.txt")).expect("a file");
    bench.ok(&arguments(&model, "run", &[]));
    assert!(numbers(&bench.path("run")).iter().any(|(step, _)| *step == 5));
}

#[test]
fn episodes_that_no_model_wrote_are_refused() {
    let (bench, model) = world();
    bench.ok(&arguments(&model, "run", &["--override", "imitation.steps=0", "--override", "steps=1"]));
    let text = std::fs::read_to_string(bench.path("run/trajectories/step-000001.jsonl")).expect("lines");
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    let policy =
        first["spans"].as_array().expect("spans").iter().position(|span| span["author"] == "policy").expect("a span");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut episode = first.clone();
        change(&mut episode);
        bench.write("changed.jsonl", format!("{episode}\n"));
    };
    let losses = ["losses", "changed.jsonl", "--model", &model, "--recipe", "recipe.toml"];
    changed(&|episode| episode["spans"][policy]["tokens"][0] = 4_000_000_000_u32.into());
    bench.refused(&losses, 2, &["4000000000", "another tokenizer"]);
    changed(&|episode| episode["spans"][policy]["logprobs"][0] = (-1e30).into());
    bench.refused(&losses, 2, &["log-probabilities", "-10000"]);
    changed(&|episode| (episode["spans"], episode["turns"]) = (Value::Array(Vec::new()), Value::Array(Vec::new())));
    bench.refused(&losses, 2, &["spans"]);
}

#[test]
fn a_method_and_a_recipe_are_two_things() {
    let (bench, model) = world();
    let plan = |more: &[&str]| bench.ok(&arguments(&model, "run", &[&["--dry-run", "--json"], more].concat())).json();
    // The method, above it the file, above it single values.
    bench.write("method.toml", "about = \"mine\"\nrecipe = \"recipe.toml\"\nobjective = \"gspo\"\nsteps = 9\nseed = 5");
    let told = plan(&["--preset", "method.toml", "--override", "seed=6"])["settings"].clone();
    assert_eq!((&told["objective"], &told["steps"], &told["seed"]), (&"gspo".into(), &3.into(), &6.into()));
    assert_eq!(plan(&["--preset", "gspo"])["settings"]["objective"], "gspo");
    // Its recipe counts where the command names none.
    let bare = ["train", "index", "--model", &model, "--out", "run", "--tasks", "tasks.jsonl", "--held-out", "3"];
    let short = ["--settings", "settings.toml", "--preset", "method.toml", "--override", "steps=0"];
    bench.ok(&[&bare[..], &short[..], &["--override", "imitation.steps=0"]].concat());
    let text = std::fs::read_to_string(bench.path("run/run.json")).expect("a description");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON")["preset"]["name"], "short");

    bench.refused(&arguments(&model, "new", &["--preset", "search-r1-v0.3"]), 2, &["search-r1-v0.3", "--recipe"]);
    bench.refused(&arguments(&model, "new", &["--preset", "recipe.toml"]), 2, &["recipe.toml", "--recipe"]);
    bench.refused(&arguments(&model, "new", &["--preset", "none"]), 3, &["none", "grpo, gspo"]);
    assert!(bench.ok(&["train", "--help"]).stdout.contains("  gspo  "));
}
