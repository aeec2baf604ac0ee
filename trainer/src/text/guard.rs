//! How does text that somebody else wrote pass through a chat template without bringing control tokens with it?

use super::Tokenizer;

/// Stands in for what looks like a control token in a message, while a template is rendered; then the text comes back, as text.
pub(super) struct Guard {
    open: String,
}

const CLOSE: char = '\u{E002}';

impl Guard {
    /// One that none of these texts holds.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        Self { open: unused(texts) }
    }

    /// What every stand-in begins with.
    pub fn cover_sign(&self) -> &str {
        &self.open
    }

    /// The text with stand-ins for control tokens.
    pub fn cover(&self, text: &str, tokenizer: &Tokenizer) -> String {
        let mut text = text.to_owned();
        loop {
            let controls = tokenizer.controls_in(&text);
            if controls.is_empty() {
                return text;
            }
            for (at, id) in controls.into_iter().rev() {
                // Without the spaces around it that the token would swallow.
                let (found, control) = (&text[at.clone()], control_text(tokenizer, id));
                let start = at.start + found.find(&control).unwrap_or(0);
                text.replace_range(start..start + control.len(), &format!("{}{id}{CLOSE}", self.open));
            }
        }
    }

    /// The text as it was.
    pub fn restore(&self, text: &str, tokenizer: &Tokenizer) -> String {
        let mut parts = text.split(&self.open);
        let mut restored = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let stand_in = part.split_once(CLOSE).and_then(|(id, rest)| Some((id.parse().ok()?, rest)));
            match stand_in {
                Some((id, rest)) => restored.extend([&control_text(tokenizer, id), rest]),
                None => restored.push_str(part),
            }
        }
        restored
    }
}

fn control_text(tokenizer: &Tokenizer, id: u32) -> String {
    String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned()
}

/// A string that none of these texts holds.
pub(super) fn unused<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> String {
    // The private letters mean nothing to anybody; the number makes it unused.
    let named = |number: usize| format!("\u{E000}{number}\u{E001}");
    let mut number = 0;
    while texts.clone().any(|text| text.contains(&named(number))) {
        number += 1;
    }
    named(number)
}
