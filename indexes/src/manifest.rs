//! What is in a generation? The specification is `FORMAT.md`, section Manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::shards::{Shard, shard_file, split_shard_file};
use crate::storage::Files;
use crate::{Calibration, Deleted, ElementType, Error, Result, sealed};

/// The file name of a manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The format that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// Bytes that one entry of [`FileEntry::chunks`] covers.
pub(crate) const CHUNK_LENGTH: u64 = 64 << 20;
/// No sound manifest is larger: this is room for the chunk hashes of 14 TB.
const LONGEST: u64 = 16 << 20;

/// The description of one generation: every fact needed to open it, and the length and hash of each file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format; [`Manifest::new`] sets it.
    pub format: u32,
    /// The program that wrote the generation.
    pub tool: String,
    /// When it was published: RFC 3339, UTC. Set by publishing.
    pub created: String,
    /// How it is searched.
    pub kind: IndexKind,
    /// Number of vectors in all shards, deleted ones too.
    pub rows: u64,
    /// Rows of each shard, where there are several; empty for one. See [`Manifest::shards`].
    #[serde(rename = "shards", default, skip_serializing_if = "Vec::is_empty")]
    pub shard_rows: Vec<u64>,
    /// How many of the rows are deleted; the file `deleted` says which.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deleted: u64,
    /// Values in a vector.
    pub dimensions: usize,
    /// How a value is stored.
    pub element_type: ElementType,
    /// What a score is.
    pub metric: Metric,
    /// Settings of the graph, for [`IndexKind::Hnsw`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphParams>,
    /// What lists and candidates find, from the fewest on, for [`IndexKind::Quantized`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Calibration>,
    /// Measured share of the exact hits found, for an approximate index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<Recall>,
    /// Facts of the layers above (corpus, model, configuration), kept and never read here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, serde_json::Value>,
    /// The files beside the manifest, by name. Set by publishing.
    pub files: Vec<FileEntry>,
}

/// How an index is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// Every vector is compared: exact.
    Flat,
    /// A navigable small-world graph is walked: approximate.
    Hnsw,
    /// Codes of one bit a value are scanned, list by list: approximate, in the least memory.
    Quantized,
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flat => "flat",
            Self::Hnsw => "hnsw",
            Self::Quantized => "quantized",
        })
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Flat, Self::Hnsw, Self::Quantized].into_iter().find(|kind| kind.to_string() == text).ok_or_else(|| {
            Error::InvalidInput {
                what: "index kind".into(),
                expected: "`flat`, `hnsw` or `quantized`".into(),
                found: format!("`{text}`"),
            }
        })
    }
}

impl IndexKind {
    /// The files that each shard of this kind must have.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::Flat => &["vectors", "passages", "ids"],
            Self::Hnsw => &["vectors", "passages", "ids", "graph"],
            Self::Quantized => &["vectors", "passages", "ids", "codes"],
        }
    }
}

/// What a score is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The sum of products; for unit vectors the cosine. Higher is nearer.
    #[default]
    InnerProduct,
}

/// Settings of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphParams {
    /// Links of a node on the layers above the lowest, `M`.
    pub connectivity: usize,
    /// Candidates kept while inserting, `ef_construction`.
    pub expansion_add: usize,
    /// Candidates kept while searching, `ef`.
    pub expansion_search: usize,
}

/// A measurement of an approximate index against the exact one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recall {
    /// Hits compared.
    pub top_k: usize,
    /// Share of the exact hits found, 0 to 1.
    pub value: f64,
    /// Held-out queries asked.
    pub queries: usize,
    /// The lowest share that the build accepted.
    pub floor: f64,
}

/// Length and hashes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Name within the generation, without folders.
    pub name: String,
    /// Bytes.
    pub length: u64,
    /// BLAKE3 of the whole file, 64 hexadecimal digits.
    pub blake3: String,
    /// Bytes that one entry of `chunks` covers; the last may cover fewer.
    pub chunk_length: u64,
    /// BLAKE3 of each chunk in order.
    pub chunks: Vec<String>,
}

