//! Settings: off by default, as published, and what is refused.
#![allow(clippy::unwrap_used)]

use candle_core::{DType, Device, Tensor};
use hindsearch_trainer::{Error, Objectives, Side, Support, Teacher, TopTokens};

use super::support::{Taught, table, totals};
use crate::support::tensor;

const EVERYTHING: &str = r#"
[hindsight.distillation]
weight = 0.01
scope = "policy"
aggregation = "seq-mean-token-mean"
clamp = 2.0
detach = false

[hindsight.divergence]
weight = 0.001
scope = "query"
aggregation = "token-mean"
distance = "reverse-kl"
tail = "renormalise"
support = { k = 8, side = "union" }

[hindsight.surrogate]
weight = 0.02
clamp = 2.0
clip_low = 0.1
clip_high = 0.3
support = { k = 8, side = "union" }

[hindsight.modulation]
weight = 0.2
scope = "policy"
form = "ratio"
clip = 0.1
slope = 3.0
"#;

#[test]
fn hindsight_is_off_by_default_and_then_needs_no_teacher() {
    let objectives = Objectives::default();
    assert!(!objectives.needs_teacher());
    assert_eq!(objectives.hindsight.support(), None);
    let everything = Objectives::parse(EVERYTHING, "everything").unwrap();
    assert!(everything.needs_teacher());
    assert!(!Objectives { hindsight: everything.hindsight.scaled(0.0), ..everything }.needs_teacher());
}

#[test]
fn weights_alone_make_the_published_methods() {
    let hindsearch = Objectives::parse("[hindsight.distillation]\nweight = 0.01", "a text").unwrap();
    assert_eq!(hindsearch.hindsight.support(), None);
    assert_eq!((hindsearch.hindsight.distillation.clamp, hindsearch.hindsight.distillation.detach), (1.0, true));
    let sd_search = Objectives::parse("[hindsight.divergence]\nweight = 1e-3", "a text").unwrap();
    assert_eq!(sd_search.hindsight.support(), Some(Support { k: 50, side: Side::Teacher }));
    let openclaw = Objectives::parse("[hindsight.surrogate]\nweight = 0.01", "a text").unwrap();
    assert_eq!(openclaw.hindsight.support(), Some(Support { k: 4, side: Side::Student }));
}

#[test]
fn settings_survive_being_written_down() {
    let everything = Objectives::parse(EVERYTHING, "everything").unwrap();
    let json = serde_json::to_string(&everything).unwrap();
    assert_eq!(serde_json::from_str::<Objectives>(&json).unwrap(), everything);
    assert_eq!(Objectives::parse(&toml::to_string(&everything).unwrap(), "again").unwrap(), everything);
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    for (text, named) in [
        ("[hindsight]\nweight = 1.0", "weight"),
        ("[hindsight.distillation]\nlambda = 0.01", "lambda"),
        ("[hindsight.distillation]\nweight = nan", "hindsight.distillation.weight"),
        ("[hindsight.distillation]\nclamp = 0.0", "hindsight.distillation.clamp"),
        ("[hindsight.distillation]\nscope = \"answer\"", "answer"),
        ("[hindsight.distillation]\naggregation = { fixed-length = -1.0 }", "fixed-length"),
        ("[hindsight.divergence]\nweight = inf", "hindsight.divergence.weight"),
        ("[hindsight.divergence]\nsupport = { k = 0, side = \"teacher\" }", "hindsight.divergence.support.k"),
        ("[hindsight.divergence]\nsupport = { k = 5 }", "side"),
        ("[hindsight.divergence]\ndistance = \"kl\"", "kl"),
        ("[hindsight.surrogate]\nclamp = nan", "hindsight.surrogate.clamp"),
        ("[hindsight.surrogate]\nclip_low = 1.2", "hindsight.surrogate.clip_low"),
        ("[hindsight.surrogate]\nclip_high = -0.1", "hindsight.surrogate.clip_high"),
        ("[hindsight.surrogate]\nweight = nan", "hindsight.surrogate.weight"),
        ("[hindsight.modulation]\nweight = 1.5", "hindsight.modulation.weight"),
        ("[hindsight.modulation]\nclip = -0.5", "hindsight.modulation.clip"),
        ("[hindsight.modulation]\nslope = 0.0", "hindsight.modulation.slope"),
        ("[hindsight.divergence]\nweight = 1.0\n[hindsight.surrogate]\nweight = 1.0", "hindsight.surrogate.support"),
    ] {
        let error = Objectives::parse(text, "`run.toml`").unwrap_err();
        assert!(matches!(error, Error::InvalidInput { .. }) && error.to_string().contains(named), "{text}: {error}");
    }
}

