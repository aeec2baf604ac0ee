//! One run, from its folder to the model that comes of it. A run that was stopped goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch::env::experience::Guide;
use hindsearch::env::{Preset, Rules, Trajectory, read_trajectories};
use hindsearch::trainer::{
    Axes, Decoder, Fingerprint, Guidance, Language, ModelFiles, ModelOutput, Monitor, Record, RunFolder, Series,
    TrainSettings, Training, chart, read_metrics, write_model,
};

use super::plan::tell_narrow;
use super::questions::Questions;
use super::teach::Source;
use super::watch::Watched;
use crate::commands::env::Place;
use crate::commands::experience::keys;
use crate::commands::{Context, write_whole};
use crate::failure::Failure;

/// Settings that may change while a run goes on.
const MAY_CHANGE: &[&str] = &[
    "steps",
    "evaluation",
    "checkpoint",
    "rollout.parallel",
    "update.micro_tokens",
    "schedule.total",
    "hindsight.critic.address",
    "hindsight.critic.parallel",
    "hindsight.critic.requests",
];

/// What a run needs.
pub struct Run<'a> {
    /// What is learnt on, and what is tested on.
    pub questions: &'a Questions,
    /// The model that it begins with.
    pub model: &'a Path,
    /// How episodes are played.
    pub recipe: &'a Preset,
    /// How it learns.
    pub settings: &'a TrainSettings,
    /// Its folder.
    pub out: &'a Path,
}

