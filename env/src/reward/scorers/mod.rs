//! The scorers, one file for each: ours, and those of published recipes.

mod asearcher;
mod autorefine;
mod boxed;
mod capped_cover;
mod form;
mod matching;
mod nemo_gym;
mod r1_searcher;
mod r1_searcher_evaluation;
mod re_call;
mod research;
mod retrieval;
mod rllm;
mod search_o1;
mod search_r1_format;
mod tinker;
mod verl;
mod zerosearch;

pub use asearcher::{Asearcher, AsearcherMeasure};
pub use autorefine::{Autorefine, AutorefineMeasure};
pub use capped_cover::CappedCover;
pub use form::Form;
pub use matching::Match;
pub use nemo_gym::NemoGym;
pub use r1_searcher::{R1Searcher, R1SearcherVariant};
pub use r1_searcher_evaluation::{R1SearcherEvaluation, R1SearcherMeasure};
pub use re_call::ReCall;
pub use research::Research;
pub use retrieval::searches_that_found;
pub use rllm::Rllm;
pub use search_o1::{SearchO1, SearchO1Measure};
pub use search_r1_format::SearchR1Format;
pub use tinker::Tinker;
pub use zerosearch::{Zerosearch, ZerosearchMeasure};

pub(crate) use boxed::last_box_inside as last_box;
pub(super) use matching::Rule;
pub(super) use {matching::overlap, retrieval::retrieval, verl::verl, verl::verl_tool};
