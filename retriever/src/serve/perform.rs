//! Does what a dialect's request asks for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::dialects::{Answer, Operation, Pages, Setup, Work};
use super::engine::{Ask, PassageReader, Timings, aside, blocking};
use super::fault::{Code, Fault, msgpack};
use super::incoming::{Incoming, understand};
use super::memory::Share;
use super::service::Service;
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
    let read = operation.read;
    let asked = Arc::clone(service);
    let (work, incoming) = understand(incoming, move |incoming| {
        let options = asked.options();
        let documents = asked.documents();
        read(incoming, &Setup { top_k: options.top_k, limits: &options.limits, documents })
    })
    .await?;
    let Performed { answer, documents, notes } = perform(service, &serving, work, &incoming).await?;
    // Thousands of documents take their time to write down.
    let (kind, bytes) = aside(documents, move || match answer {
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

/// What was done for a request.
struct Performed {
    answer: Answer,
    /// How many documents the answer has, at least.
    documents: usize,
    /// Of a search, where the time went; and the answer's memory.
    notes: Option<(Timings, Arc<Share>)>,
}

async fn perform(
    service: &Service,
    serving: &Arc<Serving>,
    work: Work,
    incoming: &Incoming,
) -> Result<Performed, Fault> {
    match work {
        Work::Done(answer) => Ok(Performed { answer, documents: 0, notes: None }),
        Work::Search { queries, top_k, render } => {
            service.check_answer(queries.len(), top_k)?;
            let deadline = incoming.deadline(queries.len());
            let ask = Ask::texts(queries, top_k, deadline);
            let found = service.within(deadline, service.engine().search(serving, ask)).await?;
            let (rankings, notes) = (found.rankings, (found.timings, found.memory.into()));
            let documents = rankings.iter().map(Vec::len).sum();
            let answer = service.within(deadline, aside(documents, move || render(rankings))).await?;
            Ok(Performed { answer, documents, notes: Some(notes) })
        }
        Work::Rerank { queries, texts, render } => {
            let documents = texts.iter().map(Vec::len).sum::<usize>();
            let deadline = incoming.deadline(queries.len() + documents);
            let scores = service.within(deadline, rerank(service, serving, queries, texts, deadline)).await?;
            let answer = aside(documents, move || render(scores)).await?;
            Ok(Performed { answer, documents, notes: None })
        }
        Work::Pages { urls, render } => {
            if !service.has_pages() {
                return Err(Fault::new(Code::NotFound, "this server has no pages; start it with `--derive-urls`"));
            }
            let reader = service.engine().reader(serving);
            let pages = blocking(move || read_pages(reader, &urls));
            let (pages, memory) = service.within(incoming.deadline(1), pages).await??;
            let documents = pages.iter().flatten().map(Vec::len).sum();
            let answer = aside(documents, move || render(pages)).await?;
            Ok(Performed { answer, documents, notes: Some((Timings::default(), memory.into())) })
        }
        Work::Passage { id, render } => {
            let serving = Arc::clone(serving);
            let answer = blocking(move || render(passage(&serving, &id)?)).await??;
            Ok(Performed { answer, documents: 1, notes: None })
        }
    }
}

/// A page for each address that has one; and the memory for them.
fn read_pages(mut reader: PassageReader, urls: &[String]) -> Result<(Pages, Share), Fault> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut pages = Pages::with_capacity(urls.len());
    for url in urls {
        let page = match known.get(url.as_str()) {
            None => {
                known.insert(url, pages.len());
                reader.page(url)?
            }
            // Asked for again it is answered again, and takes its memory.
            Some(first) => match &pages[*first] {
                Some(page) => Some(reader.again(page)?),
                None => None,
            },
        };
        pages.push(page);
    }
    Ok((pages, reader.memory))
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
