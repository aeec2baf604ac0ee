//! How does a hint become a sequence that the teacher reads, with the policy's tokens as they are?

use hindsearch_env::hindsight::{Hint, Placement, QuerySpan, placed};
use hindsearch_env::{Prompt, Trajectory};

use super::lesson::Lesson;
use super::settings::TaughtTokens;
use crate::Result;
use crate::text::Language;

/// Of which part of an episode a hint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    All,
    /// Its queries.
    Queries,
    /// Its answer.
    Answer,
    /// The query of this turn, from 0.
    Turn(usize),
}

/// Puts hints into sequences.
pub(crate) struct Alignment<'a> {
    pub language: &'a Language,
    pub prompt: &'a Prompt,
    pub placement: Placement,
    /// Tokens that a hint may add.
    pub budget: usize,
    /// Tokens of a sequence at most.
    pub positions: usize,
    pub span: QuerySpan,
    pub tokens: TaughtTokens,
    /// Whether the loss compares nothing but queries.
    pub queries: bool,
}

/// A lesson, and what became of its hint.
pub(crate) struct Aligned {
    pub lesson: Lesson,
    /// Tokens that the teacher reads and the policy did not.
    pub added: usize,
    /// Whether pieces of the hint were left out.
    pub cut: bool,
}

impl Alignment<'_> {
    /// The lesson of an episode with all its tokens; nothing where there is nothing to teach, or no room for a piece of the hint.
    ///
    /// # Errors
    /// Those of the tokenizer and the chat template.
    pub(crate) fn lesson(&self, episode: &Trajectory, hint: Option<&Hint>, part: Part) -> Result<Option<Aligned>> {
        let mask = self.mask(episode, part);
        if !mask.contains(&true) {
            return Ok(None);
        }
        let own = episode.tokens().len();
        let mut hint = hint.cloned();
        loop {
            let text = hint.as_ref().map(Hint::text).unwrap_or_default();
            let (tokens, places) = self.tokens(episode, &text)?;
            let added = tokens.len().saturating_sub(own);
            if tokens.len() <= self.positions && added <= self.budget {
                // The first token of all is nobody's.
                let places = places[places.len() - mask.len()..].to_vec();
                let cut = hint.is_some_and(|hint| hint.cut() > 0);
                return Ok(Some(Aligned { lesson: Lesson { tokens, places, mask }, added, cut }));
            }
            // Behind a piece less there may be room; without a hint there is none.
            let Some(hint) = &mut hint else { return Ok(None) };
            let longest = text.len();
            hint.shorten(|text| text.len() < longest);
            if hint.pieces().is_empty() {
                return Ok(None);
            }
        }
    }

    /// What the teacher reads, and where the policy's tokens are in it.
    fn tokens(&self, episode: &Trajectory, hint: &str) -> Result<(Vec<u32>, Vec<usize>)> {
        let placed = placed(episode, hint, self.placement);
        let read = self.language.tokenized(self.prompt, &placed.episode)?;
        let before =
            if placed.before.is_empty() { Vec::new() } else { self.language.tokenizer.encode(&placed.before)? };
        let own = read.policy_mask();
        let places = own.iter().enumerate().filter_map(|(at, own)| own.then_some(before.len() + at));
        let places = places.collect();
        Ok(([before, read.tokens()].concat(), places))
    }

    /// For each token that the policy wrote, whether it is taught.
    fn mask(&self, episode: &Trajectory, part: Part) -> Vec<bool> {
        let queries = episode.span_mask(self.span);
        let of_part: Vec<bool> = match (part, self.tokens) {
            (Part::Turn(turn), _) => episode.turn_mask(self.span, turn),
            (Part::Queries, _) => queries.clone(),
            (Part::Answer, _) => episode.answer_mask(),
            (Part::All, TaughtTokens::All) => vec![true; queries.len()],
            (Part::All, TaughtTokens::Actions) => {
                queries.iter().zip(episode.answer_mask()).map(|(query, answer)| *query || answer).collect()
            }
        };
        let written = episode.policy_mask();
        let all = written.iter().zip(queries).zip(of_part).skip(1);
        all.filter_map(|((written, query), taught)| written.then_some(taught && (query || !self.queries))).collect()
    }
}
