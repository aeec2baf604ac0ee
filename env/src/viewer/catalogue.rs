//! Which trajectories does a run hold? The place of each line and a summary of it; the trajectories stay in the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use hindsearch_indexes::{OnProgress, Progress};

use super::summary::Summary;
use crate::log::{Lines, trajectories_file};
use crate::trajectory::Trajectory;
use crate::{Error, Result};

/// Bytes at the end of what was read by which it is known again.
const TAIL: u64 = 64;

/// The trajectories of a file that may still grow.
#[derive(Debug)]
pub struct Catalogue {
    path: PathBuf,
    /// Bytes that hold whole lines.
    whole: u64,
    /// The last of them. Where others stand there now, the file is another one and is read from its beginning.
    tail: Vec<u8>,
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
        let path = trajectories_file(run)?;
        let mut catalogue = Self { path, whole: 0, tail: Vec::new(), entries: Vec::new(), plays: HashMap::new() };
        catalogue.read_on(on_progress)?;
        Ok(catalogue)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name alone: where it lies is nobody's business in a picture of the page.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
        Lines::behind(&file, &self.path, before, entry.offset)?
            .next_trajectory()
            .map(|found| Some((found?, entry.superseded)))
    }

    fn read_on(&mut self, on_progress: OnProgress<'_>) -> Result<()> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let length = file.metadata().map_err(Error::io("read", &self.path))?.len();
        if length < self.whole || self.tail(&file)? != self.tail {
            self.whole = 0;
            self.entries.clear();
            self.plays.clear();
        }
        let outcome = self.read_lines(&file, length, on_progress);
        self.tail = self.tail(&file)?;
        outcome
    }

    /// The last bytes of those that hold whole lines.
    fn tail(&self, mut file: &File) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let sought = file.seek(SeekFrom::Start(self.whole.saturating_sub(TAIL)));
        let read = sought.and_then(|_| file.take(self.whole.min(TAIL)).read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(Error::io("read", &self.path))
    }

    fn read_lines(&mut self, file: &File, length: u64, on_progress: OnProgress<'_>) -> Result<()> {
        let mut lines = Lines::behind(file, &self.path, self.entries.len() as u64, self.whole)?;
        while let Some(trajectory) = lines.next_trajectory()? {
            let at = self.entries.len();
            let summary = Summary::new(at as u64 + 1, &trajectory);
            self.entries.push(Entry { summary, offset: self.whole, superseded: false });
            if let Some(before) = self.plays.insert((trajectory.task, trajectory.sample), at) {
                self.entries[before].superseded = true;
            }
            self.whole = lines.whole;
            on_progress(Progress { done: self.whole, total: Some(length) });
        }
        Ok(())
    }
}
