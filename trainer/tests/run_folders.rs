//! A run's folder is not mistaken for another, is written by one process at a time, and goes on with the settings it began with.

use std::fs;

use hindsearch_trainer::{Error, RunFolder};

const CONFIG: &str = "seed = 7\n\n[model]\nsource = \"small\"\n\n[train]\nsteps = 100\nrate = 1e-6\n";

#[test]
fn a_run_begins_in_an_empty_folder_and_is_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runs/first");
    let run = RunFolder::create(&path, CONFIG).expect("a run");
    assert_eq!(run.checkpoints(), path.join("checkpoints"));
    assert!(run.checkpoints().is_dir());
    assert_eq!(run.config()["train"]["steps"].as_integer(), Some(100));
    assert_eq!(fs::read_to_string(path.join("config.toml")).expect("a file"), CONFIG, "as it was given");
    drop(run);
    assert_eq!(RunFolder::open(&path).expect("a run").config()["seed"].as_integer(), Some(7));
    let refused = RunFolder::create(&path, CONFIG).expect_err("refused");
    assert!(refused.to_string().contains("a run; resume it"), "{refused}");
}

#[test]
fn one_process_trains_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = RunFolder::create(folder.path(), CONFIG).expect("a run");
    let second = RunFolder::open(folder.path()).expect_err("refused");
    assert!(matches!(second, Error::Locked { .. }), "{second}");
    assert_eq!(second.kind().exit_code(), 6);
    drop(first);
    RunFolder::open(folder.path()).expect("free again");
}

#[test]
fn what_is_no_run_is_told_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).expect("a folder");
    fs::create_dir(at("photos")).expect("a folder");
    fs::write(at("photos/a.jpg"), "").expect("a file");
    fs::write(at("file"), "").expect("a file");
    fs::create_dir(at("killed")).expect("a folder");
    fs::write(at("killed/LOCK"), "").expect("a file");
    for (name, word) in [
        ("missing", "nothing is there"),
        ("empty", "is empty"),
        ("photos", "it holds `a.jpg`"),
        ("file", "a file is there"),
        ("killed", "begin it again"),
    ] {
        let error = RunFolder::open(at(name)).expect_err("no run");
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        assert!(error.to_string().contains(word) && error.to_string().contains(name), "{error}");
    }
    assert!(!at("missing").exists());
    for name in ["photos", "file"] {
        let error = RunFolder::create(at(name), CONFIG).expect_err("refused");
        assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(at("photos")).expect("a folder").count(), 1, "no lock is left there");
    RunFolder::create(at("killed"), CONFIG).expect("begun again");
    RunFolder::create(at("empty"), CONFIG).expect("a run");
    fs::write(at("empty/config.toml"), "seed = ").expect("a file");
    let error = RunFolder::open(at("empty")).expect_err("damaged");
    assert!(matches!(error, Error::File { .. }) && error.to_string().contains("config.toml"), "{error}");
    assert!(matches!(RunFolder::create(at("new"), "seed = "), Err(Error::InvalidInput { .. })));
}

#[test]
fn only_the_settings_that_may_change_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = RunFolder::create(folder.path(), CONFIG).expect("a run");
    let may_change = ["train.steps", "monitor"];
    let with = |from: &str, to: &str| CONFIG.replace(from, to);
    for (changed, words) in [
        (with("1e-6", "2e-6"), ["`train.rate`", "0.000001", "0.000002"]),
        (with("\"small\"", "\"large\""), ["`model.source`", "small", "large"]),
        (with("seed = 7\n", ""), ["`seed`", "7", "no such key"]),
        (with("rate", "rates"), ["`train.rate`", "0.000001", "no such key"]),
        (with("[train]\n", "[train]\nepochs = 2\n"), ["`train.epochs`", "no such key", "2"]),
        // The first of two, in the order of keys; what may change does not hide it.
        (with("seed = 7", "seed = 8").replace("1e-6", "3e-6").replace("100", "200"), ["`seed`", "7", "8"]),
        // A key that only begins like one that may change.
        (CONFIG.to_owned() + "steps_more = 1\n", ["`train.steps_more`", "no such key", "1"]),
        // The same number, but of another kind.
        (with("seed = 7", "seed = 7.0"), ["`seed`", "7", "7.0"]),
    ] {
        let error = run.change_config(&changed, &may_change).expect_err("refused");
        assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{words:?}: {error}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("config.toml")).expect("a file"), CONFIG);

    let longer = with("100", "200") + "\n[monitor]\nevery = 10\n";
    run.change_config(&longer, &may_change).expect("allowed");
    assert_eq!(run.config()["train"]["steps"].as_integer(), Some(200));
    drop(run);
    let mut run = RunFolder::open(folder.path()).expect("a run");
    assert_eq!(run.config()["monitor"]["every"].as_integer(), Some(10));
    // Other words for the same settings are the same settings.
    let reworded = "model = { source = \"small\" } # comment\nseed = 7\ntrain.rate = 0.000001\ntrain.steps = 200\nmonitor.every = 10";
    run.change_config(reworded, &[]).expect("the same");
    assert_eq!(fs::read_to_string(folder.path().join("config.toml")).expect("a file"), longer);
}
