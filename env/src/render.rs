//! Passages to observations: whatever a passage holds, the frame stays whole and the room is not exceeded.

use std::borrow::Cow;

use hindsearch_retriever::Ranked;

use crate::escape::escape;
use crate::preset::{Budget, JsonForm, Observation, Overflow};
use crate::text::strip;

/// Counts tokens as the policy's tokenizer does.
pub trait Measure: Send + Sync {
    /// Tokens of a text on its own.
    fn length(&self, text: &str) -> usize;

    /// Bytes of the first `most` tokens, at the border of a character.
    fn head(&self, text: &str, most: usize) -> usize;
}

/// Four characters a token, rounded up: for when no tokenizer is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct FourCharacters;

impl Measure for FourCharacters {
    fn length(&self, text: &str) -> usize {
        text.chars().count().div_ceil(4)
    }

    fn head(&self, text: &str, most: usize) -> usize {
        Characters.head(text, most.saturating_mul(4))
    }
}

struct Characters;

impl Measure for Characters {
    fn length(&self, text: &str) -> usize {
        text.chars().count()
    }

    fn head(&self, text: &str, most: usize) -> usize {
        text.char_indices().nth(most).map_or(text.len(), |(at, _)| at)
    }
}

/// An observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub text: String,
    /// Passages of each query that are shown.
    pub shown: Vec<usize>,
    pub truncated: bool,
}

/// Characters of a passage for each token of room; more are never needed, and a megabyte need not be counted.
const WIDEST_TOKEN: usize = 32;
/// What verl puts where the middle was.
const MIDDLE: &str = "...(truncated)...";

/// Renders what was found for each query.
pub(crate) fn render(
    rules: &Observation,
    measure: &dyn Measure,
    queries: &[String],
    found: &[Vec<Ranked>],
) -> Rendered {
    let (measure, most): (&dyn Measure, usize) = match rules.budget {
        None => (measure, usize::MAX),
        Some(Budget::Tokens(most)) => (measure, most),
        Some(Budget::Characters(most)) => (&Characters, most),
    };
    let widest = if rules.overflow == Overflow::Passages { most.saturating_mul(WIDEST_TOKEN) } else { usize::MAX };
    let mut sheet = Sheet::new(rules, queries, found, widest);
    let all: Vec<usize> = found.iter().map(Vec::len).collect();
    let text = sheet.text(&all);
    if most == usize::MAX || measure.length(&text) <= most {
        return Rendered { text, shown: all, truncated: sheet.shortened };
    }
    match rules.overflow {
        Overflow::End => {
            let kept = measure.head(&text, most);
            Rendered { text: text[..kept].to_owned(), shown: all, truncated: true }
        }
        Overflow::Middle => {
            let text = format!("{}{}{}", rules.before, middle_out(&sheet.inside(&all), most), rules.after);
            Rendered { text, shown: all, truncated: true }
        }
        Overflow::Passages => {
            let mut shown = all;
            loop {
                let total: usize = shown.iter().sum();
                // The lowest rank there is; of several queries' the last one's.
                let Some(longest) = (0..shown.len()).max_by_key(|&query| (shown[query], query)) else { break };
                if total <= 1 {
                    break;
                }
                shown[longest] -= 1;
                if measure.length(&sheet.text(&shown)) <= most {
                    return Rendered { text: sheet.text(&shown), shown, truncated: true };
                }
            }
            if let Some(query) = shown.iter().position(|&count| count == 1) {
                if let Some(text) = sheet.trimmed(query, &shown, |text| measure.length(text) <= most) {
                    return Rendered { text, shown, truncated: true };
                }
                shown[query] = 0;
            }
            let text = sheet.frame("");
            Rendered { text, shown, truncated: true }
        }
    }
}

/// The lines of passages, rendered once.
struct Sheet<'a> {
    rules: &'a Observation,
    heads: Vec<String>,
    lines: Vec<Vec<String>>,
    shortened: bool,
}

