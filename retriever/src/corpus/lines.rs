//! How are compressed bytes turned into lines, within limits?

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fields::{MAX_LINE, Problem, excerpt};
use crate::{Error, Result};

/// Decompressed bytes that need no justification; beyond them at most [`MAX_RATIO`] bytes for each compressed one.
pub(super) const FREE_EXPANSION: u64 = 64 << 20;
pub(super) const MAX_RATIO: u64 = 200;

/// Bytes of a file that have been consumed, shared with whoever shows progress.
pub(super) type Counter = Arc<AtomicU64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The error for a stream that fails at `(line, byte)`: the disk's fault or the data's.
    pub fn damage(self, path: &Path, error: io::Error, (line, byte): (u64, u64)) -> Error {
        if self == Self::None || error.raw_os_error().is_some() {
            return Error::io("read", path)(error);
        }
        let expected = format!("{} data that is whole", self.name());
        Problem::new(expected, format!("data that ends early or is damaged ({error})")).at(path, line, byte)
    }

    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Opens a file and decompresses it as its first bytes say; gzip members and zstd frames follow one another.
pub(super) fn open(path: &Path, counter: Counter) -> Result<(Box<dyn Read + Send>, Compression)> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut file = BufReader::with_capacity(256 << 10, Counted { file, counter });
    let magic = file.fill_buf().map_err(Error::io("read", path))?;
    let compression = Compression::of(magic);
    let promised = match path.extension().and_then(|e| e.to_str()) {
        Some("gz" | "gzip") => Compression::Gzip,
        Some("zst" | "zstd") => Compression::Zstd,
        _ => compression,
    };
    if promised != compression && !magic.is_empty() {
        return Err(Error::File {
            path: path.to_path_buf(),
            expected: format!("{} data, as the name says", promised.name()),
            found: format!("`{}`", excerpt(&String::from_utf8_lossy(&magic[..magic.len().min(16)]), 0)),
            remedy: "rename it, or restore it from its source".into(),
        });
    }
    let stream: Box<dyn Read + Send> = match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(Error::io("read", path))?),
    };
    Ok((stream, compression))
}

struct Counted {
    file: File,
    counter: Counter,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.counter.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The lines of a text file, each with its place.
pub(super) struct Lines {
    path: PathBuf,
    stream: BufReader<Box<dyn Read + Send>>,
    compression: Compression,
    counter: Counter,
    buffer: Vec<u8>,
    /// Number of the line in `buffer`, from 1.
    line: u64,
    /// Offset of its first byte.
    byte: u64,
}

/// A line with its end (`\n` or `\r\n`, perhaps none on the last), and where it stands.
pub(super) struct Line<'a> {
    path: &'a Path,
    pub number: u64,
    pub byte: u64,
    pub text: &'a str,
}

impl<'a> Line<'a> {
    /// The text without its line end.
    pub fn body(&self) -> &'a str {
        without_line_end(self.text)
    }

    pub fn error(&self, problem: Problem) -> Error {
        problem.at(self.path, self.number, self.byte)
    }
}

pub(super) fn without_line_end(text: &str) -> &str {
    text.strip_suffix('\n').map_or(text, |body| body.strip_suffix('\r').unwrap_or(body))
}

impl Lines {
    pub fn open(path: &Path, counter: Counter) -> Result<Self> {
        let (stream, compression) = open(path, Arc::clone(&counter))?;
        let stream = BufReader::with_capacity(256 << 10, stream);
        Ok(Self { path: path.to_path_buf(), stream, compression, counter, buffer: Vec::new(), line: 0, byte: 0 })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next line that holds something. Blank lines may only end a file: anywhere else one of them might be a
    /// passage that was lost, and every later row would be wrong.
    pub fn next_filled(&mut self) -> Result<Option<Line<'_>>> {
        let mut blank = None;
        while self.advance()? {
            if !self.text()?.trim_matches([' ', '\r', '\n']).is_empty() {
                return match blank {
                    Some((line, byte)) => {
                        let found = "a blank line with more lines after it";
                        Err(Problem::new("a passage", found).at(&self.path, line, byte))
                    }
                    None => self.current().map(Some),
                };
            }
            blank = blank.or(Some((self.line, self.byte)));
        }
        Ok(None)
    }

    /// The next line, blank or not.
    pub fn next_any(&mut self) -> Result<Option<Line<'_>>> {
        if self.advance()? { self.current().map(Some) } else { Ok(None) }
    }

    fn current(&self) -> Result<Line<'_>> {
        Ok(Line { path: &self.path, number: self.line, byte: self.byte, text: self.text()? })
    }

    fn advance(&mut self) -> Result<bool> {
        self.byte += self.buffer.len() as u64;
        self.line += 1;
        self.buffer.clear();
        let place = (self.line, self.byte);
        let read = (&mut self.stream).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.buffer);
        read.map_err(|error| self.compression.damage(&self.path, error, place))?;
        if self.buffer.len() > MAX_LINE {
            let found = format!("more, beginning `{}`", excerpt(&String::from_utf8_lossy(&self.buffer[..400]), 0));
            let expected = format!("a line of at most {} MiB", MAX_LINE >> 20);
            return Err(Problem::new(expected, found).at(&self.path, self.line, self.byte));
        }
        let out = self.byte + self.buffer.len() as u64;
        let read = self.counter.load(Ordering::Relaxed);
        if self.compression != Compression::None && out > FREE_EXPANSION.max(read.saturating_mul(MAX_RATIO)) {
            let expected = format!("data that expands at most {MAX_RATIO} times");
            let found = format!("{out} bytes from {read}: decompress the file first if that is right");
            return Err(Problem::new(expected, found).at(&self.path, self.line, self.byte));
        }
        Ok(!self.buffer.is_empty())
    }

    /// The line as text, without a byte order mark at the file's start.
    fn text(&self) -> Result<&str> {
        let text = str::from_utf8(&self.buffer).map_err(|error| {
            let at = error.valid_up_to();
            let near = excerpt(&String::from_utf8_lossy(&self.buffer[at.saturating_sub(40)..]), 0);
            let found = format!("the byte 0x{:02x} at byte {}, near `{near}`", self.buffer[at], self.byte + at as u64);
            Problem::new("UTF-8", found).at(&self.path, self.line, self.byte)
        })?;
        Ok(if self.line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text })
    }
}
