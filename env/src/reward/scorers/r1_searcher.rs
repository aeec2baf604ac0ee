//! R1-Searcher: F1 or a cover match, less a penalty or plus something for the form.

use serde::{Deserialize, Serialize};

use super::r1_searcher_evaluation::{f1, has_all_words};
use crate::reward::python::is_common_chinese;
use crate::reward::scene::Scene;
use crate::reward::scorer::Verdict;
use crate::text::{strip, words};

/// R1-Searcher's rewards (`train/reward_server_*.py`). Of a text, what counts stands behind the last marker of an assistant
/// message that begins to think.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct R1Searcher {
    /// Which of its rewards.
    pub variant: R1SearcherVariant,
}

/// R1-Searcher's rewards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum R1SearcherVariant {
    /// F1, less 2 for a bad form; from -2 to 1.
    #[default]
    QwenZero,
    /// 1 for a cover match and -1 without, half a point for searches, half for tags; from -1 to 2.
    LlamaStage1,
    /// F1, less 1 for a bad form; from -1 to 1.
    LlamaStage2,
}

const DOCUMENTS: [&str; 2] = ["<|begin_of_documents|>", "<|end_of_documents|>"];
/// What an observation is on a trajectory, whatever it holds.
const BLOCK: &str = "<|begin_of_documents|>\n(1)<|end_of_documents|>\n\n";

impl R1SearcherVariant {
    /// What stands before the response, and the token at its end.
    fn frame(self) -> (&'static str, &'static str) {
        match self {
            Self::QwenZero => ("\nAssistant: <think>", "<|endoftext|>"),
            _ => ("<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<think>", "<|eot_id|>"),
        }
    }
}

impl R1Searcher {
    pub(in crate::reward) fn score(&self, scene: &Scene<'_>) -> Verdict {
        let solution = self.solution(scene);
        // On a trajectory the answer stands in one message.
        let last = scene.texts().rfind(|text| text.contains("<answer>"));
        let from = if scene.is_by_author { last.unwrap_or_default() } else { &solution };
        let answer = from.rsplit_once("<answer>").map_or(from, |(_, after)| after);
        let answer = strip(answer.split_once("</answer>").map_or(answer, |(inside, _)| inside));
        let is_closed = |text: &str| text.rsplit_once("<answer>").is_some_and(|(_, after)| after.contains("</answer>"));
        let is_answered = solution.contains("<answer>")
            && solution.contains("</answer>")
            && (!scene.is_by_author || last.is_some_and(is_closed));
        let score = scene.best(|gold| if is_answered { f1(answer, gold).f1 } else { 0.0 });
        let is_good = |ok: bool, penalty: f64| if ok && !scene.is_forged(&DOCUMENTS) { 0.0 } else { penalty };
        let searches = searches(&solution);
        let value = match self.variant {
            R1SearcherVariant::QwenZero => {
                let counts = [("<think>", 0), ("</think>", 1), ("<answer>", 1), ("</answer>", 1)];
                let ok = searches.is_some()
                    && has_counts(&solution, &counts)
                    && !["Assistant", "assistant"].iter().any(|word| solution.contains(word))
                    && !["begin_of_query", "begin_of_documents"].iter().any(|tag| answer.contains(tag))
                    && words(answer).count() <= 10
                    && !without_documents(&solution).contains(is_common_chinese);
                score + is_good(ok, -2.0)
            }
            R1SearcherVariant::LlamaStage2 => {
                let ok = searches.is_some()
                    && is_tagged(&solution)
                    && !without_documents(&solution).contains(is_common_chinese);
                score + is_good(ok, -1.0)
            }
            R1SearcherVariant::LlamaStage1 => {
                let is_right = is_answered && scene.golds.iter().any(|gold| has_all_words(answer, gold));
                let half = |ok: bool| if ok && !scene.is_forged(&DOCUMENTS) { 0.5 } else { 0.0 };
                let found = if is_right { 1.0 } else { -1.0 };
                found + half(searches.is_some_and(|count| count > 0)) + half(is_tagged(&solution))
            }
        };
        Verdict::of(value, Some(answer.to_owned()))
    }

    /// What the policy wrote after its first `<think>`.
    fn solution(&self, scene: &Scene<'_>) -> String {
        let response = scene.joined(BLOCK);
        if scene.record.is_some() {
            return strip(&response).to_owned();
        }
        let (marker, end) = self.variant.frame();
        let whole = format!("{}{response}", scene.prompt);
        let whole = whole.trim_start_matches(end);
        // As `$` does it: a line end behind the tokens stays.
        let (whole, newline) = match whole.strip_suffix('\n') {
            Some(line) if line.ends_with(end) => (line, "\n"),
            _ => (whole, ""),
        };
        let whole = format!("{}{newline}{end}", whole.trim_end_matches(end));
        strip(whole.rsplit_once(marker).map_or(&*whole, |(_, after)| after)).to_owned()
    }
}

/// How many searches there are; nothing where their tags and those of the documents do not agree.
fn searches(solution: &str) -> Option<usize> {
    const MARKS: [&str; 7] = [
        "<|begin_of_documents|>\n",
        "<|end_of_documents|>\n\n",
        "<|begin_of_query|>",
        "<|end_of_query|>",
        "<|begin_of_documents|>",
        "<|end_of_documents|>",
        "<|begin_of_documents|>\n(1)",
    ];
    let count = solution.matches(MARKS[0]).count();
    has_counts(solution, &MARKS.map(|mark| (mark, count))).then_some(count)
}

fn has_counts(solution: &str, counts: &[(&str, usize)]) -> bool {
    counts.iter().all(|&(tag, count)| solution.matches(tag).count() == count)
}

fn is_tagged(solution: &str) -> bool {
    has_counts(solution, &[("<think>", 0), ("</think>", 1), ("<answer>", 1), ("</answer>", 1)])
}

fn without_documents(solution: &str) -> String {
    let [open, close] = DOCUMENTS;
    let mut kept = String::with_capacity(solution.len());
    let mut rest = solution;
    while let Some((before, after)) = rest.split_once(open)
        && let Some((_, behind)) = after.split_once(close)
    {
        kept.push_str(before);
        rest = behind;
    }
    kept + rest
}
