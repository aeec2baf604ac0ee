//! Which formats are there, and how is a file's format found? By its name first, then by its first bytes.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use super::fields::excerpt;
use super::lines::{self, Compression};
use crate::{Error, Result};

/// How passages are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line: wiki-18 (`id`, `contents`), `title` with `text`, or BEIR (`_id`, `title`, `text`).
    Jsonl,
    /// DPR's `psgs_w100.tsv`: a header that names `id`, `text` and `title`, tabs, csv quoting.
    Dpr,
    /// MS MARCO's `collection.tsv`: id, tab, text; no header, no quoting.
    MsMarco,
    /// Parquet with the columns of [`Format::Jsonl`].
    Parquet,
    /// Arrow IPC, file or stream, with the columns of [`Format::Jsonl`].
    Arrow,
}

impl Format {
    /// All formats, each with its name.
    pub const NAMES: [(&str, Self); 5] = [
        ("jsonl", Self::Jsonl),
        ("dpr", Self::Dpr),
        ("msmarco", Self::MsMarco),
        ("parquet", Self::Parquet),
        ("arrow", Self::Arrow),
    ];

    /// Finds the format of a file from its name and its first bytes, decompressed.
    pub(super) fn detect(path: &Path, head: &[u8]) -> Result<Self> {
        if let Some(format) = by_magic(head) {
            return Ok(format);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let name = [".gz", ".gzip", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "parquet" | "pq" => Ok(Self::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Ok(Self::Arrow),
            "jsonl" | "ndjson" => Ok(Self::Jsonl),
            "tsv" => tsv(path, text),
            _ if text.starts_with('{') => Ok(Self::Jsonl),
            _ if text.lines().next().is_some_and(|line| line.contains('\t')) => tsv(path, text),
            _ => Err(Error::File {
                path: path.to_path_buf(),
                expected: "JSON lines, tab-separated values, Parquet or Arrow".into(),
                found: format!("`{}`", excerpt(text, 0)),
                remedy: format!("name its format ({}), or convert it", names()),
            }),
        }
    }
}

fn names() -> String {
    Format::NAMES.map(|(name, _)| format!("`{name}`")).join(", ")
}

/// The first 64 KiB, decompressed, and how the file is compressed; what could be read counts, the reader will report
/// the rest.
pub(super) fn head(path: &Path) -> Result<(Vec<u8>, Compression)> {
    let (stream, compression) = lines::open(path, lines::Counter::default())?;
    let mut head = Vec::new();
    match stream.take(64 << 10).read_to_end(&mut head) {
        Err(error) if head.is_empty() => Err(compression.damage(path, error, (1, 0))),
        _ if head.is_empty() => Err(Error::File {
            path: path.to_path_buf(),
            expected: "at least one passage".into(),
            found: "an empty file".into(),
            remedy: "leave it out, or restore it".into(),
        }),
        _ => Ok((head, compression)),
    }
}

fn by_magic(head: &[u8]) -> Option<Format> {
    match head {
        [b'P', b'A', b'R', b'1', ..] => Some(Format::Parquet),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => Some(Format::Arrow),
        _ => None,
    }
}

/// A header names its columns; without one, the first line is a passage.
fn tsv(path: &Path, text: &str) -> Result<Format> {
    let header = text.lines().next().unwrap_or_default();
    let names: Vec<_> = header.split('\t').map(|name| name.trim_matches('"').to_ascii_lowercase()).collect();
    let has = |name: &str| names.iter().any(|found| found == name);
    if has("id") && (has("text") || has("contents")) {
        return Ok(Format::Dpr);
    }
    let usual = ["id", "pid", "docid", "doc_id", "title", "text", "passage", "contents"];
    if names.iter().all(|name| usual.contains(&name.as_str())) {
        return Err(Error::File {
            path: path.to_path_buf(),
            expected: "a passage in the first line, or a header with the columns `id` and `text`".into(),
            found: format!("the header `{}`", excerpt(header, 0)),
            remedy: "rename the columns, or leave the header out".into(),
        });
    }
    Ok(Format::MsMarco)
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, format)| format == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format).ok_or_else(|| {
            Error::InvalidInput {
                what: "corpus format".into(),
                expected: names(),
                found: format!("`{}`", excerpt(name, 0)),
            }
        })
    }
}
