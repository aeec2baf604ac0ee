//! Which row has this id?
//!
//! A file of (hash of the id, row) pairs, sorted: 16 bytes a row, searched in the mapped file.
//!
//! ```text
//! 0   8   magic "hindsids"
//! 8   4   format version, u32
//! 12  4   zero
//! 16  8   rows, u64
//! 24  32  BLAKE3 of the corpus, so that ids and passages of two corpora are not mixed up
//! 56  32  BLAKE3 of the pairs
//! 88  8   first 8 bytes of the BLAKE3 of bytes 0..88
//! 96  16n pairs: hash u64, row u64, sorted; numbers are little-endian
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use hindsearch_indexes::{Access, Interrupt, MappedFile};

use super::pending::PendingFile;
use super::store::CorpusSummary;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"hindsids";
const VERSION: u32 = 1;
const HEADER: usize = 96;
const CHECKSUM: Range<usize> = 56..88;
const PAIR: usize = 16;
/// Pairs sorted in memory at a time: 64 MiB.
const RUN: usize = 4 << 20;

type Pair = (u64, u64);

fn hash(id: &str) -> u64 {
    let hash = blake3::hash(id.as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Collects the ids of a corpus in row order; memory does not grow with their number.
pub(super) struct IdsWriter {
    folder: PathBuf,
    run_length: usize,
    run: Vec<Pair>,
    spilled: Vec<File>,
    rows: u64,
}

impl IdsWriter {
    /// Temporary files, without names, go into `folder`.
    pub fn new(folder: &Path) -> Self {
        Self::with_run_length(folder, RUN)
    }

    fn with_run_length(folder: &Path, run_length: usize) -> Self {
        Self { folder: folder.to_path_buf(), run_length, run: Vec::new(), spilled: Vec::new(), rows: 0 }
    }

    pub fn push(&mut self, id: &str) -> Result<()> {
        self.run.push((hash(id), self.rows));
        self.rows += 1;
        if self.run.len() == self.run_length {
            self.run.sort_unstable();
            self.spilled.push(spill(&self.folder, &self.run).map_err(Error::io("write", &self.folder))?);
            self.run.clear();
        }
        Ok(())
    }

    /// Merges all pairs into `file`. `corpus` is the hash of the corpus, in hex. `same_hash` is called with each two rows whose ids have the same hash, so that
    /// it can refuse those whose ids are the same.
    pub fn finish(
        mut self,
        file: &mut PendingFile,
        corpus: &str,
        interrupt: &Interrupt,
        mut same_hash: impl FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let target = file.target().to_path_buf();
        let failed = |action| Error::io(action, &target);
        self.run.sort_unstable();
        let mut merge = Merge::new(self.run, self.spilled).map_err(failed("read"))?;
        let mut checksum = blake3::Hasher::new();
        file.write_all(&[0; HEADER]).map_err(failed("write"))?;
        let mut chunk = Vec::new();
        let (mut current, mut group) = (0, Vec::new());
        while let Some((hash, row)) = merge.next().map_err(failed("read"))? {
            if hash != current {
                group.clear();
                current = hash;
            }
            group.iter().try_for_each(|earlier| same_hash(*earlier, row))?;
            group.push(row);
            chunk.extend_from_slice(&hash.to_le_bytes());
            chunk.extend_from_slice(&row.to_le_bytes());
            if chunk.len() >= 256 << 10 {
                interrupt.check()?;
                checksum.update(&chunk);
                file.write_all(&chunk).map_err(failed("write"))?;
                chunk.clear();
            }
        }
        checksum.update(&chunk);
        file.write_all(&chunk).map_err(failed("write"))?;
        file.seek(SeekFrom::Start(0)).map_err(failed("write"))?;
        file.write_all(&header(self.rows, corpus, checksum.finalize().as_bytes())).map_err(failed("write"))?;
        file.sync()
    }
}

fn header(rows: u64, corpus: &str, checksum: &[u8]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    header.extend_from_slice(&rows.to_le_bytes());
    // What is no hash cannot be the hash of a corpus; zeros cannot either.
    let corpus = blake3::Hash::from_hex(corpus).unwrap_or(blake3::Hash::from_bytes([0; 32]));
    header.extend_from_slice(corpus.as_bytes());
    header.extend_from_slice(checksum);
    let own = blake3::hash(&header);
    header.extend_from_slice(&own.as_bytes()[..8]);
    header
}

fn spill(folder: &Path, run: &[Pair]) -> io::Result<File> {
    let mut writer = BufWriter::new(tempfile::tempfile_in(folder)?);
    for (hash, row) in run {
        writer.write_all(&hash.to_le_bytes())?;
        writer.write_all(&row.to_le_bytes())?;
    }
    writer.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Sorted runs, on disk and in memory, as one sorted stream.
struct Merge {
    heap: BinaryHeap<Reverse<(Pair, usize)>>,
    runs: Vec<Run>,
}

enum Run {
    Memory(std::vec::IntoIter<Pair>),
    Disk(BufReader<File>),
}

impl Merge {
    fn new(memory: Vec<Pair>, spilled: Vec<File>) -> io::Result<Self> {
        let mut runs = vec![Run::Memory(memory.into_iter())];
        for mut file in spilled {
            file.seek(SeekFrom::Start(0))?;
            runs.push(Run::Disk(BufReader::with_capacity(256 << 10, file)));
        }
        let mut merge = Self { heap: BinaryHeap::new(), runs };
        for index in 0..merge.runs.len() {
            merge.refill(index)?;
        }
        Ok(merge)
    }

    fn next(&mut self) -> io::Result<Option<Pair>> {
        let Some(Reverse((pair, run))) = self.heap.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some(pair))
    }

    fn refill(&mut self, index: usize) -> io::Result<()> {
        let pair = match &mut self.runs[index] {
            Run::Memory(pairs) => pairs.next(),
            Run::Disk(file) => {
                let mut bytes = [0; PAIR];
                match file.read_exact(&mut bytes) {
                    Ok(()) => Some(pair(&bytes)),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
                    Err(error) => return Err(error),
                }
            }
        };
        self.heap.extend(pair.map(|pair| Reverse((pair, index))));
        Ok(())
    }
}

fn pair(bytes: &[u8; PAIR]) -> Pair {
    let value = u128::from_le_bytes(*bytes);
    (value as u64, (value >> 64) as u64)
}

/// The ids of a corpus, mapped.
pub(super) struct Ids {
    file: MappedFile,
}

impl Ids {
    /// Checks the header and the length against the corpus they belong to.
    pub fn open(path: &Path, corpus: &CorpusSummary) -> Result<Self> {
        let rows = corpus.rows;
        let file = MappedFile::open(path, Access::Random)?;
        let ids = Self { file };
        let bytes = ids.file.as_ref();
        let expected_length = rows.checked_mul(PAIR as u64).and_then(|length| length.checked_add(HEADER as u64));
        if expected_length != Some(bytes.len() as u64) {
            return Err(ids.damage(format!("the ids of {rows} rows"), format!("{} bytes", bytes.len())));
        }
        if bytes[..MAGIC.len()] != MAGIC[..] {
            return Err(ids.damage("a file of ids".into(), "other bytes at its start".into()));
        }
        let version = bytes[8..12].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if version != VERSION {
            return Err(Error::Incompatible {
                what: format!("`{}`", path.display()),
                expected: format!("format version {VERSION}"),
                found: format!("format version {version}"),
                remedy: "build the index again, or use the version of hindsearch that made it".into(),
            });
        }
        if bytes[..HEADER] != header(rows, &corpus.blake3, &bytes[CHECKSUM]) {
            return Err(ids.damage(format!("the ids of the corpus {}", corpus.blake3), "another header".into()));
        }
        Ok(ids)
    }

    /// The rows whose id may be `id`: those with its hash.
    pub fn candidates(&self, id: &str) -> impl Iterator<Item = u64> {
        let wanted = hash(id);
        let pairs = self.pairs();
        let first = pairs.partition_point(|bytes| pair(bytes).0 < wanted);
        pairs[first..].iter().map(pair).take_while(move |(hash, _)| *hash == wanted).map(|(_, row)| row)
    }

    /// Reads every pair and compares the checksum.
    pub fn verify(&self, interrupt: &Interrupt) -> Result<()> {
        let bytes = self.file.as_ref();
        let mut checksum = blake3::Hasher::new();
        for chunk in bytes[HEADER..].chunks(8 << 20) {
            interrupt.check()?;
            checksum.update(chunk);
        }
        if checksum.finalize().as_bytes()[..] != bytes[CHECKSUM] {
            return Err(self.damage("the pairs that were written".into(), "another checksum".into()));
        }
        Ok(())
    }

    pub fn damage(&self, expected: String, found: String) -> Error {
        Error::Corrupt { path: self.file.path().to_path_buf(), expected, found }
    }

    fn pairs(&self) -> &[[u8; PAIR]] {
        self.file.as_ref()[HEADER..].as_chunks().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> CorpusSummary {
        CorpusSummary { rows: 1000, blake3: blake3::hash(b"a corpus").to_hex().to_string(), bytes: 0 }
    }

    /// Runs that are spilled and merged give the same file as one run in memory.
    #[test]
    fn spilled_runs_equal_one_run() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, run_length| {
            let path = folder.path().join(name);
            let mut ids = IdsWriter::with_run_length(folder.path(), run_length);
            for row in 0..1000 {
                ids.push(&format!("id {}", row % 990)).expect("room on disk");
            }
            let mut same = Vec::new();
            let mut file = PendingFile::create(&path).expect("a file");
            let note = |first, second| {
                same.push((first, second));
                Ok(())
            };
            ids.finish(&mut file, &corpus().blake3, &Interrupt::new(), note).expect("a merge");
            file.publish().expect("a name");
            same.sort_unstable();
            assert_eq!(same, (0..10).map(|row| (row, row + 990)).collect::<Vec<_>>());
            std::fs::read(path).expect("the file")
        };
        assert_eq!(write("spilled", 64), write("whole", 4096));

        let ids = Ids::open(&folder.path().join("spilled"), &corpus()).expect("sound ids");
        ids.verify(&Interrupt::new()).expect("an equal checksum");
        assert_eq!(ids.candidates("id 3").collect::<Vec<_>>(), [3, 993]);
        assert_eq!(ids.candidates("id 500").collect::<Vec<_>>(), [500]);
        assert_eq!(ids.candidates("id 990").count(), 0);

        let other = CorpusSummary { blake3: blake3::hash(b"another corpus").to_hex().to_string(), ..corpus() };
        assert!(matches!(Ids::open(&folder.path().join("spilled"), &other), Err(Error::Corrupt { .. })));
    }
}
