//! The bodies of `POST /v1/search`: what is asked, and the checks that an answer must pass.

use serde::{Deserialize, Serialize};

use crate::{Passage, Ranked};

/// Queries in a request, at most; servers refuse more.
const MAX_QUERIES: usize = 4096;
/// Passages of an answer, at most; servers refuse more.
const MAX_PASSAGES: usize = 100_000;
/// Bytes of queries in a request, as JSON, unless a single query is longer; servers refuse bodies over 16 MiB.
const MAX_BYTES: usize = 15 << 20;

/// A request: the queries of one batch.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    queries: &'a [String],
    top_k: usize,
    fields: [&'static str; 5],
}

impl<'a> Request<'a> {
    pub fn new(queries: &'a [String], top_k: usize) -> Self {
        Self { queries, top_k, fields: ["id", "row", "score", "title", "contents"] }
    }
}

/// The queries in pieces that a server takes.
pub(super) fn batches(mut rest: &[String], top_k: usize) -> impl Iterator<Item = &[String]> {
    let most = MAX_QUERIES.min(MAX_PASSAGES / top_k.max(1));
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(most).take_while(|query| {
            bytes += json_length(query);
            bytes <= MAX_BYTES
        });
        let (batch, later) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = later;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Bytes of a JSON string with its quotes and a comma.
fn json_length(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<usize>() + 3
}

/// An answer that passed the checks.
#[derive(Debug)]
pub(super) struct Answer {
    pub rankings: Vec<Vec<Ranked>>,
    pub index: IndexIdentity,
}

/// What tells whether two answers are of the same index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct IndexIdentity {
    generation: u64,
    rows: u64,
    corpus: String,
    fingerprint: String,
}

#[derive(Deserialize)]
struct Body {
    results: Vec<Found>,
    index: IndexIdentity,
}

#[derive(Deserialize)]
struct Found {
    hits: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    id: String,
    row: u64,
    score: f32,
    /// May be null, but must be there: without it a title would pass for text.
    #[serde(deserialize_with = "Option::deserialize")]
    title: Option<String>,
    contents: String,
}

impl Answer {
    /// Reads the answer to `request`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn read(json: &[u8], request: &Request<'_>) -> Result<Self, String> {
        let Body { results, index } =
            serde_json::from_slice(json).map_err(|error| format!("an answer that cannot be read: {error}"))?;
        if results.len() != request.queries.len() {
            return Err(format!("results for {} queries where {} were asked", results.len(), request.queries.len()));
        }
        let wanted = usize::try_from(index.rows).unwrap_or(usize::MAX).min(request.top_k);
        let rank = |found: Found| rank(found.hits, wanted, index.rows);
        Ok(Self { rankings: results.into_iter().map(rank).collect::<Result<_, _>>()?, index })
    }
}

fn rank(hits: Vec<Hit>, wanted: usize, rows: u64) -> Result<Vec<Ranked>, String> {
    if hits.len() != wanted {
        return Err(format!("{} hits for a query where {wanted} were due", hits.len()));
    }
    let mut best = f32::INFINITY;
    let mut rank = |hit: Hit| {
        if !hit.score.is_finite() || hit.score > best {
            return Err(format!("a score of {} after {best}", hit.score));
        }
        if hit.id.is_empty() || hit.row >= rows {
            return Err(format!("a hit with the id `{}` in row {} of {rows}", hit.id, hit.row));
        }
        best = hit.score;
        Ok(Ranked { row: hit.row, score: hit.score, passage: passage(hit)? })
    };
    hits.into_iter().map(&mut rank).collect()
}

