//! What stands in the last box, as ReSearch and ReCall take it out (both have it from a benchmark of mathematics).

use crate::reward::overlap::best_hotpot;
use crate::reward::scorer::Verdict;

/// The last box of a text: `\boxed …` up to a dollar, or `\boxed{…}` with its braces paired.
fn last_box(text: &str) -> Option<&str> {
    if let Some(at) = text.rfind("\\boxed ") {
        let inside = at + "\\boxed ".len();
        let length = text[inside..].find('$').unwrap_or(text.len() - inside);
        return Some(&text[at..inside + length]);
    }
    let start = text.rfind("\\boxed").or_else(|| text.rfind("\\fbox"))?;
    let mut open = 0_i64;
    for (at, byte) in text[start..].bytes().enumerate() {
        open += i64::from(byte == b'{') - i64::from(byte == b'}');
        if byte == b'}' && open == 0 {
            return Some(&text[start..=start + at]);
        }
    }
    None
}

/// What the last box of a text holds; the error is what Python says then.
fn inside_last_box(text: &str) -> Result<&str, &'static str> {
    let boxed = last_box(text).ok_or("argument of type 'NoneType' is not iterable")?;
    if boxed.contains("\\boxed ") {
        return boxed.strip_prefix("\\boxed ").ok_or("");
    }
    boxed.strip_prefix("\\boxed{").and_then(|inside| inside.strip_suffix('}')).ok_or("")
}

/// What the last box of a text holds; nothing where there is none.
pub(crate) fn last_box_inside(text: &str) -> Option<&str> {
    inside_last_box(text).ok()
}

/// F1 of what the last box holds, or `well_formed` where no word is right.
pub(super) fn score(text: &str, golds: &[String], well_formed: f64) -> Verdict {
    let answer = match inside_last_box(text) {
        Ok(answer) => answer,
        Err(error) => return Verdict::because(0.0, format!("find box error: {error}")),
    };
    let f1 = best_hotpot(answer, golds).f1;
    let (value, reason) = if f1 > 0.0 {
        (f1, format!("correct answer, get f1 score: {f1:?}"))
    } else {
        (well_formed, format!("wrong answer but good format: {answer}"))
    };
    Verdict { value, answer: Some(answer.to_owned()), reason: Some(reason) }
}
