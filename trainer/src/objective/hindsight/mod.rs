//! How is a failure learned from in hindsight? A teacher that knows more reads what the policy wrote, and what it thinks of it
//! becomes part of the loss.
//!
//! Published methods are settings of one frame: what the teacher sees, whose weights it has, what is compared (sampled tokens,
//! or distributions), at which tokens, and how the comparison enters the loss. Here are the last three, as pure functions of
//! what the teacher said. No gradient reaches the teacher.
//!
//! | setting | compares | enters as | published |
//! |---|---|---|---|
//! | `distillation` | sampled tokens | a clamped weight on their log-probabilities | HindSearch, arXiv 2608.01597 |
//! | `divergence` | distributions | a divergence | SD-Search, arXiv 2605.18299 |
//! | `surrogate` | a few tokens | a clipped surrogate | OpenClaw-RL, arXiv 2603.10165 |
//! | `modulation` | sampled tokens | a bounded change of advantages | RLSD (in SDAR, arXiv 2605.15155); EviSD, arXiv 2608.01359 |

mod distillation;
mod divergence;
mod modulation;
mod scope;
mod surrogate;
mod teacher;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::metrics::{Metric, Metrics};
use super::tokens::{TokenCount, Tokens, host};
use crate::{Error, Result};
use scope::Taught;

pub use distillation::Distillation;
pub use divergence::{Distance, Divergence, Tail};
pub use modulation::{Modulation, ModulationForm};
pub use scope::TokenScope;
pub use surrogate::Surrogate;
pub use teacher::{NO_TOKEN, Side, Support, Teacher, TopTokens};

/// What is made of a teacher's words. All weights are 0 by default; other values are those of the papers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hindsight {
    /// Sampled tokens that the teacher finds likelier are made likelier.
    pub distillation: Distillation,
    /// The policy's distributions are drawn to the teacher's.
    pub divergence: Divergence,
    /// The likeliest tokens are moved towards the teacher, within a clip.
    pub surrogate: Surrogate,
    /// Advantages of tokens grow or shrink as the teacher agrees.
    pub modulation: Modulation,
}

impl Hindsight {
    /// Whether anything here is on.
    pub fn needs_teacher(&self) -> bool {
        let Self { distillation, divergence, surrogate, modulation } = self;
        [distillation.weight, divergence.weight, surrogate.weight, modulation.weight]
            .iter()
            .any(|weight| *weight != 0.0)
    }

    /// At which tokens of the text the terms that are on compare.
    pub fn scopes(&self) -> impl Iterator<Item = TokenScope> {
        let Self { distillation, divergence, surrogate, modulation } = self;
        let all = [
            (distillation.weight, distillation.scope),
            (divergence.weight, divergence.scope),
            (surrogate.weight, surrogate.scope),
            (modulation.weight, modulation.scope),
        ];
        all.into_iter().filter(|(weight, _)| *weight != 0.0).map(|(_, scope)| scope)
    }

    /// At which tokens [`TopTokens`] are needed; none where the sampled ones suffice.
    pub fn support(&self) -> Option<Support> {
        let Self { divergence, surrogate, .. } = self;
        let of_surrogate = (surrogate.weight != 0.0).then_some(surrogate.support);
        (divergence.weight != 0.0).then_some(divergence.support).or(of_surrogate)
    }

    /// With all weights multiplied by what a schedule says of a step: 0 asks for no teacher.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        let Self { distillation, divergence, surrogate, modulation } = &mut self;
        for weight in [&mut distillation.weight, &mut divergence.weight, &mut surrogate.weight, &mut modulation.weight]
        {
            *weight *= factor;
        }
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        let Self { distillation, divergence, surrogate, modulation } = self;
        distillation.check()?;
        divergence.check()?;
        surrogate.check()?;
        modulation.check()?;
        if divergence.weight != 0.0 && surrogate.weight != 0.0 && divergence.support != surrogate.support {
            let expected = format!("{:?}, as in hindsight.divergence, for there is one teacher", divergence.support);
            return Err(Error::invalid("hindsight.surrogate.support", expected, format!("{:?}", surrogate.support)));
        }
        Ok(())
    }
}

/// What is told of a teacher, whatever is made of its words. `gap_mean`: how much likelier it finds the sampled tokens of
/// queries; `reference_gap_mean`: how much likelier the reference finds them, without a hint; entropies at the same tokens; and
/// shares of the policy's tokens that are in queries, and in queries that it speaks of.
pub(super) fn metrics(tokens: &Tokens) -> Result<Metrics> {
    let mut metrics = Metrics::default();
    let Some(teacher) = &tokens.teacher else { return Ok(metrics) };
    let taught = Taught::new(tokens, TokenScope::Query, "metrics")?;
    let count = |mask: &[f32]| TokenCount::of(&tokens.rows, mask).tokens;
    let (policy, query) = (host::<f32>(&tokens.policy_mask)?, host::<f32>(&tokens.query_mask)?);
    let everywhere = vec![1.0; policy.len()];
    let (spoken_of, written) = (count(taught.mask()), count(&policy));
    let mut share = |name: &str, sum| metrics.add(name, Metric::Mean { sum, count: written });
    share("hindsight/query_share", count(&TokenScope::Query.mask(&policy, &query, &everywhere)));
    share("hindsight/taught_share", spoken_of);
    let student = taught.needed().sum(&tokens.logprobs)?;
    let mut mean = |name: &str, x: Option<&Tensor>, less: f64| -> Result<()> {
        if let Some(x) = x {
            metrics.add(name, Metric::Mean { sum: taught.needed().sum(x)? - less, count: spoken_of });
        }
        Ok(())
    };
    mean("hindsight/gap_mean", Some(&teacher.logprobs), student)?;
    mean("hindsight/reference_gap_mean", tokens.reference.as_ref(), student)?;
    mean("hindsight/teacher_entropy", teacher.entropy.as_ref(), 0.0)?;
    mean("hindsight/student_entropy", tokens.entropy.as_ref(), 0.0)?;
    Ok(metrics)
}