/// For serde, which passes references.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The one member that every format, past and future, has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Manifest {
    /// A manifest to publish with: the rest is filled in by the caller (graph, recall, attributes) and by publishing.
    pub fn new(kind: IndexKind, rows: u64, dimensions: usize, element_type: ElementType) -> Self {
        Self {
            format: FORMAT,
            tool: concat!("hindsearch ", env!("CARGO_PKG_VERSION")).into(),
            created: String::new(),
            kind,
            rows,
            shard_rows: Vec::new(),
            deleted: 0,
            dimensions,
            element_type,
            metric: Metric::default(),
            graph: None,
            calibration: Vec::new(),
            recall: None,
            attributes: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    /// The shards, in order of their rows.
    pub fn shards(&self) -> Vec<Shard> {
        let whole = [self.rows];
        let counts = if self.shard_rows.is_empty() { &whole[..] } else { &self.shard_rows };
        let mut first_row = 0;
        let shard = |(number, &rows): (usize, &u64)| {
            let shard = Shard { number, first_row, rows };
            first_row = first_row.saturating_add(rows);
            shard
        };
        (1..).zip(counts).map(shard).collect()
    }

    /// Adds a shard of `rows` rows behind the others.
    pub fn add_shard(&mut self, rows: u64) {
        if self.shard_rows.is_empty() {
            self.shard_rows.push(self.rows);
        }
        self.shard_rows.push(rows);
        self.rows = self.rows.saturating_add(rows);
    }

    /// Rows that can be found: all but the deleted.
    pub fn live_rows(&self) -> u64 {
        self.rows.saturating_sub(self.deleted)
    }

    /// The names of the files that this generation must have.
    pub(crate) fn needed_files(&self) -> impl Iterator<Item = String> {
        let of_shard = |number| self.kind.files().iter().map(move |name| shard_file(name, number));
        let deleted = (self.deleted > 0).then(|| Deleted::FILE.to_owned());
        (1..=self.shard_rows.len().max(1)).flat_map(of_shard).chain(deleted)
    }

    /// Whether a file belongs to a generation of this shape, as far as its name tells.
    pub(crate) fn has_place_for(&self, file: &str) -> bool {
        let (_, shard) = split_shard_file(file);
        shard <= self.shard_rows.len().max(1) && (file != Deleted::FILE || self.deleted > 0)
    }

    /// The entry of a file.
    pub fn file(&self, name: &str) -> Option<&FileEntry> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Reads the manifest of the generation in `folder`, checksum and claims checked; `None` when there is none.
    pub(crate) fn read(files: &Files, folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MANIFEST);
        let Some((bytes, whole)) = files.read(&path, LONGEST)? else { return Ok(None) };
        if !whole {
            return Err(Error::Corrupt { path, expected: format!("at most {LONGEST} bytes"), found: "more".into() });
        }
        Self::from_bytes(&path, &bytes).map(Some)
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let body = sealed::unseal(path, bytes)?;
        let Version { format } = sealed::parse(path, &body, "a manifest with a `format`")?;
        if format != FORMAT {
            return Err(Error::Incompatible {
                path: path.to_path_buf(),
                expected: format!("format {FORMAT}"),
                found: format!("format {format}"),
                remedy: "use the version of the program that wrote it, or build the index again".into(),
            });
        }
        let manifest: Self = sealed::parse(path, &body, "a manifest of format 1")?;
        manifest.check().map_err(|(expected, found)| Error::Corrupt { path: path.to_path_buf(), expected, found })?;
        Ok(manifest)
    }

    /// The bytes of `manifest.json`.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let unusable = |found: String| Error::InvalidInput {
            what: "the manifest to publish".into(),
            expected: "values that can be read back".into(),
            found,
        };
        let bytes = sealed::seal(self).map_err(|e| unusable(e.to_string()))?;
        if bytes.len() as u64 > LONGEST {
            return Err(unusable(format!("{} bytes, more than {LONGEST}", bytes.len())));
        }
        // The reader is the judge. It also catches NaN and infinity, which JSON turns into null.
        Self::from_bytes(Path::new(MANIFEST), &bytes).map_err(|e| unusable(e.to_string()))?;
        Ok(bytes)
    }

    /// Refuses claims that contradict each other, saying what was expected and what is there.
    fn check(&self) -> Result<(), (String, String)> {
        self.check_claims()?;
        let mut names = BTreeSet::new();
        for file in &self.files {
            file.check()?;
            if !names.insert(file.name.as_str()) {
                return Err(("each file once".into(), format!("`{}` twice", file.name)));
            }
            if !self.has_place_for(&file.name) {
                let shape = format!("files of {} shards, {} rows deleted", self.shards().len(), self.deleted);
                return Err((shape, format!("`{}`", file.name)));
            }
        }
        match self.needed_files().find(|name| !names.contains(name.as_str())) {
            Some(name) => Err((format!("the file `{name}` in `files`"), format!("{names:?}"))),
            None => Ok(()),
        }
    }

    /// The part of [`check`](Self::check) that needs no files.
    pub(crate) fn check_claims(&self) -> Result<(), (String, String)> {
        let fail = |expected: String, found: String| Err((expected, found));
        let row = self.dimensions.checked_mul(self.element_type.bytes()).map(|bytes| bytes as u64);
        let payload = row.and_then(|row| self.rows.checked_mul(row));
        if self.dimensions == 0 || payload.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return fail(
                "a size of vectors that a file can have".into(),
                format!("{} rows of {} values", self.rows, self.dimensions),
            );
        }
        let sum = self.shard_rows.iter().try_fold(0_u64, |sum, rows| sum.checked_add(*rows));
        let several = self.shard_rows.len() > 1 && sum == Some(self.rows) && !self.shard_rows.contains(&0);
        if !self.shard_rows.is_empty() && !several {
            return fail(
                format!("two or more shards with {} rows together, none empty", self.rows),
                format!("{} with {}", self.shard_rows.len(), sum.map_or("too many".into(), |sum| sum.to_string())),
            );
        }
        if self.deleted > self.rows {
            return fail(format!("at most {} rows deleted", self.rows), self.deleted.to_string());
        }
        if self.graph.is_some() != (self.kind == IndexKind::Hnsw) {
            let found = format!("`{:?}` and {} settings", self.kind, self.graph.iter().len()).to_lowercase();
            return fail("graph settings with the kind `hnsw`, and only with it".into(), found);
        }
        if self.kind != IndexKind::Quantized && !self.calibration.is_empty() {
            let found = format!("`{}` and {} settings", self.kind, self.calibration.len());
            return fail("a calibration only with the kind `quantized`".into(), found);
        }
        Ok(())
    }
}

