//! Experience on disk: a line that says what made it, then one entry a line, all readable and written whole.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use hindsearch_indexes::WholeFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Entry, HIGHEST_LEVEL};
use crate::{Error, Result};

/// The version of the format.
pub const FORMAT_VERSION: u32 = 1;
const FORMAT: &str = "hindsearch-experience";
/// Bytes that a line may have.
const LONGEST_LINE: u64 = 16 << 20;

/// How a level was made from the one below.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// 2 or 3.
    pub level: u8,
    /// Ward's merge height up to which entries of the level below came together. It is no distance of pairs: it grows with the sizes
    /// of what is merged.
    pub threshold: f64,
    /// Whether the threshold was calibrated rather than given.
    pub calibrated: bool,
    /// Clusters of two entries at least.
    pub clusters: usize,
    /// Their mean size.
    pub mean_size: f64,
    /// Entries that stayed alone, and are in no entry of this level.
    pub singletons: usize,
    /// Clusters that the reflector made nothing usable of.
    pub dropped: usize,
}

/// How near the queries of the plays are to the cases of other tasks: what a threshold for steps can be chosen by. Embedders differ
/// in how high their cosines are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nearness {
    /// Queries that were compared.
    pub queries: usize,
    /// The best cosine that half of them reach.
    pub half: f32,
    /// That a quarter of them reaches.
    pub quarter: f32,
    /// That a tenth of them reaches.
    pub tenth: f32,
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    embedder: String,
    reflector: String,
    /// Tasks whose plays were looked at.
    groups: usize,
    /// Tasks that the reflector made nothing usable of.
    dropped: usize,
    levels: Vec<Level>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nearness: Option<Nearness>,
    entries: usize,
}

/// Entries of all levels, and how they were made.
#[derive(Debug, Clone, PartialEq)]
pub struct Experience {
    /// The identity of the embedder that clustered the titles and for which thresholds were chosen.
    pub embedder: String,
    /// Who wrote it.
    pub reflector: String,
    /// Tasks whose plays were looked at.
    pub groups: usize,
    /// Tasks that the reflector made nothing usable of.
    pub dropped: usize,
    /// How the levels above the first were made.
    pub levels: Vec<Level>,
    /// How near queries are to cases; nothing where it was not measured.
    pub nearness: Option<Nearness>,
    entries: Vec<Entry>,
}

impl Experience {
    /// Experience of these entries.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for entries that cannot be used or do not belong together; the message counts them from 1.
    pub fn new(embedder: impl Into<String>, reflector: impl Into<String>, entries: Vec<Entry>) -> Result<Self> {
        let faults = fault(&entries);
        if let Some((at, expected, found)) = faults {
            return Err(Error::invalid(format!("entry {}", at + 1), expected, found));
        }
        let (embedder, reflector) = (embedder.into(), reflector.into());
        Ok(Self { embedder, reflector, groups: 0, dropped: 0, levels: Vec::new(), nearness: None, entries })
    }

    /// The entries, level by level.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entries of a level.
    pub fn count(&self, level: u8) -> usize {
        self.entries.iter().filter(|entry| entry.level == level).count()
    }

