//! Policies without a model: a function, and a trajectory that is played again.

use super::{Policy, Turn};
use crate::rules::Message;
use crate::trajectory::{Author, Span, Trajectory};
use crate::{Error, Result};

/// A function of the episode; for tests, baselines and measurements.
pub struct Scripted<F>(pub F);

impl<F: Fn(&Turn<'_>) -> String + Send + Sync> Policy for Scripted<F> {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        turns.iter().map(|turn| Ok(Message::text(self.0(turn)))).collect()
    }

    fn batch(&self) -> usize {
        usize::MAX
    }
}

/// Says what was said in a trajectory, token by token.
pub struct Recorded<'a>(pub &'a Trajectory);

impl Policy for Recorded<'_> {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        let said: Vec<(usize, &Span)> =
            self.0.spans.iter().enumerate().filter(|(_, span)| span.author == Author::Policy).collect();
        let message = |turn: &Turn<'_>| {
            let number = turn.episode.turns.len();
            let (at, span) = said.get(number).ok_or_else(|| {
                Error::invalid("trajectory", format!("a message for turn {}", number + 1), format!("{}", said.len()))
            })?;
            let cut_off = self.0.turns.iter().any(|turn| turn.span == *at && turn.cut_off);
            Ok(Message {
                text: span.text.clone(),
                tokens: span.tokens.clone(),
                logprobs: span.logprobs.clone(),
                ends: span.ends.clone(),
                cut_off,
            })
        };
        turns.iter().map(message).collect()
    }
}
