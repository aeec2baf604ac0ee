//! The first page of a matrix file, and what follows from it.

use std::path::Path;

use crate::bytes::{PAGE, u32_at, u64_at};
use crate::vectors::NORMS;
use crate::{ElementType, Error, Result, dot};

const MAGIC: [u8; 8] = *b"HSVECTOR";
const VERSION: u32 = 1;
/// The header's checksum fills the end of its page.
const CHECKSUM_AT: usize = PAGE - blake3::OUT_LEN;
/// The most values that a row may have.
const MAX_DIMENSIONS: usize = 1 << 16;

/// The shape of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixSpec {
    /// Values in a row, 1 to 65,536.
    pub dimensions: usize,
    /// How values are stored.
    pub element_type: ElementType,
    /// For [`ElementType::I8`] and [`ElementType::I16`], the vector about which rows are coded; the closer to the corpus's mean, the finer
    /// the codes. Empty means zero. Other element types do not use it.
    pub mean: Vec<f32>,
}

impl MatrixSpec {
    /// Rows of `dimensions` values, coded about zero where the element type needs a centre.
    pub fn new(dimensions: usize, element_type: ElementType) -> Self {
        Self { dimensions, element_type, mean: Vec::new() }
    }

    /// Sets the centre of the codes.
    pub fn with_mean(self, mean: Vec<f32>) -> Self {
        Self { mean, ..self }
    }

    /// The same spec with the mean as stored: `dimensions` values where rows are coded about one, none otherwise.
    pub(super) fn checked(mut self) -> Result<Self> {
        let invalid = |what: &str, expected: String, found: String| {
            Err(Error::InvalidInput { what: what.into(), expected, found })
        };
        if !(1..=MAX_DIMENSIONS).contains(&self.dimensions) {
            return invalid("dimensions", format!("1 to {MAX_DIMENSIONS}"), self.dimensions.to_string());
        }
        if !self.element_type.is_centred() {
            self.mean.clear();
        } else if self.mean.is_empty() {
            self.mean = vec![0.0; self.dimensions];
        }
        if !self.mean.is_empty() && self.mean.len() != self.dimensions {
            return invalid("mean", format!("{} values", self.dimensions), format!("{} values", self.mean.len()));
        }
        let norm = dot::norm(&self.mean);
        if !(0.0..=*NORMS.end()).contains(&norm) {
            return invalid("mean", format!("a vector of length to {:e}", NORMS.end()), format!("length {norm:e}"));
        }
        Ok(self)
    }
}

/// What a matrix file says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    pub spec: MatrixSpec,
    pub rows: u64,
    pub max_norm: f32,
}

impl Header {
    /// The bytes before the first row.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.spec.data_offset());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(code(self.spec.element_type).to_le_bytes());
        bytes.extend((self.spec.dimensions as u64).to_le_bytes());
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.max_norm.to_le_bytes());
        bytes.resize(PAGE, 0);
        bytes.extend(self.spec.mean.iter().flat_map(|x| x.to_le_bytes()));
        bytes.resize(self.spec.data_offset(), 0);
        let checksum = checksum(&bytes);
        bytes[CHECKSUM_AT..PAGE].copy_from_slice(checksum.as_bytes());
        bytes
    }

    /// Reads the header of `file`, the whole contents of `path`.
    pub fn decode(path: &Path, file: &[u8]) -> Result<Self> {
        let corrupt = |expected: String, found: String| Error::Corrupt { path: path.into(), expected, found };
        if file.len() < PAGE {
            return Err(corrupt(format!("a header of {PAGE} bytes"), format!("a file of {} bytes", file.len())));
        }
        if file[..8] != MAGIC {
            let found = if file[..PAGE].iter().all(|b| *b == 0) { "an unfinished file" } else { "other bytes" };
            return Err(corrupt("a file that begins with `HSVECTOR`".into(), found.into()));
        }
        let version = u32_at(file, 8);
        if version != VERSION {
            return Err(Error::Incompatible {
                path: path.into(),
                expected: format!("vectors format {VERSION}"),
                found: format!("format {version}"),
                remedy: "build the index again, or use the release that wrote it".into(),
            });
        }
        let damaged = || corrupt("a header with its checksum".into(), "another checksum".into());
        let element_type = element_type(u32_at(file, 12)).ok_or_else(damaged)?;
        let dimensions = usize::try_from(u64_at(file, 16)).map_err(|_| damaged())?;
        let spec = MatrixSpec::new(dimensions, element_type).checked().map_err(|_| damaged())?;
        let header = file.get(..spec.data_offset()).ok_or_else(damaged)?;
        if checksum(header).as_bytes() != &header[CHECKSUM_AT..PAGE] {
            return Err(damaged());
        }
        let mean = header[PAGE..].chunks_exact(4).take(spec.mean.len()).map(|x| f32::from_bits(u32_at(x, 0))).collect();
        let spec = spec.with_mean(mean);
        let rows = u64_at(file, 24);
        if spec.file_length(rows) != Some(file.len() as u64) {
            let expected = format!("{rows} rows of {} bytes after byte {}", spec.row_bytes(), spec.data_offset());
            return Err(corrupt(expected, format!("a file of {} bytes", file.len())));
        }
        Ok(Self { spec, rows, max_norm: f32::from_bits(u32_at(file, 32)) })
    }
}

/// The hash of everything before the rows but itself.
fn checksum(bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..CHECKSUM_AT]).update(&bytes[PAGE..]);
    hasher.finalize()
}

fn code(element_type: ElementType) -> u32 {
    match element_type {
        ElementType::F32 => 0,
        ElementType::F16 => 1,
        ElementType::I8 => 2,
        ElementType::I16 => 3,
    }
}

fn element_type(code: u32) -> Option<ElementType> {
    [ElementType::F32, ElementType::F16, ElementType::I8, ElementType::I16].get(code as usize).copied()
}
