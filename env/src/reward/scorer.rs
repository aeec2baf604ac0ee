//! The scorers by name.

use serde::{Deserialize, Serialize};

use super::scene::{Part, Scene};
use super::scorers::{self, *};
use crate::preset::Tags;
use crate::{Error, Result};

/// A scorer with its options: `{ scorer = "em" }`, or `{ scorer = "search-r1-format", structure = 0.2, final = 0.1 }`.
///
/// Scorers named after a project compute what that project's code computes. Where that code raises an error, for lack of an
/// answer or of accepted ones, they give 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "scorer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scorer {
    /// 1 where the last answer equals an accepted one, both normalised (Search-R1, `qa_em.py`).
    Em(Match),
    /// 1 where an accepted answer is part of the last answer, both normalised (Search-R1, `qa_em.py`, `compute_score_subem`).
    SubEm(Match),
    /// As `sub-em`, for answers that are not much longer than the accepted one.
    CappedCover(CappedCover),
    /// F1 of words, as HotpotQA has it (FlashRAG, `metrics.py`).
    F1 {},
    /// Share of the answer's words that are accepted, as HotpotQA has it.
    Precision {},
    /// Share of the accepted words that the answer has, as HotpotQA has it.
    Recall {},
    /// 1 where every message thinks, then acts, and the last one answers.
    Format(Form),
    /// 1 where a passage that was shown holds, in title or text, an accepted answer that no query of its turn held. Looks at
    /// observations, and not at the numbers and ids around their passages (the `retrieval` of `search-r1-format` does, as published).
    Retrieval {},
    /// Search-R1 v0.3 (`qa_em_format.py`).
    #[serde(rename = "search-r1-format")]
    SearchR1Format(SearchR1Format),
    /// verl (`search_r1_like_qa_em.py`).
    Verl(Match),
    /// verl-tool (`search_r1_qa_em.py`).
    VerlTool(Match),
    /// SkyRL-gym's search environment (`envs/search/utils.py`): plain equality.
    Skyrl {},
    /// slime's example (`examples/search-r1`): plain equality, for the format score that it sets is never read. Two answers there
    /// must be, the prompt's included: `minimum_spans = 2`.
    Slime {},
    /// ZeroSearch (`qa_em.py`).
    Zerosearch(Zerosearch),
    /// AutoRefine (`qa_em.py`).
    Autorefine(Autorefine),
    /// ReSearch (`re_search.py`).
    Research(Research),
    /// ReCall, which followed ReSearch (`re_call.py`).
    ReCall(ReCall),
    /// R1-Searcher's rewards (`reward_server_*.py`).
    #[serde(rename = "r1-searcher")]
    R1Searcher(R1Searcher),
    /// R1-Searcher's evaluation (`metric_calc_rule.py`).
    #[serde(rename = "r1-searcher-evaluation")]
    R1SearcherEvaluation(R1SearcherEvaluation),
    /// ASearcher (`search_tool.py`, `rewards.py`).
    Asearcher(Asearcher),
    /// Search-o1's evaluation (`evaluate.py`).
    #[serde(rename = "search-o1")]
    SearchO1(SearchO1),
    /// rLLM (`search_reward.py`).
    Rllm(Rllm),
    /// Tinker's search recipe (`tools.py`).
    Tinker(Tinker),
    /// NeMo Gym's `google_search` (`app.py`).
    NemoGym(NemoGym),
}

/// What a scorer says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The value.
    pub value: f64,
    /// The answer that was looked at; nothing where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why, from scorers that look at the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A response to be scored as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// What stood before it. Scorers whose references look at the prompt do so.
    pub prompt: &'a str,
    /// The messages of the policy, or one text with everything, observations and all.
    pub messages: &'a [String],
    /// Answers that there must be for the last one to count: 1, or 2 where a reference counts on one in the prompt.
    pub minimum_spans: usize,
}

