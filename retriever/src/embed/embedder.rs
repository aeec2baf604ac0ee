//! The whole way from text to vector.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::Vectors;

use super::batch::BatchLimits;
use super::card::{CardOverrides, InputKind, ModelCard};
use super::encoder::{Batch, Encoder};
use super::fingerprint::{self, Backend, Fingerprint, GraphFingerprint};
use super::graph::Precision;
use super::hub::HubSettings;
use super::model_dir::Graph;
use super::onnx::OnnxEncoder;
use super::runtime::RuntimeSearch;
use super::source::ModelSource;
use super::stats::{EmbedStats, Meter};
use super::stream::EmbedStream;
use super::tokenize::TextTokenizer;
use super::workers::{Engine, Pending, Route, Workers};
use crate::{Error, Result};

/// How to run a model. The defaults suit a machine of its own.
#[derive(Debug, Clone, Default)]
pub struct EmbedOptions {
    /// The runtime.
    pub backend: Backend,
    /// Weights for queries; without a wish the most precise that the model folder has.
    pub query_precision: Option<Precision>,
    /// Weights for passages; the same.
    pub passage_precision: Option<Precision>,
    /// Worker threads; 0 for one a core.
    pub threads: usize,
    /// Bounds of a batch. Graphs that quantise activations over the whole batch always get single texts.
    pub batch: BatchLimits,
    /// Wishes that beat what the model folder says.
    pub card: CardOverrides,
    /// Where ONNX Runtime may be; without a wish as the environment says.
    pub runtime: Option<RuntimeSearch>,
    /// Where the hub's cache is; without a wish as the environment says.
    pub hub: Option<HubSettings>,
}

/// A model ready to turn texts into vectors. Usable from many threads at once.
pub struct Embedder {
    card: ModelCard,
    fingerprint: Fingerprint,
    workers: Workers,
    queries: Arc<Route>,
    passages: Arc<Route>,
    memory: u64,
}

impl Embedder {
    /// Opens a model that is on this machine. Loads each graph once and runs it on a token, so that a model that does
    /// not fit is found out here.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::File`] or [`Error::Incompatible`] for a model that is not there or not whole;
    /// [`Error::Unavailable`] when the runtime cannot be loaded.
    pub fn open(source: &ModelSource, options: EmbedOptions) -> Result<Self> {
        let wanted = [options.query_precision, options.passage_precision];
        let settings = options.hub.clone().unwrap_or_else(HubSettings::from_env);
        let directory = source.locate(&settings, &wanted)?;
        let mut card = ModelCard::derive(directory.path(), &source.id(), &options.card)?;
        let tokenizer = TextTokenizer::open(directory.tokenizer(), directory.path(), card.max_length)?;

        let passage_graph = directory.graph(options.passage_precision)?;
        let query_graph = directory.graph(options.query_precision)?;
        let passages = open_route(&passage_graph, &mut card, &tokenizer, &options)?;
        let same = query_graph.path == passage_graph.path;
        let queries =
            if same { Arc::clone(&passages) } else { open_route(&query_graph, &mut card, &tokenizer, &options)? };
        let passage_print = GraphFingerprint::of(&passage_graph)?;
        let fingerprint = Fingerprint {
            tokenizer: fingerprint::hash(std::iter::once(directory.tokenizer()))?,
            backend: options.backend,
            queries: if same { passage_print.clone() } else { GraphFingerprint::of(&query_graph)? },
            passages: passage_print,
        };
        let engine = Engine {
            tokenizer,
            pooling: card.pooling,
            normalize: card.normalize,
            dimensions: card.dimensions,
            meter: Meter::default(),
        };
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, Into::into),
            threads => threads,
        };
        let mut memory = session_memory(&passage_graph)?;
        if !same {
            memory += session_memory(&query_graph)?;
        }
        let memory = memory * threads as u64;
        Ok(Self { workers: Workers::start(engine, threads)?, card, fingerprint, queries, passages, memory })
    }

    /// The vectors of `texts`, in their order: unit length (unless the card says otherwise) and finite. A text's vector
    /// does not depend on its neighbours.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the model fails.
    pub fn embed(&self, texts: &[&str], kind: InputKind) -> Result<Vectors> {
        self.submit(texts.iter().map(|text| (*text).to_owned()).collect(), kind).wait()
    }

    /// Starts on `texts` and returns at once; several windows under way keep all workers busy.
    pub fn submit(&self, mut texts: Vec<String>, kind: InputKind) -> Pending {
        let prefix = self.card.prefix(kind);
        if !prefix.is_empty() {
            texts.iter_mut().for_each(|text| text.insert_str(0, prefix));
        }
        self.workers.submit(texts, self.route(kind))
    }

    fn route(&self, kind: InputKind) -> &Arc<Route> {
        match kind {
            InputKind::Query => &self.queries,
            InputKind::Passage => &self.passages,
        }
    }

    /// Loads the graph for every worker thread, which otherwise happens when a thread first needs it. For servers, that
    /// are ready only when the first question would be answered as fast as the next.
    ///
    /// # Errors
    /// Those of loading a graph.
    pub fn warm_up(&self, kind: InputKind) -> Result<()> {
        self.route(kind).fill(self.workers.threads())
    }

    /// The vectors of `texts`, `window` texts at a time, in order. A window of 1,024 makes padding negligible.
    pub fn embed_stream<I>(&self, texts: I, kind: InputKind, window: usize) -> EmbedStream<'_, I::IntoIter>
    where
        I: IntoIterator<Item = String>,
    {
        EmbedStream { embedder: self, texts: texts.into_iter(), kind, window, under_way: VecDeque::new() }
    }

    /// The text of token ids of this model, special ones left out.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an id that the model does not have.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.workers.engine().tokenizer.text(ids)
    }

    /// How the model wants its texts.
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// Values in a vector.
    pub fn dimensions(&self) -> usize {
        self.card.dimensions
    }

    /// The bits behind the vectors.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Bytes that the model takes once every worker has its sessions: an estimate.
    pub fn memory_bytes(&self) -> u64 {
        self.memory
    }

    /// The cost so far.
    pub fn stats(&self) -> EmbedStats {
        self.workers.engine().meter.snapshot()
    }
}

