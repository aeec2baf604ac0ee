//! Which trajectories does a run hold? The place of each line and a summary of it; the trajectories stay in the file.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hindsearch_indexes::{OnProgress, Progress};

use super::summary::Summary;
use crate::log::Lines;
use crate::trajectory::Trajectory;
use crate::{Error, Result};

/// Names of a run's file in its folder.
const NAMES: [&str; 2] = ["trajectories.jsonl", "trajectories.jsonl.zst"];

/// The trajectories of a file that may still grow.
#[derive(Debug)]
pub struct Catalogue {
    path: PathBuf,
    /// The file's device and number: another file under the same name is read from its beginning.
    file: (u64, u64),
    /// Bytes that hold whole lines.
    whole: u64,
    entries: Vec<Entry>,
    /// Which entry is the last one of a play.
    plays: HashMap<(String, u32), usize>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub summary: Summary,
    /// Where its line begins, in bytes.
    offset: u64,
    /// Whether the same play was played again.
    pub superseded: bool,
}

impl Catalogue {
    /// Reads a file of trajectories, or the one in a run's folder. `on_progress` counts bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none; [`Error::InvalidInput`] for a folder with two; [`Error::Line`] for a file that holds
    /// something else; [`Error::Io`].
    pub fn open(run: &Path, on_progress: OnProgress<'_>) -> Result<Self> {
        let path = locate(run)?;
        let mut catalogue = Self { path, file: (0, 0), whole: 0, entries: Vec::new(), plays: HashMap::new() };
        catalogue.read_on(on_progress)?;
        Ok(catalogue)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many plays it holds.
    pub fn len(&self) -> usize {
        self.plays.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.plays.is_empty()
    }

    /// All lines, in order; those of plays that were played again, too.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes in what a run has added.
    ///
    /// # Errors
    /// As [`Catalogue::open`]. Lines before the one at fault are there then.
    pub(super) fn refresh(&mut self) -> Result<()> {
        self.read_on(&|_| ())
    }

    /// The trajectory of a line, from 1, and whether a later line holds the same play; nothing where the file has fewer.
    ///
    /// # Errors
    /// [`Error::Line`] where the file was changed in the middle; [`Error::Io`].
    pub(super) fn read(&self, line: u64) -> Result<Option<(Trajectory, bool)>> {
        let Some(before) = line.checked_sub(1) else { return Ok(None) };
        let Some(entry) = usize::try_from(before).ok().and_then(|at| self.entries.get(at)) else { return Ok(None) };
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        Lines::behind(&file, &self.path, before, entry.offset)?.next_trajectory().map(|found| Some((found?, entry.superseded)))
    }

    fn read_on(&mut self, on_progress: OnProgress<'_>) -> Result<()> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let metadata = file.metadata().map_err(Error::io("read", &self.path))?;
        if identity(&metadata) != self.file || metadata.len() < self.whole {
            self.file = identity(&metadata);
            self.whole = 0;
            self.entries.clear();
            self.plays.clear();
        }
        if metadata.len() == self.whole {
            return Ok(());
        }
        let mut lines = Lines::behind(&file, &self.path, self.entries.len() as u64, self.whole)?;
        while let Some(trajectory) = lines.next_trajectory()? {
            let at = self.entries.len();
            let summary = Summary::new(at as u64 + 1, &trajectory);
            self.entries.push(Entry { summary, offset: self.whole, superseded: false });
            if let Some(before) = self.plays.insert((trajectory.task, trajectory.sample), at) {
                self.entries[before].superseded = true;
            }
            self.whole = lines.whole;
            on_progress(Progress { done: self.whole, total: Some(metadata.len()) });
        }
        Ok(())
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn locate(run: &Path) -> Result<PathBuf> {
    let metadata = run.metadata().map_err(Error::io("open", run))?;
    if !metadata.is_dir() {
        return Ok(run.to_path_buf());
    }
    match &NAMES.map(|name| run.join(name)).into_iter().filter(|path| path.is_file()).collect::<Vec<_>>()[..] {
        [only] => Ok(only.clone()),
        [] => Err(Error::NotFound {
            what: format!("`{}` or `{}` in `{}`", NAMES[0], NAMES[1], run.display()),
            remedy: "name the file of trajectories itself".into(),
        }),
        _ => Err(Error::invalid(
            format!("`{}`", run.display()),
            "one file of trajectories",
            format!("`{}` and `{}`; name one of them", NAMES[0], NAMES[1]),
        )),
    }
}