/// The error of tokens whose teacher was tampered with.
fn refusal(tamper: impl FnOnce(&mut Option<Teacher>)) -> String {
    let mut objectives = Objectives::parse(EVERYTHING, "everything").unwrap();
    objectives.hindsight.divergence.support = Support { k: 2, side: Side::Teacher };
    objectives.hindsight.surrogate.support = objectives.hindsight.divergence.support;
    let lines = [vec![-1.0, -2.0], vec![-0.5, -3.0]];
    let batch = Taught::row(&lines, &lines);
    let mut tokens = batch.tokens().0;
    objectives.loss(&tokens, &totals(std::slice::from_ref(&batch))).unwrap();
    tamper(&mut tokens.teacher);
    let error = objectives.loss(&tokens, &totals(&[batch])).unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    error.to_string()
}

fn top_refusal(tamper: impl FnOnce(&mut TopTokens)) -> String {
    refusal(|teacher| tamper(teacher.as_mut().unwrap().top.as_mut().unwrap()))
}

#[test]
fn a_teacher_that_does_not_fit_is_refused_by_name() {
    assert!(refusal(|teacher| *teacher = None).contains("hindsight.modulation"));
    assert!(refusal(|teacher| teacher.as_mut().unwrap().top = None).contains("hindsight.divergence"));
    assert!(refusal(|teacher| teacher.as_mut().unwrap().logprobs = tensor(&[-1.0])).contains("teacher.logprobs"));
    assert!(refusal(|teacher| teacher.as_mut().unwrap().entropy = Some(tensor(&[1.0]))).contains("teacher.entropy"));
    assert!(refusal(|teacher| teacher.as_mut().unwrap().mask = tensor(&[1.0; 3])).contains("teacher.mask"));
    assert!(top_refusal(|top| top.old = None).contains("hindsight.surrogate"));
    assert!(top_refusal(|top| top.teacher = table(&[-1.0; 2], 1)).contains("teacher.top.teacher"));
    assert!(top_refusal(|top| top.student = tensor(&[-1.0; 4])).contains("teacher.top.student"));
    assert!(top_refusal(|top| top.ids = tensor(&[1.0, 2.0])).contains("teacher.top.ids"));
    let ids = |ids: &[u32], width: usize| Tensor::from_slice(ids, (2, width), &Device::Cpu).unwrap();
    assert!(top_refusal(|top| top.ids = ids(&[], 0)).contains("teacher.top.ids"));
    assert!(top_refusal(|top| top.ids = ids(&[1, 2, 7, 7], 2)).contains("7 twice at token 1"));
    assert!(top_refusal(|top| top.ids = top.ids.to_dtype(DType::I64).unwrap()).contains("u32"));
    let wide = table(&[-3.0; 6], 3);
    let wider = |top: &mut TopTokens| {
        let (student, old) = (wide.clone(), Some(wide.clone()));
        *top = TopTokens { ids: ids(&[1, 2, 3, 1, 2, 3], 3), teacher: wide.clone(), student, old };
    };
    assert!(top_refusal(wider).contains("at most 2"));
}

#[test]
fn logits_in_place_of_log_probabilities_are_refused() {
    assert!(top_refusal(|top| top.teacher = table(&[3.0, 1.0, -0.5, -2.0], 2)).contains("teacher.top.teacher"));
    assert!(top_refusal(|top| top.student = table(&[-1.0, -2.0, -0.1, -0.2], 2)).contains("teacher.top.student"));
}

#[test]
fn totals_that_were_not_told_of_the_teacher_are_refused() {
    let batch = Taught::sampled(&[-1.0], &[-2.0]);
    let (tokens, mut objectives) = (batch.tokens().0, super::support::off());
    objectives.hindsight.distillation.weight = 1.0;
    let mut untold = totals(std::slice::from_ref(&batch));
    (untold.taught_query, untold.taught_policy) = Default::default();
    assert!(objectives.loss(&tokens, &untold).unwrap_err().to_string().contains("totals"));
}
