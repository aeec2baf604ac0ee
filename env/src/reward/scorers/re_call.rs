//! ReCall, which followed ReSearch: every message thinks, tool calls are JSON, and the last message boxes the answer.

use serde::{Deserialize, Serialize};

use super::boxed;
use crate::action::all_between;
use crate::preset::Tags;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;
use crate::text::strip;

/// ReCall's reward (`re_call.py`); it takes `NaN` in a tool call for JSON, which we do not. Of a text, what counts are the assistant messages of a chat, and it must end with the
/// end-of-text token; of a trajectory, the policy must have come to an end by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReCall {
    /// The end-of-text token.
    pub end: String,
    /// What a well-formed answer without a right word earns.
    pub format: f64,
}

impl Default for ReCall {
    fn default() -> Self {
        Self { end: "<|im_end|>".into(), format: 0.1 }
    }
}

impl ReCall {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let whole = format!("{}{}", scene.prompt, scene.joined(""));
        let (is_complete, messages): (bool, Vec<&str>) = if scene.record.is_some() {
            (scene.is_finished(), scene.texts().collect())
        } else {
            (whole.ends_with(&self.end), assistant_messages(&whole))
        };
        if !is_complete {
            return Verdict::because(0.0, "not end with eos token");
        }
        let fault = messages.iter().find_map(|message| fault(message));
        let Some(last) = messages.last() else { return Verdict::because(0.0, "bad format: no valid responses found") };
        match fault {
            Some(fault) => Verdict::because(0.0, format!("bad format: {fault}")),
            None if !last.contains("\\box") => {
                Verdict::because(0.0, "bad format: the last response is missing \\boxed")
            }
            None => boxed::score(last, scene.golds, self.format),
        }
    }
}

fn assistant_messages(text: &str) -> Vec<&str> {
    let tags = Tags { open: "<|im_start|>assistant\n".into(), close: "<|im_end|>".into() };
    all_between(text, &tags).into_iter().map(|inside| strip(&text[inside])).collect()
}

/// What is wrong with a message.
fn fault(message: &str) -> Option<String> {
    let count = |tag: &str| message.matches(tag).count();
    let (open, closed) = (count("<think>"), count("</think>"));
    if open != closed {
        return Some(format!("<think> and </think> are not paired: think={open}, think_end={closed}"));
    }
    if open == 0 {
        return Some("missing <think> tag".into());
    }
    let (open, closed) = (count("<tool_call>"), count("</tool_call>"));
    if open != closed {
        return Some(format!("<tool_call> and </tool_call> are not paired: tool_call={open}, tool_call_end={closed}"));
    }
    let tags = Tags { open: "<tool_call>".into(), close: "</tool_call>".into() };
    all_between(message, &tags).into_iter().find_map(|inside| {
        let call = strip(&message[inside]);
        if !call.contains("\"name\"") || !call.contains("\"arguments\"") {
            return Some("tool_call is missing name or arguments field".to_owned());
        }
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(call).is_ok();
        (!is_json).then(|| format!("tool_call is not a valid json: {call}"))
    })
}
