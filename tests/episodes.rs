//! Episodes at the command line: played by a person, by baselines and by a run that is stopped; kept, played again, scored anew.

mod common;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use common::{Bench, Outcome, root};
use serde_json::{Value, json};

/// An index of the sample corpus by the small model: what it finds is poor, and that does not matter here.
fn sample() -> Bench {
    let bench = Bench::new();
    let corpus = root().join("examples/data/corpus.jsonl");
    bench.ok(&["build", &corpus.to_string_lossy(), "--out", "index"]);
    bench
}

fn lines(bench: &Bench, run: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(bench.path(run).join("trajectories.jsonl")).expect("trajectories");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.into_iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn who_knows_the_answers_earns_everything_and_who_guesses_next_to_nothing() {
    let bench = sample();
    let told = bench.ok(&["env", "rollout", "index", "--policy", "oracle", "--out", "runs/oracle", "--json"]).json();
    assert_eq!((&told["played"], &told["failed"], &told["mean_reward"]), (&json!(218), &json!(0), &json!(1.0)));
    let told = bench.ok(&["env", "rollout", "index", "--policy", "guesser", "--out", "runs/guess", "--json"]).json();
    assert!(told["mean_reward"].as_f64().is_some_and(|mean| mean < 0.05), "{told}");
    assert!(
        lines(&bench, "runs/guess")
            .iter()
            .all(|one| one["stop"] == "answer" && one["turns"].as_array().map(Vec::len) == Some(2))
    );

    let scores = bench.ok(&["env", "score", "runs/oracle", "--json"]).json();
    assert_eq!(scores["sample"], json!({ "episodes": 218, "failed": 0, "reward": 1.0, "terms": { "em": 1.0 } }));
    let same = bench.ok(&["env", "replay", "runs/oracle", "--index", "index", "--json"]).json();
    assert_eq!((&same["same"], &same["different"]), (&json!(218), &json!([])));
    // Everything that a policy can read was looked through for answers that it was not shown: only the oracle's own words.
    let text = std::fs::read_to_string(bench.path("runs/guess/run.json")).expect("run.json");
    assert!(!text.contains("golden"), "{text}");
}

#[test]
fn a_replay_over_another_index_tells_what_differs() {
    let bench = sample();
    bench.ok(&["env", "rollout", "index", "--policy", "oracle", "--limit", "5", "--out", "run"]);
    bench.corpus("other.jsonl", 40);
    bench.ok(&["build", "other.jsonl", "--out", "other"]);
    let outcome = bench.run(&["env", "replay", "run", "--index", "other", "--json"]);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert_eq!(outcome.json()["different"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_run_goes_on_in_the_same_way_only() {
    let bench = sample();
    let arguments = |seed: &'static str| {
        ["env", "rollout", "index", "--policy", "guesser", "--out", "run", "--json", "--seed", seed]
    };
    let first = bench.ok(&[&arguments("1")[..], &["--limit", "10"]].concat()).json();
    let second = bench.ok(&arguments("1")).json();
    assert_eq!((&first["played"], &second["resumed"], &second["played"]), (&json!(10), &json!(10), &json!(208)));
    assert_eq!(lines(&bench, "run").len(), 218);
    bench.refused(&arguments("2"), 2, &["run.json", "`seed`", "--out"]);
}

#[test]
fn a_run_that_is_stopped_keeps_what_was_over() {
    let bench = sample();
    let arguments = [
        "env",
        "rollout",
        "index",
        "--policy",
        "guesser",
        "--samples",
        "50",
        "--parallel",
        "4",
        "--out",
        "run",
        "--zstd",
    ];
    let mut command = bench.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let file = bench.path("run/trajectories.jsonl.zst");
    while !file.metadata().is_ok_and(|facts| facts.len() > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let outcome = Outcome::of(child.wait_with_output().expect("an end"));
    assert!(sent.success() && outcome.code == Some(130) && outcome.stderr.contains("go on"), "{outcome:?}");
    let told = bench.ok(&[&arguments[..], &["--json", "--limit", "100"]].concat()).json();
    let (resumed, played) = (told["resumed"].as_u64().expect("a count"), told["played"].as_u64().expect("a count"));
    assert!(resumed > 0 && played > 0 && resumed + played == 5000, "{told}");
}

#[test]
fn a_person_plays() {
    let bench = sample();
    let question = bench.ok(&["env", "tasks", "--draw", "1", "--seed", "5", "--json"]);
    assert_eq!(question.json()["tasks"], 1);
    let play = |text: &str| {
        let mut command = bench.command(&["env", "play", "index", "--seed", "5"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        child.stdin.take().expect("stdin").write_all(text.as_bytes()).expect("words");
        let outcome = Outcome::of(child.wait_with_output().expect("an end"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    };
    let shown = play("a river\n= nobody\n");
    let tasks = hindsearch::env::tasks::built_in("sample").expect("the built-in tasks");
    let chosen = hindsearch::env::tasks::pick(5, tasks.tasks().len()).expect("a task");
    assert!(shown.starts_with(&format!("Question: {}\n", tasks.tasks()[chosen].question())), "{shown}");
    for words in ["<information>[1] ", "Over (answer). Reward 0 (em 0). Accepted: "] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let answer = shown.rsplit("Accepted: ").next().expect("answers").lines().next().expect("a line");
    let answer = answer.split(" | ").next().expect("an answer");
    assert!(!shown.split("Over (").next().expect("the play").contains("Accepted"));
    assert!(play(&format!("a river\n= {answer}\n")).contains("Reward 1 (em 1)"));
    assert!(play("hm <not a tag>\n").contains("Over (given up), no reward."));
}

#[test]
fn a_program_plays_by_lines_of_json() {
    let bench = sample();
    let mut command = bench.command(&["env", "play", "index", "--seed", "5", "--prompt", "--json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    child.stdin.take().expect("stdin").write_all(b"a river\n<hm>\n= nobody\n").expect("words");
    let outcome = Outcome::of(child.wait_with_output().expect("an end"));
    let lines: Vec<Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let facts: Vec<_> =
        lines.iter().map(|line| (&line["event"], &line["turns_left"], &line["searches_left"])).collect();
    let expected = [
        json!(["question", 5, 4]),
        json!(["turn", 4, 3]),
        json!(["turn", 3, 2]),
        json!(["turn", 0, 0]),
        json!(["over", null, null]),
    ];
    assert_eq!(facts.iter().map(|one| json!(one)).collect::<Vec<_>>(), expected);
    assert!(lines[0]["messages"][0]["content"].is_string() && lines[0]["accepted"].is_null());
    assert!(lines[1]["observation"].as_str().is_some_and(|text| text.contains("<information>[1] ")));
    assert_eq!((&lines[3]["action"]["kind"], &lines[4]["reward"]["total"]), (&json!("answer"), &json!(0.0)));
    assert!(lines[4]["accepted"].as_array().is_some_and(|answers| !answers.is_empty()));
}

#[test]
fn what_was_written_is_told_and_the_sample_has_its_name_everywhere() {
    let bench = Bench::new();
    let wrote =
        bench.ok(&["env", "tasks", "--limit", "20", "--to", "plain", "--out", "t.jsonl", "--overlap", "sample"]);
    assert!(wrote.stderr.contains("wrote 20 tasks to `t.jsonl`"), "{wrote:?}");
    assert!(wrote.stdout.contains("20 also occur there"), "{wrote:?}");
    let quiet = bench.ok(&["env", "tasks", "--limit", "2", "--to", "plain", "--out", "u.jsonl", "--quiet"]);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn verdicts_of_a_judge_count_where_they_are_given() {
    let bench = sample();
    bench.ok(&["env", "rollout", "index", "--policy", "oracle", "--limit", "3", "--out", "run"]);
    let verdict = |one: &Value, correct: Value| {
        let answer = &one["turns"][1]["action"]["text"];
        json!({ "task": one["task"], "sample": 0, "judge": "j", "answer": answer, "correct": correct, "said": "" })
            .to_string()
    };
    let run = lines(&bench, "run");
    let all = [verdict(&run[0], json!(true)), verdict(&run[1], json!(false)), verdict(&run[2], json!(null))];
    bench.write("run/verdicts.jsonl", all.join("\n") + "\n");
    let arguments = ["env", "score", "run", "--verdicts", "run/verdicts.jsonl", "--judge-weight", "0.5", "--json"];
    let told = bench.ok(&[&arguments[..], &["--out", "judged.jsonl"]].concat());
    let expected = json!({ "episodes": 2, "failed": 1, "reward": 1.25, "terms": { "em": 1.0, "judge": 0.5 } });
    assert_eq!(told.json()["sample"], expected);
    for words in ["1 trajectories have no verdict of `j`", "wrote 3 trajectories to `judged.jsonl`"] {
        assert!(told.stderr.contains(words), "{words}: {told:?}");
    }
    let kept = std::fs::read_to_string(bench.path("judged.jsonl")).expect("a file");
    assert_eq!(kept.matches("\"name\":\"judge\"").count(), 2, "{kept}");
    bench.refused(
        &["env", "score", "run", "--verdicts", "run/trajectories.jsonl"],
        2,
        &["trajectories.jsonl", "line 1"],
    );
    bench.refused(&["env", "score", "run", "--judge-weight", "2"], 2, &["--verdicts"]);
    assert!(bench.ok(&["env", "score", "--help"]).stdout.contains("--verdicts"));
}

#[test]
fn the_keys_of_recipes_are_listed() {
    let bench = Bench::new();
    let told = bench.ok(&["env", "presets", "--keys"]).stdout;
    for words in
        ["limits.turns (whole number, must be there)", "grammar.cut (text, \"search-first\" where it is not given)"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    let keys = bench.ok(&["env", "presets", "--keys", "--json"]).json();
    assert!(keys.as_array().is_some_and(|keys| keys.iter().any(|key| key["key"] == "reward.terms[].scorer")));
}

#[test]
fn tasks_are_converted_and_recipes_shown() {
    let bench = Bench::new();
    bench.ok(&["env", "tasks", "--limit", "20", "--to", "search-r1", "--out", "t.parquet", "--preset", "hindsearch"]);
    bench.ok(&["env", "tasks", "--tasks", "t.parquet", "--to", "flashrag", "--out", "t.jsonl"]);
    let told = bench.ok(&["env", "tasks", "--tasks", "t.jsonl", "--overlap", "t.parquet", "--json"]).json();
    assert_eq!((&told["tasks"], told["overlap"].as_array().map(Vec::len)), (&json!(20), Some(20)));
    let recipe = bench.ok(&["env", "presets", "hindsearch"]).stdout;
    bench.write("mine.toml", recipe.replace("turns = 4", "turns = 2"));
    assert!(bench.ok(&["env", "presets", "mine.toml"]).stdout.contains("turns = 2"));
    bench.write("bad.toml", recipe.replace("turns = 4", "turns = 0"));
    bench.refused(&["env", "presets", "bad.toml"], 2, &["bad.toml", "limits.turns", "at least 1"]);
    bench.refused(&["env", "presets", "nothing"], 3, &["`nothing`", "hindsearch"]);
    bench.refused(&["env", "tasks", "--tasks", "absent.jsonl"], 3, &["absent.jsonl"]);
    bench.write("broken.jsonl", "{\"id\": \"1\"\n");
    bench.refused(&["env", "tasks", "--tasks", "broken.jsonl"], 2, &["broken.jsonl", "line 1"]);
    bench.refused(&["env", "score", "absent"], 3, &["absent"]);
    bench.refused(&["env", "rollout", "absent", "--policy", "oracle", "--out", "r"], 3, &["absent"]);
    bench.refused(&["env", "rollout", "absent", "--policy", "http://127.0.0.1:9/v1", "--out", "r"], 2, &["--model"]);
}

/// The oracle's run by a recipe of a file that has a built-in one's name, in a folder.
fn doubled(bench: &Bench, more: &[&str]) {
    let recipe = bench.ok(&["env", "presets", "hindsearch"]).stdout;
    bench.write("double.toml", recipe.replace("weight = 1.0", "weight = 2.0"));
    let arguments =
        ["env", "rollout", "index", "--policy", "oracle", "--limit", "3", "--preset", "double.toml", "--out", "run"];
    bench.ok(&[&arguments[..], more].concat());
}

#[test]
fn a_run_is_scored_and_replayed_by_the_recipe_that_it_was_played_by() {
    let bench = sample();
    doubled(&bench, &["--zstd", "--temperature", "0.9058800578942917"]);
    doubled(&bench, &["--zstd", "--temperature", "0.9058800578942917"]);
    assert_eq!(bench.ok(&["env", "score", "run", "--json"]).json()["sample"]["reward"], 2.0);
    assert_eq!(bench.ok(&["env", "score", "run", "--json", "--preset", "hindsearch"]).json()["sample"]["reward"], 1.0);
    assert_eq!(bench.ok(&["env", "replay", "run", "--index", "index", "--json"]).json()["same"], 3);
    let again =
        ["env", "rollout", "index", "--policy", "oracle", "--limit", "3", "--preset", "double.toml", "--out", "run"];
    let again = [&again[..], &["--temperature", "0.9058800578942917"]].concat();
    bench.refused(&again, 2, &["trajectories.jsonl.zst", "`--zstd`"]);
}

#[test]
fn a_run_is_not_written_over_and_what_it_names_is_not_opened() {
    let bench = sample();
    doubled(&bench, &[]);
    let file = bench.path("run/trajectories.jsonl");
    let before = std::fs::read_to_string(&file).expect("a file");
    bench.refused(&["env", "score", "run", "--out", "run/trajectories.jsonl"], 2, &["--out", "another file"]);
    bench.refused(&["env", "score", "run", "--out", "new.jsonl.zst"], 2, &["new.jsonl.zst"]);
    bench.write("other.jsonl", "{\"question\": \"x\", \"answer\": \"y\"}\n");
    bench.refused(&["env", "score", "run", "--tasks", "other.jsonl"], 2, &["none of the 3"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
    bench.write("secret.toml", "password = \"hunter2\"\n");
    bench.write("foreign.jsonl", before.replace("\"preset\":\"hindsearch\"", "\"preset\":\"secret.toml\""));
    let refusal = bench.refused(&["env", "score", "foreign.jsonl"], 3, &["`secret.toml`"]);
    assert!(!refusal.stderr.contains("hunter2"), "{refusal:?}");
    bench.write("run/run.json", "{");
    bench.refused(&["env", "score", "run"], 5, &["run.json", "no JSON"]);
}

#[test]
fn what_cannot_be_played_is_refused_before_anything_is_written() {
    let bench = sample();
    let rollout = |more: &[&'static str]| [&["env", "rollout", "index", "--out", "r"][..], more].concat();
    bench.refused(&rollout(&["--policy", "oracel"]), 2, &["oracel", "`oracle`", "`guesser`"]);
    bench.refused(&rollout(&["--policy", "http://user:sk-1@host/v1", "--model", "m"]), 2, &["OPENAI_API_KEY"]);
    for bad in [
        ["--temperature", "nan"],
        ["--temperature", "-3"],
        ["--top-p", "77"],
        ["--samples", "4294967295"],
        ["--parallel", "0"],
    ] {
        assert_eq!(bench.run(&rollout(&[&["--policy", "guesser"][..], &bad].concat())).code, Some(2), "{bad:?}");
    }
    assert!(!bench.path("r").exists());
    let dead = rollout(&["--policy", "http://127.0.0.1:9/v1", "--model", "m", "--limit", "2"]);
    bench.refused(&dead, 9, &["none of 2 episodes", "127.0.0.1:9"]);
}

/// As the README has it: the index lies in a folder of the built-in tasks' name.
#[test]
fn an_index_called_sample_does_not_hide_the_tasks_called_sample() {
    let bench = sample();
    std::fs::rename(bench.path("index"), bench.path("sample")).expect("a folder");
    assert_eq!(bench.ok(&["env", "tasks", "--json"]).json()["tasks"], 218);
    bench.ok(&["env", "rollout", "sample", "--policy", "guesser", "--limit", "2", "--out", "run"]);
    bench.ok(&["env", "score", "run/trajectories.jsonl"]);
}

#[test]
fn whoever_knows_the_answers_can_earn_everything_in_each_recipe() {
    let bench = sample();
    let presets = bench.ok(&["env", "presets", "--json"]).json();
    for preset in presets.as_array().expect("presets") {
        let name = preset["name"].as_str().expect("a name");
        let out = format!("runs/{name}");
        let told = ["env", "rollout", "index", "--policy", "oracle", "--preset", name, "--out", &out, "--json"];
        assert_eq!(bench.ok(&told).json()["mean_reward"], 1.0, "{name}");
    }
}
