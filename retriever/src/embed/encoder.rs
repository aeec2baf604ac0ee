//! The one thing that both model runtimes do: a batch of token ids in, hidden states out.

use super::tokenize::TokenSequence;
use crate::{Error, Result};

/// Rows of token ids, filled up to equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of texts.
    pub rows: usize,
    /// Tokens in each row.
    pub length: usize,
    /// Vocabulary ids, rows x length.
    pub ids: Vec<i64>,
    /// 1 on tokens of the text, 0 on padding.
    pub mask: Vec<i64>,
    /// Segment ids.
    pub type_ids: Vec<i64>,
}

impl Batch {
    /// Lays `sequences` out side by side, filled up with `padding_id`.
    pub fn new<'a>(sequences: impl Iterator<Item = &'a TokenSequence> + Clone, padding_id: u32) -> Self {
        let length = sequences.clone().map(|sequence| sequence.ids.len()).max().unwrap_or(0);
        let mut batch = Self { rows: 0, length, ids: Vec::new(), mask: Vec::new(), type_ids: Vec::new() };
        for sequence in sequences {
            batch.rows += 1;
            let end = batch.rows * length;
            batch.ids.extend(sequence.ids.iter().map(|&id| i64::from(id)));
            batch.ids.resize(end, i64::from(padding_id));
            batch.mask.resize(end - length + sequence.ids.len(), 1);
            batch.mask.resize(end, 0);
            batch.type_ids.extend(sequence.type_ids.iter().map(|&id| i64::from(id)));
            batch.type_ids.resize(end, 0);
        }
        batch
    }

    /// 0, 1, 2, ... in each row, for graphs that ask for positions.
    pub fn position_ids(&self) -> Vec<i64> {
        (0..self.rows).flat_map(|_| 0..self.length as i64).collect()
    }

    /// The values of the graph input called `name`.
    pub fn input(&self, name: &str) -> Option<std::borrow::Cow<'_, [i64]>> {
        Some(match name {
            "input_ids" => (&self.ids[..]).into(),
            "attention_mask" => (&self.mask[..]).into(),
            "token_type_ids" => (&self.type_ids[..]).into(),
            "position_ids" => self.position_ids().into(),
            _ => return None,
        })
    }
}

/// What a graph gives for a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Hidden {
    /// Row-major: rows x length x dimensions, or rows x dimensions when pooled.
    pub data: Vec<f32>,
    /// Values in a vector.
    pub dimensions: usize,
    /// One vector a text instead of one a token.
    pub pooled: bool,
}

/// A loaded graph. One thread uses it at a time.
pub trait Encoder: Send {
    /// Runs the graph.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the runtime refuses.
    fn encode(&mut self, batch: &Batch) -> Result<Hidden>;
}

/// The name and the number of dimensions of a graph's output.
pub(super) type Outlet<'a> = (&'a str, Option<usize>);

/// Chooses the output to read: token vectors, or the graph's own pooled vector where the model asks for it or nothing
/// else is there. Gives its position.
pub(super) fn choose_output(outputs: &[Outlet<'_>], pooled_by_graph: bool) -> Option<usize> {
    let named = |name: &str| outputs.iter().position(|(output, _)| *output == name);
    let pooled = named("sentence_embedding");
    if pooled_by_graph {
        return pooled;
    }
    named("last_hidden_state").or_else(|| outputs.iter().position(|(_, rank)| *rank == Some(3))).or(pooled)
}

/// The error for a graph whose inputs or outputs are not those of a text encoder.
pub(super) fn unsuitable(path: &std::path::Path, expected: &str, found: &[&str]) -> Error {
    Error::File {
        path: path.into(),
        expected: expected.into(),
        found: if found.is_empty() { "none".into() } else { format!("`{}`", found.join("`, `")) },
        remedy: "export the model for feature extraction".into(),
    }
}

/// Checks the shape of a graph's output against the batch that it was computed from.
pub(super) fn hidden(runtime: &'static str, shape: &[usize], batch: &Batch, data: Vec<f32>) -> Result<Hidden> {
    match *shape {
        [rows, length, dimensions] if (rows, length) == (batch.rows, batch.length) && dimensions > 0 => {
            Ok(Hidden { data, dimensions, pooled: false })
        }
        [rows, dimensions] if rows == batch.rows && dimensions > 0 => Ok(Hidden { data, dimensions, pooled: true }),
        _ => Err(Error::Runtime {
            runtime,
            action: "give one vector a token or a text",
            message: format!("the output has the shape {shape:?} for {} texts of {} tokens", batch.rows, batch.length),
        }),
    }
}
