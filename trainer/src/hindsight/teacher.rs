//! Whose weights has the teacher, and what does it say of the policy's tokens?

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lesson::Lesson;
use crate::batch::{Sample, micro_batches};
use crate::decoder::Decoder;
use crate::generate::{Sequence, hidden_states};
use crate::model::ModelFiles;
use crate::objective::{Metric, NO_TOKEN, Side, Support};
use crate::ops::{Logprobs, Others, Placement};
use crate::text::Language;
use crate::{Error, Result};

/// Whose weights read the lessons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeacherSettings {
    /// Whose.
    pub weights: TeacherWeights,
    /// Where the model is, for `larger`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// How far a step moves the weights of `ema` to the policy's, 0 to 1; SDPO has 0.05.
    pub rate: f64,
    /// When the weights of `current` are taken.
    pub refresh: Refresh,
}

impl Default for TeacherSettings {
    fn default() -> Self {
        Self { weights: TeacherWeights::Reference, model: None, rate: 0.05, refresh: Refresh::Step }
    }
}

/// Whose weights a teacher has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TeacherWeights {
    /// The frozen ones that learning by reward began with (HindSearch).
    #[default]
    Reference,
    /// The policy's own, without a gradient (SD-Search).
    Current,
    /// A moving mean of the policy's (SDPO).
    Ema,
    /// Another model's, with the same tokenizer.
    Larger,
}

/// When the policy's own weights become the teacher's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refresh {
    /// Before the first update of a step. The paper (SD-Search) does not say.
    #[default]
    Step,
    /// Before each update.
    Batch,
}

/// What other tokenizers cut in other places.
const PROBE: &str =
    "Who discovered radium in 1898?\n\n<search> Größe, naïve café; Москва 東京 🙂 </search>\t\t  x_1 = f(12345);";

impl TeacherSettings {
    /// The other model that teaches, where one does. It must cut texts into the same tokens as the policy.
    ///
    /// # Errors
    /// Those of its files; [`Error::InvalidInput`] for one with another tokenizer.
    pub fn larger(&self, language: &Language, placement: &Placement) -> Result<Option<Decoder>> {
        let Some(path) = self.model.as_deref().filter(|_| self.weights == TeacherWeights::Larger) else {
            return Ok(None);
        };
        let files = ModelFiles::open(path)?;
        let tokenizer = files.tokenizer()?;
        if tokenizer.encode(PROBE)? != language.tokenizer.encode(PROBE)? || tokenizer.eos() != language.tokenizer.eos()
        {
            let what = format!("hindsight.teacher.model (`{}`)", path.display());
            return Err(Error::invalid(what, "the policy's tokenizer", "another one"));
        }
        Decoder::placed(files.config(), files.weights()?, false, placement).map(Some)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.rate) {
            return Err(Error::invalid("hindsight.teacher.rate", "0 to 1", self.rate.to_string()));
        }
        if (self.weights == TeacherWeights::Larger) != self.model.is_some() {
            let expected = "a path with `weights = \"larger\"`, and none without";
            let found = self.model.as_ref().map_or("none".into(), |path| format!("`{}`", path.display()));
            return Err(Error::invalid("hindsight.teacher.model", expected, found));
        }
        Ok(())
    }
}

/// What a teacher said of a sample: numbers for each of the sample's places, whatever it said of others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// `[places]`: 1 where it spoke.
    pub mask: Vec<f32>,
    /// `[places]`.
    pub logprobs: Vec<f32>,
    /// `[places]`, in nats.
    pub entropies: Vec<f32>,
    /// Distributions, where they were asked for.
    pub top: Option<SaidTop>,
}

/// `[places, width]` each.
#[derive(Debug, Clone)]
pub(crate) struct SaidTop {
    pub ids: Vec<u32>,
    pub teacher: Vec<f32>,
    /// Under the policy before the first update, where the loss needs that.
    pub old: Option<Vec<f32>>,
}

impl Said {
    /// How much likelier it found tokens that spell an accepted answer, clamped as HindSearch's weight: what a leak in a hint teaches.
    pub(crate) fn gold_weight(&self, sample: &Sample, clamp: f64) -> Metric {
        let old = sample.logprobs.iter().flatten();
        let all = self.mask.iter().zip(&self.logprobs).zip(old).zip(&sample.spells_gold);
        let spelled = all.filter(|(((mask, _), _), gold)| **gold && **mask != 0.0);
        let weights = spelled.map(|(((_, teacher), old), _)| f64::from(teacher - old).clamp(0.0, clamp));
        let (sum, count) = weights.fold((0.0, 0.0), |(sum, count), weight| (sum + weight, count + 1.0));
        Metric::Mean { sum, count }
    }
}

