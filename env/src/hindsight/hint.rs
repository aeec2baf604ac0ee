//! What does a teacher read beside the episode, and what goes first where there is no room for all of it?

use super::sentences::sentences;

/// A text in pieces that are kept whole or left out: the sentences of a critique, the attempts of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint {
    before: String,
    pieces: Vec<String>,
    after: String,
    cut: usize,
}

impl Hint {
    /// `before` and `after` stand around the pieces, and stay as long as one piece is left.
    pub fn new(before: impl Into<String>, pieces: Vec<String>, after: impl Into<String>) -> Self {
        Self { before: before.into(), pieces, after: after.into(), cut: 0 }
    }

    /// A critique between `<HINT>` and `</HINT>`; its pieces are its sentences.
    pub fn critique(text: &str) -> Self {
        let pieces = sentences(text).into_iter().map(|sentence| format!("{sentence} ")).collect();
        Self::new("<HINT> ", pieces, "</HINT>")
    }

    /// The whole text; empty where no piece is left.
    pub fn text(&self) -> String {
        if self.pieces.is_empty() {
            return String::new();
        }
        [self.before.as_str(), &self.pieces.concat(), &self.after].concat()
    }

    /// The pieces that are left.
    pub fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// Leaves out pieces from the last one on until the text fits; where not even the first one fits nothing is left.
    pub fn shorten(&mut self, fits: impl Fn(&str) -> bool) {
        while !self.pieces.is_empty() && !fits(&self.text()) {
            self.pieces.pop();
            self.cut += 1;
        }
    }

    /// How many pieces were left out.
    pub fn cut(&self) -> usize {
        self.cut
    }
}
