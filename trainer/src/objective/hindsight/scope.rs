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

/// Log-probabilities of [`TopTokens`] as f64 `[taught, k]`, of the taught tokens alone. Where there is no id, both sides hold the same
/// probability 0.
pub(super) struct Top<'a> {
    pub(super) teacher: Tensor,
    pub(super) student: Tensor,
    /// 1 where there is an id.
    pub(super) there: Tensor,
    needed: Needed,
    /// The places of the taught tokens among all.
    rows: Tensor,
    count: usize,
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
        let rows: Vec<u32> = (0..n as u32).filter(|row| self.mask[*row as usize] != 0.0).collect();
        let rows = Tensor::from_vec(rows.clone(), rows.len(), given.ids.device())?;
        let there = selected(&given.ids, &rows)?.ne(NO_TOKEN)?;
        let needed = Needed::or(NOWHERE, &there)?;
        let top = Top {
            teacher: needed.constant(&selected(&given.teacher, &rows)?)?,
            student: needed.of(&selected(&given.student, &rows)?)?,
            there: there.to_dtype(DType::F64)?,
            needed,
            rows,
            count: n,
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

/// Some rows of a table; candle takes none of none.
fn selected(table: &Tensor, rows: &Tensor) -> Result<Tensor> {
    if rows.elem_count() == 0 { Ok(table.narrow(0, 0, 0)?) } else { Ok(table.contiguous()?.index_select(rows, 0)?) }
}

impl Top<'_> {
    /// One number for each token, `[n]`, of those of the taught ones, `[taught]`; 0 for the others.
    pub(super) fn spread(&self, values: &Tensor) -> Result<Tensor> {
        let all = Tensor::zeros(self.count, values.dtype(), values.device())?;
        if self.rows.elem_count() == 0 { Ok(all) } else { Ok(all.index_add(&self.rows, values, 0)?) }
    }

    /// Those of the policy that sampled.
    pub(super) fn old(&self) -> Result<Tensor> {
        match &self.given.old {
            Some(old) => self.needed.constant(&selected(old, &self.rows)?),
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
