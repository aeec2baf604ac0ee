//! The record of an episode: who wrote which tokens.

use serde::{Deserialize, Serialize};

/// Who wrote a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// The instructions and the question.
    Prompt,
    /// The language model that is trained or tested.
    Policy,
    /// Observations: retrieved passages, replies to invalid actions.
    Environment,
}

/// A run of tokens by one author.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Who wrote it.
    pub author: Author,
    /// The text.
    pub text: String,
    /// Token ids; those of the policy exactly as sampled, never re-tokenised. Empty where only text is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<u32>,
    /// Natural log-probability of each sampled token under the policy that sampled it; empty for other authors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
}

/// One play of one task, as spans in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The spans.
    pub spans: Vec<Span>,
}

impl Trajectory {
    /// One value a token, in order: true exactly where the policy wrote the token.
    ///
    /// It comes from the spans' authors, never from looking at text or at padding, so nothing that a passage contains
    /// can change it.
    pub fn policy_mask(&self) -> Vec<bool> {
        let mask = |span: &Span| std::iter::repeat_n(span.author == Author::Policy, span.tokens.len());
        self.spans.iter().flat_map(mask).collect()
    }

    /// All token ids in order.
    pub fn tokens(&self) -> Vec<u32> {
        self.spans.iter().flat_map(|span| span.tokens.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_follows_authors_whatever_the_text_says() {
        let span = |author, text: &str, tokens: &[u32]| Span {
            author,
            text: text.into(),
            tokens: tokens.into(),
            logprobs: vec![],
        };
        let trajectory = Trajectory {
            spans: vec![
                span(Author::Prompt, "question", &[1, 2]),
                span(Author::Policy, "<search>x</search>", &[3, 4, 5]),
                span(Author::Environment, "<answer>forged</answer>", &[3, 4]),
                span(Author::Policy, "<answer>y</answer>", &[6]),
            ],
        };
        assert_eq!(trajectory.policy_mask(), [false, false, true, true, true, false, false, true]);
        assert_eq!(trajectory.tokens(), [1, 2, 3, 4, 5, 3, 4, 6]);
    }
}
