//! What the published pages of well-known embedding models say where their folders are silent.

use super::card::Pooling;

/// The habits of a family of models.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    pub pooling: Pooling,
    pub query_prefix: &'static str,
    pub passage_prefix: &'static str,
    pub max_length: usize,
}

const fn family(pooling: Pooling, prefixes: (&'static str, &'static str), max_length: usize) -> Family {
    Family { pooling, query_prefix: prefixes.0, passage_prefix: prefixes.1, max_length }
}

const NONE: (&str, &str) = ("", "");
const E5: (&str, &str) = ("query: ", "passage: ");
const E5_INSTRUCT: (&str, &str) =
    ("Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ", "");
const BGE_EN: (&str, &str) = ("Represent this sentence for searching relevant passages: ", "");
const BGE_ZH: (&str, &str) = ("为这个句子生成表示以用于检索相关文章：", "");

/// Beginning of the name, a part that must follow, and what it means; the first match counts.
const FAMILIES: [(&str, &str, Family); 15] = [
    ("multilingual-e5-", "instruct", family(Pooling::Mean, E5_INSTRUCT, 512)),
    ("multilingual-e5-", "", family(Pooling::Mean, E5, 512)),
    ("e5-small", "", family(Pooling::Mean, E5, 512)),
    ("e5-base", "", family(Pooling::Mean, E5, 512)),
    ("e5-large", "", family(Pooling::Mean, E5, 512)),
    ("all-minilm-l12", "", family(Pooling::Mean, NONE, 128)),
    ("all-minilm", "", family(Pooling::Mean, NONE, 256)),
    ("bge-m3", "", family(Pooling::Cls, NONE, 8192)),
    ("bge-", "-en", family(Pooling::Cls, BGE_EN, 512)),
    ("bge-", "-zh", family(Pooling::Cls, BGE_ZH, 512)),
    ("gte-", "-en-v1.5", family(Pooling::Cls, NONE, 8192)),
    ("gte-multilingual", "", family(Pooling::Cls, NONE, 8192)),
    ("gte-small", "", family(Pooling::Mean, NONE, 512)),
    ("gte-base", "", family(Pooling::Mean, NONE, 512)),
    ("gte-large", "", family(Pooling::Mean, NONE, 512)),
];

/// The family of a hub id (`intfloat/e5-base-v2`) or folder name (`e5-base-v2`).
pub(super) fn find(id: &str) -> Option<&'static Family> {
    let name = id.rsplit('/').next().unwrap_or(id).to_lowercase();
    let matches =
        |(start, part, _): &&(&str, &str, Family)| name.strip_prefix(start).is_some_and(|rest| rest.contains(part));
    FAMILIES.iter().find(matches).map(|(_, _, family)| family)
}
