//! Embeddings in the words of OpenAI's interface and of Text Embeddings Inference.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::api::{typed, written};
use super::engine::{TextVector, blocking};
use super::fault::Fault;
use super::incoming::{Incoming, understand};
use super::memory::Share;
use super::service::Service;
use super::serving::Serving;
use crate::embed::InputKind;

/// Token ids of a request: all texts that it may have, each as long as a model reads.
const MOST_IDS: usize = 2 << 20;
/// Bytes that a value of a vector takes, as a number and as text.
const WRITTEN: usize = 20;

/// What is embedded: a text, texts, or the model's own token ids of one or many.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, a list of texts, or token ids")]
pub enum Input {
    /// A text.
    Text(String),
    /// Texts.
    Texts(#[schemars(length(min = 1, max = 4096))] Vec<String>),
    /// Token ids of a text.
    Tokens(#[schemars(length(min = 1))] Vec<u32>),
    /// Token ids of texts.
    ManyTokens(#[schemars(length(min = 1, max = 4096))] Vec<Vec<u32>>),
}

/// How OpenAI's interface writes a vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncodingFormat {
    /// Numbers.
    #[default]
    Float,
    /// Little-endian `f32`s in Base64.
    Base64,
}

/// Which of the model's prefixes goes before a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The one for queries.
    #[default]
    Query,
    /// The one for passages.
    Passage,
}

/// A request as OpenAI's clients send it. Unknown fields, such as `user`, are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EmbeddingsRequest {
    /// What is embedded.
    pub input: Input,
    /// Taken as it comes; there is one model.
    #[allow(dead_code, reason = "clients send it")]
    pub model: Option<String>,
    /// Values to keep of each vector, which is then made a unit vector again. Only for models trained to be cut.
    #[schemars(range(min = 1))]
    pub dimensions: Option<usize>,
    /// How vectors are written.
    #[serde(default)]
    pub encoding_format: Option<EncodingFormat>,
    /// Not in OpenAI's interface.
    #[serde(default)]
    pub input_type: Option<Kind>,
}

/// An answer as OpenAI's clients read it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EmbeddingsResponse {
    /// `list`.
    pub object: &'static str,
    /// One a text, in order.
    pub data: Vec<Embedding>,
    /// The model's name.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
}

/// A vector.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Embedding {
    /// `embedding`.
    pub object: &'static str,
    /// The text's place in the input.
    pub index: usize,
    /// The values, or their Base64.
    pub embedding: Values,
}

/// A vector as numbers or as text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Values {
    /// The values.
    Floats(
        #[serde(serialize_with = "floats")]
        #[schemars(with = "Vec<f32>")]
        Arc<[f32]>,
    ),
    /// Little-endian `f32`s in Base64.
    Base64(String),
}

fn floats<S: serde::Serializer>(values: &Arc<[f32]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter())
}

/// Tokens that went through the model, special ones included.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Usage {
    /// Tokens of all texts.
    pub prompt_tokens: usize,
    /// The same.
    pub total_tokens: usize,
}

/// A request as TEI's clients send it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EmbedRequest {
    /// What is embedded.
    pub inputs: Input,
    /// Vectors have unit length unless this is false; a model card that normalises has no other.
    pub normalize: Option<bool>,
    /// Cut texts that are too long; without it they are refused.
    pub truncate: Option<bool>,
    /// Which end is cut. Only `right` (`Right`) is known.
    #[schemars(regex(pattern = "^[Rr]ight$"))]
    pub truncation_direction: Option<String>,
    /// `query` or `passage`.
    pub prompt_name: Option<Kind>,
    /// Values to keep of each vector.
    #[schemars(range(min = 1))]
    pub dimensions: Option<usize>,
}

/// `POST /v1/embeddings`.
pub(super) async fn openai(State(service): State<Arc<Service>>, incoming: Incoming) -> Result<Response, Fault> {
    let understood = understand(incoming, |incoming| typed::<EmbeddingsRequest>(incoming, &[]));
    let (request, incoming) = understood.await?;
    let serving = service.serving();
    let kind = request.input_type.unwrap_or_default();
    let format = request.encoding_format.unwrap_or_default();
    let (vectors, memory) = embed(&service, &serving, &incoming, request.input, kind, request.dimensions).await?;
    let tokens = vectors.iter().map(|vector| vector.length.tokens).sum();
    let body = blocking(move || {
        let data = vectors.iter().enumerate().map(|(index, vector)| Embedding {
            object: "embedding",
            index,
            embedding: match format {
                EncodingFormat::Float => Values::Floats(Arc::clone(&vector.values)),
                EncodingFormat::Base64 => {
                    let bytes: Vec<u8> = vector.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    Values::Base64(BASE64_STANDARD.encode(bytes))
                }
            },
        });
        serde_json::to_vec(&EmbeddingsResponse {
            object: "list",
            data: data.collect(),
            model: model_name(&serving),
            usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
        })
    });
    sent(body.await?, memory)
}

