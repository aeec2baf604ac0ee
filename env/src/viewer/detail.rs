//! What the page needs to show one trajectory: the record itself, its masks, and places in texts as scripts count them.

use serde::Serialize;

use super::catalogue::Catalogue;
use super::query::{Place, Query};
use crate::Result;
use crate::preset::Preset;
use crate::trajectory::Trajectory;

/// One trajectory, whole.
#[derive(Serialize)]
pub(super) struct Detail {
    /// The name of the file.
    file: String,
    line: u64,
    /// Whether a later line holds the same play.
    superseded: bool,
    place: Place,
    trajectory: Trajectory,
    /// For each span where its tokens end, in UTF-16 units; empty where that is not known.
    ends: Vec<Vec<usize>>,
    /// For each turn where its query or answer stands in the span's text, in UTF-16 units.
    contents: Vec<Option<[usize; 2]>>,
    /// A digit a token, in order: 1 where the policy wrote it.
    policy_mask: String,
    /// A digit a token, in order: 1 where it holds a part of a query that was searched for.
    query_mask: String,
    /// Whether the recipe makes passages inert, so that `&lt;` in an observation stands for `<`. So for recipes that are not known.
    escaped: bool,
}

impl Detail {
    /// The one of a line, where the file has it, and its place among those that are asked for.
    ///
    /// # Errors
    /// As [`Catalogue::read`].
    pub fn of(catalogue: &Catalogue, line: u64, query: &Query) -> Result<Option<Self>> {
        let Some((mut trajectory, superseded)) = catalogue.read(line)? else { return Ok(None) };
        for span in &mut trajectory.spans {
            // Ends of other tokens say nothing about these.
            if span.ends.len() != span.tokens.len() {
                span.ends.clear();
            }
        }
        let ends = trajectory.spans.iter().map(|span| {
            let mut units = Units::of(&span.text);
            span.ends.iter().map(|&end| units.up_to(end)).collect()
        });
        let contents = trajectory.turns.iter().map(|turn| {
            let content = turn.content.as_ref()?;
            let mut units = Units::of(&trajectory.spans.get(turn.span)?.text);
            Some([units.up_to(content.start), units.up_to(content.end)])
        });
        let digits = |mask: Vec<bool>| mask.into_iter().map(|set| if set { '1' } else { '0' }).collect();
        Ok(Some(Self {
            file: catalogue.name(),
            line,
            superseded,
            place: query.place(catalogue, line),
            ends: ends.collect(),
            contents: contents.collect(),
            policy_mask: digits(trajectory.policy_mask()),
            query_mask: digits(trajectory.query_mask()),
            escaped: Preset::named(&trajectory.preset).map_or(true, |preset| preset.observation.escape),
            trajectory,
        }))
    }
}

/// UTF-16 units of a text up to bytes that mostly come in order.
struct Units<'a> {
    text: &'a str,
    bytes: usize,
    units: usize,
    /// Of each byte, made when one comes out of order: counting anew for each would take for ever.
    table: Vec<usize>,
}

impl<'a> Units<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, bytes: 0, units: 0, table: Vec::new() }
    }

    /// A byte within a character counts as its beginning, one behind the text as its end.
    fn up_to(&mut self, byte: usize) -> usize {
        let byte = self.text.floor_char_boundary(byte);
        if byte < self.bytes && self.table.is_empty() {
            let mut units = 0;
            for c in self.text.chars() {
                self.table.extend(std::iter::repeat_n(units, c.len_utf8()));
                units += c.len_utf16();
            }
            self.table.push(units);
        }
        if let Some(units) = self.table.get(byte) {
            return *units;
        }
        self.units += self.text[self.bytes..byte].encode_utf16().count();
        self.bytes = byte;
        self.units
    }
}
