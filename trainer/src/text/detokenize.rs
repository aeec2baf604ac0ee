//! What has been said so far, where does each token end in it, and was a stop string reached?

use std::sync::Arc;

use super::Tokenizer;

/// Where a stop string ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopMatch {
    /// The token in which it ends, from 0.
    pub token: usize,
    /// The byte behind it in the text ([`Detokenizer::message`]); the token may go on.
    pub byte: usize,
}

/// Takes the tokens of a message one by one. Control tokens, such as the end of a turn, are counted and say nothing.
#[derive(Debug)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    stops: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Detokenizer {
    /// Nothing so far; watches for these strings. Empty ones are never found.
    pub fn new(tokenizer: &Arc<Tokenizer>, stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).map(|stop| stop.clone().into_bytes()).collect();
        Self { tokenizer: tokenizer.clone(), stops, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Takes a token; tells where the first stop string ends that it completes. Stop strings may begin and end inside tokens.
    pub fn push(&mut self, id: u32) -> Option<StopMatch> {
        let before = self.bytes.len();
        if !self.tokenizer.is_special(id) {
            self.bytes.extend(self.tokenizer.token_bytes(id).unwrap_or_default());
        }
        self.ends.push(self.bytes.len());
        let ends = self.stops.iter().filter_map(|stop| {
            // It ends in the new bytes.
            let from = (before + 1).saturating_sub(stop.len());
            let fresh = self.bytes.get(from..)?;
            Some(from + fresh.windows(stop.len()).position(|window| window == stop.as_slice())? + stop.len())
        });
        let end = ends.min()?;
        let byte = String::from_utf8_lossy(&self.bytes[..end]).len();
        Some(StopMatch { token: self.ends.len() - 1, byte })
    }

    /// Tokens taken.
    pub fn tokens(&self) -> usize {
        self.ends.len()
    }

    /// The text, and for each token the byte behind it. Bytes that are no text become U+FFFD, as in Python's `decode` with
    /// `errors="replace"`; a token that ends inside a character ends behind it.
    pub fn message(&self) -> (String, Vec<usize>) {
        let mut text = String::with_capacity(self.bytes.len());
        let mut ends = self.ends.iter().copied().peekable();
        let mut found = Vec::with_capacity(self.ends.len());
        // Up to which byte of the tokens the text has been written.
        let mut read = 0;
        let mut write = |letter: char, bytes: usize| {
            // A token without bytes ends where the one before it did.
            while ends.next_if(|&end| end <= read).is_some() {
                found.push(text.len());
            }
            text.push(letter);
            read += bytes;
        };
        for chunk in self.bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|letter| write(letter, letter.len_utf8()));
            if !chunk.invalid().is_empty() {
                write(char::REPLACEMENT_CHARACTER, chunk.invalid().len());
            }
        }
        found.extend(ends.map(|_| text.len()));
        (text, found)
    }
}
