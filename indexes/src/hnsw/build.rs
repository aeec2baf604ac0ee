//! Building a graph: add all rows on all cores, then make sure that each is found.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::codes::Codes;
use super::footer::Footer;
use super::{failed, new_graph, reserve};
use crate::workers::run_workers;
use crate::{Error, Interrupt, Matrix, OnProgress, Progress, Result};

/// Rows that a worker takes at once.
const CLAIM_ROWS: u64 = 64;
/// Results among which a row must find itself.
const SELF_RANK: usize = 10;
/// Rounds of repair before the build fails; one is the rule.
const MAX_ROUNDS: usize = 8;
/// The most rows of a graph: the library numbers nodes with 32 bits.
const MAX_ROWS: u64 = u32::MAX as u64;

/// How to build a graph. The matrix should hold unit vectors: the graph ranks by distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswBuilder {
    /// Links of a node in each layer (M), twice as many in the lowest: more find more, and take memory.
    pub connectivity: usize,
    /// Candidates considered for the links of a new node (ef of construction).
    pub expansion_add: usize,
    /// Threads; 0 is all cores.
    pub threads: usize,
}

impl Default for HnswBuilder {
    fn default() -> Self {
        Self { connectivity: 16, expansion_add: 128, threads: 0 }
    }
}

/// What a build did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswSummary {
    /// Nodes of the graph.
    pub rows: u64,
    /// Rows that adding at once had lost, and that were linked again.
    pub repaired: u64,
}

impl HnswBuilder {
    /// Builds the graph of `matrix` in memory (about 1.2 bytes a value and 150 a row) and writes it to `path`, which
    /// appears only when it is complete and durable; until then the file is called `path` with `.partial` added.
    /// Progress counts each row twice: when it is added and when it is found.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for too many rows or settings that cannot be, [`Error::Io`], [`Error::Interrupted`],
    /// [`Error::Graph`] when the library fails. Rows that stay lost are the settings' fault: too few links.
    pub fn build(
        &self,
        matrix: &Matrix,
        path: &Path,
        progress: OnProgress<'_>,
        interrupt: &Interrupt,
    ) -> Result<HnswSummary> {
        self.check(matrix)?;
        let codes = Codes::fit(matrix, interrupt)?;
        let mut footer = Footer {
            rows: matrix.rows(),
            connectivity: self.connectivity,
            expansion_add: self.expansion_add,
            graph_length: 0,
            codes,
        };
        let graph = new_graph(&footer, self.connectivity * 2)?;
        let threads = if self.threads == 0 { crate::workers::cores() } else { self.threads };
        // One more than there are rows, as the library takes a capacity of 0 for none given.
        reserve(&graph, matrix.rows() as usize + 1, threads)?;
        let HnswBuilder { connectivity, expansion_add, .. } = *self;
        let codes = &footer.codes;
        let build = Build { matrix, codes, graph: &graph, threads, progress, interrupt, connectivity, expansion_add };
        build.add_all()?;
        let repaired = build.repair()?;
        footer.graph_length = graph.serialized_length();
        save(&graph, &footer, path)?;
        Ok(HnswSummary { rows: matrix.rows(), repaired })
    }

    fn check(&self, matrix: &Matrix) -> Result<()> {
        let bounds = [
            ("rows", matrix.rows(), 0..=MAX_ROWS),
            ("connectivity", self.connectivity as u64, 2..=512),
            ("expansion_add", self.expansion_add as u64, 1..=65_536),
        ];
        for (what, value, bounds) in bounds {
            if !bounds.contains(&value) {
                return Err(Error::InvalidInput {
                    what: format!("graph {what}"),
                    expected: format!("{} to {}", bounds.start(), bounds.end()),
                    found: value.to_string(),
                });
            }
        }
        Ok(())
    }
}

struct Build<'a> {
    matrix: &'a Matrix,
    codes: &'a Codes,
    graph: &'a usearch::Index,
    threads: usize,
    progress: OnProgress<'a>,
    interrupt: &'a Interrupt,
    connectivity: usize,
    expansion_add: usize,
}

