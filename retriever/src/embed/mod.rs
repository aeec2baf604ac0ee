//! Text to vectors: tokenizer, model, pooling.
//!
//! | question | module |
//! |---|---|
//! | Which model, and where are its files? | `source`, `model_dir`, `hub` |
//! | What kind of graph is this? | `graph` |
//! | How does the model want its texts? | `card`, `families` |
//! | How does text become token ids? | `tokenize` |
//! | Who runs the graph? | `encoder`: the seam; `onnx` with `runtime`, and `rten` |
//! | How do token vectors become one? | `pool` |
//! | Which texts go together, on which thread? | `batch`, `workers`, `stream` |
//! | What made these vectors, at what cost? | `fingerprint`, `stats` |

mod batch;
mod card;
mod embedder;
mod encoder;
mod families;
mod fingerprint;
mod graph;
mod hub;
mod model_dir;
mod onnx;
mod pool;
#[cfg(feature = "rten")]
mod rten;
mod runtime;
mod source;
mod stats;
mod stream;
mod tokenize;
mod workers;

pub use batch::BatchLimits;
pub use card::{CardOverrides, InputKind, ModelCard, Pooling};
pub use embedder::{EmbedOptions, Embedder};
pub use fingerprint::{Backend, Fingerprint, GraphFingerprint, processor_class};
pub use graph::{GraphFacts, Precision, inspect};
pub use hub::HubSettings;
#[cfg(feature = "hub")]
pub use hub::{Fetch, fetch};
pub use model_dir::{Graph, ModelDir};
pub use runtime::{Runtime, RuntimeSearch, cache_folders};
pub use source::ModelSource;
pub use stats::EmbedStats;
pub use stream::EmbedStream;
pub use tokenize::{TextTokenizer, TokenSequence};
pub use workers::{Embedded, Pending, TextLength};
