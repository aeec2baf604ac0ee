//! Our own interface, with every field typed and every unknown one refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hindsearch_indexes::{Effort, Vectors};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dialects::Documents;
use super::engine::{Ask, Found, Queries, Timings, aside, blocking};
use super::fault::{Code, Fault};
use super::incoming::{Incoming, understand};
use super::perform::passage;
use super::service::Service;
use super::serving::Serving;
use crate::Ranked;
use crate::embed::TextLength;

/// A search: one of `query`, `queries` and `vectors`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(["query", "queries", "vectors"])))]
pub struct SearchRequest {
    /// One query.
    pub query: Option<String>,
    /// Many queries; the answer has one result each, in this order.
    #[schemars(length(max = 4096))]
    pub queries: Option<Vec<String>>,
    /// Vectors of the index's model in place of text.
    #[schemars(length(max = 4096))]
    pub vectors: Option<Vec<Vec<f32>>>,
    /// Passages wanted for each query.
    #[schemars(range(min = 1, max = 1000))]
    pub top_k: Option<usize>,
    /// How much an approximate index looks at: `calibrated`, `recall=0.95` (of the ten best hits), `exhaustive`, `exact`, or a
    /// number of candidates from 1 to 10000; for measuring, `lists=16:100` (lists, candidates). An exact index looks at all.
    pub effort: Option<EffortName>,
    /// What each hit shows; `id`, `title`, `text` and `score` where nothing is named.
    pub fields: Option<Vec<Field>>,
    /// Which passages count.
    pub filter: Option<Filter>,
}

/// An effort, as a number of candidates or by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct EffortName(Value);

impl JsonSchema for EffortName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Effort".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 10000 }, { "type": "string" }] })
    }
}

impl EffortName {
    fn parse(&self) -> Result<Effort, Fault> {
        let text = match &self.0 {
            Value::String(name) => name.clone(),
            // What is neither is refused as it is written.
            other => other.to_string(),
        };
        text.parse().map_err(|error: hindsearch_indexes::Error| Fault::invalid(error.to_string()))
    }
}

/// The schema of an object with one of these fields; null is the same as none.
fn one_of(names: [&str; 3]) -> Vec<Value> {
    let only = |name: &str| {
        let field = |other: &str| match other == name {
            true => (other.to_owned(), json!({ "not": { "type": "null" } })),
            false => (other.to_owned(), json!({ "type": "null" })),
        };
        json!({ "required": [name], "properties": names.map(field).into_iter().collect::<Map<_, _>>() })
    };
    names.iter().map(|name| only(name)).collect()
}

/// A field of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// The corpus's id.
    Id,
    /// The row in the corpus, from 0.
    Row,
    /// Cosine of query and passage.
    Score,
    /// The title without the quotes of wiki-18.
    Title,
    /// The text.
    Text,
    /// Title line and text, as in wiki-18.
    Contents,
    /// The address of the title's page at Wikipedia, where the server was started with `--derive-urls`.
    Url,
}

/// Which passages count.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Only these. An id that is not in the corpus is refused.
    #[schemars(length(max = 10000))]
    pub ids: Option<Vec<String>>,
    /// None of these.
    #[schemars(length(max = 1000))]
    pub exclude_ids: Option<Vec<String>>,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResponse {
    /// One a query, in order.
    pub results: Vec<SearchResult>,
    /// What was searched.
    pub index: IndexFacts,
    /// Where the time went.
    pub timings: TimingsMs,
    /// As in the header `X-Request-Id`.
    pub request_id: String,
}

/// The ranking of one query.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResult {
    /// Best first; as many as wanted, or all that count.
    pub hits: Vec<Hit>,
    /// Whether the query was longer than the model takes.
    pub truncated: bool,
}

/// A passage, with the fields that were asked for.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Hit {
    /// The corpus's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The row in the corpus, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// Cosine of query and passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The title without the quotes of wiki-18; null where the passage has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub title: Option<Option<String>>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Title line and text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// The address of the title's page at Wikipedia; null where there is no title.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub url: Option<Option<String>>,
}

/// What was searched.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct IndexFacts {
    /// Number of the generation.
    pub generation: u64,
    /// Passages in it.
    pub rows: u64,
    /// BLAKE3 of the corpus.
    pub corpus: String,
    /// The model's name.
    pub model: String,
    /// BLAKE3 of the graph that embeds queries.
    pub fingerprint: String,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct TimingsMs {
    /// Until the model began.
    pub queue_ms: f64,
    /// In the model.
    pub embed_ms: f64,
    /// In the index.
    pub search_ms: f64,
    /// In all, without the network.
    pub total_ms: f64,
}