impl FileEntry {
    fn check(&self) -> Result<(), (String, String)> {
        let name = self.name.escape_debug();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.name.starts_with('.') || !self.name.chars().all(plain) || matches!(&*self.name, "" | MANIFEST) {
            return Err(("a plain file name".into(), format!("`{name}`")));
        }
        if self.length > i64::MAX as u64 {
            return Err((format!("a length of `{name}` that a file can have"), format!("{} bytes", self.length)));
        }
        if self.chunk_length != CHUNK_LENGTH {
            return Err((format!("chunks of {CHUNK_LENGTH} bytes in `{name}`"), self.chunk_length.to_string()));
        }
        let chunks = self.length.div_ceil(CHUNK_LENGTH);
        if self.chunks.len() as u64 != chunks {
            return Err((format!("{chunks} chunks of `{name}`"), self.chunks.len().to_string()));
        }
        let digits = |hash: &&String| hash.len() != 64 || !hash.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        match self.chunks.iter().chain([&self.blake3]).find(digits) {
            Some(hash) => Err((format!("64 hexadecimal digits for `{name}`"), format!("`{}`", hash.escape_debug()))),
            None => Ok(()),
        }
    }
}

/// A time as RFC 3339 in UTC, to the second.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The Gregorian calendar repeats every 146,097 days; years are counted from March so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + next_year;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // Expected values from `date -u -d @SECONDS +%FT%TZ` (GNU coreutils).
    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
