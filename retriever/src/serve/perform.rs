//! Does what a dialect's request asks for.

use std::sync::Arc;
use std::time::Instant;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::dialects::{Answer, Documents, Operation, Setup, Work};
use super::engine::{Ask, Timings, blocking};
use super::fault::{Code, Fault, msgpack};
use super::incoming::Incoming;
use super::service::{AnswerMemory, Service};
use super::serving::Serving;
use crate::embed::InputKind;
use crate::{Ranked, Result};

/// Answers a request to `operation`.
pub(super) async fn answer(
    operation: &Operation,
    service: &Arc<Service>,
    incoming: Incoming,
) -> Result<Response, Fault> {
    let serving = service.serving();
    let options = service.options();
    let setup =
        Setup { top_k: options.top_k, limits: &options.limits, documents: Documents { urls: options.derive_urls } };
    let work = (operation.read)(&incoming, &setup)?;
    let (answer, notes) = perform(service, &serving, work, &incoming).await?;
    // Thousands of documents take their time to write down.
    let (kind, bytes) = blocking(move || match answer {
        Answer::Json(body) => ("application/json", body.to_string().into_bytes()),
        Answer::Msgpack(body) => ("application/msgpack", msgpack(&body)),
    })
    .await?;
    let mut response = ([(header::CONTENT_TYPE, kind)], bytes).into_response();
    if let Some((stages, memory)) = notes {
        response.extensions_mut().insert(stages);
        response.extensions_mut().insert(memory);
    }
    Ok(response)
}

/// The answer; and of a search, where the time went, and the answer's memory.
async fn perform(
    service: &Service,
    serving: &Arc<Serving>,
    work: Work,
    incoming: &Incoming,
) -> Result<(Answer, Option<(Timings, AnswerMemory)>), Fault> {
    let answer = match work {
        Work::Done(answer) => answer,
        Work::Search { queries, top_k, render } => {
            let memory = service.reserve_answer(queries.len(), top_k)?;
            let deadline = incoming.deadline(queries.len());
            let ask = Ask::texts(queries, top_k, deadline);
            let found = service.within(deadline, service.engine().search(serving, ask)).await?;
            let stages = found.timings;
            return Ok((blocking(move || render(found.rankings)).await?, Some((stages, memory))));
        }
        Work::Rerank { queries, texts, render } => {
            let deadline = incoming.deadline(queries.len() + texts.iter().map(Vec::len).sum::<usize>());
            let scores = service.within(deadline, rerank(service, serving, queries, texts, deadline)).await?;
            render(scores)
        }
        Work::Pages { urls, render } => {
            if !service.has_pages() {
                return Err(Fault::new(Code::NotFound, "this server has no pages; start it with `--derive-urls`"));
            }
            let serving = Arc::clone(serving);
            let pages = blocking(move || urls.iter().map(|url| serving.page(url)).collect::<Result<Vec<_>>>());
            render(service.within(incoming.deadline(1), pages).await??)
        }
        Work::Passage { id, render } => {
            let serving = Arc::clone(serving);
            blocking(move || render(passage(&serving, &id)?)).await??
        }
    };
    Ok((answer, None))
}

/// The passage of an id, as a hit without a query.
pub(super) fn passage(serving: &Serving, id: &str) -> Result<Option<Ranked>> {
    let corpus = serving.retriever().corpus();
    let Some(row) = corpus.row_of(id)? else { return Ok(None) };
    Ok(Some(Ranked { row, score: 0.0, passage: corpus.get(row)? }))
}

/// Cosines of each query and its own texts.
async fn rerank(
    service: &Service,
    serving: &Arc<Serving>,
    queries: Vec<String>,
    texts: Vec<Vec<String>>,
    deadline: Instant,
) -> Result<Vec<Vec<f32>>, Fault> {
    let counts: Vec<usize> = texts.iter().map(Vec::len).collect();
    let (model, engine) = (serving.model(), service.engine());
    let queries = engine.embed(model, queries, InputKind::Query, deadline).await?;
    let texts = engine.embed(model, texts.into_iter().flatten().collect(), InputKind::Passage, deadline).await?;
    let mut texts = texts.into_iter();
    let score = |query: &[f32], text: &[f32]| query.iter().zip(text).map(|(a, b)| a * b).sum::<f32>();
    let own = |(query, count): (super::engine::TextVector, usize)| {
        texts.by_ref().take(count).map(|text| score(&query.values, &text.values)).collect()
    };
    Ok(queries.into_iter().zip(counts).map(own).collect())
}