/// A passage of the corpus.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PassageResponse {
    /// The corpus's id.
    pub id: String,
    /// The row in the corpus, from 0.
    pub row: u64,
    /// The title without the quotes of wiki-18.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// Title line and text.
    pub contents: String,
    /// The address of the title's page at Wikipedia.
    pub url: Option<String>,
}

/// `POST /v1/search`.
pub(super) async fn search(State(service): State<Arc<Service>>, incoming: Incoming) -> Result<Response, Fault> {
    let understood = understand(incoming, |incoming| typed::<SearchRequest>(incoming, &["filter"]));
    let (request, incoming) = understood.await?;
    let serving = service.serving();
    let fields = request.fields.as_deref().unwrap_or(&[Field::Id, Field::Title, Field::Text, Field::Score]);
    // Named twice, a field is written once.
    let fields: BTreeSet<Field> = fields.iter().copied().collect();
    let asked = {
        let (service, serving) = (Arc::clone(&service), Arc::clone(&serving));
        let texts = request.queries.as_ref().map_or(1, Vec::len) + request.vectors.as_ref().map_or(0, Vec::len);
        // Ids are looked up in files.
        let weight = if request.filter.is_some() { usize::MAX } else { texts };
        aside(weight, move || plan(&service, &serving, request)).await??
    };
    let (count, ask) = asked;
    service.check_answer(count, ask.top_k)?;
    let deadline = incoming.deadline(count);
    let found = service.within(deadline, service.engine().search(&serving, Ask { deadline, ..ask })).await?;
    let request_id = incoming.id.0.to_string();
    let documents = service.documents();
    let Found { rankings, lengths, timings, memory } = found;
    let body = aside(rankings.iter().map(Vec::len).sum(), move || {
        let body = SearchResponse {
            index: IndexFacts::of(&serving),
            timings: TimingsMs::of(&timings),
            results: results(&rankings, &lengths, &fields, documents),
            request_id,
        };
        serde_json::to_vec(&body)
    });
    let mut response = written(service.within(deadline, body).await?)?;
    response.extensions_mut().insert(timings);
    response.extensions_mut().insert(Arc::new(memory));
    Ok(response)
}

/// What a request asks for, with the number of its queries.
pub(super) fn plan(service: &Service, serving: &Serving, request: SearchRequest) -> Result<(usize, Ask), Fault> {
    let limits = &service.options().limits;
    let top_k = request.top_k.unwrap_or(service.options().top_k);
    let within = |what: &str, number: usize, low: usize, high: usize| match (low..=high).contains(&number) {
        true => Ok(()),
        false => Err(Fault::invalid(format!("{what}: expected {low} to {high}, found {number}"))),
    };
    within("top_k", top_k, 1, limits.top_k)?;
    let effort = request.effort.as_ref().map(EffortName::parse).transpose()?.unwrap_or_default();
    let queries = match (request.query, request.queries, request.vectors) {
        (Some(query), None, None) => Queries::Texts(vec![query]),
        (None, Some(queries), None) => Queries::Texts(queries),
        (None, None, Some(vectors)) => Queries::Vectors(matrix(vectors, serving.retriever().index().dimensions())?),
        _ => return Err(Fault::invalid("expected exactly one of `query`, `queries` and `vectors`")),
    };
    let count = match &queries {
        Queries::Texts(texts) => {
            if let Some((at, long)) = texts.iter().enumerate().find(|(_, text)| text.len() > limits.query) {
                return Err(Fault::invalid(format!(
                    "queries[{at}]: expected at most {} bytes, found {}",
                    limits.query,
                    long.len()
                )));
            }
            texts.len()
        }
        Queries::Vectors(vectors) => vectors.len(),
    };
    within("queries", count, 0, limits.queries)?;
    let filter = request.filter.unwrap_or_default();
    let rows = |name: &str, ids: Vec<String>, most: usize| {
        within(name, ids.len(), 0, most)?;
        let corpus = serving.retriever().corpus();
        let unknown = |id: &str| Fault::invalid(format!("{name}: no passage has the id {id:?}"));
        ids.iter().map(|id| corpus.row_of(id)?.ok_or_else(|| unknown(id))).collect::<Result<Vec<u64>, Fault>>()
    };
    let ask = Ask {
        queries,
        top_k,
        effort,
        only: filter.ids.map(|ids| rows("filter.ids", ids, limits.ids)).transpose()?,
        except: rows("filter.exclude_ids", filter.exclude_ids.unwrap_or_default(), limits.top_k)?,
        deadline: std::time::Instant::now(),
    };
    Ok((count, ask))
}

