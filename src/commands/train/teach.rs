//! Who writes critiques for a run?

use std::path::Path;

use hindsearch::env::Task;
use hindsearch::env::hindsight::{Critic, CriticOptions, RuleCritic, WrittenCritic};
use hindsearch::retriever::Retrieve;
use hindsearch::trainer::ops::Placement;
use hindsearch::trainer::{CriticKind, CriticSettings, Language, LocalWriter, ModelFiles, TrainSettings, View};

use crate::failure::Failure;

/// Critiques of a server, in a run's folder: none is asked for twice.
#[cfg(feature = "remote")]
const CRITIQUES: &str = "critiques.jsonl";

/// What a critic is made of.
pub struct Source<'a> {
    /// How the run learns.
    pub settings: &'a TrainSettings,
    /// What it learns on.
    pub tasks: &'a [Task],
    /// Where passages come from.
    pub retriever: &'a dyn Retrieve,
    /// The model that learns, as it is at the beginning.
    pub model: &'a Path,
    /// Where models are.
    pub placement: &'a Placement,
    /// The run's folder.
    pub out: &'a Path,
}

impl<'a> Source<'a> {
    /// Refuses a critic that could not be made, before the run's folder is begun.
    ///
    /// # Errors
    /// As [`Self::critic`].
    pub fn check(&self) -> Result<(), Failure> {
        let hindsight = &self.settings.hindsight;
        match hindsight.critic.kind {
            _ if hindsight.view != View::Critique => Ok(()),
            CriticKind::Rules => self.rules(hindsight.critic.options(hindsight.broadcast)).map(drop),
            CriticKind::Local => {
                let path = hindsight.critic.model.as_deref().map_or(self.model, Path::new);
                Ok(Language::open(&ModelFiles::open(path)?).map(drop)?)
            }
            CriticKind::Server => check_server(&hindsight.critic),
        }
    }

    /// Who writes critiques; nobody where none are asked for.
    ///
    /// # Errors
    /// A model or a server that cannot be used; rules without gold passages.
    pub fn critic(&self) -> Result<Option<Box<dyn Critic + 'a>>, Failure> {
        let hindsight = &self.settings.hindsight;
        if hindsight.view != View::Critique {
            return Ok(None);
        }
        let options = hindsight.critic.options(hindsight.broadcast);
        Ok(Some(match hindsight.critic.kind {
            CriticKind::Rules => self.rules(options)?,
            CriticKind::Local => {
                let path = hindsight.critic.model.as_deref().map_or(self.model, Path::new);
                let files = ModelFiles::open(path)?;
                let writer = LocalWriter::open(&files, path.display().to_string(), self.placement)?;
                Box::new(WrittenCritic::new(writer, options)?)
            }
            CriticKind::Server => self.server(&hindsight.critic, options)?,
        }))
    }

    fn rules(&self, options: CriticOptions) -> Result<Box<dyn Critic + 'a>, Failure> {
        if options.sees_gold && self.tasks.iter().all(|task| task.passages().is_empty()) {
            return Err(Failure::Usage(
                "`hindsight.critic.kind = \"rules\"`: expected tasks that name their gold passages (`gold_passage_ids`), found none; \
                 let a model judge (`local`, `server`)"
                    .into(),
            ));
        }
        let retriever = self.retriever;
        Ok(Box::new(RuleCritic::new(options, move |id: &str| retriever.passage(id).ok().flatten())?))
    }

    #[cfg(feature = "remote")]
    fn server(&self, critic: &CriticSettings, options: CriticOptions) -> Result<Box<dyn Critic + 'a>, Failure> {
        use std::num::NonZero;

        use hindsearch::env::{CachedWriter, Endpoint, ServerWriter, ServerWriterOptions};

        let endpoint = Endpoint::from_environment(critic.address.as_deref().unwrap_or_default())?;
        let writer = ServerWriter::new(
            endpoint,
            ServerWriterOptions {
                model: critic.model.clone().unwrap_or_default(),
                parallel: NonZero::new(critic.parallel).unwrap_or(NonZero::<usize>::MIN),
                budget: (critic.requests > 0).then_some(critic.requests),
            },
        );
        let writer = CachedWriter::open(writer, &self.out.join(CRITIQUES))?;
        Ok(Box::new(WrittenCritic::new(writer, options)?))
    }

    #[cfg(not(feature = "remote"))]
    fn server(&self, _: &CriticSettings, _: CriticOptions) -> Result<Box<dyn Critic + 'a>, Failure> {
        Err(Failure::Usage("`hindsight.critic.kind = \"server\"`: this program is built without `remote`".into()))
    }
}

#[cfg(feature = "remote")]
fn check_server(critic: &CriticSettings) -> Result<(), Failure> {
    let address = critic.address.as_deref().unwrap_or_default();
    Ok(hindsearch::env::Endpoint::from_environment(address).map(drop)?)
}

#[cfg(not(feature = "remote"))]
fn check_server(_: &CriticSettings) -> Result<(), Failure> {
    Ok(())
}
