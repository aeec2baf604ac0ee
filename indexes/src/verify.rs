//! Are the bytes of a generation those that were published?

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::manifest::{CHUNK_LENGTH, FileEntry, Manifest};
use crate::shards::split_shard_file;
use crate::storage::{Disk, EntryKind, Files};
use crate::{Error, Interrupt, OnProgress, Progress, Result};

/// Files of which a reader follows no byte unchecked: damage there gives a wrong row, or an id that is not found, never a
/// crash. They grow with the rows, and hashing them would make opening take as long.
const PAYLOAD: [&str; 4] = ["vectors", "passages", "codes", "ids"];
const BUFFER: usize = 1 << 20;

/// How far to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The manifest's own checksum, the length of every file, and the hash of every file but `vectors`, `passages` and
    /// `codes` (of any shard). Needed before the graph is used: a damaged graph can crash or hang the search.
    Structure,
    /// All bytes of all files.
    Full,
}

/// What was found sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Files whose length was compared.
    pub files: usize,
    /// Files whose bytes were hashed.
    pub hashed: usize,
    /// Bytes hashed.
    pub bytes: u64,
}

/// Compares the generation in the folder `generation` with its manifest. Progress is in bytes hashed.
///
/// # Errors
/// [`Error::Corrupt`] naming the first file that differs, what the manifest says and what was found; for hashes also
/// the range of bytes. [`Error::Incompatible`] for another format version. [`Error::Interrupted`] on request.
pub fn verify(generation: &Path, depth: Depth, on_progress: OnProgress, interrupt: &Interrupt) -> Result<Report> {
    let files = Files::new(Arc::new(Disk));
    let Some(manifest) = Manifest::read(&files, generation)? else {
        return Err(Error::NotFound { path: generation.to_path_buf(), found: "no `manifest.json`".into() });
    };
    Check { files: &files, folder: generation, manifest: &manifest }.run(depth, on_progress, interrupt)
}

/// A folder and what it should hold.
pub(crate) struct Check<'a> {
    pub files: &'a Files,
    pub folder: &'a Path,
    pub manifest: &'a Manifest,
}

impl Check<'_> {
    pub fn run(&self, depth: Depth, on_progress: OnProgress, interrupt: &Interrupt) -> Result<Report> {
        self.lengths()?;
        let wanted = |file: &&FileEntry| depth == Depth::Full || !PAYLOAD.contains(&split_shard_file(&file.name).0);
        let hashed: Vec<&FileEntry> = self.manifest.files.iter().filter(wanted).collect();
        let bytes = hashed.iter().map(|file| file.length).fold(0, u64::saturating_add);
        let mut pass = Pass { files: self.files, done: 0, total: bytes, on_progress, interrupt };
        for expected in &hashed {
            let path = self.folder.join(&expected.name);
            let found = pass.digest(&path, &expected.name)?;
            compare(&path, expected, &found)?;
        }
        Ok(Report { files: self.manifest.files.len(), hashed: hashed.len(), bytes })
    }

    /// Compares the lengths only: cheap, and enough to map the files without reading past an end.
    pub fn lengths(&self) -> Result<()> {
        for file in &self.manifest.files {
            let path = self.folder.join(&file.name);
            let found = match self.files.stat(&path)? {
                Some(stat) if stat.kind == EntryKind::File && stat.length == file.length => continue,
                Some(stat) if stat.kind == EntryKind::File => format!("{} bytes", stat.length),
                Some(_) => "something that is no file".into(),
                None => "no file".into(),
            };
            return Err(Error::Corrupt { path, expected: format!("a file of {} bytes", file.length), found });
        }
        Ok(())
    }
}

fn compare(path: &Path, expected: &FileEntry, found: &FileEntry) -> Result<()> {
    let differs = |range: Range<u64>, expected: &str, found: &str| Error::Corrupt {
        path: path.to_path_buf(),
        expected: format!("bytes {}..{} of BLAKE3 `{expected}`", range.start, range.end),
        found: format!("`{found}`"),
    };
    if found.length != expected.length {
        let bytes = |length| format!("{length} bytes");
        let (expected, found) = (bytes(expected.length), bytes(found.length));
        return Err(Error::Corrupt { path: path.to_path_buf(), expected, found });
    }
    for (at, (sum, found)) in (0..).zip(expected.chunks.iter().zip(&found.chunks)) {
        if sum != found {
            let start = at * CHUNK_LENGTH;
            return Err(differs(start..expected.length.min(start + CHUNK_LENGTH), sum, found));
        }
    }
    if found.blake3 != expected.blake3 {
        return Err(differs(0..expected.length, &expected.blake3, &found.blake3));
    }
    Ok(())
}

/// One pass over the bytes of several files.
pub(crate) struct Pass<'a> {
    pub files: &'a Files,
    /// Bytes read so far.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
    pub on_progress: OnProgress<'a>,
    pub interrupt: &'a Interrupt,
}

impl Pass<'_> {
    /// Length and hashes of a file, reading it once.
    pub fn digest(&mut self, path: &Path, name: &str) -> Result<FileEntry> {
        let mut reader = self.files.open(path)?;
        let mut buffer = vec![0; BUFFER];
        let (mut whole, mut length, mut chunks) = (blake3::Hasher::new(), 0, Vec::new());
        loop {
            let (chunk, bytes) = self.digest_chunk(path, &mut reader, &mut buffer, &mut whole)?;
            if bytes == 0 {
                break;
            }
            length += bytes;
            chunks.push(chunk);
        }
        let (name, blake3) = (name.to_string(), whole.finalize().to_hex().to_string());
        Ok(FileEntry { name, length, blake3, chunk_length: CHUNK_LENGTH, chunks })
    }

    fn digest_chunk(
        &mut self,
        path: &Path,
        reader: &mut dyn Read,
        buffer: &mut [u8],
        whole: &mut blake3::Hasher,
    ) -> Result<(String, u64)> {
        let mut reader = reader.take(CHUNK_LENGTH);
        let (mut chunk, mut length) = (blake3::Hasher::new(), 0);
        loop {
            self.interrupt.check()?;
            let read = match reader.read(buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.map_err(Error::io("read", path))?,
            };
            if read == 0 {
                return Ok((chunk.finalize().to_hex().to_string(), length));
            }
            chunk.update(&buffer[..read]);
            whole.update(&buffer[..read]);
            length += read as u64;
            self.done += read as u64;
            (self.on_progress)(Progress { done: self.done, total: Some(self.total) });
        }
    }
}