/// Loads a graph, runs it on an empty text, and takes the number of dimensions from the result.
fn open_route(
    graph: &Graph,
    card: &mut ModelCard,
    tokenizer: &TextTokenizer,
    options: &EmbedOptions,
) -> Result<Arc<Route>> {
    let open = opener(options, &graph.path, card.pooled_by_graph)?;
    let mut encoder = open()?;
    let tokens = tokenizer.tokens(if card.query_prefix.is_empty() { "a" } else { &card.query_prefix })?;
    let found = encoder.encode(&Batch::new(std::iter::once(&tokens), tokenizer.padding_id()))?.dimensions;
    if card.dimensions != found && card.dimensions != 0 {
        return Err(Error::Incompatible {
            what: format!("`{}`", graph.path.display()),
            expected: format!("vectors of {} dimensions, as `config.json` says", card.dimensions),
            found: found.to_string(),
            remedy: "put graph and configuration of the same model into the folder".into(),
        });
    }
    card.dimensions = found;
    let limits = if graph.facts.dynamic_quantization { BatchLimits::SINGLE } else { options.batch };
    Ok(Arc::new(Route::new(open, encoder, limits)))
}

/// A session keeps its weights a second time in the order that its kernels like, and some room for activations.
fn session_memory(graph: &Graph) -> Result<u64> {
    let mut weights = 0;
    for path in std::iter::once(&graph.path).chain(&graph.facts.external) {
        weights += std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    }
    Ok(weights * 4 / 3 + (64 << 20))
}

type Open = Box<dyn Fn() -> Result<Box<dyn Encoder>> + Send + Sync>;

fn opener(options: &EmbedOptions, path: &Path, pooled_by_graph: bool) -> Result<Open> {
    let path = path.to_path_buf();
    match options.backend {
        Backend::Onnx => {
            let runtime = options.runtime.clone().unwrap_or_else(RuntimeSearch::from_env).load()?;
            Ok(Box::new(move || Ok(Box::new(OnnxEncoder::open(runtime, &path, pooled_by_graph)?))))
        }
        #[cfg(feature = "rten")]
        Backend::Rten => {
            let graph = super::rten::RtenGraph::open(&path, pooled_by_graph)?;
            Ok(Box::new(move || Ok(Box::new(super::rten::RtenEncoder::new(Arc::clone(&graph))))))
        }
        #[cfg(not(feature = "rten"))]
        Backend::Rten => Err(Error::Unavailable {
            what: "backend `rten`".into(),
            found: "this program was built without it".into(),
            remedy: "build with the feature `rten`, or use the backend `onnx`".into(),
        }),
    }
}
