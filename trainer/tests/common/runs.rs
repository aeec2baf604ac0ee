//! A training run of a tiny model, whose numbers depend on nothing outside.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hindsearch_env::hindsight::Critic;
use hindsearch_env::{Preset, Rules, Task, Trajectory};
use hindsearch_indexes::Interrupt;
use hindsearch_retriever::{Passage, Ranked, Retrieve};
use hindsearch_trainer::ops::Placement;
use hindsearch_trainer::{
    Decoder, Error, Guidance, Language, Learner, Monitor, Record, RunFolder, TrainSettings, Training, Watch,
    read_metrics,
};

use super::models::model;

/// Short enough for a model of 512 positions.
const PRESET: &str = r#"
name = "tiny"
about = "For tests"
source = "written for this test"
[prompt]
user = "{question}"
[grammar]
search = { open = "<s>", close = "</s>" }
answer = { open = "<a>", close = "</a>" }
stop = ["</s>", "</a>"]
cut = "first-close"
choose = "first"
end = "answer"
[observation]
role = "assistant"
before = "<i>"
after = "</i>"
passage = "{text} "
top_k = 1
[invalid]
then = "reply"
reply = " no "
[limits]
turns = 2
last_turn = "extra-answer"
response_tokens = 24
context_tokens = 400
[reward]
terms = [{ scorer = "em" }]
"#;

/// Finds the answer of every question.
struct Shelf {
    calls: AtomicUsize,
    /// Every how many calls one fails, and goes on to fail.
    fails: Option<usize>,
}

impl Retrieve for Shelf {
    fn retrieve(&self, queries: &[String], _: usize) -> hindsearch_retriever::Result<Vec<Vec<Ranked>>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fails.is_some_and(|every| call % every == every - 1) {
            return Err(hindsearch_retriever::Error::NotFound { what: "the shelf".into(), remedy: "wait".into() });
        }
        let found = |query: &String| {
            vec![Ranked {
                row: 0,
                score: 1.0,
                passage: Passage::from_contents("0".into(), &format!("\"T\"\nx{query}")),
            }]
        };
        Ok(queries.iter().map(found).collect())
    }
}

pub struct World {
    pub rules: Rules,
    pub language: Language,
    pub tasks: Vec<Task>,
    pub examples: Vec<Trajectory>,
    pub settings: TrainSettings,
    pub placement: Placement,
}

pub fn world(settings: &str) -> World {
    let language = Language::open(&model("llama")).unwrap();
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), PRESET).unwrap();
    let preset = Arc::new(Preset::load(file.path().to_str().unwrap()).unwrap());
    let tasks = (0..3).map(|at| Task::new(format!("q{at}?"), vec![format!("{at}")], "tiny".into())).collect();
    let rules = Rules::measured(preset, language.tokenizer.clone());
    let settings = TrainSettings::parse(settings, "settings").unwrap();
    World { rules, language, tasks, examples: Vec::new(), settings, placement: Placement::host() }
}

pub fn learner(settings: &TrainSettings, placement: &Placement) -> Learner {
    let files = model("llama");
    let (config, weights) = (files.config(), files.weights().unwrap());
    let mut decoder = Decoder::placed(config, weights, settings.lora.is_none(), placement).unwrap();
    if let Some(lora) = &settings.lora {
        decoder.add_adapters(lora, settings.seed).unwrap();
    }
    settings.learner(Arc::new(decoder)).unwrap()
}

/// What a run meets outside.
pub struct Outside<'a> {
    pub watch: &'a dyn Watch,
    pub monitor: &'a dyn Fn(Option<u64>) -> hindsearch_trainer::Result<Monitor>,
    pub interrupt: &'a Interrupt,
    /// Every how many calls the retriever fails.
    pub fails: Option<usize>,
    /// Who writes critiques.
    pub critic: Option<&'a dyn Critic>,
    /// What rollouts are shown.
    pub guidance: &'a Guidance,
}

impl World {
    /// Begins a run in a folder, or goes on with the one that is there.
    pub fn run(&self, path: &Path, outside: &Outside<'_>) -> Result<Learner, Error> {
        let config = self.settings.to_toml()?;
        let is_begun = path.join("config.toml").exists();
        let folder = if is_begun { RunFolder::open(path)? } else { RunFolder::create(path, &config)? };
        let training = Training {
            settings: &self.settings,
            rules: &self.rules,
            retriever: &Shelf { calls: AtomicUsize::new(0), fails: outside.fails },
            tasks: &self.tasks,
            held_out: &self.tasks,
            examples: &self.examples,
            critic: outside.critic,
            guidance: outside.guidance,
            language: &self.language,
            folder: &folder,
            watch: outside.watch,
        };
        let mut learner = learner(&self.settings, &self.placement);
        training.run(&mut learner, outside.monitor, outside.interrupt)?;
        Ok(learner)
    }
}

/// All numbers but those of time.
pub fn numbers(path: &Path) -> Vec<(u64, String, u64)> {
    let records = read_metrics(&path.join("metrics.jsonl"), &|trouble| panic!("{trouble}")).unwrap();
    let of = |record: Record| {
        let kept =
            record.values.into_iter().filter(|(name, _)| !name.starts_with("time/") && !name.starts_with("speed/"));
        kept.map(move |(name, value)| (record.step, name, value.to_bits())).collect::<Vec<_>>()
    };
    records.into_iter().flat_map(of).collect()
}
