//! In which cases we differ from a reference on purpose, and why.

use serde_json::Value;

/// Cases in which we differ on purpose.
pub struct Difference {
    pub files: &'static [&'static str],
    pub cases: Cases,
    /// What our scorer gives then; nothing where that depends on the case.
    pub ours: Option<f64>,
    pub why: &'static str,
}

pub enum Cases {
    Named(&'static [&'static str]),
    /// Those whose name begins so, and in which the reference raises an error that says this.
    Raising(&'static str, &'static str),
}

/// Files whose references want `{"target": …}`.
pub const WANT_A_TARGET: &[&str] = &[
    "search-r1-em",
    "search-r1-sub-em",
    "search-r1-v0.3-format",
    "verl-search-r1-like-qa-em",
    "verl-tool",
    "skyrl-gym-search",
    "slime",
    "autorefine",
    "zerosearch",
];
/// Files whose references want a text or a list.
pub const WANT_A_LIST: &[&str] =
    &["research", "recall", "f1-hotpotqa-style", "search-o1", "tinker", "r1-searcher-metrics"];
pub const WANT_A_TEXT: &[&str] = &["r1-searcher-qwen-zero", "r1-searcher-llama-stage1", "r1-searcher-llama-stage2"];
pub const FLATTENED: &str = "raises for accepted answers in a form that is not its own; ours are flattened before";

pub const DIFFERENCES: &[Difference] = &[
    Difference { files: WANT_A_TARGET, cases: Cases::Raising("form/", "Error"), ours: None, why: FLATTENED },
    Difference { files: WANT_A_LIST, cases: Cases::Raising("form/", "Error"), ours: None, why: FLATTENED },
    Difference { files: WANT_A_TEXT, cases: Cases::Raising("form/", "Error"), ours: None, why: FLATTENED },
    Difference {
        files: &["nemo-gym-google-search"],
        cases: Cases::Raising("form/", "GoogleSearchVerifyRequest"),
        ours: None,
        why: FLATTENED,
    },
    Difference {
        files: &["research", "recall", "f1-hotpotqa-style", "search-o1", "rllm-search", "tinker", "asearcher"],
        cases: Cases::Named(&[
            "form/dict-list",
            "form/dict-string",
            "form/dict-list-of-integers",
            "form/dict-string-in-letters",
        ]),
        ours: Some(1.0),
        why: "takes the keys, or the Python text, of a dictionary for accepted answers",
    },
    Difference {
        files: &["asearcher"],
        cases: Cases::Named(&["form/dict-without-target"]),
        ours: Some(0.0),
        why: "takes the Python text of a dictionary for an accepted answer",
    },
    Difference {
        files: &["rllm-search"],
        cases: Cases::Named(&["form/dict-empty-list", "form/dict-list-with-null", "form/dict-without-target"]),
        ours: Some(0.0),
        why: "looks for an answer though the dictionary accepts none",
    },
    Difference {
        files: &["search-o1", "tinker"],
        cases: Cases::Named(&["form/string"]),
        ours: Some(1.0),
        why: "takes each letter of a text for an accepted answer",
    },
    Difference {
        files: &["asearcher", "zerosearch", "r1-searcher-metrics"],
        cases: Cases::Raising("answer/no-golds", "ValueError"),
        ours: Some(0.0),
        why: "raises without accepted answers",
    },
    Difference {
        files: &["asearcher"],
        cases: Cases::Raising("form/", "ValueError"),
        ours: Some(0.0),
        why: "raises without accepted answers",
    },
    Difference {
        files: &["zerosearch"],
        cases: Cases::Raising("", "'NoneType' object has no attribute 'lower'"),
        ours: Some(0.0),
        why: "raises without an answer",
    },
    Difference {
        files: &["nemo-gym-google-search"],
        cases: Cases::Raising("", "GoogleSearchVerifyResponse"),
        ours: Some(0.0),
        why: "its server answers with an error 500 where there is no box",
    },
    Difference {
        files: &["nemo-gym-google-search"],
        cases: Cases::Named(&["native/two-parts"]),
        ours: Some(0.0),
        why: "a message of ours has one part, and no box goes on from one to the next",
    },
    Difference {
        files: &["research"],
        cases: Cases::Raising("no-marker/", "IndexError"),
        ours: Some(0.0),
        why: "raises without a marker of an assistant message",
    },
    Difference {
        files: &["recall"],
        cases: Cases::Named(&["native/tool-call-nan"]),
        ours: Some(0.0),
        why: "NaN is no JSON",
    },
    Difference {
        files: &["verl-tool"],
        cases: Cases::Named(&[
            "answer/article-circled-letter",
            "answer/article-combining-mark",
            "answer/article-devanagari-sign",
            "answer/article-enclosing-mark",
            "answer/article-fraction",
            "answer/article-superscript",
            "answer/article-thai-vowel",
            "answer/article-undertie",
            "answer/article-variation-selector",
            "answer/article-zero-width-joiner",
            "answer/article-zero-width-non-joiner",
        ]),
        ours: None,
        why: "its regex engine has another idea of a word than Python's own, which all others go by",
    },
];

impl Difference {
    pub fn covers(&self, file: &str, case: &Value) -> bool {
        let name = case["name"].as_str().unwrap_or_default();
        self.files.contains(&file)
            && match self.cases {
                Cases::Named(names) => names.contains(&name),
                Cases::Raising(prefix, error) => {
                    name.starts_with(prefix)
                        && case["expected"]["error"].as_str().is_some_and(|said| said.contains(error))
                }
            }
    }
}
