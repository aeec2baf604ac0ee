//! What is made smaller? Named objectives, weighted and added, over the needed tokens of micro-batches.
//!
//! Objectives use candle's own gradients, on small tensors only: log-probabilities in, one number out. They compute in f64. A token
//! whose mask is 0 has exactly no part in it, whatever stands there. A NaN or an infinity in a needed token makes the loss
//! NaN, for the caller to see.

mod aggregate;
mod entropy;
mod hindsight;
mod kl;
mod metrics;
mod policy_gradient;
mod presets;
mod supervised;
mod tokens;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::advantage::Advantage;
use crate::{Error, Result};
use tokens::{Needed, host};

pub use aggregate::{Aggregation, Normaliser, Scope};
pub use entropy::Entropy;
pub use hindsight::{
    Distance, Distillation, Divergence, Hindsight, Modulation, ModulationForm, NO_TOKEN, Side, Support, Surrogate,
    Tail, Teacher, TokenScope, TopTokens,
};
pub use kl::{Kl, KlEstimator, KlForm};
pub use metrics::{Metric, Metrics};
pub use policy_gradient::{PolicyGradient, Ratio};
pub use presets::OBJECTIVE_PRESETS;
pub use supervised::Supervised;
pub use tokens::{TokenCount, Tokens, Totals};

/// A term of the loss.
pub trait Objective: Send + Sync {
    /// Its name in settings and metrics.
    fn name(&self) -> &'static str;

    /// This micro-batch's share of the loss, without the objective's factor. The shares of an optimiser batch add up to its
    /// loss.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when something that it needs is not there.
    fn loss(&self, tokens: &Tokens, normaliser: &Normaliser) -> Result<LossTerms>;
}

/// What became of a micro-batch.
#[derive(Debug, Clone)]
pub struct LossTerms {
    /// One f64 number with its graph: `loss.backward()` gives the gradients of `Tokens::logprobs`, `Tokens::entropy` and
    /// `TopTokens::student`.
    pub loss: Tensor,
    /// What else is told.
    pub metrics: Metrics,
}

/// What is learned from: advantages, and a weighted sum of objectives with one way of averaging. A term of weight 0 is left
/// out, and what it needs is not asked for.
///
/// The defaults are Search-R1's values, but for means over the whole batch instead of micro-batches, and for a group of one,
/// which teaches nothing. `Objectives::named` has the presets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Objectives {
    /// How rewards become advantages.
    pub advantage: Advantage,
    /// What a token weighs.
    pub aggregation: Aggregation,
    /// What means are taken over.
    pub scope: Scope,
    /// Good rollouts' tokens are made more likely.
    pub policy_gradient: PolicyGradient,
    /// The policy is kept near its reference.
    pub kl: Kl,
    /// Entropy is rewarded.
    pub entropy: Entropy,
    /// What was written is imitated.
    pub supervised: Supervised,
    /// What a teacher says that knows more is learned from.
    pub hindsight: Hindsight,
}

impl Objectives {
    /// Whether the loss needs log-probabilities under the reference, or the rewards do.
    pub fn needs_reference(&self) -> bool {
        self.kl.weight != 0.0
    }

    /// Whether the loss needs entropies.
    pub fn needs_entropy(&self) -> bool {
        self.entropy.weight != 0.0
    }

    /// Whether the loss needs a teacher; [`Hindsight::support`] tells whether at more than the sampled tokens.
    pub fn needs_teacher(&self) -> bool {
        self.hindsight.needs_teacher()
    }

