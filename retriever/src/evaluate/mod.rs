//! How good is the retrieval? Rankings held against gold passages or gold answers.
//!
//! Measures, each in 0..=1 and averaged over questions:
//! - recall@k: share of the gold passages among the first k hits;
//! - success@k: 1 when any gold passage (or any hit holding a gold answer) is among the first k. DPR (Karpukhin et
//!   al. 2020, section 5) calls it top-k accuracy; with one gold passage it equals recall@k;
//! - MRR@k: 1 over the rank of the first gold hit, 0 when it is beyond k;
//! - nDCG@k: discounted gain `relevance / log2(rank + 1)` over that of the best ranking, as trec_eval computes it.

mod answer;
mod questions;
mod trec;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Serialize, Serializer};

pub use answer::holds_answer;
pub use questions::{Question, read_questions};
pub use trec::write_run;

use crate::{Error, Ranked, Result};

/// What counts as a right hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gold {
    /// The passage's id is among the question's gold passages.
    Id,
    /// The passage's text holds one of the question's answers.
    Answer,
}

/// A mean over questions with its 95 % interval (percentile bootstrap, 1,000 resamples, fixed seed).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// One question's figures.
#[derive(Debug, Clone, Serialize)]
pub struct QuestionScore {
    /// The question's id.
    pub id: String,
    /// Measure name to value, in the order of the cut-offs.
    #[serde(serialize_with = "as_map")]
    pub measures: Vec<(String, f64)>,
    /// Rank (from 1) of the first right hit.
    pub first_gold_rank: Option<usize>,
}

/// The figures of a whole set.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What counted as right.
    pub gold: Gold,
    /// Questions scored.
    pub questions: usize,
    /// Questions left out because they carry no gold of that kind.
    pub skipped: usize,
    /// Measure name to estimate, in the order of the cut-offs.
    #[serde(serialize_with = "as_map")]
    pub measures: Vec<(String, Estimate)>,
    /// The figures behind the means.
    #[serde(skip)]
    pub per_question: Vec<QuestionScore>,
}

fn as_map<T: Serialize, S: Serializer>(pairs: &[(String, T)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Chooses the kind of gold: passage ids where any question has them, else answers.
///
/// # Errors
/// [`Error::InvalidInput`] when no question has either.
pub fn choose_gold(questions: &[Question]) -> Result<Gold> {
    if let Some(gold) = [Gold::Id, Gold::Answer].into_iter().find(|&gold| questions.iter().any(|q| has_gold(q, gold))) {
        return Ok(gold);
    }
    Err(Error::InvalidInput {
        what: "questions".into(),
        expected: "gold passage ids (in the file or by `--qrels`) or golden answers".into(),
        found: format!("{} questions with neither", questions.len()),
    })
}

/// Whether a question can be scored with this kind of gold.
pub fn has_gold(question: &Question, gold: Gold) -> bool {
    match gold {
        Gold::Id => question.relevant.values().any(|&r| r > 0.0),
        Gold::Answer => !question.answers.is_empty(),
    }
}

/// Scores rankings one by one, so that they need not be kept.
pub struct Evaluation {
    gold: Gold,
    cutoffs: Vec<usize>,
    scores: Vec<QuestionScore>,
    skipped: usize,
}

impl Evaluation {
    /// `cutoffs` are the k of recall@k and success@k, the largest is the k of MRR, 10 that of nDCG.
    pub fn new(gold: Gold, cutoffs: &[usize]) -> Self {
        Self { gold, cutoffs: cutoffs.to_vec(), scores: Vec::new(), skipped: 0 }
    }

    /// Scores the ranking of one question, or counts it as left out where it has no gold of this kind. A ranking shorter
    /// than a cut-off counts as it is: what is not there is not found.
    pub fn add(&mut self, question: &Question, ranking: &[Ranked]) {
        if has_gold(question, self.gold) {
            self.scores.push(score(question, ranking, self.gold, &self.cutoffs));
        } else {
            self.skipped += 1;
        }
    }

    /// The figures of all questions so far.
    pub fn report(self) -> Report {
        let names = self.scores.first().map(|q| q.measures.iter().map(|(name, _)| name.clone())).into_iter().flatten();
        let values = |at: usize| self.scores.iter().map(|q| q.measures[at].1).collect::<Vec<_>>();
        let measures = names.enumerate().filter_map(|(at, name)| Some((name, Estimate::of(&values(at))?))).collect();
        Report {
            gold: self.gold,
            questions: self.scores.len(),
            skipped: self.skipped,
            measures,
            per_question: self.scores,
        }
    }
}

fn score(question: &Question, ranking: &[Ranked], gold: Gold, cutoffs: &[usize]) -> QuestionScore {
    let gains: Vec<f64> = ranking
        .iter()
        .map(|hit| match gold {
            Gold::Id => question.relevant.get(&hit.passage.id).copied().unwrap_or(0.0).max(0.0),
            Gold::Answer => f64::from(u8::from(holds_answer(&hit.passage.text, &question.answers))),
        })
        .collect();
    let first_gold_rank = gains.iter().position(|&g| g > 0.0).map(|at| at + 1);
    let depth = cutoffs.iter().copied().max().unwrap_or(0);
    let found = |k: usize| gains.iter().take(k).filter(|&&g| g > 0.0).count();
    let mut measures = Vec::new();
    if gold == Gold::Id {
        let all = question.relevant.values().filter(|&&r| r > 0.0).count();
        measures.extend(cutoffs.iter().map(|&k| (format!("recall@{k}"), found(k) as f64 / all as f64)));
    }
    measures.extend(cutoffs.iter().map(|&k| (format!("success@{k}"), if found(k) > 0 { 1.0 } else { 0.0 })));
    let reciprocal = first_gold_rank.filter(|&rank| rank <= depth).map_or(0.0, |rank| 1.0 / rank as f64);
    measures.push((format!("mrr@{depth}"), reciprocal));
    if gold == Gold::Id {
        measures.push(("ndcg@10".into(), ndcg(&gains, question, 10)));
    }
    QuestionScore { id: question.id.clone(), measures, first_gold_rank }
}

fn ndcg(gains: &[f64], question: &Question, k: usize) -> f64 {
    let mut ideal: Vec<f64> = question.relevant.values().copied().filter(|&r| r > 0.0).collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    let discounted = |gains: &[f64]| -> f64 {
        gains.iter().take(k).enumerate().map(|(at, gain)| gain / ((at + 2) as f64).log2()).sum()
    };
    discounted(gains) / discounted(&ideal)
}

impl Estimate {
    /// The estimate of so many values, one a question; nothing of none. The order of the values does not matter to the mean, and hardly
    /// to the interval.
    pub fn of(values: &[f64]) -> Option<Self> {
        const RESAMPLES: usize = 1000;
        if values.is_empty() {
            return None;
        }
        let mean = |total: f64| total / values.len() as f64;
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut means: Vec<f64> = (0..RESAMPLES)
            .map(|_| mean((0..values.len()).map(|_| values[random.random_range(0..values.len())]).sum()))
            .collect();
        means.sort_by(f64::total_cmp);
        let (low, high) = (means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40]);
        Some(Self { mean: mean(values.iter().sum()), low, high })
    }
}