/// The passage as it stands in the corpus: `title` says where in `contents` the text begins, `contents` whether the title
/// is quoted.
fn passage(hit: Hit) -> Result<Passage, String> {
    let Hit { id, title, contents, .. } = hit;
    let Some(title) = title else { return Ok(Passage { id, title: None, text: contents }) };
    let quoted = format!("\"{title}\"");
    for title in [quoted, title] {
        if let Some(text) = contents.strip_prefix(&*title).and_then(|rest| rest.strip_prefix('\n')) {
            let text = text.to_owned();
            return Ok(Passage { id, title: Some(title), text });
        }
    }
    Err(format!("a hit, `{id}`, whose `contents` does not begin with its `title`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_order_and_limits() {
        let queries: Vec<String> = (0..9000).map(|i| i.to_string()).collect();
        let sizes: Vec<usize> = batches(&queries, 5).map(<[_]>::len).collect();
        assert_eq!(sizes, [4096, 4096, 808]);
        assert_eq!(batches(&queries, 5).flatten().collect::<Vec<_>>(), queries.iter().collect::<Vec<_>>());
        assert_eq!(batches(&[], 5).count(), 0);
        assert_eq!(batches(&queries, 1000).map(<[_]>::len).max(), Some(100));
        // A NUL takes six bytes: five such queries make a batch, and one that is too long stands alone.
        let queries: Vec<String> =
            [[1; 6].as_slice(), &[20], &[1]].concat().iter().map(|n| "\0".repeat(n << 19)).collect();
        let sizes: Vec<usize> = batches(&queries, 5).map(<[_]>::len).collect();
        assert_eq!(sizes, [4, 2, 1, 1]);
    }

    #[test]
    fn lengths_are_those_of_the_json_written() {
        let text: String = (0..0x80).map(char::from).chain("é€😀".chars()).collect();
        assert_eq!(json_length(&text), serde_json::to_string(&text).expect("JSON").len() + 1);
    }

    fn passage_of(title: Option<&str>, contents: &str) -> Result<Passage, String> {
        let title = title.map(str::to_owned);
        passage(Hit { id: "a".into(), row: 0, score: 0.0, title, contents: contents.into() })
    }

    #[test]
    fn passages_are_rebuilt_to_the_byte() {
        let id = || "a".to_owned();
        for original in [
            Passage::from_contents(id(), "Citibank\ntext"),
            Passage::from_contents(id(), "\"Pavia Cathedral\"\ntext\n\nmore"),
            Passage::from_contents(id(), "\"\nx"),
            Passage::from_contents(id(), "no title"),
            Passage::from_fields(id(), "", "two\nlines".into()),
            Passage::from_fields(id(), "two\nlines", "text".into()),
            Passage::from_fields(id(), "\"Heroes\"", String::new()),
        ] {
            let title = original.title.as_ref().map(|_| original.display_title());
            assert_eq!(passage_of(title, &original.contents()), Ok(original.clone()));
        }
        assert!(passage_of(Some("Other"), "\"Title\"\ntext").is_err());
    }

    #[test]
    fn answers_that_cannot_be_are_refused() {
        let queries = ["a".to_owned(), "b".to_owned()];
        let read = |json: &str| Answer::read(json.as_bytes(), &Request::new(&queries, 2)).err().unwrap_or_default();
        let hit = |score: &str| format!(r#"{{"id": "7", "row": 1, "score": {score}, "title": null, "contents": "x"}}"#);
        let answer = |first: &str, second: &str| {
            format!(
                r#"{{"results": [{{"hits": [{first}, {second}], "truncated": false}}, {{"hits": [{first}, {second}]}}],
                "index": {{"generation": 1, "rows": 3, "corpus": "c", "model": "m", "fingerprint": "f"}}}}"#
            )
        };
        assert_eq!(read(&answer(&hit("0.5"), &hit("0.5"))), "");
        for (json, says) in [
            (String::new(), "EOF"),
            ("<html>".into(), "cannot be read"),
            (answer(&hit("0.5"), &hit("0.25"))[..100].into(), "EOF"),
            (answer(&hit("0.5"), &hit("0.6")), "0.6 after 0.5"),
            (answer(&hit("1e39"), &hit("0.5")), "inf"),
            (answer(&hit("\"NaN\""), &hit("0.5")), "cannot be read"),
            (answer(&hit("0.5"), &hit("0.5").replace("\"7\"", "\"\"")), "id ``"),
            (answer(&hit("0.5"), &hit("0.5").replace("\"id\"", "\"name\"")), "missing field `id`"),
            (answer(&hit("0.5"), &hit("0.5").replace("\"title\": null, ", "")), "missing field `title`"),
            (answer(&hit("0.5"), &hit("0.5").replace("\"row\": 1", "\"row\": 3")), "row 3 of 3"),
            (
                answer(&hit("0.5"), &hit("0.5")).replace("\"rows\": 3", "\"rows\": 2000").replace("}, {\"id", "}{\"id"),
                "cannot be read",
            ),
            (answer(&hit("0.5"), &hit("0.5")).replace("\"rows\": 3", "\"rows\": 1"), "2 hits for a query where 1"),
            (answer(&hit("0.5"), &hit("0.5")).replacen("{\"hits\"", "{\"hits\": [], \"x\"", 1), "0 hits"),
            (answer("", "").replace("[, ]", "[]"), "0 hits for a query where 2"),
            (
                r#"{"results": [], "index": {"generation": 1, "rows": 3, "corpus": "c", "fingerprint": "f"}}"#.into(),
                "0 queries",
            ),
        ] {
            assert!(read(&json).contains(says), "{json}: {}", read(&json));
        }
    }
}
