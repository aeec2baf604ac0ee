//! How well does a policy answer? Each question is scored by itself, so that no score depends on how questions were batched.

use std::collections::BTreeMap;

use hindsearch_retriever::evaluate::Estimate;
use serde::Serialize;

use crate::hindsight::{answer, is_over};
use crate::reward::{answer_f1, is_covered, is_exact};
use crate::trajectory::Trajectory;
use crate::{Task, text};

/// What came of one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuestionScore {
    /// The task's id.
    pub task: String,
    /// Its data set.
    pub source: String,
    /// What was answered; nothing where no answer came.
    pub answer: Option<String>,
    /// 1 where the answer equals an accepted one, both under SQuAD's rule.
    pub em: f64,
    /// F1 of words as HotpotQA has it, the best over the accepted answers.
    pub f1: f64,
    /// 1 where an accepted answer is part of the answer, both under SQuAD's rule.
    pub cover: f64,
    /// Searches that were carried out.
    pub searches: usize,
    /// Words of the answer; long answers cover more.
    pub words: usize,
    /// Pieces of experience that were shown.
    pub advice: usize,
}

/// Means over questions with their 95 % intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// Questions.
    pub n: usize,
    /// Exact match.
    pub em: Estimate,
    /// F1 of words.
    pub f1: Estimate,
    /// Cover exact match.
    pub cover: Estimate,
    /// Searches of a question.
    pub searches: Estimate,
    /// Words of an answer, none where none came.
    pub words: Estimate,
    /// Pieces of experience that a question's play was shown.
    pub advice: Estimate,
}

/// The scores of a set of questions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QaReport {
    /// Over all questions.
    pub all: Scores,
    /// Over those of each data set.
    pub sources: BTreeMap<String, Scores>,
}

impl QuestionScore {
    /// The score of a play; nothing where something outside kept it from its end.
    pub fn of(task: &Task, play: &Trajectory) -> Option<Self> {
        if !is_over(play) {
            return None;
        }
        let (answer, golds) = (answer(play), task.gold().answers());
        let whether =
            |holds: fn(&str, &[String]) -> bool| f64::from(u8::from(answer.is_some_and(|answer| holds(answer, golds))));
        Some(Self {
            task: task.id().to_owned(),
            source: task.source().to_owned(),
            em: whether(is_exact),
            f1: answer.map_or(0.0, |answer| answer_f1(answer, golds)),
            cover: whether(is_covered),
            searches: play.searches(),
            words: answer.map_or(0, |answer| text::words(answer).count()),
            advice: play.experience.len() + play.turns.iter().map(|turn| turn.experience.len()).sum::<usize>(),
            answer: answer.map(str::to_owned),
        })
    }
}

impl QaReport {
    /// The report of scores in any order; nothing of none.
    pub fn of(scores: &[QuestionScore]) -> Option<Self> {
        let mut sorted: Vec<&QuestionScore> = scores.iter().collect();
        sorted.sort_by(|one, other| one.task.cmp(&other.task));
        let mut sources: BTreeMap<&str, Vec<&QuestionScore>> = BTreeMap::new();
        sorted.iter().for_each(|score| sources.entry(&score.source).or_default().push(score));
        let sources = sources.into_iter().filter_map(|(name, own)| Some((name.to_owned(), Scores::of(&own)?)));
        Some(Self { all: Scores::of(&sorted)?, sources: sources.collect() })
    }

    /// Exact match, F1 and cover as plain means over data sets, as papers average them.
    pub fn mean_of_sources(&self) -> (f64, f64, f64) {
        let mean =
            |value: fn(&Scores) -> f64| self.sources.values().map(value).sum::<f64>() / self.sources.len() as f64;
        (mean(|scores| scores.em.mean), mean(|scores| scores.f1.mean), mean(|scores| scores.cover.mean))
    }
}

impl Scores {
    fn of(scores: &[&QuestionScore]) -> Option<Self> {
        let estimate = |value: fn(&QuestionScore) -> f64| {
            Estimate::of(&scores.iter().map(|score| value(score)).collect::<Vec<_>>())
        };
        Some(Self {
            n: scores.len(),
            em: estimate(|score| score.em)?,
            f1: estimate(|score| score.f1)?,
            cover: estimate(|score| score.cover)?,
            searches: estimate(|score| score.searches as f64)?,
            words: estimate(|score| score.words as f64)?,
            advice: estimate(|score| score.advice as f64)?,
        })
    }
}
