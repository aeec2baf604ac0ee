//! Text as the published recipes see it: they are Python, and Python has its own idea of a blank.

/// Whether Python's `str.split` and `str.strip` take it for a blank: Unicode's White_Space and four separators.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Python's `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// Python's `str.split()`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_blank).filter(|word| !word.is_empty())
}

/// The longest beginning of at most `most` bytes that splits no character.
pub(crate) fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of CPython 3.11: `"".join(c for c in map(chr, range(0x110000)) if c.isspace())`.
    #[test]
    fn blanks_are_those_of_python() {
        let blanks: String = ('\0'..='\u{10ffff}').filter(|&c| is_blank(c)).collect();
        let python = "\t\n\u{b}\u{c}\r\u{1c}\u{1d}\u{1e}\u{1f} \u{85}\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\
                      \u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
        assert_eq!(blanks, python);
        assert_eq!(strip("\u{1c} a b\u{2003}"), "a b");
        assert_eq!(words("a\u{1d}b  c ").collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
