//! What is learnt from the episodes of a step: how much better each was than its siblings, and what a teacher reads in its place.

use std::time::Instant;

use hindsearch_env::hindsight::evidence;
use hindsearch_env::{Task, Trajectory};

use super::episodes::{Numbers, add, by_id};
use super::{Place, Training};
use crate::batch::Sample;
use crate::hindsight::{Alignment, Guarded, Hints, View};
use crate::objective::{Metric, Metrics, TokenScope};
use crate::update::Learner;
use crate::{Error, Result};

impl Training<'_> {
    /// Samples of the episodes that came to their end, with their lessons. Critiques are put on the episodes and written down.
    pub(super) fn samples(
        &self,
        learner: &Learner,
        tasks: &[Task],
        episodes: &mut [Trajectory],
        step: u64,
        numbers: &mut Numbers,
    ) -> Result<Vec<Sample>> {
        let advantages = learner.objectives().advantage.of_episodes(episodes);
        let known: Vec<f64> = advantages.iter().flatten().copied().collect();
        let middle = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let spread = known.iter().map(|one| (one - middle).powi(2)).sum::<f64>() / known.len().max(1) as f64;
        numbers.insert("advantage/variance".into(), spread);
        let (begun, mut metrics) = (Instant::now(), Metrics::default());
        let is_taught = learner.needs_teacher_now() && self.settings.hindsight.view != View::None;
        let told = if is_taught {
            let passage = |id: &str| self.retriever.passage(id).ok().flatten();
            let evidence = |task: &Task| evidence(task, passage);
            let hints = Hints {
                settings: &self.settings.hindsight,
                critic: self.critic,
                evidence: &evidence,
                seed: self.settings.seed,
                step,
            };
            let told = hints.of(tasks, episodes, &mut metrics)?;
            if episodes.iter().any(|episode| episode.critique.is_some()) {
                self.write_again(episodes, step)?;
            }
            told
        } else {
            episodes.iter().map(|_| Vec::new()).collect()
        };
        let hindsight = learner.objectives().hindsight;
        let alignment = Alignment {
            language: self.language,
            prompt: &self.rules.preset().prompt,
            placement: self.settings.hindsight.placement,
            budget: self.settings.hindsight.budget,
            positions: learner.decoder().config().max_positions,
            span: self.settings.hindsight.span,
            tokens: self.settings.hindsight.tokens,
            queries: hindsight.scopes().all(|scope| scope == TokenScope::Query),
        };
        let (by_id, mut samples) = (by_id(tasks), Vec::new());
        for ((episode, advantage), told) in episodes.iter().zip(advantages).zip(told) {
            let Some(advantage) = advantage else { continue };
            let read = self.language.tokenized(&self.rules.preset().prompt, episode)?;
            let mut sample = Sample::of(&read, self.settings.hindsight.span, advantage)?;
            metrics.add("query/straddling", mean(read.straddling() as f64));
            if let Some(task) = by_id.get(&*episode.task).filter(|_| !told.is_empty()) {
                let gold = read.gold_mask(task);
                sample.spells_gold = sample.places.iter().map(|place| gold.get(*place) == Some(&true)).collect();
            }
            for (hint, part) in told {
                let aligned = alignment.lesson(&read, hint.as_ref(), part)?;
                metrics.add("hindsight/no_lesson", mean(f64::from(u8::from(aligned.is_none()))));
                let Some(aligned) = aligned else { continue };
                metrics.add("hindsight/hint_tokens", mean(aligned.added as f64));
                metrics.add("hindsight/hint_cut", mean(f64::from(u8::from(aligned.cut))));
                sample.lessons.push(aligned.lesson);
            }
            samples.push(sample);
        }
        if learner.objectives().needs_teacher() {
            numbers.insert("hindsight/factor".into(), learner.hindsight());
        }
        if is_taught {
            add(numbers, &metrics);
            numbers.insert("time/hints".into(), begun.elapsed().as_secs_f64());
        }
        Ok(samples)
    }

    /// Halves what a teacher says from the next step on where a limit was passed, or tells why the run ends.
    pub(super) fn guarded(&self, numbers: &Numbers, place: &mut Place) -> Option<Error> {
        let guards = &self.settings.hindsight.guards;
        let found = |name: &str| numbers.get(name).copied();
        let (name, limit) =
            guards.limits().find(|(name, limit)| found(name).is_some_and(|found| found.is_nan() || found > *limit))?;
        if guards.then == Guarded::Stop {
            return Some(Error::Diverged {
                what: format!("`{name}` of step {}", place.step),
                found: format!(
                    "{:.4}, beyond the limit of {limit} in `hindsight.guards`",
                    found(name).unwrap_or_default()
                ),
                remedy: "the step is saved; another teacher or a smaller weight of what it says may hold".into(),
            });
        }
        place.guarded *= 0.5;
        None
    }
}

fn mean(value: f64) -> Metric {
    Metric::Mean { sum: value, count: 1.0 }
}