/// Scores a response, whoever produced it, as the scorer's reference does.
///
/// # Errors
/// [`Error::InvalidInput`] for the scorers that need a trajectory, since a text does not say who wrote what.
pub fn reference_score(scorer: &Scorer, response: &Response<'_>, golds: &[String]) -> Result<Verdict> {
    if matches!(scorer, Scorer::Format(_) | Scorer::Retrieval {}) {
        return Err(Error::invalid(
            format!("scorer `{}`", scorer.name()),
            "a trajectory, for it goes by who wrote what",
            "a text; a recipe's own scorer, such as `search-r1-format`, reads the form of a text",
        ));
    }
    Ok(scorer.verdict(&Scene {
        prompt: response.prompt.into(),
        looks_at_prompt: true,
        parts: response.messages.iter().map(|message| Part::Text(message.into())).collect(),
        answer: Some(Tags { open: "<answer>".into(), close: "</answer>".into() }),
        minimum_spans: response.minimum_spans,
        golds,
        is_by_author: false,
        record: None,
    }))
}

impl Scorer {
    /// The name, as presets have it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Em(_) => "em",
            Self::SubEm(_) => "sub-em",
            Self::CappedCover(_) => "capped-cover",
            Self::F1 {} => "f1",
            Self::Precision {} => "precision",
            Self::Recall {} => "recall",
            Self::Format(_) => "format",
            Self::Retrieval {} => "retrieval",
            Self::SearchR1Format(_) => "search-r1-format",
            Self::Verl(_) => "verl",
            Self::VerlTool(_) => "verl-tool",
            Self::Skyrl {} => "skyrl",
            Self::Slime {} => "slime",
            Self::Zerosearch(_) => "zerosearch",
            Self::Autorefine(_) => "autorefine",
            Self::Research(_) => "research",
            Self::ReCall(_) => "re-call",
            Self::R1Searcher(_) => "r1-searcher",
            Self::R1SearcherEvaluation(_) => "r1-searcher-evaluation",
            Self::Asearcher(_) => "asearcher",
            Self::SearchO1(_) => "search-o1",
            Self::Rllm(_) => "rllm",
            Self::Tinker(_) => "tinker",
            Self::NemoGym(_) => "nemo-gym",
        }
    }

    pub(super) fn verdict(&self, scene: &Scene<'_>) -> Verdict {
        match self {
            Self::Em(options) => options.score(Rule::Equal, scene.last_answer_with_prompt(), scene),
            Self::SubEm(options) => options.score(Rule::Part, scene.last_answer_with_prompt(), scene),
            Self::Slime {} => Match::default().score(Rule::Equal, scene.last_answer_with_prompt(), scene),
            Self::Skyrl {} => Match::default().score(Rule::Equal, scene.last_answer(), scene),
            Self::Verl(options) => scorers::verl(options, scene),
            Self::VerlTool(options) => scorers::verl_tool(options, scene),
            Self::CappedCover(options) => options.score(scene),
            Self::F1 {} => scorers::overlap(scene, |overlap| overlap.f1),
            Self::Precision {} => scorers::overlap(scene, |overlap| overlap.precision),
            Self::Recall {} => scorers::overlap(scene, |overlap| overlap.recall),
            Self::Format(options) => options.score(scene),
            Self::Retrieval {} => scorers::retrieval(scene),
            Self::SearchR1Format(options) => options.score(scene),
            Self::Zerosearch(options) => options.score(scene),
            Self::Autorefine(options) => options.score(scene),
            Self::Research(options) => options.score(scene),
            Self::ReCall(options) => options.score(scene),
            Self::R1Searcher(options) => options.score(scene),
            Self::R1SearcherEvaluation(options) => options.score(scene),
            Self::Asearcher(options) => options.score(scene),
            Self::SearchO1(options) => options.score(scene),
            Self::Rllm(options) => options.score(scene),
            Self::Tinker(options) => options.score(scene),
            Self::NemoGym(options) => options.score(scene),
        }
    }
}

impl Verdict {
    /// A value for an answer.
    pub(super) fn of(value: f64, answer: Option<String>) -> Self {
        Self { value, answer, reason: None }
    }

    /// A value for a reason.
    pub(super) fn because(value: f64, reason: impl Into<String>) -> Self {
        Self { value, answer: None, reason: Some(reason.into()) }
    }
}
