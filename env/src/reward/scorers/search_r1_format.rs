//! Search-R1 v0.3: equality, and something for a response whose blocks follow each other as they should.

use serde::{Deserialize, Serialize};

use super::{Rule, retrieval};
use crate::action::all_between;
use crate::preset::Tags;
use crate::reward::scene::{Part, Scene};
use crate::reward::scorer::Verdict;
use crate::text::{is_blank, strip};

/// Search-R1 v0.3's reward (`qa_em_format.py`): think, then search and information and think as often as you like, then answer.
///
/// A right answer earns 1, less `structure` where the form is bad. A wrong answer, or none, earns `structure` for a good form,
/// and `retrieval` more where an observation holds an accepted answer; a wrong answer in a bad form earns `final`. With a
/// `retrieval` that is not 0 it looks at observations. A text counts on an answer in the prompt: `minimum_spans = 2`, and its form
/// is looked at behind the first marker of an assistant message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SearchR1Format {
    /// For a good form (`structure_format_score`).
    pub structure: f64,
    /// For a wrong answer in a bad form (`final_format_score`).
    #[serde(rename = "final")]
    pub last: f64,
    /// For an accepted answer in an observation (`retrieval_score`).
    pub retrieval: f64,
}

impl Default for SearchR1Format {
    fn default() -> Self {
        Self { structure: 0.2, last: 0.1, retrieval: 0.0 }
    }
}

const GOOD: &str = "Valid sequence format";
const BLOCKS: [&str; 4] = ["think", "search", "information", "answer"];

impl SearchR1Format {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let form = check(scene);
        let answer = scene.last_answer_with_prompt();
        let is_right = answer.as_ref().map(|answer| Rule::Equal.holds(answer, scene.golds));
        let value = match (is_right, form.is_ok()) {
            (Some(true), true) => 1.0,
            (Some(true), false) => 1.0 - self.structure,
            (_, true) if self.retrieval != 0.0 && is_retrieved(scene) => self.structure + self.retrieval,
            (_, true) => self.structure,
            (Some(false), false) => self.last,
            (None, false) => 0.0,
        };
        Verdict { value, answer, reason: Some(form.err().unwrap_or_else(|| GOOD.to_owned())) }
    }
}

/// Whether an observation holds an accepted answer. A text may hold observations in its prompt, too.
fn is_retrieved(scene: &Scene<'_>) -> bool {
    if let Some(record) = scene.record.filter(|_| scene.is_by_author) {
        return retrieval::found(record, scene.golds, retrieval::Where::Observation);
    }
    let tags = Tags { open: "<information>".into(), close: "</information>".into() };
    let texts = scene.texts_with_prompt();
    let mut blocks = texts.iter().flat_map(|text| all_between(text, &tags).into_iter().map(|inside| &text[inside]));
    blocks.any(|block| Rule::Part.holds(block, scene.golds))
}

/// Whether the blocks follow each other as they should; the error says what does not.
fn check(scene: &Scene<'_>) -> Result<(), String> {
    let mut walk = Walk { state: "start" };
    if scene.record.is_some() {
        count(&scene.texts().collect::<Vec<_>>())?;
        for part in &scene.parts {
            match part {
                Part::Text(text) => walk.text(text, scene.is_by_author)?,
                Part::Passages => walk.passages()?,
                Part::Reply => walk.content("(a reply)")?,
            }
        }
    } else {
        let whole = scene.texts_with_prompt().concat();
        let (_, response) = whole.split_once("<|im_start|>assistant").ok_or("Missing assistant marker")?;
        let response = response.trim_start_matches(is_blank);
        count(&[response])?;
        walk.text(response, false)?;
    }
    if walk.state == "end" { Ok(()) } else { Err(format!("Incomplete sequence, ended in state {}", walk.state)) }
}

/// Tags must be closed as often as opened.
fn count(texts: &[&str]) -> Result<(), String> {
    let count = |tag: &str| texts.iter().map(|text| text.matches(tag).count()).sum::<usize>();
    for block in BLOCKS {
        let (opened, closed) = (count(&format!("<{block}>")), count(&format!("</{block}>")));
        if opened != closed {
            return Err(format!("Mismatch in {block} tags: {opened} opening vs {closed} closing tags"));
        }
    }
    Ok(())
}

/// A walk through a response; the states are the reference's.
struct Walk {
    state: &'static str,
}

impl Walk {
    fn text(&mut self, text: &str, is_policy: bool) -> Result<(), String> {
        let mut rest = text;
        while let Some((at, tag)) = first_tag(rest) {
            self.content(&rest[..at])?;
            if is_policy && tag.contains("information") {
                return Err(format!("Unexpected tag {tag} in state {}", self.state));
            }
            self.tag(tag)?;
            rest = &rest[at + tag.len()..];
        }
        self.content(rest)
    }

    /// An observation is one block, whatever it holds.
    fn passages(&mut self) -> Result<(), String> {
        self.tag("<information>")?;
        self.tag("</information>")
    }

    fn content(&self, text: &str) -> Result<(), String> {
        let text = strip(text);
        match self.state {
            _ if text.is_empty() => Ok(()),
            "in_think" | "in_search" | "in_information" | "in_answer" => Ok(()),
            "end" => Err("Unexpected content in state end".into()),
            state => Err(format!("Unexpected content '{text}' between tags (state: {state})")),
        }
    }

    fn tag(&mut self, tag: &str) -> Result<(), String> {
        self.state = match (self.state, tag) {
            ("start" | "information", "<think>") => "in_think",
            ("in_think", "</think>") => "after_think",
            ("after_think", "<search>") => "in_search",
            ("in_search", "</search>") => "after_search",
            ("after_search", "<information>") => "in_information",
            ("in_information", "</information>") => "information",
            ("after_think", "<answer>") => "in_answer",
            ("in_answer", "</answer>") => "end",
            (state, _) => return Err(format!("Unexpected tag {tag} in state {state}")),
        };
        Ok(())
    }
}

/// The first tag of a block, and where it stands.
fn first_tag(text: &str) -> Option<(usize, &str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let inside = text[at + 1..].strip_prefix('/').unwrap_or(&text[at + 1..]);
        let block = BLOCKS.iter().find(|block| inside.strip_prefix(**block).is_some_and(|end| end.starts_with('>')))?;
        let length = text.len() - at - (inside.len() - block.len() - 1);
        Some((at, &text[at..at + length]))
    })
}