impl<'a> Sheet<'a> {
    fn new(rules: &'a Observation, queries: &[String], found: &[Vec<Ranked>], widest: usize) -> Self {
        let mut shortened = false;
        let mut heads = Vec::with_capacity(queries.len());
        let mut lines = Vec::with_capacity(queries.len());
        for (number, (query, passages)) in queries.iter().zip(found).enumerate() {
            let query = inert(rules, query);
            let number = (number + 1).to_string();
            heads.push(fill(&rules.query, &[("{query}", &query), ("{number}", &number)]));
            let line = |(rank, ranked): (usize, &Ranked)| {
                let passage = &ranked.passage;
                let contents = passage.contents();
                // As the recipes do it: the first line is the title, whatever it is.
                let (title, text) = contents.split_once('\n').unwrap_or((&contents, ""));
                let short = crate::text::head(text, widest);
                shortened |= short.len() < text.len();
                let (number, score) = ((rank + 1).to_string(), format!("{:.3}", ranked.score));
                let values = [
                    ("{number}", number.as_str()),
                    ("{title}", &inert(rules, crate::text::head(title, widest))),
                    ("{text}", &inert(rules, short)),
                    ("{contents}", &inert(rules, crate::text::head(&contents, widest))),
                    ("{id}", &inert(rules, &passage.id)),
                    ("{score}", score.as_str()),
                    ("{query}", &query),
                ];
                fill(&rules.passage, &values)
            };
            lines.push(passages.iter().enumerate().map(line).collect());
        }
        Self { rules, heads, lines, shortened }
    }

    fn inside(&self, shown: &[usize]) -> String {
        let blocks = self.heads.iter().zip(&self.lines).zip(shown).map(|((head, lines), &count)| {
            let passages = lines[..count].concat();
            if passages.is_empty() { format!("{head}{}", self.rules.empty) } else { head.clone() + &passages }
        });
        self.encode(&blocks.collect::<Vec<_>>().join(&self.rules.between))
    }

    fn encode(&self, inside: &str) -> String {
        let inside = if self.rules.trim { strip(inside) } else { inside };
        match self.rules.json {
            JsonForm::None => inside.to_owned(),
            JsonForm::Unicode => format!("{{\"result\": {}}}", serde_json::Value::from(inside)),
            JsonForm::Ascii => format!("{{\"result\": {}}}", ascii(&serde_json::Value::from(inside).to_string())),
        }
    }

    fn frame(&self, inside: &str) -> String {
        format!("{}{}{}", self.rules.before, self.encode(inside), self.rules.after)
    }

    fn text(&self, shown: &[usize]) -> String {
        format!("{}{}{}", self.rules.before, self.inside(shown), self.rules.after)
    }

    /// The most of the only passage that fits, at least a character.
    fn trimmed(&mut self, query: usize, shown: &[usize], fits: impl Fn(&str) -> bool) -> Option<String> {
        let line = std::mem::take(&mut self.lines[query][0]);
        let borders: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
        let (mut low, mut high) = (0, borders.len());
        let mut best = None;
        while low + 1 < high {
            let middle = low.midpoint(high);
            line[..borders[middle]].clone_into(&mut self.lines[query][0]);
            let text = self.text(shown);
            if fits(&text) {
                (low, best) = (middle, Some(text));
            } else {
                high = middle;
            }
        }
        best
    }
}

fn inert<'a>(rules: &Observation, text: &'a str) -> Cow<'a, str> {
    if rules.escape { escape(text) } else { Cow::Borrowed(text) }
}

/// Replaces placeholders in one pass, so that what is put in is not looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let known = values.iter().find(|(name, _)| from.starts_with(name));
        let (value, length) = known.map_or(("{", 1), |(name, value)| (*value, name.len()));
        filled.push_str(value);
        rest = &from[length..];
    }
    filled + rest
}

/// JSON with nothing but printable ASCII, as Python's `json.dumps` writes it.
fn ascii(json: &str) -> String {
    let mut units = [0; 2];
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if (' '..='~').contains(&c) {
            text.push(c);
        } else {
            c.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

/// verl's way: half of the room from each end.
fn middle_out(text: &str, most: usize) -> String {
    let (count, half) = (text.chars().count(), most / 2);
    let head = Characters.head(text, half);
    let tail = Characters.head(text, count.saturating_sub(half));
    format!("{}{MIDDLE}{}", &text[..head], &text[tail..])
}