/// `POST /embed`.
pub(super) async fn tei(State(service): State<Arc<Service>>, incoming: Incoming) -> Result<Response, Fault> {
    let understood = understand(incoming, |incoming| typed::<EmbedRequest>(incoming, &[]));
    let (request, incoming) = understood.await?;
    let serving = service.serving();
    if request.normalize == Some(false) && serving.retriever().embedder().card().normalize {
        return Err(Fault::invalid(
            "normalize: this model's vectors always have unit length; leave it out or say true",
        ));
    }
    if let Some(other) = request.truncation_direction.filter(|side| !side.eq_ignore_ascii_case("right")) {
        return Err(Fault::invalid(format!("truncation_direction: expected `Right`, found {other:?}")));
    }
    let kind = request.prompt_name.unwrap_or_default();
    let (vectors, memory) = embed(&service, &serving, &incoming, request.inputs, kind, request.dimensions).await?;
    if request.truncate != Some(true)
        && let Some(at) = vectors.iter().position(|vector| vector.length.truncated)
    {
        let most = serving.retriever().embedder().card().max_length;
        return Err(Fault::invalid(format!(
            "inputs[{at}]: longer than the {most} tokens of the model; say `truncate` to cut it"
        )));
    }
    let body =
        blocking(move || serde_json::to_vec(&vectors.iter().map(|vector| vector.values.as_ref()).collect::<Vec<_>>()));
    sent(body.await?, memory)
}

fn sent(body: serde_json::Result<Vec<u8>>, memory: Share) -> Result<Response, Fault> {
    let mut response = written(body)?;
    response.extensions_mut().insert(Arc::new(memory));
    Ok(response)
}

/// `GET /v1/models`.
pub(super) async fn models(State(service): State<Arc<Service>>, _incoming: Incoming) -> Result<Response, Fault> {
    let model =
        json!({ "id": model_name(&service.serving()), "object": "model", "created": 0, "owned_by": "hindsearch" });
    written(serde_json::to_vec(&json!({ "object": "list", "data": [model] })))
}

fn model_name(serving: &Serving) -> String {
    serving.retriever().embedder().card().id.clone()
}

async fn embed(
    service: &Arc<Service>,
    serving: &Arc<Serving>,
    incoming: &Incoming,
    input: Input,
    kind: Kind,
    dimensions: Option<usize>,
) -> Result<(Vec<TextVector>, Share), Fault> {
    let whole = serving.retriever().embedder().dimensions();
    if let Some(wanted) = dimensions.filter(|wanted| !(1..=whole).contains(wanted)) {
        return Err(Fault::invalid(format!("dimensions: expected 1 to {whole}, found {wanted}")));
    }
    let texts = {
        let (service, serving) = (Arc::clone(service), Arc::clone(serving));
        // Token ids are turned into text.
        blocking(move || texts(&service, &serving, input)).await??
    };
    let mut memory = service.engine().answer_memory();
    memory.grow(texts.len() * dimensions.unwrap_or(whole) * WRITTEN)?;
    let deadline = incoming.deadline(texts.len());
    let kind = match kind {
        Kind::Query => InputKind::Query,
        Kind::Passage => InputKind::Passage,
    };
    let mut vectors = service.within(deadline, service.engine().embed(serving.model(), texts, kind, deadline)).await?;
    if let Some(wanted) = dimensions.filter(|wanted| *wanted < whole) {
        vectors.iter_mut().for_each(|vector| vector.values = cut(&vector.values, wanted));
    }
    Ok((vectors, memory))
}

fn texts(service: &Service, serving: &Serving, input: Input) -> Result<Vec<String>, Fault> {
    let limits = &service.options().limits;
    let count = match &input {
        Input::Text(_) | Input::Tokens(_) => 1,
        Input::Texts(texts) => texts.len(),
        Input::ManyTokens(many) => many.len(),
    };
    if !(1..=limits.queries).contains(&count) {
        return Err(Fault::invalid(format!("input: expected 1 to {} texts, found {count}", limits.queries)));
    }
    let ids = match &input {
        Input::Tokens(ids) => ids.len(),
        Input::ManyTokens(many) => many.iter().map(Vec::len).sum(),
        _ => 0,
    };
    if ids > MOST_IDS {
        return Err(Fault::invalid(format!("input: expected at most {MOST_IDS} token ids in all, found {ids}")));
    }
    // A token is a byte at least.
    let decode = |ids: &Vec<u32>| match ids.len() > limits.query {
        false => serving.retriever().embedder().decode(ids).map_err(Fault::from),
        true => {
            Err(Fault::invalid(format!("input: expected at most {} ids of a text, found {}", limits.query, ids.len())))
        }
    };
    let texts = match input {
        Input::Text(text) => vec![text],
        Input::Texts(texts) => texts,
        Input::Tokens(ids) => vec![decode(&ids)?],
        Input::ManyTokens(many) => many.iter().map(decode).collect::<Result<_, _>>()?,
    };
    if let Some((at, long)) = texts.iter().enumerate().find(|(_, text)| text.len() > limits.query) {
        return Err(Fault::invalid(format!(
            "input[{at}]: expected at most {} bytes, found {}",
            limits.query,
            long.len()
        )));
    }
    Ok(texts)
}

/// The first values, as a unit vector.
fn cut(values: &[f32], wanted: usize) -> Arc<[f32]> {
    let kept = &values[..wanted];
    let length = kept.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    kept.iter().map(|value| (f64::from(*value) * scale) as f32).collect()
}
