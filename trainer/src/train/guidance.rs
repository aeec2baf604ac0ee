//! Which experience guides rollouts now, and how is it built anew from the run's own plays?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hindsearch_env::experience::{
    BuildOptions, Builder, Distiller, Experience, Group, Guide, KeyEmbedder, Reflector, RuleReflector, WrittenReflector,
};
use hindsearch_env::{Trajectory, read_trajectories};
use hindsearch_indexes::Interrupt;

use super::Training;
use super::episodes::by_id;
use crate::update::Learner;
use crate::writer::LocalWriter;
use crate::{Error, Result};

/// Experience that may change while a run goes on.
#[derive(Default)]
pub struct Guidance {
    guide: Mutex<Option<Arc<Guide>>>,
    keys: Option<KeyEmbedder>,
}

impl Guidance {
    /// Begins with this guide, where there is one; with `keys` experience can be built anew.
    pub fn new(guide: Option<Guide>, keys: Option<KeyEmbedder>) -> Self {
        Self { guide: Mutex::new(guide.map(Arc::new)), keys }
    }

    pub(super) fn now(&self) -> Option<Arc<Guide>> {
        self.guide.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, guide: Guide) {
        *self.guide.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(guide));
    }
}

impl Training<'_> {
    /// Takes up the experience that the run built last before this step or at it, where it built some.
    pub(super) fn resume_guidance(&self, step: u64) -> Result<()> {
        let folder = self.folder.path().join(FOLDER);
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
        let number = |path: &Path| path.file_stem()?.to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
        let known = entries.flatten().filter_map(|entry| Some((number(&entry.path())?, entry.path())));
        match known.filter(|(number, _)| *number <= step).max() {
            Some((_, path)) => self.guide_by(Experience::read(&path)?),
            None => Ok(()),
        }
    }

    /// Builds experience anew where it is due before this step, from the plays of the steps since it was last.
    pub(super) fn refresh_guidance(&self, learner: &Learner, step: u64, interrupt: &Interrupt) -> Result<()> {
        let every = self.settings.experience.refresh_every;
        let imitated = self.settings.imitation.steps;
        let done = step.saturating_sub(1 + imitated);
        if every == 0 || done == 0 || !done.is_multiple_of(every) {
            return Ok(());
        }
        let by_id = by_id(self.tasks);
        let mut plays: Vec<Trajectory> = Vec::new();
        for earlier in step - every..step {
            plays.extend(read_trajectories(&self.step_file(earlier))?);
        }
        let groups = Group::all(plays.iter().filter_map(|play| Some((*by_id.get(&*play.task)?, play))));
        let reflector: Box<dyn Reflector> = match self.settings.experience.distiller {
            Distiller::Rules => Box::new(RuleReflector),
            // Another model is refused with the settings.
            Distiller::Own | Distiller::Teacher => {
                let name = format!("the policy before step {step}");
                let writer = LocalWriter::new(learner.decoder().clone(), self.language.clone(), name)?;
                Box::new(WrittenReflector::new(writer))
            }
        };
        let builder = Builder { reflector: &*reflector, keys: self.keys()?, options: BuildOptions::default() };
        let experience = match builder.build(&groups, &|what, done| self.watch.progress(what, done), interrupt) {
            Ok(experience) => experience,
            // Where no plays teach anything, what was known stays.
            Err(hindsearch_env::Error::InvalidInput { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let folder = self.folder.path().join(FOLDER);
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        experience.write(&built_before(&folder, step))?;
        self.guide_by(experience)
    }

    fn guide_by(&self, experience: Experience) -> Result<()> {
        let guide = Guide::new(experience, self.settings.experience.clone(), self.keys()?.clone())?;
        self.guidance.replace(guide);
        Ok(())
    }

    fn keys(&self) -> Result<&KeyEmbedder> {
        self.guidance.keys.as_ref().ok_or_else(|| {
            Error::invalid("experience.refresh_every", "a model that embeds keys", "a training without one")
        })
    }
}

/// Where a run keeps the experience that it built.
const FOLDER: &str = "experience";

fn built_before(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("step-{step:06}.jsonl"))
}
