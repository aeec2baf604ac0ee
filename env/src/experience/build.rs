//! How does experience come about? Plays teach cases, clusters of cases are patterns, clusters of patterns are strategies.

use hindsearch_indexes::{Interrupt, Progress};

use super::cluster::Tree;
use super::habits::queries_of;
use super::keys::cosine;
use super::{Entry, Experience, Group, HIGHEST_LEVEL, KeyEmbedder, Lesson, Level, Nearness, Reflector};
use crate::{Error, Result};

/// Queries that are compared with cases, about.
const COMPARED: usize = 1000;

/// How experience is built.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildOptions {
    /// Ward's merge height below which entries of level 1, and of level 2, come together; calibrated where it is not given.
    pub thresholds: [Option<f64>; 2],
    /// Entries of a cluster that a calibrated threshold aims at, on average.
    pub cluster_size: usize,
    /// Whether tasks whose plays all succeeded or all failed are passed over.
    pub contrast_only: bool,
    /// Entries that are clustered at a time; with more, memory (8 bytes for each pair) grows with their square, and they are divided
    /// by nearness first.
    pub most_at_once: usize,
    /// Groups or clusters that the reflector is given at a time; a wish to stop is heard in between.
    pub batch: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { thresholds: [None; 2], cluster_size: 10, contrast_only: false, most_at_once: 8192, batch: 32 }
    }
}

/// Builds experience.
pub struct Builder<'a> {
    /// Who writes it.
    pub reflector: &'a dyn Reflector,
    /// What makes vectors of titles.
    pub keys: &'a KeyEmbedder,
    /// How.
    pub options: BuildOptions,
}

