//! AutoRefine: F1 of the answer; where that is 0, something for an accepted answer in what was refined.
//!
//! Whoever copies every passage between the refine tags has that something for sure. On a trajectory an episode that was not
//! answered earns nothing, so it is worth less than any answer with a word in common.

use serde::{Deserialize, Serialize};

use super::Rule;
use crate::action::all_between;
use crate::preset::Tags;
use crate::reward::overlap::best_hotpot;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// AutoRefine's reward (`verl/utils/reward_score/qa_em.py`). The answer is looked for in the response, one is enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Autorefine {
    /// How the answer is compared (`reward_style`).
    pub measure: AutorefineMeasure,
    /// What a wrong answer earns for an accepted one between refine tags.
    pub refine: f64,
    /// What a wrong answer earns for tags that are all there and paired.
    pub format: f64,
}

/// How AutoRefine compares answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AutorefineMeasure {
    /// F1 of words.
    #[default]
    F1,
    /// Equality.
    Em,
    /// Whether an accepted answer is part of it (`CEM`).
    SubEm,
}

impl Default for Autorefine {
    fn default() -> Self {
        Self { measure: AutorefineMeasure::F1, refine: 0.1, format: 0.0 }
    }
}

impl Autorefine {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let Some(answer) = scene.last_answer() else { return Verdict::default() };
        let base = match self.measure {
            AutorefineMeasure::F1 => best_hotpot(&answer, scene.golds).f1,
            AutorefineMeasure::Em => Rule::Equal.value(&answer, scene.golds),
            AutorefineMeasure::SubEm => Rule::Part.value(&answer, scene.golds),
        };
        if base > 0.0 {
            return Verdict::of(base, Some(answer));
        }
        let mut value = 0.0;
        if is_paired(scene) {
            value += self.format;
        }
        if refined(scene).is_some_and(|refined| Rule::Part.holds(&refined, scene.golds)) {
            value += self.refine;
        }
        Verdict::of(value, Some(answer))
    }
}

/// What stands between refine tags, as one text: an accepted answer may go on from one to the next. Nothing without any.
fn refined(scene: &Scene<'_>) -> Option<String> {
    let tags = Tags { open: "<refine>".into(), close: "</refine>".into() };
    let inside = scene.texts().flat_map(|text| all_between(text, &tags).into_iter().map(|inside| &text[inside]));
    let inside: Vec<&str> = inside.collect();
    (!inside.is_empty()).then(|| inside.join(" "))
}

/// Whether all tags are there, as often opened as closed.
fn is_paired(scene: &Scene<'_>) -> bool {
    let refines = scene.prompt.contains("<refine>") || scene.count("<refine>") > 0;
    let tags = ["think", "search", "answer"].into_iter().chain(refines.then_some("refine"));
    tags.into_iter().all(|tag| {
        let opened = scene.count(&format!("<{tag}>"));
        opened > 0 && opened == scene.count(&format!("</{tag}>"))
    })
}
