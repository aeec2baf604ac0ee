//! Passages to observations: whatever a passage holds, the frame stays whole and the room is not exceeded.

use std::borrow::Cow;

use hindsearch_retriever::{Passage, Ranked};

use crate::escape::escape;
use crate::experience::block;
use crate::preset::{Budget, JsonForm, Observation, Overflow};
use crate::text::strip;
use crate::trajectory::{Advice, Found};

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

/// What may stand in braces in `observation.passage` and `observation.untitled`.
pub(crate) const PASSAGE_PLACEHOLDERS: &[&str] =
    &["number", "title", "name", "text", "contents", "id", "score", "query"];
/// What may stand in braces in `observation.query`.
pub(crate) const QUERY_PLACEHOLDERS: &[&str] = &["query", "number"];

/// An observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub text: String,
    /// Passages of each query that are shown.
    pub shown: Vec<usize>,
    /// Pieces of experience that are shown.
    pub experience: usize,
    pub truncated: bool,
}

/// Characters of a passage for each token of room; more are never needed, and a megabyte need not be counted.
const WIDEST_TOKEN: usize = 32;
/// What verl puts where the middle was.
const MIDDLE: &str = "...(truncated)...";

/// What an observation says around the passages that it shows: numbers, ids, scores, queries and experience, without the passages'
/// titles and texts.
pub(crate) fn frame(rules: &Observation, queries: &[String], found: &[Vec<Found>], experience: &[Advice]) -> String {
    let bare = |one: &Found| {
        let passage = Passage { id: one.id.clone(), title: None, text: String::new() };
        Ranked { row: one.row, score: one.score, passage }
    };
    let bare: Vec<Vec<Ranked>> = found.iter().map(|passages| passages.iter().map(bare).collect()).collect();
    let shown = found.iter().map(|passages| passages.iter().filter(|one| one.shown).count());
    let mut sheet = Sheet::new(rules, queries, &bare, usize::MAX);
    sheet.experience = block::behind(experience);
    sheet.text(&shown.collect::<Vec<_>>())
}

/// How observations are made.
pub(crate) struct Renderer<'a> {
    pub rules: &'a Observation,
    pub measure: &'a dyn Measure,
    /// Tokens that an observation may have whatever the rules say, unless they have a way of their own to cut it.
    pub room: usize,
}

impl Renderer<'_> {
    /// What was found for each query, and experience behind it, as far as there is room.
    pub fn render(&self, queries: &[String], found: &[Vec<Ranked>], advice: &[Advice]) -> Rendered {
        let rules = self.rules;
        let (measure, most): (&dyn Measure, usize) = match rules.budget {
            None => (self.measure, usize::MAX),
            Some(Budget::Tokens(most)) => (self.measure, most),
            Some(Budget::Characters(most)) => (&Characters, most),
        };
        let room = if rules.overflow == Overflow::Passages { self.room } else { usize::MAX };
        let fits = |text: &str| {
            let within = |measure: &dyn Measure, most| most == usize::MAX || measure.length(text) <= most;
            within(measure, most) && within(self.measure, room)
        };
        let widest = if rules.overflow == Overflow::Passages { most.min(room) } else { usize::MAX };
        let mut sheet = Sheet::new(rules, queries, found, widest.saturating_mul(WIDEST_TOKEN));
        // Experience is never cut: passages make room for it, and what would leave them less than half is left out whole.
        let half = |text: &str| measure.length(text) <= most / 2 && self.measure.length(text) <= room / 2;
        let mut experience = advice.len();
        loop {
            sheet.experience = block::behind(&advice[..experience]);
            if experience == 0 || half(&sheet.encode(&sheet.experience)) && fits(&sheet.bare()) {
                break;
            }
            experience -= 1;
        }
        let all: Vec<usize> = found.iter().map(Vec::len).collect();
        let text = sheet.text(&all);
        if fits(&text) {
            return Rendered { text, shown: all, experience, truncated: sheet.shortened };
        }
        let (text, shown) = match rules.overflow {
            Overflow::Passages => sheet.fewer(all, fits),
            Overflow::End | Overflow::Middle => (sheet.cut(&all, measure, most), all),
        };
        Rendered { text, shown, experience, truncated: true }
    }
}

/// The lines of passages, rendered once.
struct Sheet<'a> {
    rules: &'a Observation,
    heads: Vec<String>,
    lines: Vec<Vec<String>>,
    /// What stands behind the passages.
    experience: String,
    shortened: bool,
}