    /// 32 hexadecimal digits: BLAKE3 over the embedder's identity and all entries. Equal experience guides alike.
    pub fn hash(&self) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.embedder.as_bytes());
        for entry in &self.entries {
            for part in [&entry.id, &entry.title, &entry.description].into_iter().chain(&entry.tasks) {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part.as_bytes());
            }
        }
        hash.finalize().to_hex()[..32].to_owned()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Line`] names the line that cannot be used; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut reader = BufReader::new(file);
        let wrong = |line: u64, expected: &str, found: String| Error::Line {
            path: path.to_path_buf(),
            line,
            expected: expected.into(),
            found,
        };
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            let read =
                reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(Error::io("read", path))?;
            if read == 0 {
                break;
            }
            lines.push(line);
        }
        fn parsed<T: DeserializeOwned>(line: &[u8]) -> std::result::Result<T, String> {
            serde_json::from_slice(line).map_err(|error| error.to_string())
        }
        let first = lines.first().ok_or_else(|| wrong(1, "the head of an experience file", "an empty file".into()))?;
        // Another format or version is told before anything else that is wrong.
        let named: serde_json::Value =
            parsed(first).map_err(|found| wrong(1, "the head of an experience file", found))?;
        if named["format"] != FORMAT {
            return Err(wrong(
                1,
                "the head of an experience file (`\"format\": \"hindsearch-experience\"`)",
                "another file".into(),
            ));
        }
        if named["version"] != FORMAT_VERSION {
            let expected = format!("version {FORMAT_VERSION} of the format");
            return Err(wrong(1, &expected, named["version"].to_string()));
        }
        let header: Header = parsed(first).map_err(|found| wrong(1, "the head of an experience file", found))?;
        let entry =
            |(at, line): (usize, &Vec<u8>)| parsed(line).map_err(|found| wrong(at as u64 + 2, "an entry", found));
        let entries: Vec<Entry> = lines[1..].iter().enumerate().map(entry).collect::<Result<_>>()?;
        if let Some((at, expected, found)) = fault(&entries) {
            return Err(wrong(at as u64 + 2, &expected, found));
        }
        if entries.len() != header.entries {
            let expected = format!("{} entries, as the first line says", header.entries);
            return Err(wrong(lines.len() as u64, &expected, format!("{}; restore the file", entries.len())));
        }
        let Header { embedder, reflector, groups, dropped, levels, nearness, .. } = header;
        Ok(Self { embedder, reflector, groups, dropped, levels, nearness, entries })
    }

    /// Writes a file; what is at the path is replaced once all is written.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> Result<()> {
        let retriever = hindsearch_retriever::Error::from;
        let mut file = WholeFile::create(path).map_err(retriever)?;
        let header = Header {
            format: FORMAT.into(),
            version: FORMAT_VERSION,
            embedder: self.embedder.clone(),
            reflector: self.reflector.clone(),
            groups: self.groups,
            dropped: self.dropped,
            levels: self.levels.clone(),
            nearness: self.nearness,
            entries: self.entries.len(),
        };
        let mut line = |value: serde_json::Result<String>| {
            let text = value.map_err(|error| Error::io("write", path)(error.into()))?;
            writeln!(file, "{text}").map_err(Error::io("write", path))
        };
        line(serde_json::to_string(&header))?;
        self.entries.iter().try_for_each(|entry| line(serde_json::to_string(entry)))?;
        Ok(file.publish().map_err(retriever)?)
    }
}

/// The first entry that cannot be used, what is expected, and what is there.
fn fault(entries: &[Entry]) -> Option<(usize, String, String)> {
    let mut ids: HashMap<&str, u8> = HashMap::new();
    let mut last = 1;
    for (at, entry) in entries.iter().enumerate() {
        if let Some((expected, found)) = entry.fault() {
            return Some((at, expected.into(), found));
        }
        if entry.level < last {
            return Some((at, "levels in order, the first one first".into(), format!("{} behind {last}", entry.level)));
        }
        last = entry.level;
        if ids.insert(&entry.id, entry.level).is_some() {
            return Some((at, "each id once".into(), format!("`{}` again", entry.id)));
        }
        let below = |member: &&String| ids.get(member.as_str()).is_none_or(|&level| level + 1 != entry.level);
        if let Some(member) = entry.members.iter().find(below) {
            return Some((at, "`members` of the level below".into(), format!("`{member}`")));
        }
        let different: HashSet<&String> = entry.members.iter().collect();
        if different.len() != entry.members.len() {
            return Some((at, "each member once".into(), "one again".into()));
        }
    }
    debug_assert!(last <= HIGHEST_LEVEL);
    None
}
