//! Which tokens does a teacher teach, and how are all others kept out?

use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

use super::super::aggregate::{Aggregation, Normaliser};
use super::super::tokens::{Needed, Tokens, host};
use super::teacher::{NO_TOKEN, Support, Teacher, TopTokens};
use crate::{Error, Result};

/// Which of the tokens that a teacher speaks of are taught.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// Those inside search queries.
    #[default]
    Query,
    /// All that the policy sampled. With a teacher's mask of one's own: whatever that says.
    Policy,
}

impl TokenScope {
    /// 1 where the policy wrote, in a query where the scope asks for that, and the teacher speaks; 0 elsewhere. As long as the
    /// shortest of the masks.
    pub fn mask(self, policy: &[f32], query: &[f32], teacher: &[f32]) -> Vec<f32> {
        let masks = policy.iter().zip(query).zip(teacher);
        let taught = masks.map(|((policy, query), teacher)| {
            let in_scope = self == Self::Policy || *query != 0.0;
            in_scope && *policy != 0.0 && *teacher != 0.0
        });
        taught.map(|taught| f32::from(u8::from(taught))).collect()
    }
}

/// The log-probability of a token that is not there: finite, and with the probability 0.
const NOWHERE: f64 = -1e4;

/// Probabilities of some tokens may add up to this: 1, and what bf16 rounds away.
const MOST: f64 = 1.05;

/// The tokens that are taught.
pub(super) struct Taught<'a> {
    tokens: &'a Tokens,
    teacher: &'a Teacher,
    scope: TokenScope,
    mask: Vec<f32>,
    needed: Needed,
    term: &'static str,
}

/// Log-probabilities of [`TopTokens`] as f64 `[n, k]`, at taught tokens. Elsewhere, and where there is no id, both sides hold
/// the same probability 0.
pub(super) struct Top<'a> {
    pub(super) teacher: Tensor,
    pub(super) student: Tensor,
    /// 1 where there is an id of a taught token.
    pub(super) there: Tensor,
    needed: Needed,
    given: &'a TopTokens,
}

impl<'a> Taught<'a> {
    pub(super) fn new(tokens: &'a Tokens, scope: TokenScope, term: &'static str) -> Result<Self> {
        let Some(teacher) = &tokens.teacher else {
            return Err(Error::invalid(format!("hindsight.{term}"), "what a teacher said", "no teacher"));
        };
        let mask = scope.mask(&host(&tokens.policy_mask)?, &host(&tokens.query_mask)?, &host(&teacher.mask)?);
        let needed = Needed::new(&Tensor::from_slice(&mask, mask.len(), tokens.policy_mask.device())?)?;
        Ok(Self { tokens, teacher, scope, mask, needed, term })
    }

    pub(super) fn mask(&self) -> &[f32] {
        &self.mask
    }

    pub(super) fn needed(&self) -> &Needed {
        &self.needed
    }

    /// Log-probabilities of the sampled tokens: the policy's, with their gradient, and the teacher's, without.
    pub(super) fn sampled(&self) -> Result<(Tensor, Tensor)> {
        Ok((self.needed.of(&self.tokens.logprobs)?, self.needed.constant(&self.teacher.logprobs)?))
    }

    /// What each token weighs, `[n]`.
    pub(super) fn weights(&self, normaliser: &Normaliser, aggregation: Aggregation) -> Result<Tensor> {
        let mask = Tensor::from_slice(&self.mask, self.mask.len(), self.tokens.policy_mask.device())?;
        Normaliser { aggregation, ..*normaliser }.taught_weights(&self.tokens.rows, &mask, self.scope)
    }

    pub(super) fn top(&self, support: Support) -> Result<Top<'a>> {
        let what = || format!("hindsight.{}", self.term);
        let Some(given) = &self.teacher.top else {
            return Err(Error::invalid(what(), "log-probabilities of top tokens", "none"));
        };
        let (n, k) = given.ids.dims2()?;
        if k > support.width() {
            return Err(Error::invalid(
                what(),
                format!("at most {} tokens, as in {support:?}", support.width()),
                k.to_string(),
            ));
        }
        let taught = Tensor::from_slice(&self.mask, (n, 1), given.ids.device())?.broadcast_as((n, k))?;
        let there = (given.ids.ne(NO_TOKEN)?.to_dtype(DType::F32)? * taught)?;
        let needed = Needed::or(NOWHERE, &there)?;
        let top = Top {
            teacher: needed.constant(&given.teacher)?,
            student: needed.of(&given.student)?,
            there: there.to_dtype(DType::F64)?,
            needed,
            given,
        };
        for (side, logprobs) in [("teacher", &top.teacher), ("student", &top.student)] {
            let sums: Vec<f64> = host(&logprobs.exp()?.sum(1)?)?;
            if let Some(sum) = sums.into_iter().find(|sum| *sum > MOST) {
                let found = format!("probabilities with the sum {sum}");
                return Err(Error::invalid(
                    format!("teacher.top.{side}"),
                    "log-probabilities over the vocabulary",
                    found,
                ));
            }
        }
        Ok(top)
    }
}

impl Top<'_> {
    /// Those of the policy that sampled.
    pub(super) fn old(&self) -> Result<Tensor> {
        match &self.given.old {
            Some(old) => self.needed.constant(old),
            None => Err(Error::invalid("hindsight.surrogate", "log-probabilities under the sampling policy", "none")),
        }
    }
}

/// Of `[n, k]` log-probabilities those among the k alone: their probabilities divided by their sum.
pub(super) fn normalised(logprobs: &Tensor) -> Result<Tensor> {
    if logprobs.elem_count() == 0 {
        return Ok(logprobs.clone()); // candle has no maximum of nothing
    }
    let largest = logprobs.detach().max_keepdim(1)?;
    let log_sum = (logprobs.broadcast_sub(&largest)?.exp()?.sum_keepdim(1)?.log()? + largest)?;
    Ok(logprobs.broadcast_sub(&log_sum)?)
}
