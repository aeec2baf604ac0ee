//! How are several shards searched as one index?

use std::path::Path;
use std::sync::Arc;

use crate::flat::no_row;
use crate::select::TopK;
use crate::{
    Deleted, Effort, ElementType, Error, Flat, Hit, Hnsw, HnswOptions, Index, LiveRows, Manifest, Matrix, Quantized,
    Result, SearchParams, Shard, Vectors,
};

/// The indexes of all shards of a generation. Rows are counted through them.
#[derive(Debug)]
pub struct Sharded<I> {
    /// In order of their rows; at least one.
    parts: Vec<(Shard, I)>,
    deleted: Option<Arc<Deleted>>,
    /// Of searches that ask for none.
    effort: Effort,
}

/// What an index of one shard is made of.
pub struct ShardRows {
    /// The shard's vectors.
    pub matrix: Arc<Matrix>,
    /// Those that can be found.
    pub live: LiveRows,
}

impl Sharded<Flat> {
    /// The exact index over the `vectors` of all shards in `folder`, as `manifest` describes them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_flat(folder: &Path, manifest: &Manifest) -> Result<Self> {
        Self::open(folder, manifest, |_, rows| Ok(Flat::of_live(rows.matrix, rows.live)))
    }
}

impl Sharded<Hnsw> {
    /// The graphs of all shards in `folder`, as `manifest` describes them. Their hashes have been verified, see
    /// [`Hnsw::open`].
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`Hnsw::open`].
    pub fn open_graphs(folder: &Path, manifest: &Manifest, options: HnswOptions) -> Result<Self> {
        Self::open(folder, manifest, |shard, rows| {
            Hnsw::open_live(&shard.files(folder).path("graph"), rows.matrix, rows.live, options)
        })
    }

    /// Sets how many candidates later searches keep, see [`HnswOptions::expansion_search`].
    pub fn set_expansion_search(&mut self, expansion_search: usize) {
        self.parts.iter_mut().for_each(|(_, graph)| graph.set_expansion_search(expansion_search));
    }
}

impl Sharded<Quantized> {
    /// The codes of all shards in `folder`, as `manifest` describes them.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`Quantized::open`].
    pub fn open_codes(folder: &Path, manifest: &Manifest) -> Result<Self> {
        Self::open(folder, manifest, |shard, rows| {
            let calibration = manifest.calibration.clone();
            Quantized::open_live(&shard.files(folder).path("codes"), rows.matrix, rows.live, calibration)
        })
    }
}

impl<I: Index> Sharded<I> {
    /// Sets the effort of searches that ask for none.
    #[must_use]
    pub fn with_effort(self, effort: Effort) -> Self {
        Self { effort, ..self }
    }

    /// Opens the vectors of each shard in `folder` and makes an index of them with `open`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`] or [`Error::Incompatible`] for files that are not what the manifest says; those
    /// of `open`.
    pub fn open(
        folder: &Path,
        manifest: &Manifest,
        mut open: impl FnMut(Shard, ShardRows) -> Result<I>,
    ) -> Result<Self> {
        let deleted = manifest.read_deleted(folder)?;
        let part = |shard: Shard| {
            let matrix = open_matrix(folder, manifest, shard)?;
            let live = LiveRows::of(shard, deleted.as_ref());
            Ok((shard, open(shard, ShardRows { matrix, live })?))
        };
        Ok(Self {
            parts: manifest.shards().into_iter().map(part).collect::<Result<_>>()?,
            deleted,
            effort: Effort::Calibrated,
        })
    }

    /// An index whose only shard is `index`, nothing deleted.
    pub fn single(index: I) -> Self {
        let shard = Shard { number: 1, first_row: 0, rows: index.len() };
        Self { parts: vec![(shard, index)], deleted: None, effort: Effort::Calibrated }
    }

    /// The index of each shard.
    pub fn parts(&self) -> impl Iterator<Item = (Shard, &I)> {
        self.parts.iter().map(|(shard, index)| (*shard, index))
    }

    fn rows(&self) -> u64 {
        self.parts.last().map_or(0, |(shard, _)| shard.first_row + shard.rows)
    }

