//! What is learnt from an episode: its tokens, which of them the policy wrote, and how likely it found them then.

use std::ops::Range;

use hindsearch_env::hindsight::QuerySpan;
use hindsearch_env::{Author, Prompt, Trajectory};

use crate::decoder::Packed;
use crate::hindsight::Lesson;
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
    /// For each of these, whether it spells an accepted answer; empty where that was not looked for. It is told, and not learnt.
    pub spells_gold: Vec<bool>,
    /// For each of these, its log-probability under the policy that wrote it; nothing where that is not known.
    pub logprobs: Option<Vec<f32>>,
    /// How much better the episode was than its siblings.
    pub advantage: f64,
    /// What a teacher reads in its place; they speak of different places. Mostly one, or none.
    pub lessons: Vec<Lesson>,
}

impl Sample {
    /// From an episode that is over. Masks come from the authors of spans and the offsets of tokens, never from text.
    ///
    /// # Errors
    /// Those of [`Language::tokenized`] and [`Self::of`].
    pub fn new(language: &Language, prompt: &Prompt, episode: &Trajectory, advantage: f64) -> Result<Self> {
        Self::of(&language.tokenized(prompt, episode)?, QuerySpan::Content, advantage)
    }

    /// From an episode with the tokens of all spans.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an episode without text, and for log-probabilities that do not fit the tokens or are none.
    pub fn of(episode: &Trajectory, span: QuerySpan, advantage: f64) -> Result<Self> {
        let (tokens, policy, query) = (episode.tokens(), episode.policy_mask(), episode.span_mask(span));
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
        Ok(Self {
            tokens,
            places,
            in_query,
            spells_gold: Vec::new(),
            logprobs: known.then_some(logprobs),
            advantage,
            lessons: Vec::new(),
        })
    }

    /// Its tokens.
    pub(crate) fn length(&self) -> usize {
        self.tokens.len()
    }

    /// From a text that is to be imitated: all tokens of `answer`, after those of `prompt`.
    pub fn imitated(prompt: &[u32], answer: &[u32]) -> Self {
        let tokens = [prompt, answer].concat();
        let places: Vec<usize> = (prompt.len().max(1)..tokens.len()).collect();
        Self {
            spells_gold: Vec::new(),
            in_query: vec![false; places.len()],
            places,
            tokens,
            logprobs: None,
            advantage: 0.0,
            lessons: Vec::new(),
        }
    }
}

/// What is computed at a time: as many in their order as have no more than `most` tokens, and one at least.
pub(crate) fn micro_batches<T>(all: &[T], most: usize, length: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let mut rest = all;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|one| {
            tokens += length(one);
            tokens <= most
        });
        let count = fits.count().max(1);
        let (batch, others) = rest.split_at(count);
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Sequences of samples, and their needed tokens one after the other.
pub(crate) struct Batch {
    pub packed: Packed,
    /// Rows whose hidden states predict the needed tokens.
    pub rows: Vec<u32>,
    pub targets: Vec<u32>,
    /// The needed tokens of each sample.
    pub places: Vec<Range<usize>>,
    pub in_query: Vec<f32>,
    pub advantages: Vec<f32>,
}

impl Batch {
    pub(crate) fn new(samples: &[Sample]) -> Self {
        let mut batch = Self {
            packed: Packed::default(),
            rows: Vec::new(),
            targets: Vec::new(),
            places: Vec::new(),
            in_query: Vec::new(),
            advantages: Vec::new(),
        };
        for sample in samples {
            let first = batch.packed.tokens.len();
            batch.packed.push(&sample.tokens);
            let start = batch.rows.len();
            for (place, in_query) in sample.places.iter().zip(&sample.in_query) {
                batch.rows.push((first + place - 1) as u32);
                batch.targets.push(sample.tokens[*place]);
                batch.in_query.push(f32::from(u8::from(*in_query)));
                batch.advantages.push(sample.advantage as f32);
            }
            batch.places.push(start..batch.rows.len());
        }
        batch
    }
}
