//! The unit that is retrieved.

use std::borrow::Cow;

/// A passage: an id, perhaps a title, and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The corpus's own name for it, unique in the corpus.
    pub id: String,
    /// The title as it stands in wiki-18's `contents`: quoted (`"Pavia Cathedral"`) or bare (`Citibank`).
    pub title: Option<String>,
    /// The text, byte for byte as in the input.
    pub text: String,
}

impl Passage {
    /// A passage from wiki-18's `contents`: the first line is the title; without a line break there is none.
    pub fn from_contents(id: String, contents: &str) -> Self {
        match contents.split_once('\n') {
            Some((title, text)) => Self { id, title: Some(title.to_owned()), text: text.to_owned() },
            None => Self { id, title: None, text: contents.to_owned() },
        }
    }

    /// A passage from separate fields: the title is quoted as in wiki-18; an empty one counts as none.
    pub fn from_fields(id: String, title: &str, text: String) -> Self {
        let title = (!title.is_empty()).then(|| format!("\"{title}\""));
        Self { id, title, text }
    }

    /// What is embedded and what the wire calls `contents`: title, line break, text.
    pub fn contents(&self) -> Cow<'_, str> {
        match &self.title {
            Some(title) => Cow::Owned(format!("{title}\n{}", self.text)),
            None => Cow::Borrowed(&self.text),
        }
    }

    /// The title without the quotes around it; empty when there is none.
    pub fn display_title(&self) -> &str {
        let title = self.title.as_deref().unwrap_or_default();
        title.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(title)
    }
}

#[cfg(test)]
mod tests {
    use super::Passage;

    #[test]
    fn contents_round_trip_byte_for_byte() {
        for contents in ["Citibank\ntext", "\"Pavia Cathedral\"\ntext", "no title", "\ntext", "t\na\nb", "\"\n\"", ""] {
            assert_eq!(Passage::from_contents("0".into(), contents).contents(), contents);
        }
    }

    #[test]
    fn one_layer_of_quotes_is_not_shown() {
        let passage = Passage::from_fields("0".into(), "\"Heroes\"", "text".into());
        assert_eq!(passage.contents(), "\"\"Heroes\"\"\ntext");
        assert_eq!(passage.display_title(), "\"Heroes\"");
        assert_eq!(Passage::from_contents("0".into(), "Citibank\nx").display_title(), "Citibank");
        assert_eq!(Passage::from_contents("0".into(), "\"\nx").display_title(), "\"");
    }
}
