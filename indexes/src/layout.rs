//! The names in an index folder. The specification is `FORMAT.md`.

use std::path::Path;

use crate::storage::{EntryKind, Files};
use crate::{Error, Result};

/// Holds the name of the generation that readers open.
pub(crate) const CURRENT: &str = "CURRENT";
/// The file that a writer locks.
pub(crate) const LOCK: &str = "LOCK";
/// How far an unfinished build is; lies in its staging folder.
pub(crate) const STATE: &str = "build.json";
/// Ends the name of whatever is not finished.
pub(crate) const TEMPORARY: &str = ".tmp";

/// The folder name of a generation.
pub(crate) fn generation_name(number: u64) -> String {
    format!("gen-{number:06}")
}

/// The folder name of a generation being built.
pub(crate) fn staging_name(number: u64) -> String {
    generation_name(number) + TEMPORARY
}

fn number_of(name: &str) -> Option<u64> {
    let number: u64 = name.strip_prefix("gen-")?.parse().ok()?;
    // The last number would have no successor.
    (generation_name(number) == name && number < u64::MAX).then_some(number)
}

/// The numbered folders of an index, ascending.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub generations: Vec<u64>,
    pub stagings: Vec<u64>,
}

impl Numbers {
    pub fn read(files: &Files, root: &Path) -> Result<Self> {
        let mut numbers = Self::default();
        for (name, kind) in files.list(root)? {
            if kind != EntryKind::Folder {
                continue;
            }
            match name.strip_suffix(TEMPORARY) {
                Some(name) => numbers.stagings.extend(number_of(name)),
                None => numbers.generations.extend(number_of(&name)),
            }
        }
        numbers.generations.sort_unstable();
        numbers.stagings.sort_unstable();
        Ok(numbers)
    }
}

/// The number in `CURRENT`; `None` without the file.
pub(crate) fn read_current(files: &Files, root: &Path) -> Result<Option<u64>> {
    const LONGEST: u64 = 64;
    let path = root.join(CURRENT);
    let Some((bytes, _)) = files.read(&path, LONGEST)? else { return Ok(None) };
    let line = String::from_utf8_lossy(&bytes);
    match line.strip_suffix('\n').and_then(number_of) {
        Some(number) => Ok(Some(number)),
        None => Err(Error::Corrupt {
            path,
            expected: "one line such as `gen-000042`".into(),
            found: format!("`{}`", line.escape_debug()),
        }),
    }
}

/// The bytes of `CURRENT`.
pub(crate) fn current_line(number: u64) -> Vec<u8> {
    (generation_name(number) + "\n").into_bytes()
}
