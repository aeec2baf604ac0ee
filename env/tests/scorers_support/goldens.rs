//! Which value of which golden file is compared with which scorer.

/// A golden file, and with which scorer each of its values is compared.
pub struct Golden {
    pub file: &'static str,
    /// A key of `expected`, the scorer, and what of its verdict.
    pub checks: &'static [(&'static str, &'static str, Field)],
    /// Keys of `expected` that are not compared, and why.
    pub skipped: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq)]
pub enum Field {
    Value,
    Answer,
    Reason,
}
pub use Field::{Answer, Reason, Value as Number};

pub const SAID_BY_REASON: &str = "the reason says it";
pub const LOGGED: &str = "logged there, never a reward";

pub const GOLDENS: &[Golden] = &[
    Golden {
        file: "search-r1-em",
        checks: &[
            ("score", r#"{"scorer": "em"}"#, Number),
            ("score_with_format_score", r#"{"scorer": "em", "wrong": 0.1}"#, Number),
            ("answer", r#"{"scorer": "em"}"#, Answer),
        ],
        skipped: &[],
    },
    Golden {
        file: "search-r1-sub-em",
        checks: &[
            ("score", r#"{"scorer": "sub-em"}"#, Number),
            ("score_with_format_score", r#"{"scorer": "sub-em", "wrong": 0.1}"#, Number),
            ("answer", r#"{"scorer": "sub-em"}"#, Answer),
        ],
        skipped: &[],
    },
    Golden {
        file: "search-r1-v0.3-format",
        checks: &[
            ("score", r#"{"scorer": "search-r1-format", "structure": 0.2, "final": 0.1}"#, Number),
            ("score_with_retrieval", r#"{"scorer": "search-r1-format", "retrieval": 0.1}"#, Number),
            ("score_all_zero", r#"{"scorer": "search-r1-format", "structure": 0, "final": 0}"#, Number),
            ("answer", r#"{"scorer": "search-r1-format"}"#, Answer),
            ("reason", r#"{"scorer": "search-r1-format"}"#, Reason),
        ],
        skipped: &[
            ("valid", SAID_BY_REASON),
            ("retrieved", "asked only where the form is good: `score_with_retrieval`"),
        ],
    },
    Golden {
        file: "verl-search-r1-like-qa-em",
        checks: &[
            ("score", r#"{"scorer": "verl"}"#, Number),
            ("score_with_format_score", r#"{"scorer": "verl", "wrong": 0.1}"#, Number),
            ("sub_em", r#"{"scorer": "sub-em"}"#, Number),
            ("answer", r#"{"scorer": "verl"}"#, Answer),
        ],
        skipped: &[("opening_tags", "the score depends on them"), ("closing_tags", "the score depends on them")],
    },
    Golden {
        file: "verl-tool",
        checks: &[("score", r#"{"scorer": "verl-tool"}"#, Number), ("answer", r#"{"scorer": "verl-tool"}"#, Answer)],
        skipped: &[],
    },
    Golden {
        file: "skyrl-gym-search",
        checks: &[
            ("score", r#"{"scorer": "skyrl"}"#, Number),
            ("sub_em", r#"{"scorer": "sub-em"}"#, Number),
            ("answer", r#"{"scorer": "skyrl"}"#, Answer),
        ],
        skipped: &[("steps", "an episode's, not a scorer's"), ("queries", "an episode's, not a scorer's")],
    },
    Golden {
        file: "slime",
        checks: &[("score", r#"{"scorer": "slime"}"#, Number), ("answer", r#"{"scorer": "slime"}"#, Answer)],
        skipped: &[("valid", LOGGED)],
    },
    Golden {
        file: "asearcher",
        checks: &[
            ("score", r#"{"scorer": "asearcher", "format": false}"#, Number),
            ("score_em", r#"{"scorer": "asearcher", "format": false, "measure": "em"}"#, Number),
            ("em", r#"{"scorer": "asearcher", "format": false, "measure": "em", "augmented": []}"#, Number),
            ("f1", r#"{"scorer": "asearcher", "format": false, "augmented": []}"#, Number),
            ("cover_em", r#"{"scorer": "asearcher", "format": false, "measure": "cover-em", "augmented": []}"#, Number),
            ("answer", r#"{"scorer": "asearcher"}"#, Answer),
        ],
        skipped: &[("format", "a factor: see `a_bad_form_takes_everything_in_asearcher`")],
    },
    Golden {
        file: "autorefine",
        checks: &[
            ("score", r#"{"scorer": "autorefine"}"#, Number),
            ("score_em", r#"{"scorer": "autorefine", "measure": "em"}"#, Number),
            ("score_cover_em", r#"{"scorer": "autorefine", "measure": "sub-em"}"#, Number),
            ("score_with_format", r#"{"scorer": "autorefine", "format": 0.2}"#, Number),
            ("answer", r#"{"scorer": "autorefine"}"#, Answer),
        ],
        skipped: &[
            ("format_valid", "`score_with_format` depends on it"),
            ("refine_hit", "every score depends on it"),
            ("information_hit", LOGGED),
            ("reciprocal_rank", LOGGED),
        ],
    },
    Golden {
        file: "zerosearch",
        checks: &[
            ("score", r#"{"scorer": "zerosearch"}"#, Number),
            ("cover_em", r#"{"scorer": "zerosearch", "measure": "sub-em"}"#, Number),
            ("answer", r#"{"scorer": "zerosearch"}"#, Answer),
        ],
        skipped: &[],
    },
    Golden {
        file: "research",
        checks: &[("score", r#"{"scorer": "research"}"#, Number), ("reason", r#"{"scorer": "research"}"#, Reason)],
        skipped: &[],
    },
    Golden {
        file: "recall",
        checks: &[("score", r#"{"scorer": "re-call"}"#, Number), ("reason", r#"{"scorer": "re-call"}"#, Reason)],
        skipped: &[],
    },
    Golden {
        file: "r1-searcher-qwen-zero",
        checks: &[
            ("score", r#"{"scorer": "r1-searcher", "variant": "qwen-zero"}"#, Number),
            ("answer", r#"{"scorer": "r1-searcher", "variant": "qwen-zero"}"#, Answer),
        ],
        skipped: &[],
    },
    Golden {
        file: "r1-searcher-llama-stage1",
        checks: &[
            ("score", r#"{"scorer": "r1-searcher", "variant": "llama-stage1"}"#, Number),
            ("answer", r#"{"scorer": "r1-searcher", "variant": "llama-stage1"}"#, Answer),
        ],
        skipped: &[],
    },
    Golden {
        file: "r1-searcher-llama-stage2",
        checks: &[
            ("score", r#"{"scorer": "r1-searcher", "variant": "llama-stage2"}"#, Number),
            ("answer", r#"{"scorer": "r1-searcher", "variant": "llama-stage2"}"#, Answer),
        ],
        skipped: &[],
    },
    Golden {
        file: "r1-searcher-metrics",
        checks: &[
            ("em", r#"{"scorer": "r1-searcher-evaluation", "measure": "em"}"#, Number),
            ("cover_em_1", r#"{"scorer": "r1-searcher-evaluation"}"#, Number),
            ("cover_em_2", r#"{"scorer": "r1-searcher-evaluation", "measure": "cover-phrase"}"#, Number),
            ("f1", r#"{"scorer": "r1-searcher-evaluation", "measure": "f1"}"#, Number),
            ("precision", r#"{"scorer": "r1-searcher-evaluation", "measure": "precision"}"#, Number),
            ("recall", r#"{"scorer": "r1-searcher-evaluation", "measure": "recall"}"#, Number),
        ],
        skipped: &[("normalized", "in normalisation.json, too")],
    },
    Golden {
        file: "f1-hotpotqa-style",
        checks: &[
            ("f1", r#"{"scorer": "f1"}"#, Number),
            ("precision", r#"{"scorer": "precision"}"#, Number),
            ("recall", r#"{"scorer": "recall"}"#, Number),
            ("em", r#"{"scorer": "em"}"#, Number),
            ("sub_em", r#"{"scorer": "sub-em"}"#, Number),
        ],
        skipped: &[("normalized", "in normalisation.json, too")],
    },
    Golden {
        file: "search-o1",
        checks: &[
            ("em", r#"{"scorer": "search-o1", "measure": "em"}"#, Number),
            ("acc", r#"{"scorer": "search-o1", "measure": "sub-em"}"#, Number),
            ("f1", r#"{"scorer": "search-o1"}"#, Number),
            ("answer", r#"{"scorer": "search-o1"}"#, Answer),
        ],
        skipped: &[("is_valid_answer", "whether the answer is not empty")],
    },
    Golden {
        file: "rllm-search",
        checks: &[
            ("score", r#"{"scorer": "rllm"}"#, Number),
            ("f1", r#"{"scorer": "rllm", "threshold": 0}"#, Number),
            ("answer", r#"{"scorer": "rllm"}"#, Answer),
        ],
        skipped: &[
            ("correct", "whether the score is above 0"),
            ("em", "whether the score is 1"),
            ("precision", LOGGED),
            ("recall", LOGGED),
        ],
    },
    Golden {
        file: "tinker",
        checks: &[
            ("score", r#"{"scorer": "tinker"}"#, Number),
            ("correct", r#"{"scorer": "tinker", "format": 0}"#, Number),
        ],
        skipped: &[("format", "the score depends on it")],
    },
    Golden {
        file: "nemo-gym-google-search",
        checks: &[("score", r#"{"scorer": "nemo-gym"}"#, Number), ("parsed", r#"{"scorer": "nemo-gym"}"#, Answer)],
        skipped: &[],
    },
];
