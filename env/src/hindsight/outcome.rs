//! Which attempts failed, and how far was the answer from an accepted one?

use crate::reward::{answer_f1, is_exact, last_box};
use crate::trajectory::{Action, Author, Stop};
use crate::{Task, Trajectory};

/// Places of the episodes that failed: played to their end, without an answer that equals an accepted one (EM, under SQuAD's rule).
/// Those that something outside kept from their end did neither fail nor succeed.
pub fn failures(task: &Task, attempts: &[&Trajectory]) -> Vec<usize> {
    let failed = |attempt: &&Trajectory| is_over(attempt) && !is_correct(task, attempt);
    attempts.iter().enumerate().filter(|(_, attempt)| failed(attempt)).map(|(number, _)| number).collect()
}

/// Whether the answer equals an accepted one (EM, under SQuAD's rule).
pub fn is_correct(task: &Task, attempt: &Trajectory) -> bool {
    answer(attempt).is_some_and(|answer| is_exact(answer, task.gold().answers()))
}

/// Whether it was played to its end.
pub(super) fn is_over(attempt: &Trajectory) -> bool {
    attempt.stop.is_some() && attempt.error.is_none()
}

/// F1 of the answer, the best over the accepted ones; 0 without an answer.
pub(super) fn f1(task: &Task, attempt: &Trajectory) -> f64 {
    answer(attempt).map_or(0.0, |answer| answer_f1(answer, task.gold().answers()))
}

/// What was answered: between the recipe's tags, in the last box, or, in recipes where a message without a search is the answer, all of
/// that message.
pub(super) fn answer(attempt: &Trajectory) -> Option<&str> {
    let text = match attempt.turns.last().map(|turn| &turn.action) {
        Some(Action::Answer { text }) => text,
        Some(Action::End) if attempt.stop == Some(Stop::End) => {
            let own = attempt.spans.iter().rev().find(|span| span.author == Author::Policy);
            own.map(|span| span.text.trim())?
        }
        _ => return None,
    };
    Some(last_box(text).unwrap_or(text))
}
