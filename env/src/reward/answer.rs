//! The answer that counts.

use super::Scene;
use crate::action::all_between;
use crate::text::strip;

/// The last answer, where there are as many as the recipe asks for.
pub(super) fn last(scene: &Scene<'_>) -> Option<String> {
    let tags = scene.grammar.answer.as_ref()?;
    let found = |text: &String| {
        all_between(text, tags).into_iter().map(|inside| strip(&text[inside]).to_owned()).collect::<Vec<_>>()
    };
    let mut answers: Vec<String> = scene.texts.iter().flat_map(found).collect();
    if answers.len() < scene.minimum_spans { None } else { answers.pop() }
}