fn matrix(vectors: Vec<Vec<f32>>, dimensions: usize) -> Result<Vectors, Fault> {
    if let Some((at, other)) = vectors.iter().enumerate().find(|(_, vector)| vector.len() != dimensions) {
        let found = other.len();
        return Err(Fault::invalid(format!("vectors[{at}]: expected {dimensions} values, found {found}")));
    }
    let vectors = Vectors::new(dimensions, vectors.into_iter().flatten().collect())?;
    vectors.check(dimensions, "vector", 0)?;
    Ok(vectors)
}

fn results(
    rankings: &[Vec<Ranked>],
    lengths: &[TextLength],
    fields: &BTreeSet<Field>,
    documents: Documents,
) -> Vec<SearchResult> {
    let result = |(at, hits): (usize, &Vec<Ranked>)| SearchResult {
        hits: hits.iter().map(|hit| Hit::of(hit, fields, documents)).collect(),
        truncated: lengths.get(at).is_some_and(|length| length.truncated),
    };
    rankings.iter().enumerate().map(result).collect()
}

pub(super) fn title(hit: &Ranked) -> Option<String> {
    hit.passage.title.as_ref().map(|_| hit.passage.display_title().to_owned())
}

impl Hit {
    fn of(ranked: &Ranked, fields: &BTreeSet<Field>, documents: Documents) -> Self {
        let mut hit = Self::default();
        for field in fields {
            match field {
                Field::Id => hit.id = Some(ranked.passage.id.clone()),
                Field::Row => hit.row = Some(ranked.row),
                Field::Score => hit.score = Some(ranked.score),
                Field::Title => hit.title = Some(title(ranked)),
                Field::Text => hit.text = Some(ranked.passage.text.clone()),
                Field::Contents => hit.contents = Some(ranked.passage.contents().into_owned()),
                Field::Url => hit.url = Some(documents.url_of(ranked)),
            }
        }
        hit
    }
}

impl IndexFacts {
    pub(super) fn of(serving: &Serving) -> Self {
        let (retriever, provenance) = (serving.retriever(), serving.retriever().provenance());
        Self {
            generation: retriever.generation().number(),
            rows: retriever.corpus().len(),
            corpus: provenance.corpus.blake3.clone(),
            model: provenance.model.card.id.clone(),
            fingerprint: provenance.model.fingerprint.queries.blake3.clone(),
        }
    }
}

impl TimingsMs {
    fn of(timings: &Timings) -> Self {
        let ms = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let Timings { queue, embed, search, text } = *timings;
        Self {
            queue_ms: ms(queue),
            embed_ms: ms(embed),
            search_ms: ms(search),
            total_ms: ms(queue + embed + search + text),
        }
    }
}

/// `GET /v1/passages/{id}`.
pub(super) async fn get_passage(State(service): State<Arc<Service>>, incoming: Incoming) -> Result<Response, Fault> {
    let id = incoming.part("id").to_owned();
    let serving = service.serving();
    let documents = service.documents();
    let body = blocking(move || {
        let found = passage(&serving, &id)?;
        let hit = found.ok_or_else(|| Fault::new(Code::NotFound, format!("no passage has the id {id:?}")))?;
        Ok::<_, Fault>(serde_json::to_vec(&PassageResponse {
            url: documents.url_of(&hit),
            title: title(&hit),
            contents: hit.passage.contents().into_owned(),
            row: hit.row,
            id: hit.passage.id,
            text: hit.passage.text,
        }))
    });
    written(body.await??)
}

/// A body with the fields of `T`; it is an object, and so are those of its fields that `objects` names.
pub(super) fn typed<T: DeserializeOwned>(incoming: &Incoming, objects: &[&str]) -> Result<T, Fault> {
    let body = incoming.json()?;
    // A list would be taken for the values of the fields, in their order.
    let fields = objects.iter().filter_map(|name| Some((*name, body.get(name)?)));
    let list = std::iter::once(("body", &body)).chain(fields).find(|(_, value)| value.is_array());
    if let Some((place, _)) = list {
        return Err(Fault::invalid(format!("{place}: expected an object, found a list")));
    }
    serde_path_to_error::deserialize(body).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "body" } else { &path };
        Fault::invalid(format!("{place}: {}", error.inner()))
    })
}

/// An answer of JSON that is written already.
pub(super) fn written(body: serde_json::Result<Vec<u8>>) -> Result<Response, Fault> {
    let body = body.map_err(|error| Fault::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
