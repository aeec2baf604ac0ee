//! Building a graph: add all rows on all cores, then make sure that each is found.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::codes::Codes;
use super::footer::Footer;
use super::rows::Rows;
use super::{failed, new_graph, reserve};
use crate::storage::with_suffix;
use crate::workers::run_workers;
use crate::{Error, Interrupt, Matrix, OnProgress, Result};

/// Results among which a row must find itself.
const SELF_RANK: usize = 10;
/// Candidates kept in the first look for a row, which most pass.
const FIRST_LOOK: usize = 32;
/// Candidates kept in the second look: a row that fails it is not reached by any walk.
const SECOND_LOOK: usize = 512;
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
    /// Rows of the matrix.
    pub rows: u64,
    /// Rows whose code an earlier row has, which stands for them in the graph.
    pub copies: u64,
    /// Rows that adding at once had lost, and that were linked again.
    pub repaired: u64,
}

impl HnswBuilder {
    /// Bytes of a graph for each row in memory while it is built: a code of 8 bits a value, links of 4 bytes
    /// (twice as many in the lowest layer), and what the library keeps of a node beside them. An estimate.
    pub fn bytes_per_row(dimensions: usize, connectivity: usize) -> u64 {
        (dimensions as u64).saturating_mul(6) / 5 + (connectivity as u64).saturating_mul(9)
    }

    /// Bytes of the file of a graph without copies, but for some pages: of a node its code, its key (8), its layer (2, kept
    /// twice), and in each of its layers a count (4) and links of 4 bytes. Of `connectivity` nodes one has a further layer.
    pub(crate) fn file_bytes(rows: u64, dimensions: usize, connectivity: usize) -> u64 {
        let (codes, links) = (dimensions as u64, connectivity as u64);
        let further = (4 + 4 * links) as f64 / connectivity.saturating_sub(1).max(1) as f64;
        let layers = (rows as f64 * further) as u64;
        rows.saturating_mul(codes.saturating_add(8 + 2 + 2 + 4 + 8 * links)).saturating_add(layers)
    }

    /// Builds the graph of `matrix` in memory (about 1.2 bytes a value and 150 a row) and writes it to `path`, which
    /// appears only when it is complete and durable; until then the file is called `path` with `.tmp` added.
    /// Progress counts each row twice: when it is added and when it is found; a repair begins the finding anew.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for too many rows or settings that cannot be, [`Error::Io`], [`Error::Interrupted`],
    /// [`Error::Graph`] when the library fails.
    pub fn build(
        &self,
        matrix: &Matrix,
        path: &Path,
        progress: OnProgress<'_>,
        interrupt: &Interrupt,
    ) -> Result<HnswSummary> {
        self.check(matrix)?;
        let threads = if self.threads == 0 { crate::workers::cores() } else { self.threads };
        let codes = Codes::fit(matrix, interrupt)?;
        let rows = Rows { matrix, codes: &codes, threads, progress, interrupt };
        let copies = rows.copies()?;
        let mut footer = Footer {
            rows: matrix.rows(),
            connectivity: self.connectivity,
            expansion_add: self.expansion_add,
            graph_length: 0,
            codes: codes.clone(),
            copies,
        };
        let graph = new_graph(&footer, FIRST_LOOK)?;
        // One more than there are rows, as the library takes a capacity of 0 for none given.
        reserve(&graph, matrix.rows() as usize + 1, threads)?;
        let build = Build { rows: &rows, graph: &graph, copies: footer.copies.rows() };
        build.add_all()?;
        let repaired = build.repair()?;
        footer.graph_length = graph.serialized_length();
        save(&graph, &footer, path)?;
        Ok(HnswSummary { rows: matrix.rows(), copies: footer.copies.len() as u64, repaired })
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
    rows: &'a Rows<'a>,
    graph: &'a usearch::Index,
    /// The rows that are left out, in order.
    copies: Vec<u64>,
}

impl Build<'_> {
    fn is_node(&self, row: u64) -> bool {
        self.copies.binary_search(&row).is_err()
    }

    fn add_all(&self) -> Result<()> {
        self.rows.for_all(Some(0), |row, code| {
            if self.is_node(row) {
                self.graph.add(row, code).map_err(failed("add a row"))?;
            }
            Ok(None::<u64>)
        })?;
        Ok(())
    }

    /// Links rows again, alone, until all are found, and returns how many that took.
    fn repair(&self) -> Result<u64> {
        let mut repaired = 0;
        for _ in 0..MAX_ROUNDS {
            let lost = self.lost()?;
            if lost.is_empty() {
                return Ok(repaired);
            }
            for row in &lost {
                self.rows.interrupt.check()?;
                self.graph.remove(*row).map_err(failed("remove a row"))?;
                self.graph.add(*row, &self.rows.code(*row)).map_err(failed("add a row"))?;
            }
            repaired += lost.len() as u64;
        }
        // Not a fault of the library: so few links cannot hold the rows together.
        Err(Error::InvalidInput {
            what: "settings of the graph".into(),
            expected: "every row found; raise the connectivity and expansion_add, or build a flat index".into(),
            found: format!("rows still lost after {MAX_ROUNDS} rounds of repair ({repaired} linked again)"),
        })
    }

    /// The rows that no search finds.
    fn lost(&self) -> Result<Vec<u64>> {
        // No search runs while the expansion changes.
        self.graph.change_expansion_search(FIRST_LOOK);
        let suspects = self.rows.for_all(Some(self.rows.matrix.rows()), |row, code| {
            Ok((self.is_node(row) && !self.finds(row, code)?).then_some(row))
        })?;
        self.graph.change_expansion_search(SECOND_LOOK);
        let next = AtomicUsize::new(0);
        let parts = run_workers(self.rows.threads, suspects.len(), || {
            let mut lost = Vec::new();
            while let Some(row) = suspects.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.rows.interrupt.check()?;
                if !self.finds(*row, &self.rows.code(*row))? {
                    lost.push(*row);
                }
            }
            Ok(lost)
        })?;
        Ok(parts.concat())
    }

    /// Whether a search for the code of `row` gives `row`.
    fn finds(&self, row: u64, code: &[i8]) -> Result<bool> {
        Ok(self.graph.search(code, SELF_RANK).map_err(failed("search"))?.keys.contains(&row))
    }
}

/// Writes the graph and its footer beside `path`, makes them durable, and gives them their name. Leaves nothing when it
/// fails.
fn save(graph: &usearch::Index, footer: &Footer, path: &Path) -> Result<()> {
    let partial = with_suffix(path, ".tmp");
    let written =
        write(graph, footer, &partial).and_then(|()| fs::rename(&partial, path).map_err(Error::io("rename", &partial)));
    if written.is_err() {
        // What cannot be removed is refused when the folder is published.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write(graph: &usearch::Index, footer: &Footer, path: &Path) -> Result<()> {
    let name = path.to_str().ok_or_else(|| Error::InvalidInput {
        what: format!("path `{}`", path.display()),
        expected: "a path in UTF-8".into(),
        found: "other bytes".into(),
    })?;
    graph.save(name).map_err(failed("write its file"))?;
    let mut file = OpenOptions::new().append(true).open(path).map_err(Error::io("open", path))?;
    // The library does not look whether its last bytes were written, as they are not when the disk is full.
    if file.metadata().map_err(Error::io("read", path))?.len() != footer.graph_length as u64 {
        return Err(Error::io("write", path)(io::ErrorKind::StorageFull.into()));
    }
    file.write_all(&footer.encode()).map_err(Error::io("write", path))?;
    file.sync_all().map_err(Error::io("sync", path))
}
