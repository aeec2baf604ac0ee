//! What a build will need, told before it starts.

use std::path::Path;
use std::time::Instant;

use hindsearch_indexes::{HnswBuilder, IndexKind, Interrupt, Layout, Progress, QuantizedBuilder, VectorFile};
use serde::Serialize;

use super::machine::{available_disk, available_memory};
use super::pairing::{self, Pairs};
use super::{BuildOptions, gate, held_out, import};
use crate::corpus::CorpusReader;
use crate::embed::{Embedder, InputKind, Precision};
use crate::{Error, Passage, Result};

/// Passages read to estimate the number of rows and their size, at most.
const SAMPLE: usize = 4096;
/// Bytes of text read for it, at most, but for the last passage.
const SAMPLE_BYTES: usize = 16 << 20;
/// Passages that the model's speed is measured with, at most.
const PROBE: usize = 256;
/// Time spent on measuring the model's speed, in seconds.
const PROBE_SECONDS: f64 = 2.0;
/// Heap of a build besides model and graph: windows of texts and tokens, sorted runs of ids, one window of vectors.
const WORKING_MEMORY: u64 = 300 << 20;

/// The needs of a build, and what there is.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Passages in the corpus.
    pub passages: u64,
    /// Whether `passages` was counted; else it is estimated from the first ones.
    pub passages_exact: bool,
    /// Values in a vector.
    pub dimensions: usize,
    /// Bytes of the text store with its id table.
    pub text_bytes: u64,
    /// Bytes of the vectors.
    pub vector_bytes: u64,
    /// Bytes of the graph or of the codes; 0 for a flat index.
    pub graph_bytes: u64,
    /// Bytes that the output folder's disk must have free: all of the above and the temporary id runs.
    pub disk_needed: u64,
    /// Bytes free there.
    pub disk_free: Option<u64>,
    /// Bytes of memory at the peak, the model included.
    pub memory_needed: u64,
    /// Bytes of memory to be had.
    pub memory_free: Option<u64>,
    /// Passages a second that this model embeds here, or whose vectors are read from files, measured on the first ones.
    pub passages_per_second: f64,
    /// Seconds for the whole build at that speed.
    pub seconds: f64,
}

impl Plan {
    /// Looks at the corpus's beginning, and runs the model on it for about two seconds.
    ///
    /// # Errors
    /// A model, corpus or output folder that cannot be used.
    pub fn new(options: &BuildOptions) -> Result<Self> {
        Ok(Self::prepare(options)?.0)
    }

    /// The plan, and the model and vector files that were opened to make it.
    pub(super) fn prepare(options: &BuildOptions) -> Result<(Self, Embedder, Option<VectorFile>)> {
        let memory_free = available_memory();
        let embedder = Embedder::open(&options.model, options.embed.clone())?;
        let vectors = import::open(options, &embedder)?;
        let plan = Self::with(options, &embedder, vectors.as_ref(), memory_free)?;
        Ok((plan, embedder, vectors))
    }

