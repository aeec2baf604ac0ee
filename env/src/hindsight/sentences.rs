//! Where does a sentence end? Well enough to count those of a critique, and to cut no sentence in two.

/// Words with a full stop that ends no sentence.
const SHORTENED: [&str; 20] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "no", "vol", "ch", "ed", "eds", "cf", "al", "approx",
    "gen", "lt", "col",
];
const ENDS: [char; 6] = ['.', '!', '?', '。', '！', '？'];

/// The sentences of a text, trimmed; none is empty.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        if !ENDS.contains(&c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        // Quotes, brackets and further marks belong to the sentence.
        while let Some((at, mark)) = letters.next_if(|(_, next)| ENDS.contains(next) || "\"'”’)]»".contains(*next))
        {
            end = at + mark.len_utf8();
        }
        let rest = &text[end..];
        let wide = !c.is_ascii();
        let begins = rest.trim_start().chars().next().is_none_or(|next| !next.is_lowercase());
        let ended = rest.is_empty() || wide || rest.starts_with(char::is_whitespace) && begins;
        if ended && !(c == '.' && !rest.trim().is_empty() && is_shortened(&text[start..at])) {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Whether the last word is an initial, or one that is written with a full stop.
fn is_shortened(before: &str) -> bool {
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    is_initial || SHORTENED.contains(&word.as_str())
}
