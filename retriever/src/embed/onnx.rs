//! Graphs run by ONNX Runtime: one single-threaded session for each thread that asks for one.

use std::path::Path;

use half::f16;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session, SessionInputValue};
use ort::value::{Outlet, Tensor, TensorElementType, TensorRef, ValueType};

use super::encoder::{Batch, Encoder, Hidden, choose_output, hidden, unsuitable};
use super::runtime::Runtime;
use crate::{Error, Result};

const NAME: &str = "ONNX Runtime";

/// A graph loaded into ONNX Runtime.
pub(super) struct OnnxEncoder {
    session: Session,
    /// Names of the graph's inputs, and whether they are 32 bits wide.
    inputs: Vec<(String, bool)>,
    output: usize,
}

impl OnnxEncoder {
    /// Loads the graph at `path`.
    pub(super) fn open(runtime: &Runtime, path: &Path, pooled_by_graph: bool) -> Result<Self> {
        let session = session(runtime, path).map_err(|message| Error::File {
            path: path.into(),
            expected: "a graph that ONNX Runtime can load".into(),
            found: message,
            remedy: "download or export the model again".into(),
        })?;
        let inputs = session.inputs().iter().map(|input| self::input(path, input)).collect::<Result<Vec<_>>>()?;
        let outputs: Vec<_> = session.outputs().iter().map(|output| (output.name(), rank(output))).collect();
        let expected = if pooled_by_graph { "an output `sentence_embedding`" } else { "an output `last_hidden_state`" };
        let output = choose_output(&outputs, pooled_by_graph)
            .ok_or_else(|| unsuitable(path, expected, &outputs.iter().map(|(name, _)| *name).collect::<Vec<_>>()))?;
        Ok(Self { session, inputs, output })
    }
}

impl Encoder for OnnxEncoder {
    fn encode(&mut self, batch: &Batch) -> Result<Hidden> {
        let shape = [batch.rows, batch.length];
        let values: Vec<_> = self.inputs.iter().map(|(name, _)| batch.input(name).unwrap_or_default()).collect();
        let mut inputs: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(values.len());
        for ((name, narrow), values) in self.inputs.iter().zip(&values) {
            let value = if *narrow {
                let values: Vec<i32> = values.iter().map(|&id| id as i32).collect();
                Tensor::from_array((shape, values)).map_err(failed)?.into()
            } else {
                TensorRef::from_array_view((shape, &values[..])).map_err(failed)?.into()
            };
            inputs.push((name, value));
        }
        let outputs = self.session.run(inputs).map_err(failed)?;
        let output = &outputs[self.output];
        let (shape, data) = match output.dtype().tensor_type() {
            Some(TensorElementType::Float16) => {
                let (shape, data) = output.try_extract_tensor::<f16>().map_err(failed)?;
                (shape, data.iter().map(|x| x.to_f32()).collect())
            }
            _ => {
                let (shape, data) = output.try_extract_tensor::<f32>().map_err(failed)?;
                (shape, data.to_vec())
            }
        };
        let shape: Vec<usize> = shape.iter().map(|&length| usize::try_from(length).unwrap_or(0)).collect();
        hidden(NAME, &shape, batch, data)
    }
}

/// This fusion's kernel is slower than the operators it replaces: a tenth of an fp32 run, a fifth of an int8 run (MiniLM
/// on Zen 4).
const SLOW_FUSIONS: &str = "SkipLayerNormFusion";

/// Work is spread over our own threads, so a session has one and never spins. Memory patterns only help when all
/// batches have the same shape.
fn session(runtime: &Runtime, path: &Path) -> Result<Session, String> {
    let text = |e: ort::Error<SessionBuilder>| e.to_string();
    Session::builder(&runtime.environment)
        .map_err(|e| e.to_string())?
        .with_optimization_level(GraphOptimizationLevel::All)
        .map_err(text)?
        .with_intra_threads(1)
        .map_err(text)?
        .with_intra_op_spinning(false)
        .map_err(text)?
        .with_memory_pattern(false)
        .map_err(text)?
        .with_config_entry("optimization.disable_specified_optimizers", SLOW_FUSIONS)
        .map_err(text)?
        .commit_from_file(path)
        .map_err(|e| e.to_string())
}

fn input(path: &Path, input: &Outlet) -> Result<(String, bool)> {
    let known = ["input_ids", "attention_mask", "token_type_ids", "position_ids"].contains(&input.name());
    match input.dtype().tensor_type() {
        Some(TensorElementType::Int64) if known => Ok((input.name().to_owned(), false)),
        Some(TensorElementType::Int32) if known => Ok((input.name().to_owned(), true)),
        _ => Err(unsuitable(
            path,
            "integer inputs among `input_ids`, `attention_mask`, `token_type_ids`, `position_ids`",
            &[&format!("{}: {}", input.name(), input.dtype())],
        )),
    }
}

fn rank(output: &Outlet) -> Option<usize> {
    match output.dtype() {
        ValueType::Tensor { shape, .. } => Some(shape.len()),
        _ => None,
    }
}

fn failed(error: ort::Error) -> Error {
    Error::Runtime { runtime: NAME, action: "run the graph", message: error.to_string() }
}