    /// A micro-batch's share of the loss. Summed over the micro-batches that `totals` were counted over, loss and gradients
    /// do not depend on the split, unless the scope is `micro-batch`. A micro-batch without needed tokens gives 0.
    ///
    /// Metrics: `loss` and `loss/<name>` (with its weight), those of each objective, `entropy/mean` where there are
    /// entropies, and `hindsight/...` where there is a teacher.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for shapes that do not fit together, totals that do not include the micro-batch, and a
    /// reference, entropies or a teacher that a term needs and are not there.
    pub fn loss(&self, tokens: &Tokens, totals: &Totals) -> Result<LossTerms> {
        tokens.check()?;
        let normaliser = Normaliser { aggregation: self.aggregation, scope: self.scope, totals: *totals };
        let needed = Needed::new(&tokens.policy_mask)?;
        // Nothing, but with a graph: the log-probabilities have a gradient even when no term is on.
        let logprobs = needed.of(&tokens.logprobs)?;
        let mut loss = (&logprobs * logprobs.zeros_like()?)?.sum_all()?;
        let mut metrics = hindsight::metrics(tokens)?;
        let modulated = self.hindsight.modulation.modulated(tokens)?;
        let tokens = modulated.as_ref().unwrap_or(tokens);
        for (weight, objective) in self.terms() {
            let terms = objective.loss(tokens, &normaliser)?;
            let weighted = (terms.loss * weight)?;
            metrics.merge(&terms.metrics);
            metrics.add(format!("loss/{}", objective.name()), Metric::Sum(weighted.to_scalar()?));
            loss = (loss + weighted)?;
        }
        metrics.add("loss", Metric::Sum(loss.to_scalar()?));
        if let Some(entropy) = &tokens.entropy {
            let count = TokenCount::of(&tokens.rows, &host(&tokens.policy_mask)?).tokens;
            metrics.add("entropy/mean", Metric::Mean { sum: needed.sum(entropy)?, count });
        }
        Ok(LossTerms { loss, metrics })
    }

    /// What is written is imitated, and nothing else matters.
    pub(crate) fn imitation() -> Self {
        let mut all = Self::default();
        all.policy_gradient.weight = 0.0;
        all.kl.weight = 0.0;
        all.entropy.weight = 0.0;
        all.supervised.weight = 1.0;
        all
    }

    /// The terms that are on, with their weights.
    fn terms(&self) -> impl Iterator<Item = (f64, &dyn Objective)> {
        let kl = if self.kl.form == KlForm::Loss { self.kl.weight } else { 0.0 };
        let terms: [(f64, &dyn Objective); 7] = [
            (self.policy_gradient.weight, &self.policy_gradient),
            (kl, &self.kl),
            (self.entropy.weight, &self.entropy),
            (self.supervised.weight, &self.supervised),
            (self.hindsight.distillation.weight, &self.hindsight.distillation),
            (self.hindsight.divergence.weight, &self.hindsight.divergence),
            (self.hindsight.surrogate.weight, &self.hindsight.surrogate),
        ];
        terms.into_iter().filter(|(weight, _)| *weight != 0.0)
    }

    /// What types cannot say.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a number out of its range.
    pub fn check(&self) -> Result<()> {
        let weights = [
            ("policy-gradient", self.policy_gradient.weight),
            ("kl", self.kl.weight),
            ("entropy", self.entropy.weight),
            ("supervised", self.supervised.weight),
            ("hindsight.distillation", self.hindsight.distillation.weight),
            ("hindsight.divergence", self.hindsight.divergence.weight),
            ("hindsight.surrogate", self.hindsight.surrogate.weight),
        ];
        if let Some((name, weight)) = weights.into_iter().find(|(_, weight)| !weight.is_finite()) {
            return Err(Error::invalid(format!("{name}.weight"), "a finite number", weight.to_string()));
        }
        if let Some((name, weight)) =
            weights.into_iter().find(|(name, weight)| name.starts_with("hindsight") && *weight < 0.0)
        {
            let expected = "0 or more: a teacher is learnt from, not shunned";
            return Err(Error::invalid(format!("{name}.weight"), expected, weight.to_string()));
        }
        self.aggregation.check("aggregation")?;
        self.policy_gradient.check()?;
        self.kl.check()?;
        self.hindsight.check()
    }
}
