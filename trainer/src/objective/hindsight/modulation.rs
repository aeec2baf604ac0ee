//! How does a teacher share out an advantage among the tokens of a rollout? (RLSD, EviSD)

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::super::tokens::{Tokens, host, needed};
use super::scope::{Taught, TokenScope};
use crate::{Error, Result};

/// A bounded change of the advantages of tokens that a teacher speaks of. With `A` the advantage and `d` how much likelier the
/// teacher finds the sampled token than the policy does, in nats; without a gradient of its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Modulation {
    /// How much of the advantage is the teacher's to change, 0 to 1: 0.5 in RLSD, 0.2 in EviSD; 0 leaves it out.
    pub weight: f64,
    /// At which tokens: all that the policy sampled in RLSD, what stands inside searches and answers in EviSD.
    pub scope: TokenScope,
    /// By which formula.
    pub form: ModulationForm,
    /// Of the form `ratio`: how far its factor may be from 1.
    pub clip: f64,
    /// Of the form `tanh`: how steep it is.
    pub slope: f64,
}

/// How an advantage changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModulationForm {
    /// `A (1 - weight + weight f)`, where `f` is `exp(sign(A) d)` cut to `1 - clip ..= 1 + clip`: RLSD (in the code of SDAR,
    /// arXiv 2605.15155).
    Ratio,
    /// `A + weight |A| tanh(slope d)`: EviSD (arXiv 2608.01359).
    #[default]
    Tanh,
}

impl Default for Modulation {
    fn default() -> Self {
        Self { weight: 0.0, scope: TokenScope::Query, form: ModulationForm::Tanh, clip: 0.2, slope: 5.0 }
    }
}

impl Modulation {
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |field: &str, expected: &str, found: f64| {
            Err(Error::invalid(format!("hindsight.modulation.{field}"), expected, found.to_string()))
        };
        // Beyond these an advantage could change its sign.
        if !(0.0..=1.0).contains(&self.weight) {
            return refuse("weight", "0 to 1", self.weight);
        }
        if !(0.0..=1.0).contains(&self.clip) {
            return refuse("clip", "0 to 1", self.clip);
        }
        if !(self.slope.is_finite() && self.slope > 0.0) {
            return refuse("slope", "more than 0", self.slope);
        }
        Ok(())
    }

    /// The tokens with the changed advantages; none where this is off.
    pub(in super::super) fn modulated(&self, tokens: &Tokens) -> Result<Option<Tokens>> {
        if self.weight == 0.0 {
            return Ok(None);
        }
        let taught = Taught::new(tokens, self.scope, "modulation")?;
        let (student, teacher) = taught.sampled()?;
        let gaps: Vec<f64> = host(&(teacher - student)?)?;
        let mut advantages: Vec<f64> = host(&tokens.advantages)?;
        for i in needed(&(0..gaps.len()), taught.mask()) {
            advantages[i] = self.of(advantages[i], gaps[i]);
        }
        let advantages = Tensor::from_vec(advantages, gaps.len(), tokens.advantages.device())?;
        Ok(Some(Tokens { advantages, ..tokens.clone() }))
    }

    fn of(&self, advantage: f64, gap: f64) -> f64 {
        match self.form {
            ModulationForm::Ratio => {
                let factor = (gap * advantage.signum()).exp().clamp(1.0 - self.clip, 1.0 + self.clip);
                advantage * (1.0 - self.weight + self.weight * factor)
            }
            ModulationForm::Tanh => advantage + self.weight * advantage.abs() * (self.slope * gap).tanh(),
        }
    }
}
