//! Graphs run by rten, in pure Rust: for machines where ONNX Runtime cannot be loaded, and to check it.

use std::path::Path;
use std::sync::Arc;

use rten::{Model, NodeId, RunOptions, ThreadPool, ValueOrView, ValueView};

use super::encoder::{Batch, Encoder, Hidden, choose_output, hidden, unsuitable};
use crate::{Error, Result};

const NAME: &str = "rten";

/// A graph loaded into rten, which all encoders share.
pub(super) struct RtenGraph {
    model: Model,
    inputs: Vec<(String, NodeId)>,
    output: NodeId,
    pooled: bool,
}

impl RtenGraph {
    /// Loads the graph at `path`.
    pub(super) fn open(path: &Path, pooled_by_graph: bool) -> Result<Arc<Self>> {
        let model = Model::load_file(path).map_err(|e| Error::File {
            path: path.into(),
            expected: "a graph that rten can load".into(),
            found: e.to_string(),
            remedy: "use the backend `onnx`, or a graph of precision fp32 or int8".into(),
        })?;
        let name = |id: &NodeId| model.node_info(*id).and_then(|info| info.name()).unwrap_or_default().to_owned();
        let inputs: Vec<_> = model.input_ids().iter().map(|id| (name(id), *id)).collect();
        let outputs: Vec<(String, Option<usize>)> = model
            .output_ids()
            .iter()
            .map(|id| (name(id), model.node_info(*id).and_then(|info| info.shape()).map(|shape| shape.len())))
            .collect();
        let outlets: Vec<_> = outputs.iter().map(|(name, rank)| (&**name, *rank)).collect();
        let expected = if pooled_by_graph { "an output `sentence_embedding`" } else { "an output `last_hidden_state`" };
        let chosen = choose_output(&outlets, pooled_by_graph)
            .ok_or_else(|| unsuitable(path, expected, &outlets.iter().map(|(name, _)| *name).collect::<Vec<_>>()))?;
        let (output, pooled) = (model.output_ids()[chosen], outlets[chosen].0 == "sentence_embedding");
        Ok(Arc::new(Self { model, inputs, output, pooled }))
    }
}

/// One thread's way of running a graph.
pub(super) struct RtenEncoder {
    graph: Arc<RtenGraph>,
    pool: Arc<ThreadPool>,
}

impl RtenEncoder {
    pub(super) fn new(graph: Arc<RtenGraph>) -> Self {
        Self { graph, pool: Arc::new(ThreadPool::with_num_threads(1)) }
    }
}

impl Encoder for RtenEncoder {
    fn encode(&mut self, batch: &Batch) -> Result<Hidden> {
        let shape = [batch.rows, batch.length];
        let failed = |e: &dyn std::error::Error| Error::Runtime {
            runtime: NAME,
            action: "run the graph",
            message: e.to_string(),
        };
        let mut values = Vec::with_capacity(self.graph.inputs.len());
        for (name, id) in &self.graph.inputs {
            let ids =
                batch.input(name).ok_or_else(|| failed(&std::io::Error::other(format!("unknown input `{name}`"))))?;
            // rten keeps 64-bit integers in 32 bits; vocabularies are far smaller.
            values.push((*id, ids.iter().map(|&id| id as i32).collect::<Vec<i32>>()));
        }
        let inputs = values
            .iter()
            .map(|(id, ids)| Ok((*id, ValueOrView::from(ValueView::from_shape(shape, ids).map_err(|e| failed(&e))?))))
            .collect::<Result<Vec<_>>>()?;
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
        let [output] = self.graph.model.run_n(inputs, [self.graph.output], Some(options)).map_err(|e| failed(&e))?;
        if self.graph.pooled {
            let (shape, data) = output.into_shape_vec::<f32, 2>().map_err(|e| failed(&e))?;
            return hidden(NAME, &shape, batch, data);
        }
        let (shape, data) = output.into_shape_vec::<f32, 3>().map_err(|e| failed(&e))?;
        hidden(NAME, &shape, batch, data)
    }
}