impl Run<'_> {
    /// The model that comes of it.
    pub fn learnt(&self) -> PathBuf {
        self.out.join("model")
    }

    /// What episodes earned, step by step: the last file that a run writes.
    pub fn curve(&self) -> PathBuf {
        self.out.join("curve.svg")
    }

    /// Sees that what is in its folder, if anything, was begun with just this. `model` tells the model from others, where it is known.
    ///
    /// # Errors
    /// A folder of another run, with what differs; one in use.
    pub fn check(&self, model: Option<Fingerprint>) -> Result<(), Failure> {
        if !self.out.join("config.toml").exists() {
            return Ok(());
        }
        let mut folder = RunFolder::open(self.out)?;
        folder.change_config(&self.settings.to_toml()?, &[])?;
        // A run that was killed while it began has none.
        if self.out.join("run.json").exists() {
            folder.keep(self.recipe, &self.inputs(model))?;
        }
        Ok(())
    }

    /// Trains to the end, with passages from there.
    ///
    /// # Errors
    /// Unusable settings and models; a folder of another run; what the library says.
    pub fn train(&self, place: &Place, watch: &Watched<'_>, context: &Context) -> Result<(), Failure> {
        let files = ModelFiles::open(self.model)?;
        let placement = self.settings.placement()?;
        let language = Language::open(&files)?;
        let rules = Rules::measured(Arc::new(self.recipe.clone()), language.tokenizer.clone());
        tell_narrow(self.recipe, files.config(), context);
        let weights = files.weights()?;
        let examples = self.examples()?;
        let mut inputs = self.inputs(Some(Fingerprint::of_model(files.config(), &weights)));
        if !examples.is_empty() {
            inputs.push(("examples", Fingerprint::of_episodes(&examples)));
        }
        let mut decoder = Decoder::placed(files.config(), weights, self.settings.lora.is_none(), &placement)?;
        if let Some(lora) = &self.settings.lora {
            decoder.add_adapters(lora, self.settings.seed)?;
        }
        let decoder = Arc::new(decoder);
        let mut learner = self.settings.learner(decoder.clone())?;
        if let Some(teacher) = self.settings.hindsight.teacher.larger(&language, &placement)? {
            learner.set_teacher(teacher)?;
        }
        check_model(&self.learnt())?;
        let guidance = self.guidance(place, context)?;
        let (settings, tasks) = (self.settings, self.questions.learnt.tasks());
        let (retriever, placement) = (&*place.retriever, &placement);
        let source = Source { settings, tasks, retriever, model: self.model, placement, out: self.out };
        source.check()?;
        // Not before all that can be refused is known to be usable.
        let folder = self.folder()?;
        folder.keep(self.recipe, &inputs)?;
        let critic = source.critic()?;
        let training = Training {
            settings,
            rules: &rules,
            retriever,
            tasks,
            held_out: self.questions.held_out.tasks(),
            examples: &examples,
            guidance: &guidance,
            critic: critic.as_deref(),
            language: &language,
            folder: &folder,
            watch,
        };
        let monitor = |after| Monitor::open(folder.path(), after, watch.on_notice());
        let outcome = training.run(&mut learner, monitor, &context.interrupt);
        watch.finish();
        outcome?;
        self.publish(&files, &decoder)
    }

    /// Writes the model, its adapters and the curve, in the place of those of an earlier end.
    fn publish(&self, files: &ModelFiles, decoder: &Decoder) -> Result<(), Failure> {
        let model = self.learnt();
        if model.exists() {
            check_model(&model)?;
            std::fs::remove_dir_all(&model).map_err(hindsearch::indexes::Error::io("replace", &model))?;
        }
        let output = ModelOutput { files: files.companions()?, ..ModelOutput::default() };
        write_model(&model, files.config(), &decoder.merged()?, &output)?;
        if let Some(lora) = &self.settings.lora {
            decoder.write_adapters(&self.out.join("adapter"), lora, &self.model.display().to_string())?;
        }
        write_whole(&self.curve(), |file| Ok(file.write_all(draw(self.out)?.as_bytes())?))
    }

    /// What is imitated, where the settings name a file of it.
    fn examples(&self) -> Result<Vec<Trajectory>, Failure> {
        let Some(path) = &self.settings.imitation.episodes else { return Ok(Vec::new()) };
        let examples = read_trajectories(path)?;
        if examples.is_empty() {
            let what = format!("`{}`: expected trajectories to imitate, found none", path.display());
            return Err(Failure::Usage(what));
        }
        Ok(examples)
    }

    /// What rollouts are shown of what others have learnt, where the settings ask for it.
    fn guidance(&self, place: &Place, context: &Context) -> Result<Guidance, Failure> {
        let settings = &self.settings.experience;
        if !settings.guides() {
            return Ok(Guidance::default());
        }
        let keys = keys(None, place.embedder.as_ref(), context)?;
        let open = |path: &PathBuf| Guide::open(path, settings.clone(), keys.clone());
        let guide = settings.file.as_ref().map(open).transpose()?;
        Ok(Guidance::new(guide, Some(keys)))
    }

    /// What tells this run's model and tasks from others.
    fn inputs(&self, model: Option<Fingerprint>) -> Vec<(&'static str, Fingerprint)> {
        let tasks = [
            ("tasks", Fingerprint::of_tasks(self.questions.learnt.tasks())),
            ("held-out tasks", Fingerprint::of_tasks(self.questions.held_out.tasks())),
        ];
        model.map(|model| ("model", model)).into_iter().chain(tasks).collect()
    }

    /// Begins the run, or goes on with it.
    fn folder(&self) -> Result<RunFolder, Failure> {
        let config = self.settings.to_toml()?;
        if !self.out.join("config.toml").exists() {
            return Ok(RunFolder::create(self.out, &config)?);
        }
        let mut folder = RunFolder::open(self.out)?;
        folder.change_config(&config, MAY_CHANGE)?;
        Ok(folder)
    }
}

/// Whether a model's folder has nothing but a model in it, so that another can take its place.
fn check_model(folder: &Path) -> Result<(), Failure> {
    const KINDS: [&str; 4] = ["json", "safetensors", "jinja", "model"];
    const NAMES: [&str; 2] = ["merges.txt", "vocab.txt"];
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let is_known = KINDS.contains(&kind) || NAMES.iter().any(|name| path.ends_with(name));
        if path.is_dir() || !is_known || !folder.join("config.json").is_file() {
            return Err(Failure::Usage(format!(
                "`{}` is not of a model, and the run's model will take this folder's place; move it away",
                path.display()
            )));
        }
    }
    Ok(())
}

/// What episodes earned, step by step.
fn draw(run: &Path) -> Result<String, Failure> {
    let records = read_metrics(&run.join("metrics.jsonl"), &|_| {})?;
    let series = |name: &str, metric: &str| {
        let point = |record: &Record| Some((record.step as f64, *record.values.get(metric)?));
        Series::mean(name, &[records.iter().filter_map(point).collect()])
    };
    let all = [series("held-out tasks, greedy", "test/reward/mean"), series("rollouts", "reward/mean")];
    let shown: Vec<Series> = all.into_iter().filter(|series| !series.points.is_empty()).collect();
    Ok(chart("Mean reward", &shown, Axes { x: "step", y: "reward" }))
}
