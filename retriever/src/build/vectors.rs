//! The vectors of a shard: embedded or copied, and durable after every window of rows.

use std::ops::Range;
use std::sync::Arc;

use hindsearch_indexes::{Interrupt, Matrix, MatrixSpec, MatrixWriter, Progress, norm};

use super::state::{State, is_damage};
use super::{Run, Stage, held_out};
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};
use crate::{Error, Result};

/// Passages between two checkpoints: the most that a kill costs.
pub(super) const WINDOW: usize = 1024;
/// The same while rows are copied, which costs less.
const COPY_WINDOW: u64 = 1 << 16;
/// Passages whose mean centres an i8 matrix.
pub(super) const MEAN_SAMPLE: usize = 256;

/// Embeds the rows that are not durable yet and finishes the matrix. Gives the number of rows embedded.
pub(super) fn embed_all(run: &Run<'_>, embedder: &Embedder, corpus: &CorpusStore, state: &mut State) -> Result<u64> {
    let centre = || run.mean.clone().map_or_else(|| mean(embedder, corpus, run.interrupt), Ok);
    let mut writer = writer(run, embedder.dimensions(), state, centre)?;
    let first = state.rows;
    let show = |done| (run.on_stage)(Stage::Vectors, Progress { done, total: Some(corpus.len()) });
    show(first);

    // The first text that cannot be read ends the stream; what was embedded before it is kept.
    let mut unreadable = Ok(());
    let texts = corpus.scan(first)?.map_while(|passage| match passage {
        Ok(passage) => Some(passage.contents().into_owned()),
        Err(error) => {
            unreadable = Err(error);
            None
        }
    });
    let mut stream = embedder.embed_stream(texts, InputKind::Passage, WINDOW);
    while let Some(window) = stream.next_unless(run.interrupt) {
        let window = window?;
        writer.append(&window.vectors)?;
        state.rows = writer.checkpoint()?;
        state.truncated += window.truncated();
        state.save(&run.staging)?;
        show(state.rows);
    }
    drop(stream);
    unreadable?;
    writer.finish()?;
    Ok(state.rows - first)
}

/// Rows of a matrix that are copied.
pub(super) struct Copied {
    pub matrix: Arc<Matrix>,
    /// Without gaps, ascending.
    pub runs: Vec<Range<u64>>,
}

/// Copies the rows that are not durable yet and finishes the matrix. Rows that are stored about another mean than the first
/// ones are coded anew.
pub(super) fn copy_all(run: &Run<'_>, from: &[Copied], state: &mut State) -> Result<()> {
    let spec = from.first().map(|first| first.matrix.spec()).cloned();
    let spec = spec.unwrap_or_else(|| unreachable!("nothing is copied from no index"));
    let centre = || Ok(spec.mean.clone());
    let mut writer = writer(run, spec.dimensions, state, centre)?;
    let total = from.iter().flat_map(|copied| &copied.runs).map(|run| run.end - run.start).sum();
    let show = |done| (run.on_stage)(Stage::Copy, Progress { done, total: Some(total) });
    let (mut passed, mut durable) = (0, state.rows);
    show(durable);
    for Copied { matrix, runs } in from {
        for rows in runs {
            // What an earlier call has copied is passed over.
            let skipped = state.rows.saturating_sub(passed).min(rows.end - rows.start);
            passed += skipped;
            let mut start = rows.start + skipped;
            while start < rows.end {
                run.interrupt.check()?;
                let end = rows.end.min(start + (durable + COPY_WINDOW - writer.rows()));
                writer.copy(matrix, start..end)?;
                (passed, start) = (passed + (end - start), end);
                if writer.rows() == durable + COPY_WINDOW {
                    durable = writer.checkpoint()?;
                    state.rows = durable;
                    state.save(&run.staging)?;
                    show(durable);
                }
            }
        }
    }
    state.rows = writer.finish()?;
    state.save(&run.staging)?;
    show(state.rows);
    Ok(())
}

/// The matrix with the rows that are durable, or an empty one where they are not what they were; bytes are coded about the
/// `centre`, unless it is known.
pub(super) fn writer(
    run: &Run<'_>,
    dimensions: usize,
    state: &mut State,
    centre: impl FnOnce() -> Result<Vec<f32>>,
) -> Result<MatrixWriter> {
    let (path, element_type) = (run.files().path("vectors"), run.index.element_type);
    let spec =
        |state: &State| MatrixSpec::new(dimensions, element_type).with_mean(state.mean.clone().unwrap_or_default());
    if state.rows > 0 {
        match MatrixWriter::resume(&path, spec(state), state.rows).map_err(Error::from) {
            Err(error) if is_damage(&error) => state.forget_vectors(),
            resumed => return resumed,
        }
    }
    if element_type.is_centred() {
        state.mean = Some(centre()?);
    }
    state.save(&run.staging)?;
    Ok(MatrixWriter::create(&path, spec(state))?)
}

/// The mean vector of passages spread over the corpus.
fn mean(embedder: &Embedder, corpus: &CorpusStore, interrupt: &Interrupt) -> Result<Vec<f32>> {
    let rows = held_out::rows(corpus.len(), MEAN_SAMPLE);
    let texts = rows.map(|row| corpus.contents(row)).collect::<Result<Vec<_>>>()?;
    let count = texts.len() as f32;
    let vectors = embedder.submit(texts, InputKind::Passage).wait_unless(interrupt)?.vectors;
    let mut mean = vec![0.0; vectors.dimensions()];
    for row in vectors.rows() {
        mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / count);
    }
    Ok(mean)
}

/// The cosine of two vectors; 0 where one of them has no direction.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot: f64 = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    let cosine = dot / (norm(a) * norm(b));
    if cosine.is_finite() { cosine } else { 0.0 }
}
