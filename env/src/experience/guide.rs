//! Which experience fits this question, or this search?

use std::path::{Path, PathBuf};

use hindsearch_indexes::{Vectors, read_npy, write_npy};

use super::keys::cosine;
use super::{Entry, Experience, ExperienceSettings, KeyEmbedder, Planning, Step};
use crate::trajectory::Advice;
use crate::{Error, Result, Task};

/// Entries from which on vectors are kept beside the file: to embed fewer takes a moment.
const WORTH_KEEPING: usize = 1000;

/// Experience with the vectors of its keys: what rollouts consult. Each look-up is one pass over the entries, exact.
pub struct Guide {
    experience: Experience,
    settings: ExperienceSettings,
    keys: KeyEmbedder,
    vectors: Vectors,
}

impl Guide {
    /// The experience of a file, whatever `settings.file` says. Vectors of many keys are kept beside it, in
    /// `FILE.<hash of embedder and keys>.npy`, where the folder takes files.
    ///
    /// # Errors
    /// Those of [`Experience::read`]; [`Error::InvalidInput`] when another embedder made it, when it has no entry of a level that
    /// the settings ask for, and for settings that cannot be meant.
    pub fn open(path: &Path, settings: ExperienceSettings, keys: KeyEmbedder) -> Result<Self> {
        let experience = Experience::read(path)?;
        let named = format!("experience `{}`", path.display());
        if experience.embedder != keys.identity() {
            return Err(Error::invalid(
                named,
                format!("the embedder that made it, `{}`", experience.embedder),
                format!("`{}`; name that one, or build the experience anew", keys.identity()),
            ));
        }
        let lacks = |level| experience.count(level) == 0;
        let missing = match (settings.step, settings.planning) {
            (Step::E1, _) if lacks(1) => Some(("1", "step")),
            (_, Planning::E2) if lacks(2) => Some(("2", "planning")),
            (_, Planning::E3) if lacks(3) => Some(("3", "planning")),
            (_, Planning::E2AndE3) if lacks(2) && lacks(3) => Some(("2 or 3", "planning")),
            _ => None,
        };
        if let Some((level, key)) = missing {
            let expected = format!("entries of level {level}, as `{key}` asks for");
            return Err(Error::invalid(named, expected, format!("none; ask for another level, or switch `{key}` off")));
        }
        let kept = (experience.entries().len() >= WORTH_KEEPING).then(|| kept_at(path, &experience));
        let known = kept.as_ref().and_then(|path| read_npy(path).ok());
        let known = known.filter(|vectors| are_those(vectors, &experience, &keys));
        let is_new = known.is_none();
        let guide = Self::with(experience, settings, keys, known)?;
        if let Some(path) = kept.filter(|_| is_new) {
            // A folder that takes no files costs time at the next start, and nothing else.
            let _ = write_npy(&path, &guide.vectors);
        }
        Ok(guide)
    }

    /// Experience in memory. Levels that it does not have are never shown.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for settings that cannot be meant; those of the embedder.
    pub fn new(experience: Experience, settings: ExperienceSettings, keys: KeyEmbedder) -> Result<Self> {
        Self::with(experience, settings, keys, None)
    }

    fn with(
        experience: Experience,
        settings: ExperienceSettings,
        keys: KeyEmbedder,
        known: Option<Vectors>,
    ) -> Result<Self> {
        settings.check()?;
        let titles: Vec<&str> = experience.entries().iter().map(|entry| entry.title.as_str()).collect();
        let vectors = known.map_or_else(|| keys.embed(&titles), Ok)?;
        Ok(Self { experience, settings, keys, vectors })
    }

    /// The experience.
    pub fn experience(&self) -> &Experience {
        &self.experience
    }

    /// How it is shown.
    pub fn settings(&self) -> &ExperienceSettings {
        &self.settings
    }