impl Builder<'_> {
    /// The experience of these groups. Building stops at the first level with at most one entry. `on_progress` is told what is
    /// counted and how far it is.
    ///
    /// # Errors
    /// The first error of the reflector, once those beside it are answered; those of the embedder; [`Error::InvalidInput`] where
    /// nothing usable was written; [`Error::Interrupted`] on request.
    pub fn build(
        &self,
        groups: &[Group<'_>],
        on_progress: &dyn Fn(&'static str, Progress),
        interrupt: &Interrupt,
    ) -> Result<Experience> {
        let chosen: Vec<Group<'_>> =
            groups.iter().filter(|group| !self.options.contrast_only || group.has_contrast()).cloned().collect();
        let reflect = |groups: &[Group<'_>]| self.reflector.reflect(groups);
        let lessons = self.batched(&chosen, reflect, &|done| on_progress("reflecting", done), interrupt)?;
        let dropped = lessons.iter().filter(|lesson| lesson.is_none()).count();
        let case = |(group, lesson): (&Group<'_>, Option<Lesson>)| {
            let parts = Parts { level: 1, tasks: vec![group.task.id().to_owned()], members: Vec::new() };
            Some(parts.entry(lesson?, group.has_contrast()))
        };
        let mut newest: Vec<Entry> = unique(chosen.iter().zip(lessons).filter_map(case).collect());
        if newest.is_empty() {
            return Err(Error::invalid(
                "experience",
                "a lesson of some task",
                format!("none of {} tasks", chosen.len()),
            ));
        }
        let mut levels = Vec::new();
        let mut entries = Vec::new();
        while newest.len() > 1 && newest.first().is_some_and(|entry| entry.level < HIGHEST_LEVEL) {
            let (above, level) = self.above(&newest, on_progress, interrupt)?;
            entries.append(&mut newest);
            levels.push(level);
            newest = above;
        }
        entries.append(&mut newest);
        let mut experience = Experience::new(self.keys.identity(), self.reflector.name(), entries)?;
        (experience.groups, experience.dropped, experience.levels) = (chosen.len(), dropped, levels);
        experience.nearness = self.nearness(&chosen, experience.entries())?;
        Ok(experience)
    }

    /// The level above these entries.
    fn above(
        &self,
        entries: &[Entry],
        on_progress: &dyn Fn(&'static str, Progress),
        interrupt: &Interrupt,
    ) -> Result<(Vec<Entry>, Level)> {
        let level = entries.first().map_or(1, |entry| entry.level) + 1;
        let titles: Vec<&str> = entries.iter().map(|entry| entry.title.as_str()).collect();
        let vectors = self.keys.embed(&titles)?;
        interrupt.check().map_err(|_| Error::Interrupted)?;
        let tree = Tree::ward(&vectors, self.options.most_at_once);
        let given = self.options.thresholds[usize::from(level) - 2];
        let threshold = given.unwrap_or_else(|| tree.calibrated(self.options.cluster_size));
        let (clusters, alone): (Vec<_>, Vec<_>) =
            tree.cut(threshold).into_iter().partition(|members| members.len() > 1);
        let members = clusters.iter().map(|places| places.iter().map(|&at| &entries[at]).collect());
        let members: Vec<Vec<&Entry>> = members.collect();
        let what = if level == 2 { "finding patterns" } else { "finding strategies" };
        let generalise = |clusters: &[Vec<&Entry>]| self.reflector.generalise(clusters);
        let lessons = self.batched(&members, generalise, &|done| on_progress(what, done), interrupt)?;
        let dropped = lessons.iter().filter(|lesson| lesson.is_none()).count();
        let entry = |(members, lesson): (&Vec<&Entry>, Option<Lesson>)| {
            let mut tasks: Vec<String> = members.iter().flat_map(|member| member.tasks.iter().cloned()).collect();
            tasks.sort_unstable();
            tasks.dedup();
            let parts = Parts { level, tasks, members: members.iter().map(|member| member.id.clone()).collect() };
            Some(parts.entry(lesson?, members.iter().any(|member| member.contrast)))
        };
        let above = members.iter().zip(lessons).filter_map(entry).collect();
        let grouped = members.iter().map(Vec::len).sum::<usize>();
        let level = Level {
            level,
            threshold,
            calibrated: given.is_none(),
            clusters: members.len(),
            mean_size: grouped as f64 / members.len().max(1) as f64,
            singletons: alone.len(),
            dropped,
        };
        Ok((above, level))
    }

    /// How near some of the queries, taken evenly from all plays, are to the cases of other tasks.
    fn nearness(&self, groups: &[Group<'_>], entries: &[Entry]) -> Result<Option<Nearness>> {
        let plays = groups.iter().flat_map(|group| group.won.iter().chain(&group.lost));
        let all = plays.flat_map(|play| queries_of(play).map(|query| (play.task.as_str(), query.as_str())));
        let all: Vec<(&str, &str)> = all.collect();
        let some: Vec<(&str, &str)> = all.iter().step_by(all.len() / COMPARED + 1).copied().collect();
        let cases: Vec<&Entry> = entries.iter().filter(|entry| entry.level == 1).collect();
        let titles: Vec<&str> = cases.iter().map(|case| case.title.as_str()).collect();
        let queries: Vec<&str> = some.iter().map(|(_, query)| *query).collect();
        let (keys, asked) = (self.keys.embed(&titles)?, self.keys.embed(&queries)?);
        let best = |((task, _), query): (&(&str, &str), &[f32])| {
            let others = cases.iter().zip(keys.rows()).filter(|(case, _)| !case.is_of(task));
            others.map(|(_, key)| cosine(query, key)).reduce(f32::max)
        };
        let mut best: Vec<f32> = some.iter().zip(asked.rows()).filter_map(best).collect();
        best.sort_by(|one, other| other.total_cmp(one));
        let reached = |share: usize| best.get(best.len() / share).copied();
        let of = |((half, quarter), tenth)| Nearness { queries: best.len(), half, quarter, tenth };
        Ok(reached(2).zip(reached(4)).zip(reached(10)).map(of))
    }

    /// Lessons of all, some at a time.
    fn batched<T>(
        &self,
        all: &[T],
        write: impl Fn(&[T]) -> Vec<Result<Option<Lesson>>>,
        on_progress: &dyn Fn(Progress),
        interrupt: &Interrupt,
    ) -> Result<Vec<Option<Lesson>>> {
        let mut lessons = Vec::with_capacity(all.len());
        for batch in all.chunks(self.options.batch.max(1)) {
            interrupt.check().map_err(|_| Error::Interrupted)?;
            let written = write(batch);
            if written.len() != batch.len() {
                return Err(Error::Unavailable {
                    what: format!("reflector `{}`", self.reflector.name()),
                    found: format!("{} lessons for {}", written.len(), batch.len()),
                    remedy: "mend the reflector".into(),
                });
            }
            for lesson in written {
                lessons.push(lesson?);
            }
            on_progress(Progress { done: lessons.len() as u64, total: Some(all.len() as u64) });
        }
        Ok(lessons)
    }
}

/// What is known of an entry before its lesson is.
struct Parts {
    level: u8,
    tasks: Vec<String>,
    members: Vec<String>,
}

impl Parts {
    fn entry(self, lesson: Lesson, contrast: bool) -> Entry {
        let Self { level, tasks, members } = self;
        let Lesson { kind, title, tags, description, thinking } = lesson;
        let entry =
            Entry { level, id: String::new(), kind, title, tags, description, thinking, tasks, members, contrast };
        entry.identified()
    }
}

/// Each entry once: a task that two data sets hold under one id is one task.
fn unique(entries: Vec<Entry>) -> Vec<Entry> {
    let mut seen = std::collections::HashSet::new();
    entries.into_iter().filter(|entry| seen.insert(entry.id.clone())).collect()
}
