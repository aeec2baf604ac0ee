//! Embeds every passage of a corpus, durably, shard after shard.

use hindsearch_indexes::{ElementType, Interrupt, MatrixSpec, MatrixWriter, Progress, Staging};

use super::{OnStage, Stage, State, held_out};
use crate::Result;
use crate::corpus::CorpusStore;
use crate::embed::{Embedder, InputKind};

/// Passages between two checkpoints: the most that a kill costs.
const SHARD: usize = 1024;
/// Passages whose mean centres an i8 matrix.
const MEAN_SAMPLE: usize = 256;

/// Everything that embedding a corpus needs.
pub(super) struct Job<'a> {
    pub embedder: &'a Embedder,
    pub corpus: &'a CorpusStore,
    pub element_type: ElementType,
    pub staging: &'a Staging,
    pub state: &'a mut State,
    pub on_stage: OnStage<'a>,
    pub interrupt: &'a Interrupt,
}

impl Job<'_> {
    /// Embeds the rows that are not durable yet, and finishes the matrix. Gives the number of rows embedded.
    pub fn run(self) -> Result<u64> {
        let Job { embedder, corpus, staging, state, on_stage, interrupt, .. } = self;
        let path = staging.path().join("vectors");
        if state.mean.is_none() && self.element_type == ElementType::I8 {
            state.mean = Some(mean(embedder, corpus, interrupt)?);
            state.save(staging)?;
        }
        let spec =
            MatrixSpec::new(embedder.dimensions(), self.element_type).with_mean(state.mean.clone().unwrap_or_default());
        let first = state.rows;
        let mut writer =
            if first == 0 { MatrixWriter::create(&path, spec)? } else { MatrixWriter::resume(&path, spec, first)? };
        let show = |done| on_stage(Stage::Vectors, Progress { done, total: Some(corpus.len()) });
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
        let mut stream = embedder.embed_stream(texts, InputKind::Passage, SHARD);
        while let Some(window) = stream.next_unless(interrupt) {
            let window = window?;
            writer.append(&window.vectors)?;
            state.rows = writer.checkpoint()?;
            state.truncated += window.truncated;
            state.save(staging)?;
            show(state.rows);
        }
        drop(stream);
        unreadable?;
        writer.finish()?;
        Ok(state.rows - first)
    }
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
