//! The file of codes: written once, front to back, then mapped. FORMAT.md, section `codes`, has the bytes.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::coder::{Coder, Units, row_bytes};
use super::kernel::BLOCK;
use super::rotation::ROUNDS;
use crate::bytes::{PAGE, u32_at, u64_at};
use crate::matrix::Rows;
use crate::{Access, Error, MappedFile, Result};

const MAGIC: &[u8; 8] = b"HSCODES\0";
const VERSION: u32 = 1;
const CHECKSUM_AT: usize = PAGE - blake3::OUT_LEN;
/// Slots are numbered with 32 bits.
const MAX_SLOTS: u64 = u32::MAX as u64;

/// The numbers that give the place of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Values of a row.
    pub dimensions: usize,
    /// Rows of the matrix.
    pub rows: u64,
    /// Places in the lists: one a row, or more where rows have copies.
    pub slots: u64,
    /// Lists, each with a centroid.
    pub lists: u64,
}

/// Where the sections are, in bytes from the start of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    mean: u64,
    signs: u64,
    directory: u64,
    centroids: u64,
    centroid_rows: u64,
    blocks: u64,
    rows: u64,
    end: u64,
}

impl Shape {
    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        row_bytes(self.dimensions) * BLOCK
    }

    /// Bytes of a centroid as a row: a scale and a code of eight bits for each value.
    pub fn centroid_row_bytes(self) -> usize {
        self.dimensions + size_of::<f32>()
    }

    /// Bytes of the file.
    pub fn file_bytes(self) -> Option<u64> {
        self.layout().map(|layout| layout.end)
    }

    fn layout(self) -> Option<Layout> {
        let block = self.block_bytes() as u64;
        let blocks = |slots: u64| slots.div_ceil(BLOCK as u64).checked_mul(block);
        let after = |start: u64, bytes: u64| start.checked_add(bytes)?.checked_next_multiple_of(PAGE as u64);
        let mean = PAGE as u64;
        let signs = after(mean, self.dimensions as u64 * 4)?;
        let directory = after(signs, Coder::sign_bytes(self.dimensions) as u64)?;
        let centroids = after(directory, self.lists.checked_add(1)?.checked_mul(8)?)?;
        let centroid_rows = after(centroids, blocks(self.lists)?)?;
        let first = after(centroid_rows, self.lists.checked_mul(self.centroid_row_bytes() as u64)?)?;
        let rows = after(first, blocks(self.slots)?)?;
        let end = rows.checked_add(self.slots.checked_mul(4)?)?;
        Some(Layout { mean, signs, directory, centroids, centroid_rows, blocks: first, rows, end })
    }
}

/// A finished file of codes.
#[derive(Debug)]
pub struct Codes {
    file: MappedFile,
    shape: Shape,
    layout: Layout,
    coder: Coder,
    /// The first slot of each list, and one more: the end.
    directory: Vec<u64>,
}

impl Codes {
    /// Maps the codes at `path`. The header, the mean, the signs and the directory are checked by their checksum, the
    /// rest by the file's length: damage there gives wrong candidates, which a hash of the file tells.
    pub fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path, Access::Random)?;
        let bytes: &[u8] = file.as_ref();
        let corrupt = |expected: String, found: String| Error::Corrupt { path: path.into(), expected, found };
        let damaged = || corrupt("a header that agrees with its checksum".into(), "another".into());
        if bytes.len() < PAGE || &bytes[..8] != MAGIC {
            return Err(corrupt("a file of codes".into(), format!("{} bytes that begin otherwise", bytes.len())));
        }
        if u32_at(bytes, 8) != VERSION {
            return Err(Error::Incompatible {
                path: path.into(),
                expected: format!("codes of version {VERSION}"),
                found: format!("version {}", u32_at(bytes, 8)),
                remedy: "use the version of the program that wrote it, or build the index again".into(),
            });
        }
        let dimensions = usize::try_from(u64_at(bytes, 16)).map_err(|_| damaged())?;
        let shape = Shape { dimensions, rows: u64_at(bytes, 24), slots: u64_at(bytes, 32), lists: u64_at(bytes, 40) };
        if !(1..=65_536).contains(&dimensions) || u32_at(bytes, 12) as usize != ROUNDS || shape.slots > MAX_SLOTS {
            return Err(damaged());
        }
        let layout = shape.layout().ok_or_else(damaged)?;
        if layout.end != bytes.len() as u64 {
            return Err(corrupt(format!("{} bytes", layout.end), format!("{} bytes", bytes.len())));
        }
        // Within the file, so the numbers fit.
        let head = &bytes[..layout.centroids as usize];
        if checksum(head).as_bytes() != &head[CHECKSUM_AT..PAGE] {
            return Err(damaged());
        }
        let floats = |at: u64, count: usize| {
            head[at as usize..][..count * 4].chunks_exact(4).map(|x| f32::from_bits(u32_at(x, 0))).collect()
        };
        let units = Units { mean: f32::from_bits(u32_at(bytes, 48)), code: f32::from_bits(u32_at(bytes, 52)) };
        let signs = head[layout.signs as usize..][..Coder::sign_bytes(dimensions)].to_vec();
        let coder = Coder::new(floats(layout.mean, dimensions), signs, units);
        let entries = shape.lists as usize + 1;
        let directory: Vec<u64> =
            head[layout.directory as usize..][..entries * 8].chunks_exact(8).map(|x| u64_at(x, 0)).collect();
        if directory.first() != Some(&0) || directory.last() != Some(&shape.slots) || !directory.is_sorted() {
            return Err(corrupt(format!("a directory from 0 to {} slots", shape.slots), "another".into()));
        }
        Ok(Self { file, shape, layout, coder, directory })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn coder(&self) -> &Coder {
        &self.coder
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn lists(&self) -> usize {
        self.directory.len() - 1
    }

    /// The slots of a list.
    pub fn list(&self, list: usize) -> Range<u64> {
        self.directory[list]..self.directory[list + 1]
    }

    /// The blocks of the lists' centroids; the last may end with rows that mean nothing.
    pub fn centroids(&self) -> &[u8] {
        self.blocks_at(self.layout.centroids, 0..self.shape.lists.div_ceil(BLOCK as u64))
    }

    /// A list's centroid, as rows are stored.
    pub fn centroid(&self, list: usize) -> Rows<'_> {
        Rows::i8_row(self.coder.mean(), &self.file.as_ref()[self.layout.centroid_rows as usize..], list)
    }

    /// Whole blocks of codes.
    pub fn blocks(&self, blocks: Range<u64>) -> &[u8] {
        self.blocks_at(self.layout.blocks, blocks)
    }

    fn blocks_at(&self, start: u64, blocks: Range<u64>) -> &[u8] {
        let bytes = self.shape.block_bytes() as u64;
        &self.file.as_ref()[(start + blocks.start * bytes) as usize..(start + blocks.end * bytes) as usize]
    }

    /// Where blocks are in the file.
    pub fn place(&self, blocks: Range<u64>) -> Range<usize> {
        let bytes = self.shape.block_bytes() as u64;
        let at = |block: u64| (self.layout.blocks + block * bytes) as usize;
        at(blocks.start)..at(blocks.end)
    }

    /// The file itself, for advice.
    pub fn file(&self) -> &MappedFile {
        &self.file
    }

    /// The number of the row in a slot.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a row that is not there.
    pub fn row(&self, slot: u32) -> Result<u64> {
        let row = u64::from(u32_at(self.file.as_ref(), self.layout.rows as usize + 4 * slot as usize));
        if row < self.shape.rows {
            return Ok(row);
        }
        Err(Error::Corrupt {
            path: self.path().into(),
            expected: format!("rows below {}", self.shape.rows),
            found: format!("row {row} in slot {slot}"),
        })
    }
}

