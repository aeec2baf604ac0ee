//! How is a header read that may claim anything?

use super::parts::{Parts, START};
use crate::Result;

/// What to do about a file that is too short.
const FETCH: &str = "give all parts in their order, or fetch the file again";

/// A place in a file, and the numbers read from there on. Nothing is passed that the file does not hold.
pub(super) struct Cursor<'a> {
    parts: &'a Parts,
    at: u64,
}

/// A vector of the file: its length, then its elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub offset: u64,
    pub count: u64,
}

impl<'a> Cursor<'a> {
    pub fn new(parts: &'a Parts) -> Self {
        Self { parts, at: 0 }
    }

    pub fn parts(&self) -> &'a Parts {
        self.parts
    }

    /// The bytes that tell the format, where the file has as many.
    pub fn peek(&self) -> [u8; START] {
        let mut start = [0; START];
        let count = (self.parts.length() - self.at).min(START as u64) as usize;
        match self.parts.read_at(self.at, &mut start[..count]) {
            Ok(()) => start,
            // Whoever reads on is told.
            Err(_) => [0; START],
        }
    }

    /// Passes `count` elements of `size` bytes and returns where they begin.
    pub fn skip(&mut self, what: &str, count: u64, size: u64) -> Result<u64> {
        let (start, bytes) = (self.at, u128::from(count) * u128::from(size));
        let end = u128::from(start) + bytes;
        match u64::try_from(end).ok().filter(|end| *end <= self.parts.length()) {
            Some(end) => {
                self.at = end;
                Ok(start)
            }
            None => Err(self.parts.refuse(
                format!("{what}: {bytes} bytes from byte {start} on"),
                format!(
                    "a file of {} bytes: {} are missing",
                    self.parts.length(),
                    end - u128::from(self.parts.length())
                ),
                FETCH,
            )),
        }
    }

    pub fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let start = self.skip(what, N as u64, 1)?;
        let mut bytes = [0; N];
        self.parts.read_at(start, &mut bytes)?;
        Ok(bytes)
    }

    pub fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.take(what)?))
    }

    pub fn i32(&mut self, what: &str) -> Result<i32> {
        Ok(i32::from_le_bytes(self.take(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(what)?))
    }

    pub fn i64(&mut self, what: &str) -> Result<i64> {
        Ok(i64::from_le_bytes(self.take(what)?))
    }

    /// Passes a vector of elements of `size` bytes.
    pub fn vector(&mut self, what: &str, size: u64) -> Result<Extent> {
        let count = self.u64(what)?;
        Ok(Extent { offset: self.skip(what, count, size)?, count })
    }

    /// Passes a vector that must have `count` elements.
    pub fn vector_of(&mut self, what: &str, count: u64, size: u64) -> Result<u64> {
        let found = self.u64(what)?;
        if found != count {
            return Err(self.refuse(format!("{count} {what}"), format!("{found}"), "fetch the file again"));
        }
        self.skip(what, count, size)
    }

    /// The numbers of a short vector.
    pub fn f32s(&self, offset: u64, count: usize) -> Result<Vec<f32>> {
        let mut bytes = vec![0; count * size_of::<f32>()];
        self.parts.read_at(offset, &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// That nothing follows.
    pub fn finish(&self) -> Result<()> {
        if self.at == self.parts.length() {
            return Ok(());
        }
        Err(self.refuse(
            format!("the end of the file after {} bytes", self.at),
            format!("{} bytes: {} too many", self.parts.length(), self.parts.length() - self.at),
            "give the parts of one file only, each once, or fetch the file again",
        ))
    }

    pub fn refuse(&self, expected: String, found: String, remedy: &str) -> crate::Error {
        self.parts.refuse(expected, found, remedy)
    }
}
