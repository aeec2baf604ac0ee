//! `hindsearch experience ...`, and experience as arguments that several commands have.

mod build;
mod show;

use std::path::PathBuf;
use std::sync::Arc;

use hindsearch::env::experience::{ExperienceSettings, Guide, KeyEmbedder, Planning, Step};
use hindsearch::retriever::embed::Embedder;
use serde_json::{Value, json};

use super::env::number;
use super::{Context, embed_options, model_source};
use crate::failure::Failure;

/// Build, and look at, the experience of earlier episodes
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make experience of the plays of a run
    Build(Box<build::Args>),
    /// Show what an experience file holds
    Show(show::Args),
}

impl Command {
    /// Whether it is long and writes as it goes, so that it stops at a safe point.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Build(_))
    }
}

/// Runs one of them.
///
/// # Errors
/// Those of the command.
pub fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Build(args) => build::run(*args, context),
        Command::Show(args) => show::run(args, context),
    }
}

/// Which experience guides a policy.
#[derive(clap::Args)]
pub struct Guidance {
    /// Guide the policy by this file of `hindsearch experience build`
    #[arg(long, value_name = "FILE")]
    experience: Option<PathBuf>,
    /// What the prompt shows of it: `none`, `e2` (patterns), `e3` (strategies) or `e2+e3`; `e2` where it is not given
    #[arg(long, value_name = "LEVELS", requires = "experience", value_parser = planning)]
    planning: Option<Planning>,
    /// What stands behind the passages of a search: `none` or `e1` (cases); `e1` where it is not given
    #[arg(long, value_name = "LEVEL", requires = "experience", value_parser = step)]
    step: Option<Step>,
    /// The least cosine of a query with a case; 0.8 where it is not given
    #[arg(long, value_name = "COSINE", requires = "experience", allow_negative_numbers = true, value_parser = cosine)]
    threshold: Option<f64>,
    /// Cases behind the passages of a search; 1 where it is not given
    #[arg(long, value_name = "K", requires = "experience")]
    k: Option<usize>,
    /// Also show what was made from the very task that is played
    #[arg(long, requires = "experience")]
    own_too: bool,
    /// The model that embeds keys, where it is not that of the index
    #[arg(long, value_name = "MODEL", requires = "experience")]
    key_model: Option<String>,
}

impl Guidance {
    /// The guide that is asked for. `embedder` is that of the index.
    ///
    /// # Errors
    /// A file that cannot be read, or that another model made.
    pub fn open(&self, embedder: Option<&Arc<Embedder>>, context: &Context) -> Result<Option<Guide>, Failure> {
        let Some(path) = &self.experience else { return Ok(None) };
        let keys = keys(self.key_model.as_deref(), embedder, context)?;
        Ok(Some(Guide::open(path, self.settings(), keys)?))
    }

    fn settings(&self) -> ExperienceSettings {
        let usual = ExperienceSettings::published();
        ExperienceSettings {
            file: self.experience.clone(),
            planning: self.planning.unwrap_or(usual.planning),
            step: self.step.unwrap_or(usual.step),
            threshold: self.threshold.map_or(usual.threshold, |cosine| cosine as f32),
            k: self.k.unwrap_or(usual.k),
            exclude_own: !self.own_too,
            ..usual
        }
    }

    /// What decides how a run is guided, for its description; null where it is not.
    pub fn facts(&self, guide: Option<&Guide>) -> Value {
        guide.map_or(Value::Null, |guide| json!({ "settings": guide.settings(), "hash": guide.experience().hash() }))
    }
}

/// What makes vectors of keys: the model that is named, else that of the index, else the one of the settings.
///
/// # Errors
/// A model that is not there.
pub fn keys(named: Option<&str>, embedder: Option<&Arc<Embedder>>, context: &Context) -> Result<KeyEmbedder, Failure> {
    if let (None, Some(embedder)) = (named, embedder) {
        return Ok(KeyEmbedder::of(Arc::clone(embedder)));
    }
    let source = model_source(context, &context.config, named)?;
    Ok(KeyEmbedder::of(Arc::new(Embedder::open(&source, embed_options(&context.config))?)))
}

fn planning(text: &str) -> Result<Planning, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected `none`, `e2`, `e3` or `e2+e3`".into())
}

fn step(text: &str) -> Result<Step, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected `none` or `e1`".into())
}

fn cosine(text: &str) -> Result<f64, String> {
    number(text, |value| (-1.0..=1.0).contains(&value), "a cosine, from -1 to 1")
}
