//! Equality and containment of normalised answers.

use super::normalize::normalize;

/// Whether they are the same.
pub(super) fn equal(answer: &str, gold: &str) -> bool {
    normalize(answer) == normalize(gold)
}

/// Whether the accepted one is part of the answer.
pub(super) fn contains(answer: &str, gold: &str) -> bool {
    normalize(answer).contains(&normalize(gold))
}
