//! Where the settings of a run come from: built-in methods, and what stands above them.

use hindsearch_env::Preset;
use hindsearch_trainer::{Error, Layers, Objectives, TRAIN_PRESETS, TrainPreset, TrainSettings};

fn layered(preset: Option<&str>, file: &str, values: &[&str]) -> TrainSettings {
    let mut layers = Layers::default();
    if let Some(name) = preset {
        layers.add_preset(name, &TrainPreset::named(name).expect("a preset")).expect("TOML");
    }
    layers.add("the file", file).expect("TOML");
    values.iter().for_each(|value| layers.change("a value", &value.parse().expect("TOML")).expect("TOML"));
    layers.settings().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_method_says_what_it_is_and_makes_settings() {
    for name in TRAIN_PRESETS {
        let preset = TrainPreset::named(name).expect("a preset");
        assert!(!preset.about.is_empty(), "{name}");
        assert!(preset.recipe.is_none_or(|recipe| Preset::named(&recipe).is_ok()), "{name}");
        // Experience is a file that the method cannot know.
        let file = if name.starts_with("hiexp") { "[experience]\nfile = \"experience.jsonl\"" } else { "" };
        layered(Some(name), file, &[]);
    }
    assert_eq!(layered(Some("grpo"), "", &[]).objectives().ok(), TrainSettings::default().objectives().ok());
}

#[test]
fn what_stands_above_changes_what_it_names_and_nothing_else() {
    let gspo = Objectives::named("gspo").expect("objectives");
    // Part of an objective changes the method's.
    let file = "steps = 7\n[objective.kl]\nweight = 0.5\n[rollout]\ntasks = 3";
    let settings = layered(Some("gspo"), file, &["[rollout]\nsamples = 2", "steps = 9"]);
    let mut expected = gspo;
    expected.kl.weight = 0.5;
    assert_eq!(settings.objectives().expect("objectives"), expected);
    assert_eq!((settings.steps, settings.rollout.tasks, settings.rollout.samples), (9, 3, 2));
    // One that names a preset begins anew.
    let settings = layered(Some("gspo"), "[objective]\npreset = \"rloo\"\n[objective.kl]\nweight = 0.5", &[]);
    let mut expected = Objectives::named("rloo").expect("objectives");
    expected.kl.weight = 0.5;
    assert_eq!(settings.objectives().expect("objectives"), expected);
    assert_eq!(layered(Some("grpo"), "objective = \"gspo\"", &[]).objectives().expect("objectives"), gspo);
}

#[test]
fn a_layer_that_only_means_something_above_others_is_not_blamed() {
    let mut layers = Layers::default();
    layers.add_preset("hindsearch", &TrainPreset::named("hindsearch").expect("a preset")).expect("TOML");
    layers
        .change("a value", &"[objective.hindsight.distillation]\nweight = 0.02".parse().expect("TOML"))
        .expect("TOML");
    layers.settings().unwrap_or_else(|error| panic!("{error}"));
    layers.change("another", &"[hindsight]\nbudget = 0".parse().expect("TOML")).expect("TOML");
    let error = layers.settings().expect_err("a budget of nothing").to_string();
    assert!(error.contains("hindsight.budget"), "{error}");
}

#[test]
fn the_layer_that_is_wrong_is_named() {
    let mut layers = Layers::default();
    layers.add_preset("grpo", &TrainPreset::named("grpo").expect("a preset")).expect("TOML");
    layers.add("`mine.toml`", "steps = 3\nstepz = 4").expect("TOML");
    let error = layers.settings().expect_err("an unknown key").to_string();
    assert!(error.contains("`mine.toml`") && error.contains("line 2") && error.contains("stepz"), "{error}");
    assert!(!error.contains("grpo"), "{error}");
}

#[test]
fn a_recipe_of_episodes_is_no_method() {
    let told = |name: &str| TrainPreset::load(name).expect_err("no method");
    for recipe in ["search-r1-v0.3", concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/small_world/recipe.toml")] {
        let error = told(recipe);
        assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(recipe) && error.contains("--recipe") && error.contains("gspo"), "{error}");
    }
    assert!(matches!(told("grpa"), Error::NotFound { .. }));
    assert!(matches!(told("none.toml"), Error::Io { .. }));
}