/// The hash of everything before the centroids but itself.
fn checksum(head: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head[..CHECKSUM_AT]).update(&head[PAGE..]);
    hasher.finalize()
}

/// Writes a file of codes; until [`finish`](Self::finish) its header is empty and no reader takes it.
#[derive(Debug)]
pub struct CodesWriter {
    path: PathBuf,
    file: BufWriter<File>,
    layout: Layout,
    head: Vec<u8>,
    written: u64,
}

impl CodesWriter {
    /// Starts the file with all that is known before the codes.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidInput`] for more slots than can be numbered.
    pub fn create(path: &Path, shape: Shape, coder: &Coder, directory: &[u64]) -> Result<Self> {
        let (units, signs) = (coder.units(), coder.signs());
        let Some(layout) = shape.layout().filter(|_| shape.slots <= MAX_SLOTS) else {
            return Err(Error::InvalidInput {
                what: "rows to code".into(),
                expected: format!("at most {MAX_SLOTS} in a shard"),
                found: shape.slots.to_string(),
            });
        };
        let mut head = vec![0; layout.centroids as usize];
        let mut put = |at: u64, bytes: &[u8]| head[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(ROUNDS as u32).to_le_bytes());
        for (at, number) in [(16, shape.dimensions as u64), (24, shape.rows), (32, shape.slots), (40, shape.lists)] {
            put(at, &number.to_le_bytes());
        }
        put(48, &units.mean.to_le_bytes());
        put(52, &units.code.to_le_bytes());
        put(layout.mean, bytemuck::cast_slice(coder.mean()));
        put(layout.signs, signs);
        put(layout.directory, bytemuck::cast_slice(directory));
        let file = File::create(path).map_err(Error::io("create", path))?;
        let mut writer =
            Self { path: path.into(), file: BufWriter::with_capacity(1 << 20, file), layout, head, written: 0 };
        let blank = vec![0; writer.head.len()];
        writer.put(&blank)?;
        Ok(writer)
    }

    /// Writes the next bytes: the blocks of the centroids, their rows, then the blocks of the rows.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    /// Writes the centroids: their blocks and their rows.
    pub fn put_centroids(&mut self, blocks: &[u8], rows: &[u8]) -> Result<()> {
        self.put(blocks)?;
        self.pad(self.layout.centroid_rows)?;
        self.put(rows)?;
        self.pad(self.layout.blocks)
    }

    fn pad(&mut self, to: u64) -> Result<()> {
        let zeros = vec![0; to.checked_sub(self.written).expect("sections in order") as usize];
        self.put(&zeros)
    }

    /// Writes which row is in each slot, makes all durable, and then writes the header.
    pub fn finish(mut self, rows: &[u32]) -> Result<()> {
        self.pad(self.layout.rows)?;
        for part in rows.chunks(1 << 16) {
            self.put(bytemuck::cast_slice(part))?;
        }
        assert_eq!(self.written, self.layout.end, "the length that the shape gives");
        let checksum = checksum(&self.head);
        self.head[CHECKSUM_AT..PAGE].copy_from_slice(checksum.as_bytes());
        let failed = |action| Error::io(action, &self.path);
        self.file.flush().map_err(failed("write"))?;
        let mut file = self.file.get_ref();
        file.sync_data().map_err(failed("sync"))?;
        file.seek(SeekFrom::Start(0)).map_err(failed("seek in"))?;
        file.write_all(&self.head).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))
    }
}
