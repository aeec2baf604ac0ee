//! verl's and verl-tool's rule: equality, and a right answer among too many answers earns a quarter.
//!
//! verl-tool uses another regex engine than the rest. Its articles end where a mark, a joiner or `‿` follows for Python's `re`,
//! but not for that engine, and the other way round for `²`. We have one idea of a word, Python's.

use super::{Match, Rule};
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// More tags than this are too many.
const MOST_TAGS: usize = 10;

/// Looks at the response.
pub(in crate::reward) fn verl(options: &Match, scene: &Scene<'_>) -> Verdict {
    divided(options, scene, scene.last_answer(), |tag| scene.count(tag))
}

/// Looks at the prompt, too.
pub(in crate::reward) fn verl_tool(options: &Match, scene: &Scene<'_>) -> Verdict {
    let texts = scene.texts_with_prompt();
    let count = |tag: &str| texts.iter().map(|text| text.matches(tag).count()).sum();
    divided(options, scene, scene.last_answer_with_prompt(), count)
}

fn divided(options: &Match, scene: &Scene<'_>, answer: Option<String>, count: impl Fn(&str) -> usize) -> Verdict {
    let is_right = answer.as_ref().is_some_and(|answer| Rule::Equal.holds(answer, scene.golds));
    let mut verdict = options.score(Rule::Equal, answer, scene);
    let tags = scene.answer.iter().flat_map(|tags| [&tags.open, &tags.close]);
    if is_right && tags.into_iter().any(|tag| count(tag) > MOST_TAGS) {
        verdict.value /= 4.0;
    }
    verdict
}
