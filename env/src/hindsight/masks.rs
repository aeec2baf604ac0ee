//! Which tokens are a query, and which the answer? From the places that the record holds, never from looking for tags in what was read.

use serde::{Deserialize, Serialize};

use crate::trajectory::{Action, Bytes, Span, Trajectory, Turn};

/// Which tokens of a search belong to its query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum QuerySpan {
    /// Those between the tags.
    #[default]
    Content,
    /// Those of both tags, too.
    Inclusive,
    /// Those of the closing tag, too.
    CloseOnly,
}

impl Trajectory {
    /// One value a token, in order: true where the token holds at least one byte of a query that the policy wrote and that was
    /// searched for. A query that was cut off by a limit was not searched for.
    pub fn query_mask(&self) -> Vec<bool> {
        self.span_mask(QuerySpan::Content)
    }

    /// As [`query_mask`](Self::query_mask), with the tags around the queries or without them.
    pub fn span_mask(&self, span: QuerySpan) -> Vec<bool> {
        self.mask(|turn, text| {
            let content = turn.content.clone().filter(|_| turn.is_search())?;
            let start = if span == QuerySpan::Inclusive { opening(text, content.start) } else { content.start };
            let end = if span == QuerySpan::Content { content.end } else { closing(text, content.end) };
            Some(start..end)
        })
    }

    /// One value a token, in order: true where the token holds at least one byte of the query of this turn.
    pub fn turn_mask(&self, span: QuerySpan, number: usize) -> Vec<bool> {
        let mut only = self.clone();
        only.turns = self.turns.get(number).cloned().into_iter().collect();
        only.span_mask(span)
    }

    /// One value a token, in order: true where the token holds at least one byte of the answer.
    pub fn answer_mask(&self) -> Vec<bool> {
        self.mask(|turn, _| turn.content.clone().filter(|_| matches!(turn.action, Action::Answer { .. })))
    }

    /// Tokens that hold bytes of a query and bytes around it, as tokenizers make them of the last letter and the tag behind it.
    pub fn straddling(&self) -> usize {
        let queries = self.turns.iter().filter(|turn| turn.is_search());
        let count = |turn: &Turn| {
            let (span, content) = (self.spans.get(turn.span)?, turn.content.as_ref()?);
            let beyond = |token: &Bytes| token.start < content.start || content.end < token.end;
            Some(tokens(span).filter(|token| meets(token, content) && beyond(token)).count())
        };
        queries.filter_map(count).sum()
    }

    fn mask(&self, place: impl Fn(&Turn, &str) -> Option<Bytes>) -> Vec<bool> {
        let mut mask = Vec::new();
        for (number, span) in self.spans.iter().enumerate() {
            let own = self.turns.iter().filter(|turn| turn.span == number);
            let places: Vec<Bytes> = own.filter_map(|turn| place(turn, &span.text)).collect();
            mask.extend(tokens(span).map(|token| places.iter().any(|place| meets(&token, place))));
            // Without offsets nothing is known to be a query.
            mask.extend(std::iter::repeat_n(false, span.tokens.len() - span.ends.len().min(span.tokens.len())));
        }
        mask
    }
}

/// The bytes of each token whose end is known.
///
/// Of a character that is spread over several tokens the first one has all bytes; the others are given them, too.
fn tokens(span: &Span) -> impl Iterator<Item = Bytes> {
    let mut last = 0..0;
    span.ends.iter().take(span.tokens.len()).map(move |&end| {
        let spread = || span.text.get(..end).and_then(|text| text.chars().next_back()).is_some_and(|c| !c.is_ascii());
        let token = if end == last.end && spread() { last.clone() } else { last.end..end };
        last = token.clone();
        token
    })
}

fn meets(token: &Bytes, place: &Bytes) -> bool {
    token.start < place.end && place.start < token.end && !token.is_empty() && !place.is_empty()
}

/// Where the tag begins that ends here; here where none does.
fn opening(text: &str, end: usize) -> usize {
    let before = text.get(..end).unwrap_or_default();
    before.rfind('<').filter(|_| before.ends_with('>')).unwrap_or(end)
}

/// Where the tag ends that begins here; here where none does.
fn closing(text: &str, start: usize) -> usize {
    let behind = text.get(start..).unwrap_or_default();
    behind.find('>').filter(|_| behind.starts_with('<')).map_or(start, |at| start + at + 1)
}