impl<'a> Sheet<'a> {
    fn new(rules: &'a Observation, queries: &[String], found: &[Vec<Ranked>], widest: usize) -> Self {
        let mut shortened = false;
        let mut heads = Vec::with_capacity(queries.len());
        let mut lines = Vec::with_capacity(queries.len());
        for (number, (query, passages)) in queries.iter().zip(found).enumerate() {
            let number = number + 1;
            let asked = |name: &str| match name {
                "query" => Some(inert(rules, query)),
                "number" => Some(number.to_string().into()),
                _ => None,
            };
            heads.push(fill(&rules.query, asked));
            let line = |(rank, ranked): (usize, &Ranked)| {
                let passage = &ranked.passage;
                let contents = passage.contents();
                // As the recipes do it: the first line is the title, whatever it is.
                let (title, text) = contents.split_once('\n').unwrap_or((&contents, ""));
                let mut short = |text| {
                    let text = if rules.strip { strip(text) } else { text };
                    let head = crate::text::head(text, widest);
                    shortened |= head.len() < text.len();
                    inert(rules, &clip(rules, head)).into_owned().into()
                };
                let is_quoted =
                    passage.title.as_ref().is_some_and(|title| title.len() > 2 && title != passage.display_title());
                let template = rules.untitled.as_ref().filter(|_| !is_quoted);
                fill(template.unwrap_or(&rules.passage), |name| match name {
                    "number" => Some((rank + 1).to_string().into()),
                    "title" => Some(inert(rules, crate::text::head(title, widest))),
                    "name" => Some(inert(rules, crate::text::head(passage.display_title(), widest))),
                    "text" => Some(short(text)),
                    "contents" => Some(short(&contents)),
                    "id" => Some(inert(rules, &passage.id)),
                    "score" => Some(format!("{:.3}", ranked.score).into()),
                    "query" => Some(inert(rules, query)),
                    _ => None,
                })
            };
            lines.push(passages.iter().enumerate().map(line).collect());
        }
        Self { rules, heads, lines, experience: String::new(), shortened }
    }

    fn inside(&self, shown: &[usize]) -> String {
        let blocks = self.heads.iter().zip(&self.lines).zip(shown).map(|((head, lines), &count)| {
            let passages = lines[..count].join(&self.rules.separator);
            let passages = if self.rules.trim { strip(&passages) } else { &passages };
            // Where passages were left out for lack of room, it would be wrong to say that there were none.
            format!("{head}{}", if lines.is_empty() { &self.rules.empty } else { passages })
        });
        self.encode(&(blocks.collect::<Vec<_>>().join(&self.rules.between) + &self.experience))
    }

    fn encode(&self, inside: &str) -> String {
        match self.rules.json {
            JsonForm::None => inside.to_owned(),
            JsonForm::Unicode => format!("{{\"result\": {}}}", serde_json::Value::from(inside)),
            JsonForm::Ascii => format!("{{\"result\": {}}}", ascii(&serde_json::Value::from(inside).to_string())),
        }
    }

    /// The observation without any passage.
    fn bare(&self) -> String {
        format!("{}{}{}", self.rules.before, self.encode(&self.experience), self.rules.after)
    }

    /// The observation cut as the recipe cuts it, whatever is hit, with the experience whole in what is left of the room.
    fn cut(&mut self, shown: &[usize], measure: &dyn Measure, most: usize) -> String {
        let experience = std::mem::take(&mut self.experience);
        let mut room = most.saturating_sub(measure.length(&experience));
        loop {
            let text = if self.rules.overflow == Overflow::End {
                let text = self.text(shown);
                format!("{}{experience}", &text[..measure.head(&text, room)])
            } else {
                let inside = middle_out(&self.inside(shown), room);
                format!("{}{inside}{experience}{}", self.rules.before, self.rules.after)
            };
            // Some tokenizers need more for two texts together than for each.
            if experience.is_empty()
                || room == 0
                || self.rules.overflow == Overflow::Middle
                || measure.length(&text) <= most
            {
                return text;
            }
            room -= 1;
        }
    }

    fn text(&self, shown: &[usize]) -> String {
        format!("{}{}{}", self.rules.before, self.inside(shown), self.rules.after)
    }

    /// Leaves out passages, the lowest ranks first, and then the end of the last one, until the text fits.
    fn fewer(&mut self, mut shown: Vec<usize>, fits: impl Fn(&str) -> bool) -> (String, Vec<usize>) {
        while shown.iter().sum::<usize>() > 1 {
            // The lowest rank there is; of several queries' the last one's.
            let Some(longest) = (0..shown.len()).max_by_key(|&query| (shown[query], query)) else { break };
            shown[longest] -= 1;
            let text = self.text(&shown);
            if fits(&text) {
                return (text, shown);
            }
        }
        if let Some(query) = shown.iter().position(|&count| count == 1) {
            if let Some(text) = self.trimmed(query, &shown, fits) {
                return (text, shown);
            }
            shown[query] = 0;
        }
        (self.bare(), shown)
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

/// The text up to where the recipe ends a passage.
fn clip<'a>(rules: &Observation, text: &'a str) -> Cow<'a, str> {
    let Some(clip) = &rules.clip else { return Cow::Borrowed(text) };
    let kept = Characters.head(text, clip.characters);
    if kept == text.len() { Cow::Borrowed(text) } else { Cow::Owned(format!("{}{}", &text[..kept], clip.mark)) }
}

/// Replaces `{name}` by its value in one pass, so that what is put in is not looked at again. What has no value stays.
fn fill<'a>(template: &str, mut value: impl FnMut(&str) -> Option<Cow<'a, str>>) -> String {
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let name = from[1..].split_once('}').map(|(name, _)| name);
        match name.and_then(|name| Some((value(name)?, name.len() + 2))) {
            Some((value, length)) => {
                filled.push_str(&value);
                rest = &from[length..];
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
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
