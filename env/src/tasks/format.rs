//! Which forms do task files have, how is a file's form found, and where in a row is what?

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::{Error, Result};

/// How tasks are written in a file. All but their usual container is the same in JSON lines and in Parquet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `id`, `question`, `golden_answers`, `metadata` (FlashRAG's data sets); JSON lines.
    FlashRag,
    /// `question`, `data_source`, `prompt`, `reward_model`, `extra_info` (Search-R1, verl, slime); Parquet.
    SearchR1,
    /// Search-R1's, with the answers once more in `extra_info.tools_kwargs` (verl's tool loop); Parquet.
    Verl,
    /// Search-R1's, with `reward_spec` and `env_class` (SkyRL); Parquet.
    SkyRl,
    /// `qid`, `question`, `answer`, `aug_answer`, `source` (ASearcher); JSON lines.
    ASearcher,
    /// `responses_create_params` and `expected_answer` (NeMo Gym); JSON lines.
    NemoGym,
    /// `_id`, `text` (BEIR's `queries.jsonl`). BEIR has no answers: they are taken from `metadata`; JSON lines.
    Beir,
    /// `question` and `target`, `answers`, `answer` or `ground_truth` (Tinker and others); JSON lines.
    Plain,
}

/// Where a format keeps question and answers, as JSON pointers; the first that is there counts.
pub(super) struct Places {
    pub question: &'static [&'static str],
    /// Messages, whose last by the user holds the question where it stands nowhere else.
    pub prompt: Option<&'static str>,
    pub answers: &'static [&'static str],
}

impl Format {
    /// All formats, each with its name.
    pub const NAMES: [(&str, Self); 8] = [
        ("flashrag", Self::FlashRag),
        ("search-r1", Self::SearchR1),
        ("verl", Self::Verl),
        ("skyrl", Self::SkyRl),
        ("asearcher", Self::ASearcher),
        ("nemo-gym", Self::NemoGym),
        ("beir", Self::Beir),
        ("plain", Self::Plain),
    ];

    /// The format of a row, from the names of its fields.
    pub(super) fn of(row: &Value) -> Option<Self> {
        let has = |place: &str| row.pointer(place).is_some_and(|value| !value.is_null());
        let signs: [(bool, Self); 8] = [
            (has("/responses_create_params"), Self::NemoGym),
            (has("/reward_spec"), Self::SkyRl),
            (has("/extra_info/tools_kwargs"), Self::Verl),
            (has("/reward_model") || has("/prompt"), Self::SearchR1),
            (has("/golden_answers") && has("/question"), Self::FlashRag),
            (has("/answer") && ["/aug_answer", "/qid", "/idx"].into_iter().any(has), Self::ASearcher),
            (has("/_id") && has("/text"), Self::Beir),
            (has("/question"), Self::Plain),
        ];
        signs.into_iter().find_map(|(sign, format)| sign.then_some(format))
    }

    pub(super) fn places(self) -> Places {
        let places = |question, prompt, answers| Places { question, prompt, answers };
        match self {
            Self::FlashRag => places(&["/question"], None, &["/golden_answers"]),
            Self::SearchR1 => places(
                &["/question", "/extra_info/question"],
                Some("/prompt"),
                &["/reward_model/ground_truth", "/golden_answers"],
            ),
            Self::Verl => places(
                &["/extra_info/question", "/extra_info/tools_kwargs/search/create_kwargs/question", "/question"],
                Some("/prompt"),
                &[
                    "/reward_model/ground_truth",
                    "/extra_info/tools_kwargs/search/create_kwargs/ground_truth",
                    "/golden_answers",
                ],
            ),
            Self::SkyRl => places(
                &["/extra_info/question", "/extra_info/tools_kwargs/search/create_kwargs/question", "/question"],
                Some("/prompt"),
                &[
                    "/reward_spec/ground_truth",
                    "/extra_info/tools_kwargs/search/create_kwargs/ground_truth",
                    "/golden_answers",
                ],
            ),
            Self::ASearcher => places(&["/question"], None, &["/answer"]),
            Self::NemoGym => places(
                &["/question", "/problem"],
                Some("/responses_create_params/input"),
                &["/expected_answers", "/expected_answer", "/answers", "/answer", "/ground_truth"],
            ),
            Self::Beir => places(
                &["/text"],
                None,
                &["/golden_answers", "/answers", "/metadata/golden_answers", "/metadata/answers", "/metadata/answer"],
            ),
            Self::Plain => {
                places(&["/question"], None, &["/target", "/answers", "/answer", "/golden_answers", "/ground_truth"])
            }
        }
    }

    /// Whether the format's own container is Parquet.
    pub(super) fn is_columnar(self) -> bool {
        matches!(self, Self::SearchR1 | Self::Verl | Self::SkyRl)
    }

    /// What verl's and SkyRL's scripts put before the name of a data set: verl finds its scorer by it.
    pub(super) fn source_prefix(self) -> &'static str {
        if matches!(self, Self::Verl | Self::SkyRl) { "searchR1_" } else { "" }
    }
}

pub(super) fn names() -> String {
    Format::NAMES.map(|(name, _)| format!("`{name}`")).join(", ")
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, format)| format == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| Error::invalid("format of tasks", names(), format!("`{}`", name.escape_debug())))
    }
}
