//! What is learnt from an episode: its tokens, which of them the policy wrote, and how likely it found them then.

use hindsearch_env::{Author, Prompt, Trajectory};

use crate::text::Language;
use crate::{Error, Result};

/// What a model's log-probabilities may be, but for rounding. Far below, a ratio of probabilities is no number any more.
const LOGPROBS: std::ops::RangeInclusive<f32> = -1e4..=1e-3;

/// An episode as a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// All tokens, in order.
    pub tokens: Vec<u32>,
    /// Places of the tokens that the policy wrote, from 1 on: the first token of all is nobody's.
    pub places: Vec<usize>,
    /// For each of these, whether it is part of a query.
    pub in_query: Vec<bool>,
    /// For each of these, its log-probability under the policy that wrote it; nothing where that is not known.
    pub logprobs: Option<Vec<f32>>,
    /// How much better the episode was than its siblings.
    pub advantage: f64,
}

impl Sample {
    /// From an episode that is over. Masks come from the authors of spans and the offsets of tokens, never from text.
    ///
    /// # Errors
    /// Those of [`Language::tokenized`]; [`Error::InvalidInput`] for an episode without text, and for log-probabilities that do not fit the tokens
    /// or are none.
    pub fn new(language: &Language, prompt: &Prompt, episode: &Trajectory, advantage: f64) -> Result<Self> {
        let episode = language.tokenized(prompt, episode)?;
        let (tokens, policy, query) = (episode.tokens(), episode.policy_mask(), episode.query_mask());
        let places: Vec<usize> = (1..tokens.len()).filter(|place| policy[*place]).collect();
        let in_query = places.iter().map(|place| query[*place]).collect();
        let written = || episode.spans.iter().filter(|span| span.author == Author::Policy);
        let logprobs: Vec<f32> = written().flat_map(|span| span.logprobs.iter().copied()).collect();
        let known = written().all(|span| !span.logprobs.is_empty() || span.tokens.is_empty());
        if known && logprobs.len() != places.len() {
            let what = format!("log-probabilities of task `{}`, sample {}", episode.task, episode.sample);
            return Err(Error::invalid(what, format!("{}, one a token", places.len()), logprobs.len().to_string()));
        }
        let what = || format!("task `{}`, sample {}", episode.task, episode.sample);
        if tokens.is_empty() {
            return Err(Error::invalid(what(), "spans with texts", "none"));
        }
        if let Some(wrong) = logprobs.iter().find(|logprob| !LOGPROBS.contains(logprob)) {
            let expected = format!("log-probabilities of {} to 0", LOGPROBS.start());
            return Err(Error::invalid(what(), expected, wrong.to_string()));
        }
        Ok(Self { tokens, places, in_query, logprobs: known.then_some(logprobs), advantage })
    }

    /// From a text that is to be imitated: all tokens of `answer`, after those of `prompt`.
    pub fn imitated(prompt: &[u32], answer: &[u32]) -> Self {
        let tokens = [prompt, answer].concat();
        let places: Vec<usize> = (prompt.len().max(1)..tokens.len()).collect();
        Self { in_query: vec![false; places.len()], places, tokens, logprobs: None, advantage: 0.0 }
    }
}

/// Samples that are learnt from at a time: as many in their order as have no more than `most` tokens, and one at least.
pub(crate) fn micro_batches(samples: &[Sample], most: usize) -> Vec<&[Sample]> {
    let mut batches = Vec::new();
    let mut rest = samples;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|sample| {
            tokens += sample.tokens.len();
            tokens <= most
        });
        let count = fits.count().max(1);
        let (batch, others) = rest.split_at(count);
        batches.push(batch);
        rest = others;
    }
    batches
}
