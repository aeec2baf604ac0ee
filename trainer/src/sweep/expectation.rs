//! Does an order that was published hold here?

use std::fmt;

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// A deviation that is rounding alone.
const SAME: f64 = 1e-12;

/// A published order of two arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The arm that scores higher.
    pub better: String,
    /// The arm that scores lower.
    pub than: String,
    /// Where that is published.
    pub source: String,
}

/// What runs say about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval of the difference lies above 0.
    Holds,
    /// It lies below 0.
    DoesNotHold,
    /// It has 0 in it, there are fewer than two seeds, or all differ by the same.
    NotDecided,
}

/// An order, compared with what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The order.
    #[serde(flatten)]
    pub expect: Expect,
    /// What was found.
    pub verdict: Verdict,
    /// How much higher the better arm scores, seed by seed.
    pub difference: Option<Spread>,
    /// 95 % confidence.
    pub interval: Option<(f64, f64)>,
    /// Of how many seeds the difference is above 0.
    pub above: usize,
}

impl Finding {
    /// Compares the scores of two arms by seed. Seeds that only one of them has are left out.
    pub fn new(expect: &Expect, better: &[(u64, f64)], than: &[(u64, f64)]) -> Self {
        let other = |seed: u64| than.iter().find(|(of, _)| *of == seed).map(|(_, score)| score);
        let differences: Vec<f64> =
            better.iter().filter_map(|(seed, score)| Some(score - other(*seed)?)).filter(|d| d.is_finite()).collect();
        let difference = Spread::of(&differences);
        let interval = difference.and_then(|difference| difference.interval());
        // Differences that are all the same say how coarse scores are, and nothing of how far others would lie apart.
        let is_spread =
            difference.and_then(|difference| difference.deviation).is_some_and(|deviation| deviation > SAME);
        let verdict = match interval.filter(|_| is_spread) {
            Some((low, _)) if low > 0.0 => Verdict::Holds,
            Some((_, high)) if high < 0.0 => Verdict::DoesNotHold,
            _ => Verdict::NotDecided,
        };
        let above = differences.iter().filter(|difference| **difference > 0.0).count();
        Self { expect: expect.clone(), verdict, difference, interval, above }
    }
}

/// A plain sentence.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Expect { better, than, source } = &self.expect;
        let verdict = match self.verdict {
            Verdict::Holds => "holds here",
            Verdict::DoesNotHold => "does not hold here",
            Verdict::NotDecided => "not decided",
        };
        write!(f, "`{better}` above `{than}` ({source}): {verdict}. ")?;
        let Some(Spread { n, mean, deviation }) = self.difference else {
            return write!(f, "No seed has ended in both arms.");
        };
        write!(f, "The difference is {mean:+.4}")?;
        match (deviation, self.interval) {
            (Some(deviation), Some((low, high))) => write!(
                f,
                " (standard deviation {deviation:.4}, 95 % interval {low:+.4} to {high:+.4}, n = {n} seeds, paired), above 0 in {} of {n}.",
                self.above
            ),
            _ => write!(f, " (n = {n} seed: nothing is known of its spread)."),
        }
    }
}
