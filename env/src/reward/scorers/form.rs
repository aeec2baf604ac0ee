//! Does every message think, then act, and does the last one answer? It goes by who wrote what, so no passage can make a form
//! good or bad.

use serde::{Deserialize, Serialize};

use crate::preset::{End, Grammar, Tags};
use crate::reward::scene::{Record, Scene};
use crate::reward::scorer::Verdict;
use crate::text::strip;
use crate::trajectory::{Action, Author, Stop, Trajectory};

/// 1 for an episode in which every message of the policy is a thought and an action and nothing else, each action was understood,
/// the last one answered, and the policy wrote nothing that looks like an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Form {
    /// What the policy must not write, for it frames observations.
    pub observation: Vec<String>,
}

impl Default for Form {
    /// What frames observations in the recipes that there are presets for.
    fn default() -> Self {
        let frames = [
            "<information>",
            "</information>",
            "<documents>",
            "</documents>",
            "<result>",
            "</result>",
            "<tool_response>",
            "</tool_response>",
            "<|begin_of_documents|>",
            "<|end_of_documents|>",
            "<|begin_search_result|>",
            "<|end_search_result|>",
        ];
        Self { observation: frames.map(str::to_owned).to_vec() }
    }
}

impl Form {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        match scene.record.map_or(Err("a text, not a trajectory".to_owned()), |record| self.check(record)) {
            Ok(()) => Verdict::because(1.0, "good form"),
            Err(fault) => Verdict::because(0.0, fault),
        }
    }

    fn check(&self, Record { preset, trajectory }: Record<'_>) -> Result<(), String> {
        let grammar = &preset.grammar;
        let is_answered = match trajectory.stop {
            Some(Stop::Answer) => true,
            // There the answer has no tags; it is the message that searches no more.
            Some(Stop::End) => grammar.answer.is_none() && grammar.end == End::NoSearch,
            _ => false,
        };
        if !is_answered {
            return Err("no answer".into());
        }
        if let Some(Action::Answer { text }) = trajectory.turns.last().map(|turn| &turn.action)
            && text.is_empty()
        {
            return Err("an empty answer".into());
        }
        for (number, message) in trajectory.policy_texts().enumerate() {
            let is_last = number + 1 == trajectory.turns.len();
            let fault = |what: &str| format!("message {}: {what}", number + 1);
            if let Some(frame) = self.observation.iter().find(|frame| message.contains(*frame)) {
                return Err(fault(&format!("`{frame}`, which belongs to observations")));
            }
            if let Some(Action::Invalid { reason }) = trajectory.turns.get(number).map(|turn| &turn.action) {
                return Err(fault(reason));
            }
            let begun = if number == 0 { begun_thought(grammar, trajectory) } else { "" };
            check_message(grammar, &format!("{begun}{message}"), is_last).map_err(|what| fault(&what))?;
        }
        Ok(())
    }
}

/// The opening tag that a recipe puts into the policy's mouth.
fn begun_thought<'a>(grammar: &'a Grammar, trajectory: &Trajectory) -> &'a str {
    let prompt = trajectory.spans.iter().rfind(|span| span.author == Author::Prompt);
    match &grammar.think {
        Some(think) if prompt.is_some_and(|span| span.text.trim_end().ends_with(&think.open)) => &think.open,
        _ => "",
    }
}

/// A thought, an action, and blanks between.
fn check_message(grammar: &Grammar, message: &str, is_last: bool) -> Result<(), String> {
    let message = strip(message);
    let rest = match &grammar.think {
        Some(think) => strip(block(message, think).ok_or("no thought at its beginning")?.1),
        None => message,
    };
    let acts = match (is_last, &grammar.answer) {
        (false, _) => Some(&grammar.search),
        (true, answer) => answer.as_ref(),
    };
    let tags = [&grammar.think, &grammar.answer].into_iter().flatten().chain([&grammar.search]);
    let is_plain = |text: &str| !tags.clone().any(|tags| text.contains(&tags.open) || text.contains(&tags.close));
    let inside = match acts {
        Some(tags) => match (grammar.think.is_some(), block(rest, tags)) {
            (_, Some((inside, ""))) => inside,
            (_, Some(_)) => return Err("something behind its action".into()),
            // Without tags around thoughts, anything before the action is one.
            (false, None) => match rest.find(&tags.open).and_then(|at| Some((at, block(&rest[at..], tags)?))) {
                Some((at, (inside, ""))) if is_plain(&rest[..at]) => inside,
                _ => return Err("no action at its end".into()),
            },
            (true, None) => return Err("no action behind its thought".into()),
        },
        None => rest,
    };
    let thought = grammar.think.as_ref().and_then(|think| block(message, think)).map_or("", |(thought, _)| thought);
    if is_plain(inside) && is_plain(thought) { Ok(()) } else { Err("tags inside its thought or its action".into()) }
}

/// What stands in a block at the beginning of a text, and what is behind it.
fn block<'a>(text: &'a str, tags: &Tags) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(&*tags.open)?.split_once(&*tags.close)
}