    fn with(
        options: &BuildOptions,
        embedder: &Embedder,
        vectors: Option<&VectorFile>,
        memory_free: Option<u64>,
    ) -> Result<Self> {
        let (passages, mut rows, mut exact) = sample(options)?;
        if let Some(file) = vectors {
            if exact {
                pairing::same_rows(file, rows)?;
            }
            Pairs { options, file, embedder, interrupt: &Interrupt::new() }.check_first(&passages)?;
            // The build refuses another number.
            (rows, exact) = (file.rows(), true);
        }
        let card = embedder.card();
        let text: u64 = passages.iter().map(|p| (p.id.len() + p.contents().len()) as u64).sum();
        // Arrow's offsets cost 4 bytes a column and row.
        let text_bytes = rows.saturating_mul(text / passages.len() as u64 + 12);
        let layout = Layout::of(options.index.kind, options.index.connectivity);
        let footprint = layout.footprint(options.index.element_type, rows, card.dimensions);
        let (ids, codes) = (footprint.file("ids"), footprint.file("codes") + footprint.file("row numbers"));
        let graph_bytes = footprint.file("graph") + codes;
        let graph_memory = match options.index.kind {
            IndexKind::Hnsw => {
                rows.saturating_mul(HnswBuilder::bytes_per_row(card.dimensions, options.index.connectivity))
            }
            IndexKind::Quantized => QuantizedBuilder::memory(rows, card.dimensions),
            IndexKind::Flat => 0,
        };
        let probe: Vec<_> = held_out::spread(&passages, PROBE).collect();
        let rate = match vectors {
            Some(file) => import_speed(file)?,
            None => speed(embedder, &probe)?,
        };
        let int8 = vectors.is_none() && embedder.fingerprint().passages.precision == Precision::Int8;
        let gate = if int8 && gate::can_measure(&options.model, &options.embed)? { gate::work(rows) } else { 0 };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let index_seconds = layout.build_seconds(rows, card.dimensions, cores);
        // The ids are sorted in runs, which are as long again, and codes wait in row order to be put into lists.
        let disk = text_bytes.saturating_add(footprint.disk()).saturating_add(ids).saturating_add(codes);
        Ok(Self {
            passages: rows,
            passages_exact: exact,
            dimensions: card.dimensions,
            text_bytes: text_bytes.saturating_add(ids),
            vector_bytes: footprint.file("vectors") + footprint.file("second plane"),
            graph_bytes,
            disk_needed: disk.saturating_sub(staged_bytes(&options.out)),
            disk_free: available_disk(&options.out),
            memory_needed: (WORKING_MEMORY + embedder.memory_bytes()).saturating_add(graph_memory),
            memory_free,
            passages_per_second: rate,
            seconds: rows.saturating_add(gate) as f64 / rate + index_seconds,
        })
    }

    /// Refuses to start what cannot end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] naming the shortfall of disk or memory, in bytes.
    pub fn check(&self, options: &BuildOptions) -> Result<()> {
        let short = |what: String, needed: u64, free: Option<u64>, remedy: &str| match free {
            Some(free) if free < needed => Err(Error::Unavailable {
                what,
                found: format!("the build needs about {needed} bytes, {free} are free"),
                remedy: remedy.into(),
            }),
            _ => Ok(()),
        };
        let disk = format!("disk of `{}`", options.out.display());
        short(
            disk,
            self.disk_needed,
            self.disk_free,
            "free some space, choose another `--out`, or a smaller `--element-type`",
        )?;
        short(
            "memory".into(),
            self.memory_needed,
            self.memory_free,
            "close other programs, or build `--index flat`, which needs no graph in memory",
        )
    }
}

/// The first passages, the number of all, and whether that was counted.
fn sample(options: &BuildOptions) -> Result<(Vec<Passage>, u64, bool)> {
    let mut reader = CorpusReader::open(&options.corpus, options.format)?;
    let (mut passages, mut bytes) = (Vec::new(), 0);
    while passages.len() < SAMPLE && bytes < SAMPLE_BYTES {
        let Some(passage) = reader.next().transpose()? else {
            let rows = passages.len() as u64;
            return Ok((passages, rows, true));
        };
        bytes += passage.text.len();
        passages.push(passage);
    }
    let rows = estimate(passages.len() as u64, reader.progress());
    Ok((passages, rows, false))
}

/// What an unfinished build in the index folder has written already.
pub(super) fn staged_bytes(out: &Path) -> u64 {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let staging = entries(out).filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"));
    let files = staging.flat_map(|folder| entries(&folder.path()));
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// Rows in all, from the share of the input that the first rows took.
fn estimate(rows: u64, progress: Progress) -> u64 {
    let total = progress.total.unwrap_or(progress.done).max(progress.done);
    (u128::from(rows) * u128::from(total) / u128::from(progress.done.max(1))).try_into().unwrap_or(u64::MAX)
}

fn speed(embedder: &Embedder, passages: &[&Passage]) -> Result<f64> {
    let texts: Vec<_> = passages.iter().map(|passage| passage.contents()).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    embedder.warm_up(InputKind::Passage)?;
    let (start, mut done, mut step) = (Instant::now(), 0, 4);
    while done < texts.len() && start.elapsed().as_secs_f64() < PROBE_SECONDS {
        let batch = &texts[done..texts.len().min(done + step)];
        embedder.embed(batch, InputKind::Passage)?;
        done += batch.len();
        step *= 2;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

/// Rows a second that are read and decoded.
fn import_speed(file: &VectorFile) -> Result<f64> {
    let rows = file.rows().min(PROBE as u64);
    let start = Instant::now();
    file.read(0..rows)?;
    Ok(rows as f64 / start.elapsed().as_secs_f64().max(1e-9))
}