    /// What the prompts of these tasks show: for each the entries of the planning levels that are nearest to its question, best
    /// first. It depends on the task alone, so that all plays of a task begin alike.
    ///
    /// # Errors
    /// Those of the embedder.
    pub fn planning(&self, tasks: &[&Task]) -> Result<Vec<Vec<Advice>>> {
        let planning = self.settings.planning;
        if tasks.is_empty() || !self.experience.entries().iter().any(|entry| planning.shows(entry.level)) {
            return Ok(vec![Vec::new(); tasks.len()]);
        }
        let questions: Vec<&str> = tasks.iter().map(|task| task.question()).collect();
        let vectors = self.keys.embed(&questions)?;
        let one = |(task, vector): (&&Task, &[f32])| {
            let best =
                self.nearest(&[vector], |entry| planning.shows(entry.level) && !self.is_barred(entry, task.id()));
            self.advice(best, self.settings.planning_k)
        };
        Ok(tasks.iter().zip(vectors.rows()).map(one).collect())
    }

    /// What stands behind the passages of these searches, each the id of its task and its queries: the entries of level 1 whose keys
    /// reach the threshold with one of the queries, best first.
    ///
    /// # Errors
    /// Those of the embedder.
    pub fn step(&self, searches: &[(&str, &[String])]) -> Result<Vec<Vec<Advice>>> {
        let queries: Vec<&str> = searches.iter().flat_map(|(_, queries)| queries.iter().map(String::as_str)).collect();
        if queries.is_empty() || !self.experience.entries().iter().any(|entry| self.settings.step.shows(entry)) {
            return Ok(vec![Vec::new(); searches.len()]);
        }
        let vectors = self.keys.embed(&queries)?;
        let mut rows = vectors.rows();
        let one = |(task, queries): &(&str, &[String])| {
            let own: Vec<&[f32]> = rows.by_ref().take(queries.len()).collect();
            let mut best = self.nearest(&own, |entry| self.settings.step.shows(entry) && !self.is_barred(entry, task));
            best.retain(|(_, score)| *score >= self.settings.threshold);
            self.advice(best, self.settings.k)
        };
        Ok(searches.iter().map(one).collect())
    }

    fn is_barred(&self, entry: &Entry, task: &str) -> bool {
        self.settings.exclude_own && entry.is_of(task)
    }

    /// Places of the entries that may be shown with their best cosine, best first; of equal ones the first.
    fn nearest(&self, asked: &[&[f32]], may: impl Fn(&Entry) -> bool) -> Vec<(usize, f32)> {
        let candidates = self.experience.entries().iter().zip(self.vectors.rows()).enumerate();
        let score = |(at, (entry, key)): (usize, (&Entry, &[f32]))| {
            let best = asked.iter().map(|vector| cosine(vector, key)).reduce(f32::max)?;
            may(entry).then_some((at, best))
        };
        let mut scored: Vec<(usize, f32)> = candidates.filter_map(score).collect();
        scored.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        scored
    }

    /// What the best entries say; where several say the same, the nearest does.
    fn advice(&self, best: Vec<(usize, f32)>, most: usize) -> Vec<Advice> {
        let mut all: Vec<Advice> = Vec::new();
        for (at, score) in best.into_iter().take(most) {
            let Entry { id, description, .. } = &self.experience.entries()[at];
            if all.iter().all(|advice| advice.text != *description) {
                all.push(Advice { entry: id.clone(), score, text: description.clone() });
            }
        }
        all
    }
}

/// Whether vectors that were kept are as many as the keys, and the first one is what the embedder makes of the first key.
fn are_those(vectors: &Vectors, experience: &Experience, keys: &KeyEmbedder) -> bool {
    let entries = experience.entries();
    let fresh = entries.first().and_then(|entry| keys.embed(&[&entry.title]).ok());
    let same = |fresh: Vectors| {
        let pair = fresh.rows().next().zip(vectors.rows().next());
        fresh.dimensions() == vectors.dimensions() && pair.is_some_and(|(one, other)| cosine(one, other) > 0.999)
    };
    vectors.len() == entries.len() && vectors.check_finite("key", 0).is_ok() && fresh.is_some_and(same)
}

/// Where the vectors of a file's keys are kept.
fn kept_at(path: &Path, experience: &Experience) -> PathBuf {
    let mut hash = blake3::Hasher::new();
    hash.update(experience.embedder.as_bytes());
    for entry in experience.entries() {
        hash.update(&(entry.title.len() as u64).to_le_bytes());
        hash.update(entry.title.as_bytes());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.npy", &hash.finalize().to_hex()[..16]));
    name.into()
}
