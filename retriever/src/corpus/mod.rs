//! From files of passages to a store on disk: which formats are read, and where is the text of a row?
//!
//! | question | module |
//! |---|---|
//! | which formats are there, and how is a file's format found? | `format` |
//! | how are compressed bytes turned into lines, within limits? | `lines` |
//! | what makes a record a passage? | `fields`, `jsonl`, `tsv`, `columnar` with `ipc` and `pages` |
//! | how do several files become one stream of rows? | `reader` |
//! | where else may passages come from? | `source`, `copies` |
//! | what can be asked of a corpus on disk? | `store` |
//! | and of one in several shards, some of it deleted? | `whole` |
//! | where in the mapped file are the bytes of a row? | `passages`, `block` |
//! | which row has this id? | `ids` |
//! | how is a store written, and in which order does it become visible? | `writer`, `pending` |
//! | are two corpora the same? | `hash` |
//! | how does a corpus leave again? | `export` |

mod block;
mod columnar;
mod copies;
mod export;
mod fields;
mod format;
mod hash;
mod ids;
mod ipc;
mod jsonl;
mod lines;
mod pages;
mod passages;
mod pending;
mod reader;
mod source;
mod store;
mod tsv;
mod whole;
mod writer;

pub use copies::Copies;
pub use format::Format;
pub use passages::Scan;
pub use reader::CorpusReader;
pub use source::Source;
pub use store::{CorpusStore, CorpusSummary};
pub use whole::Corpus;