impl Build<'_> {
    fn add_all(&self) -> Result<()> {
        self.for_all_rows(0, |row, code| {
            self.graph.add(row, code).map_err(failed("add a row"))?;
            Ok(false)
        })?;
        Ok(())
    }

    /// Links rows again, alone, until all are found, and returns how many that took.
    fn repair(&self) -> Result<u64> {
        let mut repaired = 0;
        for _ in 0..MAX_ROUNDS {
            let lost = self.for_all_rows(self.matrix.rows(), |row, code| Ok(!self.finds(row, code)?))?;
            if lost.is_empty() {
                return Ok(repaired);
            }
            let mut code = vec![0; self.codes.dimensions()];
            for row in &lost {
                self.interrupt.check()?;
                self.codes.encode(&self.matrix.row(*row), &mut code);
                self.graph.remove(*row).map_err(failed("remove a row"))?;
                self.graph.add(*row, &code).map_err(failed("add a row"))?;
            }
            repaired += lost.len() as u64;
        }
        Err(Error::InvalidInput {
            what: format!("graph of connectivity {} and expansion_add {}", self.connectivity, self.expansion_add),
            expected: "every row found in it; raise both settings".into(),
            found: format!("rows still lost after {MAX_ROUNDS} rounds of repair ({repaired} links made)"),
        })
    }

    /// Whether a search for the code of `row` gives `row`, or nothing but equals of it.
    fn finds(&self, row: u64, code: &[i8]) -> Result<bool> {
        let found = self.graph.search(code, SELF_RANK).map_err(failed("search"))?;
        let only_equals = found.keys.len() == SELF_RANK && found.distances.iter().all(|distance| *distance <= 0.0);
        Ok(only_equals || found.keys.contains(&row))
    }

    /// Calls `act` with each row and its code, on all threads, and returns the rows for which it was true, in order.
    fn for_all_rows(&self, done_before: u64, act: impl Fn(u64, &[i8]) -> Result<bool> + Sync) -> Result<Vec<u64>> {
        let rows = self.matrix.rows();
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(done_before));
        let parts = run_workers(self.threads, self.threads, || {
            let mut chosen = Vec::new();
            let mut vectors = vec![0.0; CLAIM_ROWS as usize * self.codes.dimensions()];
            let mut code = vec![0; self.codes.dimensions()];
            loop {
                let start = next.fetch_add(CLAIM_ROWS, Ordering::Relaxed);
                if start >= rows {
                    return Ok(chosen);
                }
                self.interrupt.check()?;
                let claimed = start..(start + CLAIM_ROWS).min(rows);
                let count = claimed.end - claimed.start;
                let vectors = &mut vectors[..count as usize * self.codes.dimensions()];
                self.matrix.widen(claimed.clone(), vectors);
                for (row, vector) in claimed.zip(vectors.chunks_exact(self.codes.dimensions())) {
                    self.codes.encode(vector, &mut code);
                    if act(row, &code)? {
                        chosen.push(row);
                    }
                }
                let done = done.fetch_add(count, Ordering::Relaxed) + count;
                (self.progress)(Progress { done, total: Some(rows * 2) });
            }
        })?;
        let mut chosen: Vec<u64> = parts.into_iter().flatten().collect();
        chosen.sort_unstable();
        Ok(chosen)
    }
}

/// Writes the graph and its footer beside `path`, makes them durable, and gives them their name.
fn save(graph: &usearch::Index, footer: &Footer, path: &Path) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let name = partial.to_str().ok_or_else(|| Error::InvalidInput {
        what: format!("path `{}`", partial.display()),
        expected: "a path in UTF-8".into(),
        found: "other bytes".into(),
    })?;
    graph.save(name).map_err(failed("write its file"))?;
    let mut file = OpenOptions::new().append(true).open(partial).map_err(Error::io("open", partial))?;
    // The library does not look whether its last bytes were written, as they are not when the disk is full.
    let written = file.metadata().map_err(Error::io("read", partial))?.len();
    if written != footer.graph_length as u64 {
        let message = format!("{written} of {} bytes were written; is the disk full?", footer.graph_length);
        return Err(Error::Graph { action: "write its file", message });
    }
    file.write_all(&footer.encode()).map_err(Error::io("write", partial))?;
    file.sync_all().map_err(Error::io("sync", partial))?;
    fs::rename(partial, path).map_err(Error::io("rename", partial))
}
