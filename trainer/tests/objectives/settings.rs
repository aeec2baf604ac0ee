//! Settings: presets, defaults, and what is refused.
#![allow(clippy::unwrap_used)]

use hindsearch_trainer::{Error, OBJECTIVE_PRESETS, Objectives, Scope, Single, Tokens};

use crate::support::{Batch, GOLDEN, run, tensor, totals};

#[test]
fn presets_are_what_the_golden_script_says_independently() {
    for name in OBJECTIVE_PRESETS {
        let mut cases = GOLDEN.cases.iter().filter(|case| case.preset.as_deref() == Some(name)).peekable();
        assert!(cases.peek().is_some(), "`{name}` has no golden case");
        for case in cases {
            assert_eq!(Objectives::named(name).unwrap(), case.settings, "{name}");
        }
    }
    let error = Objectives::named("grpo").unwrap_err().to_string();
    assert!(error.contains("`grpo`") && OBJECTIVE_PRESETS.iter().all(|name| error.contains(name)), "{error}");
}

#[test]
fn defaults_are_search_r1_over_the_whole_batch() {
    let mut expected = Objectives::named("search-r1").unwrap();
    (expected.scope, expected.advantage.single) = (Scope::Global, Single::Zero);
    assert_eq!(Objectives::default(), expected);
    assert_eq!(Objectives::parse("", "nothing").unwrap(), expected);
    assert_eq!(Objectives::parse("[kl]\nestimator = \"k3\"", "a part").unwrap(), expected);
}

#[test]
fn settings_survive_being_written_down() {
    for name in OBJECTIVE_PRESETS {
        let objectives = Objectives::named(name).unwrap();
        let json = serde_json::to_string(&objectives).unwrap();
        assert_eq!(serde_json::from_str::<Objectives>(&json).unwrap(), objectives);
        assert_eq!(Objectives::parse(&toml::to_string(&objectives).unwrap(), "again").unwrap(), objectives);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    for (text, named) in [
        ("kl_coef = 1", "kl_coef"),
        ("[policy-gradient]\nclip = 0.2", "clip"),
        ("[policy-gradient]\nclip_low = 1.5", "policy-gradient.clip_low"),
        ("[policy-gradient]\nclip_low = nan", "policy-gradient.clip_low"),
        ("[policy-gradient]\nclip_high = -0.1", "policy-gradient.clip_high"),
        ("[policy-gradient]\ndual_clip = 1.0", "policy-gradient.dual_clip"),
        ("[policy-gradient]\nlog_ratio_limit = 0.0", "policy-gradient.log_ratio_limit"),
        ("[kl]\nlimit = 0.0", "kl.limit"),
        ("[kl]\nweight = inf", "kl.weight"),
        ("[kl]\nestimator = \"k4\"", "k4"),
        ("[entropy]\nweight = nan", "entropy.weight"),
        ("aggregation = { fixed-length = 0.0 }", "fixed-length"),
        ("aggregation = \"mean\"", "mean"),
        ("[advantage]\nstd = \"robust\"", "robust"),
    ] {
        let error = Objectives::parse(text, "`run.toml`").unwrap_err();
        assert!(matches!(error, Error::InvalidInput { .. }) && error.to_string().contains(named), "{text}: {error}");
    }
}

/// The error of a batch whose tokens were tampered with.
fn refusal(tamper: impl FnOnce(&mut Tokens)) -> String {
    let batch = Batch::row(&[-1.0, -2.0], 1.0);
    let mut tokens = batch.tokens().0;
    tamper(&mut tokens);
    let error = Objectives::default().loss(&tokens, &totals(&[batch])).unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    error.to_string()
}

#[test]
fn tokens_that_do_not_fit_together_are_refused_by_name() {
    assert!(refusal(|tokens| tokens.old = tensor(&[-1.0])).contains("old"));
    assert!(refusal(|tokens| tokens.advantages = tensor(&[1.0; 3])).contains("advantages"));
    assert!(refusal(|tokens| tokens.policy_mask = tokens.policy_mask.unsqueeze(0).unwrap()).contains("policy_mask"));
    assert!(refusal(|tokens| tokens.rows[0].end = 1).contains("rows"));
    assert!(refusal(|tokens| tokens.rows = vec![0..1, 0..2]).contains("row 1"));
    assert!(refusal(|tokens| tokens.reference = None).contains("reference"));
    assert!(refusal(|tokens| tokens.entropy = None).contains("entrop"));
}

#[test]
fn totals_without_the_micro_batch_are_refused() {
    let (tokens, _, _) = Batch::row(&[-1.0, -2.0], 1.0).tokens();
    for totals in [totals(&[]), totals(&[Batch::row(&[-1.0], 1.0)])] {
        assert!(Objectives::default().loss(&tokens, &totals).unwrap_err().to_string().contains("totals"));
    }
}

#[test]
fn what_no_term_uses_need_not_be_there() {
    let batch = Batch::row(&[-1.0, -2.0], 1.0);
    let (mut tokens, _, _) = batch.tokens();
    (tokens.reference, tokens.entropy) = (None, None);
    let objectives = Objectives::named("gspo").unwrap();
    assert!(!objectives.needs_reference() && !objectives.needs_entropy());
    let lean = objectives.loss(&tokens, &totals(std::slice::from_ref(&batch))).unwrap();
    assert_eq!(lean.loss.to_scalar::<f64>().unwrap(), run(&objectives, &[batch]).unwrap().loss);
}
