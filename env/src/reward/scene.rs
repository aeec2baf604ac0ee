//! What a scorer is given: a response in parts, the accepted answers, and what the recipe says of both.

use std::borrow::Cow;

use super::RewardRules;
use super::ScoredText;
use crate::action::{all_between, read};
use crate::preset::{Preset, Tags};
use crate::text::strip;
use crate::trajectory::{Author, Stop, Trajectory};

/// A part of a response.
pub(super) enum Part<'a> {
    /// Text that is looked at: a message of the policy, or a whole response.
    Text(Cow<'a, str>),
    /// An observation with passages. It is not looked at: whatever it holds, it is one well-formed block.
    Passages,
    /// A reply to an action that was none. It is not looked at.
    Reply,
}

/// The record that a scene was made from.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub preset: &'a Preset,
    pub trajectory: &'a Trajectory,
}

/// What a scorer is given.
pub(super) struct Scene<'a> {
    /// What stands before the response.
    pub prompt: Cow<'a, str>,
    /// Whether answers may stand in the prompt.
    pub looks_at_prompt: bool,
    /// The response.
    pub parts: Vec<Part<'a>>,
    /// Around answers; nothing where the recipe has no tags for them.
    pub answer: Option<Tags>,
    /// Answers that there must be for the last one to count.
    pub minimum_spans: usize,
    pub golds: &'a [String],
    /// Whether the texts are the policy's messages and nothing else. What looks like an observation in them is forged.
    pub is_by_author: bool,
    /// Where the parts come from; nothing where a text is scored.
    pub record: Option<Record<'a>>,
}

impl<'a> Scene<'a> {
    /// What the rules show a scorer of a trajectory.
    pub fn of(rules: &RewardRules, record: Record<'a>, golds: &'a [String]) -> Self {
        let Record { preset, trajectory } = record;
        let grammar = &preset.grammar;
        let spans = || trajectory.spans.iter();
        let text = |author: fn(Author) -> bool| -> Cow<'a, str> {
            spans().filter(|span| author(span.author)).map(|span| span.text.as_str()).collect()
        };
        let holds_passages =
            |index: usize| trajectory.turns.iter().any(|turn| turn.observation == Some(index) && turn.is_search());
        let parts = match rules.text {
            ScoredText::Response | ScoredText::Transcript => {
                vec![Part::Text(text(|author| author != Author::Prompt))]
            }
            ScoredText::Policy => spans()
                .enumerate()
                .filter_map(|(index, span)| match span.author {
                    Author::Prompt => None,
                    // What stands behind the cut was never read, so it is no answer either.
                    Author::Policy => Some(Part::Text(Cow::Borrowed(&span.text[..read(grammar, &span.text).end]))),
                    Author::Environment if holds_passages(index) => Some(Part::Passages),
                    Author::Environment => Some(Part::Reply),
                })
                .collect(),
        };
        Self {
            prompt: text(|author| author == Author::Prompt),
            looks_at_prompt: rules.text == ScoredText::Transcript,
            parts,
            answer: grammar.answer.clone(),
            minimum_spans: rules.minimum_spans,
            golds,
            is_by_author: rules.text == ScoredText::Policy,
            record: Some(record),
        }
    }

    /// The texts of the response, in order. Nothing goes on from one to the next.
    pub fn texts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Passages | Part::Reply => None,
        })
    }

    /// The texts; the first one goes on from the prompt where the prompt is looked at.
    pub fn texts_with_prompt(&self) -> Vec<Cow<'_, str>> {
        let mut texts: Vec<Cow<'_, str>> = self.texts().map(Cow::Borrowed).collect();
        if self.looks_at_prompt && !self.prompt.is_empty() {
            match texts.first_mut() {
                Some(first) => *first = Cow::Owned(format!("{}{first}", self.prompt)),
                None => texts.push(Cow::Borrowed(&self.prompt)),
            }
        }
        texts
    }

    /// The response as one text, with `passages` for each observation that holds some.
    pub fn joined(&self, passages: &str) -> String {
        let part = |part: &'_ Part<'a>| match part {
            Part::Text(text) => text.to_string(),
            Part::Passages => passages.to_owned(),
            Part::Reply => "\n".to_owned(),
        };
        self.parts.iter().map(part).collect()
    }

    /// How often a text occurs in the response, one after the other.
    pub fn count(&self, what: &str) -> usize {
        self.texts().map(|text| text.matches(what).count()).sum()
    }

    /// The last answer of the response, where there are as many as the recipe asks for.
    pub fn last_answer(&self) -> Option<String> {
        self.last_of(self.texts())
    }

    /// The last answer of the response, and of the prompt where that is looked at.
    pub fn last_answer_with_prompt(&self) -> Option<String> {
        let texts = self.texts_with_prompt();
        self.last_of(texts.iter().map(|text| &**text))
    }

    /// The last answer of the last text.
    pub fn last_answer_of_last_text(&self) -> Option<String> {
        self.last_of(self.texts().next_back().into_iter())
    }

    fn last_of<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Option<String> {
        let tags = self.answer.as_ref()?;
        let spans = |text: &'t str| all_between(text, tags).into_iter().map(move |inside| strip(&text[inside]));
        let answers: Vec<&str> = texts.flat_map(spans).collect();
        if answers.len() < self.minimum_spans { None } else { answers.last().map(|&answer| answer.to_owned()) }
    }

    /// Whether the policy itself wrote one of these, though they belong to observations.
    pub fn is_forged(&self, tags: &[&str]) -> bool {
        self.is_by_author && self.texts().any(|text| tags.iter().any(|tag| text.contains(tag)))
    }

    /// The best value over the accepted answers, 0 where there are none.
    pub fn best(&self, value: impl Fn(&str) -> f64) -> f64 {
        self.golds.iter().map(|gold| value(gold)).reduce(f64::max).unwrap_or(0.0)
    }

    /// Whether the policy came to an end by itself; a text by itself does not say.
    pub fn is_finished(&self) -> bool {
        self.record.is_none_or(|Record { trajectory, .. }| {
            matches!(trajectory.stop, Some(Stop::Answer | Stop::End))
                && trajectory.turns.last().is_some_and(|turn| !turn.cut_off)
        })
    }
}
