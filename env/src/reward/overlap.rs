//! How much two answers have in common, word by word.

use std::collections::HashMap;

use super::normalize::squad;
use crate::text::words;

/// Shares of common words.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Overlap {
    /// The harmonic mean.
    pub f1: f64,
    /// Of the answer's words.
    pub precision: f64,
    /// Of the accepted one's words.
    pub recall: f64,
}

/// Words count as often as they occur. Nothing where no word is common.
pub(super) fn common_words(answer: &str, gold: &str) -> Option<Overlap> {
    let count = |text: &str| words(text).count();
    let mut left: HashMap<&str, usize> = HashMap::new();
    words(gold).for_each(|word| *left.entry(word).or_default() += 1);
    let mut common = 0_usize;
    for word in words(answer) {
        if let Some(count @ 1..) = left.get_mut(word) {
            *count -= 1;
            common += 1;
        }
    }
    if common == 0 {
        return None;
    }
    let share = |of: usize| common as f64 / of as f64;
    let (precision, recall) = (share(count(answer)), share(count(gold)));
    // In this order; the last bit depends on it.
    Some(Overlap { f1: (2.0 * precision * recall) / (precision + recall), precision, recall })
}

/// HotpotQA's rule, on normalised answers: `yes`, `no` and `noanswer` are right or wrong, never in part.
pub(super) fn hotpot(answer: &str, gold: &str) -> Overlap {
    let is_closed = |text: &str| ["yes", "no", "noanswer"].contains(&text);
    if answer != gold && (is_closed(answer) || is_closed(gold)) {
        return Overlap::default();
    }
    common_words(answer, gold).unwrap_or_default()
}

/// HotpotQA's F1, precision and recall under SQuAD's rule, each by itself the best over the accepted answers.
pub(super) fn best_hotpot(answer: &str, golds: &[String]) -> Overlap {
    let answer = squad(answer);
    golds.iter().map(|gold| hotpot(&answer, &squad(gold))).fold(Overlap::default(), |best, one| Overlap {
        f1: best.f1.max(one.f1),
        precision: best.precision.max(one.precision),
        recall: best.recall.max(one.recall),
    })
}