    /// Merges what each shard found, its rows counted through all.
    fn merge(
        found: impl Iterator<Item = Result<(Shard, Vec<Vec<Hit>>)>>,
        queries: usize,
        top_k: usize,
    ) -> Result<Vec<Vec<Hit>>> {
        let mut best: Vec<Option<TopK>> = (0..queries).map(|_| None).collect();
        for part in found {
            let (shard, rankings) = part?;
            for (best, hits) in best.iter_mut().zip(rankings) {
                let best = best.get_or_insert_with(|| TopK::new(top_k));
                hits.into_iter().for_each(|hit| best.offer(Hit { row: shard.first_row + hit.row, ..hit }));
            }
        }
        Ok(best.into_iter().map(|best| best.map_or_else(Vec::new, TopK::into_hits)).collect())
    }
}

/// The vectors of a shard, which must have the shape that the manifest claims.
fn open_matrix(folder: &Path, manifest: &Manifest, shard: Shard) -> Result<Arc<Matrix>> {
    let path = shard.files(folder).path("vectors");
    let matrix = Arc::new(Matrix::open(&path)?);
    let claimed = (shard.rows, manifest.dimensions, manifest.element_type);
    let found = (matrix.rows(), matrix.dimensions(), matrix.element_type());
    if claimed == found {
        return Ok(matrix);
    }
    let shape =
        |(rows, dimensions, kind): (u64, usize, ElementType)| format!("{rows} rows of {dimensions} values, {kind}");
    Err(Error::Corrupt { path, expected: shape(claimed), found: shape(found) })
}

impl Manifest {
    /// The deleted rows of the generation in `folder`; `None` when there are none.
    ///
    /// # Errors
    /// As [`Deleted::read`].
    pub fn read_deleted(&self, folder: &Path) -> Result<Option<Arc<Deleted>>> {
        (self.deleted > 0).then(|| Deleted::read(folder, self.rows, self.deleted).map(Arc::new)).transpose()
    }
}

impl<I: Index> Index for Sharded<I> {
    fn len(&self) -> u64 {
        self.parts.iter().map(|(_, index)| index.len()).sum()
    }

    fn dimensions(&self) -> usize {
        self.parts.first().map_or(0, |(_, index)| index.dimensions())
    }

    fn max_concurrency(&self) -> usize {
        self.parts.iter().map(|(_, index)| index.max_concurrency()).min().unwrap_or(1)
    }

    fn search(&self, queries: &Vectors, params: &SearchParams) -> Result<Vec<Vec<Hit>>> {
        let effort = if params.effort == Effort::Calibrated { self.effort } else { params.effort };
        let params = &SearchParams { effort, ..*params };
        if let [(_, index)] = &self.parts[..] {
            return index.search(queries, params);
        }
        queries.check(self.dimensions(), "query", 0)?;
        let top_k = usize::try_from(self.len()).unwrap_or(usize::MAX).min(params.top_k);
        if top_k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let found = self.parts.iter().map(|(shard, index)| Ok((*shard, index.search(queries, params)?)));
        Self::merge(found, queries.len(), top_k)
    }

    fn search_rows(&self, queries: &Vectors, rows: &[u64], top_k: usize) -> Result<Vec<Vec<Hit>>> {
        queries.check(self.dimensions(), "query", 0)?;
        let gone = |row: u64| row >= self.rows() || self.deleted.as_ref().is_some_and(|deleted| deleted.contains(row));
        if let Some(row) = rows.iter().find(|row| gone(**row)) {
            return Err(no_row(*row, self.rows()));
        }
        let top_k = top_k.min(rows.len());
        if top_k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let found = self.parts.iter().map(|(shard, index)| {
            let here = shard.first_row..shard.first_row + shard.rows;
            let rows: Vec<u64> = rows.iter().filter(|row| here.contains(row)).map(|row| row - here.start).collect();
            Ok((*shard, index.search_rows(queries, &rows, top_k)?))
        });
        Self::merge(found, queries.len(), top_k)
    }
}
