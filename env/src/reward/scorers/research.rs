//! ReSearch: nothing for a bad form, F1 of the boxed answer for a good one, and a little for a good one that is wrong.

use serde::{Deserialize, Serialize};

use super::boxed;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;

/// ReSearch's reward (`re_search.py`). Of a text, what counts stands between the first two markers of an assistant message, and
/// it must end with the end-of-text token; of a trajectory, the policy must have come to an end by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Research {
    /// The end-of-text token.
    pub end: String,
    /// What a well-formed answer without a right word earns.
    pub format: f64,
}

impl Default for Research {
    fn default() -> Self {
        Self { end: "<|im_end|>".into(), format: 0.1 }
    }
}

impl Research {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let joined = scene.joined("<result></result>");
        let whole = format!("{}{joined}", scene.prompt);
        let response = if scene.record.is_some() { Some(&*joined) } else { between_markers(&whole) };
        let Some(response) = response else {
            return Verdict::because(0.0, "bad format: no marker of an assistant message");
        };
        let answer = match well_formed_answer(response) {
            Ok(answer) => answer,
            Err(fault) => return Verdict::because(0.0, format!("bad format: {fault}")),
        };
        let is_complete = if scene.record.is_some() { scene.is_finished() } else { response.ends_with(&self.end) };
        if !is_complete {
            return Verdict::because(0.0, "over length");
        }
        let is_whole = |text: &str| text.contains("<answer>") && text.contains("</answer>");
        if scene.is_by_author && !scene.texts().any(is_whole) {
            return Verdict::because(0.0, "bad format: the answer goes on from one message to another");
        }
        if scene.is_forged(&["<result>", "</result>"]) {
            return Verdict::because(0.0, "bad format: a result that the policy wrote");
        }
        boxed::score(answer, scene.golds, self.format)
    }
}

/// What stands between the first two markers of an assistant message.
fn between_markers(text: &str) -> Option<&str> {
    const CHAT: &str = "<|im_start|>assistant\n";
    text.split(if text.contains(CHAT) { CHAT } else { "Assistant:" }).nth(1)
}

/// The answer of a response in the form that is asked for, tags included.
fn well_formed_answer(response: &str) -> Result<&str, &'static str> {
    let count = |tag: &str| response.matches(tag).count();
    let thoughts = count("<think>");
    if thoughts != count("</think>") {
        return Err("<think> </think> not paired");
    }
    if thoughts == 0 {
        return Err("<think> or </think> not found");
    }
    if count("<answer>") != 1 || count("</answer>") != 1 {
        return Err("<answer> or </answer> not found");
    }
    check_searches(response)?;
    let (start, end) = (response.find("<answer>"), response.find("</answer>"));
    let answer = match (start, end) {
        (Some(start), Some(end)) if start < end => &response[start + "<answer>".len()..end],
        _ => return Err("<answer> must be before </answer>"),
    };
    if !answer.contains("\\boxed{") || !answer.contains('}') {
        return Err("answer is missing \\boxed{} format");
    }
    Ok(answer)
}

/// Whether a result follows each search. Searches inside a result do not count.
fn check_searches(response: &str) -> Result<(), &'static str> {
    let find = |what: &str, from: usize| response[from..].find(what).map(|at| from + at);
    let mut from = 0;
    while let Some(search) = find("<search>", from) {
        let result = find("<result>", search);
        let ends = (find("</search>", search), result.and_then(|result| find("</result>", result)));
        let (Some(result), (Some(search_end), Some(result_end))) = (result, ends) else {
            return Err("search/result tags are incomplete");
        };
        if search_end > result {
            return Err("search/result tags are nested in the wrong order");
        }
        from = result_end;
    }
    Ok(())
}