/// A teacher at work.
pub(crate) struct Teaching<'a> {
    pub teacher: &'a Decoder,
    /// The policy as it is.
    pub student: &'a Decoder,
    /// At which tokens of the vocabulary, beside the sampled ones.
    pub support: Option<Support>,
    /// Whether the policy's log-probabilities are wanted there.
    pub old: bool,
    pub temperature: f32,
    /// Tokens that are read at a time.
    pub micro_tokens: usize,
}

/// A lesson of a sample.
struct Place<'a> {
    number: usize,
    sample: &'a Sample,
    lesson: &'a Lesson,
    /// Tokens that are to be read: what it shares with the one before is not read again.
    fresh: usize,
}

/// The policy's likeliest tokens at each place of a sample, with their log-probabilities; none where it was not asked.
type Likeliest = Vec<Vec<(u32, f32)>>;

impl Teaching<'_> {
    /// What is said of each sample; nothing of one without a lesson. No graph is kept.
    ///
    /// # Errors
    /// Those of the tensors.
    pub(crate) fn of(&self, samples: &[Sample]) -> Result<Vec<Option<Said>>> {
        let taught = |sample: &Sample| sample.lessons.iter().any(|lesson| lesson.taught().next().is_some());
        let width = self.support.map_or(0, Support::width);
        let begin = |sample: &Sample| {
            taught(sample).then(|| {
                let count = sample.places.len();
                let top =
                    || SaidTop { ids: vec![NO_TOKEN; count * width], teacher: vec![0.0; count * width], old: None };
                Said {
                    mask: vec![0.0; count],
                    logprobs: vec![0.0; count],
                    entropies: vec![0.0; count],
                    top: self.support.map(|_| top()),
                }
            })
        };
        let mut all: Vec<Option<Said>> = samples.iter().map(begin).collect();
        let students = match self.support {
            Some(Support { k, side: Side::Student | Side::Union | Side::Overlap }) => self.likeliest(samples, k)?,
            _ => Vec::new(),
        };
        let lessons = places(samples);
        for lessons in micro_batches(&lessons, self.micro_tokens, |place| place.fresh) {
            self.read(lessons, &students, &mut all)?;
        }
        if self.old {
            self.add_old(samples, &students, &mut all)?;
        }
        Ok(all)
    }

    /// One pass of the teacher.
    fn read(&self, lessons: &[Place<'_>], students: &[Likeliest], all: &mut [Option<Said>]) -> Result<()> {
        let (mut targets, mut whose) = (Vec::new(), Vec::new());
        for place in lessons {
            for at in place.lesson.taught() {
                targets.push(place.sample.tokens[place.sample.places[at]]);
                whose.push((place.number, at));
            }
        }
        let sequences: Vec<Sequence<'_>> = lessons.iter().map(|place| place.lesson.sequence()).collect();
        let hidden = hidden_states(self.teacher, &sequences)?;
        let found = Logprobs::new(&hidden, self.teacher.head(), &targets, self.temperature)?;
        for (row, (number, at)) in whose.iter().enumerate() {
            if let Some(said) = &mut all[*number] {
                said.mask[*at] = 1.0;
                said.logprobs[*at] = found.logprobs[row];
                said.entropies[*at] = found.entropies[row];
            }
        }
        let Some(support) = self.support else { return Ok(()) };
        let width = support.width();
        let own = match support.side {
            Side::Student => Vec::new(),
            _ => found.likeliest(support.k, self.student.config().vocabulary)?,
        };
        let mut ids = Vec::with_capacity(whose.len() * width);
        for (row, (number, at)) in whose.iter().enumerate() {
            let student = students.get(*number).and_then(|places| places.get(*at)).map_or(&[][..], Vec::as_slice);
            let student = || student.iter().map(|(id, _)| *id);
            let teacher = || own.get(row).into_iter().flatten().copied();
            let mut chosen: Vec<u32> = match support.side {
                Side::Teacher => teacher().collect(),
                Side::Student => student().collect(),
                Side::Union => teacher().chain(student().filter(|id| teacher().all(|other| other != *id))).collect(),
                Side::Overlap => teacher().filter(|id| student().any(|other| other == *id)).collect(),
            };
            chosen.resize(width, NO_TOKEN);
            ids.extend(chosen);
        }
        let teacher = found.of(Others { ids: &ids, width })?;
        for (row, (number, at)) in whose.iter().enumerate() {
            if let Some(top) = all[*number].as_mut().and_then(|said| said.top.as_mut()) {
                let (from, to) = (row * width..(row + 1) * width, at * width..(at + 1) * width);
                top.ids[to.clone()].copy_from_slice(&ids[from.clone()]);
                top.teacher[to].copy_from_slice(&teacher[from]);
            }
        }
        Ok(())
    }

    /// The policy's likeliest `k` tokens where it is taught.
    fn likeliest(&self, samples: &[Sample], k: usize) -> Result<Vec<Likeliest>> {
        let mut all: Vec<Likeliest> = samples.iter().map(|sample| vec![Vec::new(); sample.places.len()]).collect();
        self.student_reads(samples, |found, whose| {
            let ids = found.likeliest(k, usize::MAX)?;
            let flat: Vec<u32> = ids.iter().flatten().copied().collect();
            let width = ids.first().map_or(1, Vec::len);
            let logprobs = found.of(Others { ids: &flat, width })?;
            for ((ids, logprobs), (number, at)) in ids.into_iter().zip(logprobs.chunks_exact(width)).zip(whose) {
                all[*number][*at] = ids.into_iter().zip(logprobs.iter().copied()).collect();
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// The policy's log-probabilities at the tokens that were chosen: those that are known, or those of another pass.
    fn add_old(&self, samples: &[Sample], students: &[Likeliest], all: &mut [Option<Said>]) -> Result<()> {
        let width = self.support.map_or(1, Support::width);
        for top in all.iter_mut().flatten().filter_map(|said| said.top.as_mut()) {
            top.old = Some(vec![0.0; top.ids.len()]);
        }
        if matches!(self.support, Some(Support { side: Side::Student | Side::Overlap, .. })) {
            for (said, students) in all.iter_mut().zip(students) {
                let Some(SaidTop { ids, old: Some(old), .. }) = said.as_mut().and_then(|said| said.top.as_mut()) else {
                    continue;
                };
                for (place, (id, old)) in ids.iter().zip(old).enumerate() {
                    let known = students[place / width].iter().find(|(known, _)| known == id);
                    *old = known.map_or(f32::NEG_INFINITY, |(_, logprob)| *logprob);
                }
            }
            return Ok(());
        }
        self.student_reads(samples, |found, whose| {
            let top = |number: usize| all[number].as_ref().and_then(|said| said.top.as_ref());
            let of = |(number, at): &(usize, usize)| top(*number).map(|top| &top.ids[at * width..(at + 1) * width]);
            let ids: Vec<u32> = whose.iter().filter_map(of).flatten().copied().collect();
            let logprobs = found.of(Others { ids: &ids, width })?;
            for ((number, at), logprobs) in whose.iter().zip(logprobs.chunks_exact(width)) {
                if let Some(SaidTop { old: Some(old), .. }) = all[*number].as_mut().and_then(|said| said.top.as_mut()) {
                    old[at * width..(at + 1) * width].copy_from_slice(logprobs);
                }
            }
            Ok(())
        })
    }

    /// Passes of the policy over the samples that are taught, at the places that are.
    fn student_reads(
        &self,
        samples: &[Sample],
        mut look: impl FnMut(&Logprobs, &[(usize, usize)]) -> Result<()>,
    ) -> Result<()> {
        let places = |sample: &Sample| {
            let mut places: Vec<usize> = sample.lessons.iter().flat_map(Lesson::taught).collect();
            places.sort_unstable();
            places.dedup();
            places
        };
        let taught: Vec<(usize, &Sample, Vec<usize>)> = samples
            .iter()
            .enumerate()
            .map(|(number, sample)| (number, sample, places(sample)))
            .filter(|(_, _, places)| !places.is_empty())
            .collect();
        for part in micro_batches(&taught, self.micro_tokens, |(_, sample, _)| sample.tokens.len()) {
            let (mut targets, mut whose) = (Vec::new(), Vec::new());
            for (number, sample, places) in part {
                for at in places {
                    targets.push(sample.tokens[sample.places[*at]]);
                    whose.push((*number, *at));
                }
            }
            let rows = |(_, sample, places): &(usize, &Sample, Vec<usize>)| {
                places.iter().map(|at| sample.places[*at] - 1).collect()
            };
            let sequences = part.iter().map(|one| Sequence { tokens: &one.1.tokens, rows: rows(one) });
            let hidden = hidden_states(self.student, &sequences.collect::<Vec<_>>())?;
            look(&Logprobs::new(&hidden, self.student.head(), &targets, self.temperature)?, &whose)?;
        }
        Ok(())
    }
}

fn places(samples: &[Sample]) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for (number, sample) in samples.iter().enumerate() {
        for lesson in sample.lessons.iter().filter(|lesson| lesson.taught().next().is_some()) {
            let before = places.last().map_or(&[][..], |place| &place.lesson.tokens);
            let shared = before.iter().zip(&lesson.tokens).take_while(|(a, b)| a == b).count();
            let fresh = lesson.sequence().length().saturating_sub(shared).max(1);
            places.push(Place { number, sample, lesson, fresh });
        }
    }
    places
}
