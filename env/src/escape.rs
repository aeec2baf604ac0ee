//! What makes retrieved text inert: nothing in it looks like a tag, a control token or the end of an observation, and a person
//! can still read it.
//!
//! `<` becomes `&lt;` wherever it could begin a tag, and the bracketed markers of chat templates lose their bracket. Text that
//! contains the replacements already has its `&` replaced, so the original can be had back.

use std::borrow::Cow;

/// Markers of chat templates that do not begin with `<`: those of Llama 2, Mistral and GLM.
const BRACKETED: [&str; 19] = [
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CONTENT]",
    "[ARGS]",
    "[CALL_ID]",
    "[THINK]",
    "[/THINK]",
    "[IMG]",
    "[IMG_END]",
    "[MASK]",
    "[gMASK]",
    "[sMASK]",
];
const LESS: &str = "&lt;";
const BRACKET: &str = "&#91;";
const AMPERSAND: &str = "&amp;";

/// The text made inert. Other text may come behind it, so the beginning of a tag, a marker or a replacement at its end is replaced,
/// too.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '[', '&']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(['<', '[', '&']) {
        let (before, from) = rest.split_at(at);
        escaped.push_str(before);
        let after = &from[1..];
        let begins = |forms: &[&str]| forms.iter().any(|form| from.starts_with(form) || form.starts_with(from));
        let (own, replaced) = match from.as_bytes()[0] {
            b'<' => ("<", (!after.starts_with(|c: char| c.is_ascii_digit() || c == '=')).then_some(LESS)),
            b'[' => ("[", begins(&BRACKETED).then_some(BRACKET)),
            _ => ("&", begins(&[LESS, BRACKET, AMPERSAND]).then_some(AMPERSAND)),
        };
        escaped.push_str(replaced.unwrap_or(own));
        rest = after;
    }
    escaped.push_str(rest);
    Cow::Owned(escaped)
}

/// The text as it was, for people to look at.
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut original = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        original.push_str(before);
        let form = [(LESS, '<'), (BRACKET, '['), (AMPERSAND, '&')].into_iter().find(|(form, _)| from.starts_with(form));
        let (c, length) = form.map_or(('&', 1), |(form, c)| (c, form.len()));
        original.push(c);
        rest = &from[length..];
    }
    original.push_str(rest);
    Cow::Owned(original)
}
