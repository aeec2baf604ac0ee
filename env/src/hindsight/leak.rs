//! Does a text name an accepted answer, and what is it without?

use crate::trajectory::Bytes;
use crate::{Task, Trajectory};

/// What stands where an answer was.
const MASK: &str = "(answer)";
/// Answers that are words of every text: that one holds them says nothing.
const CLOSED: [&str; 4] = ["yes", "no", "true", "false"];

/// Whether the text names an accepted answer of the task: its letters and digits, word for word, whatever the case and whatever stands
/// between the words. `yes` and `no` are in every other text, and do not count.
pub fn contains_gold(task: &Task, text: &str) -> bool {
    !gold_places(task, text).is_empty()
}

/// The text with `(answer)` in place of each accepted answer.
pub(super) fn redacted(task: &Task, text: &str) -> String {
    let mut places = gold_places(task, text);
    places.sort_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for place in places.into_iter().filter(|place| !place.is_empty()) {
        if place.start >= from {
            kept.push_str(&text[from..place.start]);
            kept.push_str(MASK);
        }
        from = from.max(place.end);
    }
    kept.push_str(&text[from..]);
    kept
}

impl Trajectory {
    /// One value a token, in order: true where the policy's token holds at least one byte of an accepted answer of the task.
    pub fn gold_mask(&self, task: &Task) -> Vec<bool> {
        self.mask(|span| gold_places(task, &span.text))
    }
}

/// Where the text names an accepted answer.
fn gold_places(task: &Task, text: &str) -> Vec<Bytes> {
    let words = words(text);
    let golds = task.gold().answers().iter().chain(task.gold().augmented());
    golds.flat_map(|gold| places_of(gold, &words)).collect()
}

/// Runs of words that spell the answer.
fn places_of(gold: &str, words: &[(Bytes, String)]) -> Vec<Bytes> {
    let mut wanted: Vec<String> = self::words(gold).into_iter().map(|(_, word)| word).collect();
    if wanted.len() > 1 && ["a", "an", "the"].contains(&wanted[0].as_str()) {
        wanted.remove(0);
    }
    // `U.S.` and `US`, `Jean-Paul` and `Jean Paul` are the same.
    let wanted = wanted.concat();
    if wanted.is_empty() || CLOSED.contains(&wanted.as_str()) {
        return Vec::new();
    }
    let spelt = |start: usize| {
        let mut rest = wanted.as_str();
        for (place, word) in &words[start..] {
            rest = rest.strip_prefix(word.as_str())?;
            if rest.is_empty() {
                return Some(words[start].0.start..place.end);
            }
        }
        None
    };
    (0..words.len()).filter_map(spelt).collect()
}

/// Runs of letters and digits in lower case. Scripts that are written without blanks have a word a letter.
fn words(text: &str) -> Vec<(Bytes, String)> {
    let mut words: Vec<(Bytes, String)> = Vec::new();
    let mut goes_on = false;
    for (at, c) in text.char_indices() {
        let is_word = c.is_alphanumeric();
        let alone = is_unspaced(c);
        if is_word {
            let end = at + c.len_utf8();
            match words.last_mut().filter(|_| goes_on && !alone) {
                Some((place, word)) => {
                    place.end = end;
                    word.extend(c.to_lowercase());
                }
                None => words.push((at..end, c.to_lowercase().collect())),
            }
        }
        goes_on = is_word && !alone;
    }
    words
}

/// Thai, Lao, Khmer, kana, Chinese characters, Hangul with its endings.
fn is_unspaced(c: char) -> bool {
    let blocks = [
        '\u{e00}'..='\u{eff}',
        '\u{1780}'..='\u{17ff}',
        '\u{2e80}'..='\u{9fff}',
        '\u{ac00}'..='\u{d7af}',
        '\u{f900}'..='\u{faff}',
        '\u{20000}'..='\u{3ffff}',
    ];
    blocks.iter().any(|block| block.contains(&c))
}
