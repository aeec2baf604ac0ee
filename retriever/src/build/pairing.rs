//! Do these vectors belong to these passages?
//!
//! Only their order links them. A file of another corpus version, or of texts without their prefix, would be searched
//! without any error and find the wrong passages, so a sample is embedded again and compared.

mod causes;

use hindsearch_indexes::{Interrupt, VectorFile, norm};
use serde::{Deserialize, Serialize};

use super::import::{LENGTH_TOLERANCE, named};
use super::vectors::cosine;
use super::{BuildOptions, held_out};
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};
use crate::{Error, Passage, Result};

/// Passages embedded again.
const SAMPLE: usize = 64;
/// Passages among the first ones that are tried before the corpus is read.
const FIRST: usize = 8;
/// The least cosine of a passage's own vector and the imported one. Another runtime, another batch and half precision stay
/// above 0.9999; a missing prefix, another pooling and another passage stay below.
const FLOOR: f64 = 0.999;

/// What was measured on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pairing {
    /// Passages that were embedded again.
    pub passages: usize,
    /// The least cosine of such a vector and the one in the file.
    pub least_cosine: f64,
}

/// One passage of the sample.
struct Sample {
    row: u64,
    passage: Passage,
    embedded: Vec<f32>,
    /// Cosine with the file's row.
    cosine: f64,
}

/// That the file has a vector for each passage.
///
/// # Errors
/// [`Error::Incompatible`] with both numbers.
pub(super) fn same_rows(file: &VectorFile, passages: u64) -> Result<()> {
    if file.rows() == passages {
        return Ok(());
    }
    Err(Error::Incompatible {
        what: named(file.path_of(0)),
        expected: format!("{passages} rows, one for each passage of the corpus"),
        found: format!(
            "{} rows of {} values ({}, {} bytes)",
            file.rows(),
            file.dimensions(),
            file.format(),
            file.bytes()
        ),
        remedy: "give the corpus that the vectors were made from, all parts of the file, and the model that made them \
                 (`--model`)"
            .into(),
    })
}

/// Passages and the vectors that should be theirs.
pub(super) struct Pairs<'a> {
    pub options: &'a BuildOptions,
    pub file: &'a VectorFile,
    pub embedder: &'a Embedder,
    pub interrupt: &'a Interrupt,
}

impl Pairs<'_> {
    /// Compares a sample of the whole corpus.
    ///
    /// # Errors
    /// [`Error::Incompatible`] for another number of rows; as [`compare`](Self::compare).
    pub fn check(&self, corpus: &CorpusStore) -> Result<Pairing> {
        same_rows(self.file, corpus.len())?;
        let mut rows: Vec<u64> = held_out::rows(corpus.len(), SAMPLE - 1).collect();
        // A row that is missing anywhere shows in the last.
        rows.extend(corpus.len().checked_sub(1).filter(|last| !rows.contains(last)));
        self.compare(rows.into_iter().map(|row| Ok((row, corpus.get(row)?))).collect::<Result<_>>()?)
    }

    /// Compares some of a corpus's first passages: what is wrong with all vectors is told before a long corpus is read.
    ///
    /// # Errors
    /// As [`compare`](Self::compare).
    pub fn check_first(&self, passages: &[Passage]) -> Result<()> {
        let sample = held_out::spread(passages, FIRST).zip(held_out::rows(passages.len() as u64, FIRST));
        self.compare(sample.map(|(passage, row)| (row, passage.clone())).collect()).map(|_| ())
    }

    /// Embeds passages again and compares the vectors with those of their rows.
    ///
    /// # Errors
    /// [`Error::Incompatible`] naming the first row that differs, by how much, and the likely cause.
    fn compare(&self, passages: Vec<(u64, Passage)>) -> Result<Pairing> {
        let texts = passages.iter().map(|(_, passage)| passage.contents().into_owned()).collect();
        let vectors = self.embedder.submit(texts, InputKind::Passage).wait_unless(self.interrupt)?.vectors;
        let mut samples = Vec::with_capacity(passages.len());
        for ((row, passage), embedded) in passages.into_iter().zip(vectors.rows()) {
            let stored = self.stored(row)?;
            let cosine = cosine(embedded, &stored);
            samples.push(Sample { row, passage, embedded: embedded.to_vec(), cosine });
        }
        if let Some(first) = samples.iter().find(|sample| !sample.fits()) {
            return Err(self.refuse(&samples, first)?);
        }
        for sample in &samples {
            self.same_length(sample)?;
        }
        let least_cosine = samples.iter().map(|sample| sample.cosine).fold(1.0, f64::min);
        Ok(Pairing { passages: samples.len(), least_cosine })
    }

    /// The file's vector of a row.
    fn stored(&self, row: u64) -> Result<Vec<f32>> {
        let end = row.saturating_add(1).min(self.file.rows());
        Ok(self.file.read(row.min(end)..end)?.as_slice().to_vec())
    }

    /// Vectors of one direction and another length: scores would not be the model's.
    fn same_length(&self, sample: &Sample) -> Result<()> {
        let (expected, found) = (norm(&sample.embedded), norm(&self.stored(sample.row)?));
        if (found / expected - 1.0).abs() <= LENGTH_TOLERANCE {
            return Ok(());
        }
        Err(Error::Incompatible {
            what: format!("{}, row {}", named(self.file.path_of(sample.row)), sample.row),
            expected: format!("a vector of length {expected:.4}, as the model gives"),
            found: format!("one of length {found:.4} and of the same direction"),
            remedy:
                "scale the rows to the model's length (to 1: `x / numpy.linalg.norm(x, axis=1, keepdims=True)`) and \
                     import those"
                    .into(),
        })
    }

    fn refuse(&self, samples: &[Sample], first: &Sample) -> Result<Error> {
        let differing = samples.iter().filter(|sample| !sample.fits()).count();
        let model = &self.embedder.card().id;
        Ok(Error::Incompatible {
            what: format!("{}, row {}", named(self.file.path_of(first.row)), first.row),
            expected: format!(
                "the vector that {model} gives passage `{}`, with a cosine of at least {FLOOR}",
                first.passage.id
            ),
            found: format!("a cosine of {:.4}; {differing} of {} sampled rows differ", first.cosine, samples.len()),
            remedy: self.likely_cause(samples)?,
        })
    }
}

impl Sample {
    fn fits(&self) -> bool {
        self.cosine >= FLOOR
    }
}
