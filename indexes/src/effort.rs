//! How hard an index looks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// How much of an approximate index a search looks at. Exact indexes always look at all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Effort {
    /// What the index was calibrated for.
    #[default]
    Calibrated,
    /// As little as found this share of the exact ten best hits when the index was built; 1 is exact search. Of more hits than
    /// ten it finds less.
    Recall(f64),
    /// Every code is estimated: near exact, at the speed of memory.
    Exhaustive,
    /// Every row is scored.
    Exact,
    /// At least so many rows are scored for each query.
    Candidates(usize),
    /// So many lists and candidates, whatever they find: for measuring.
    Lists {
        /// Lists whose codes are estimated.
        probes: usize,
        /// Rows that are scored.
        candidates: usize,
    },
}

impl Effort {
    /// The recall@10 of [`Effort::Calibrated`].
    pub const DEFAULT_RECALL: f64 = 0.98;
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calibrated => f.write_str("calibrated"),
            Self::Recall(recall) => write!(f, "recall={recall}"),
            Self::Exhaustive => f.write_str("exhaustive"),
            Self::Exact => f.write_str("exact"),
            Self::Candidates(least) => write!(f, "{least}"),
            Self::Lists { probes, candidates } => write!(f, "lists={probes}:{candidates}"),
        }
    }
}

/// As its text.
impl Serialize for Effort {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Effort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || {
            Error::InvalidInput {
            what: "effort".into(),
            expected: "`calibrated`, `recall=0.95` (0 to 1), `exhaustive`, `exact`, `lists=16:100` (lists and candidates), or \
                       a number of candidates, 1 to 10000"
                .into(),
            found: format!("`{text}`"),
        }
        };
        let number =
            |text: &str| text.parse::<usize>().ok().filter(|number| (1..=10_000).contains(number)).ok_or_else(refused);
        match text {
            "calibrated" => Ok(Self::Calibrated),
            "exhaustive" => Ok(Self::Exhaustive),
            "exact" => Ok(Self::Exact),
            _ => {
                if let Some(recall) = text.strip_prefix("recall=") {
                    let recall = recall.parse().ok().filter(|recall| (0.0..=1.0).contains(recall));
                    return recall.map(Self::Recall).ok_or_else(refused);
                }
                if let Some((probes, candidates)) = text.strip_prefix("lists=").and_then(|text| text.split_once(':')) {
                    return Ok(Self::Lists { probes: number(probes)?, candidates: number(candidates)? });
                }
                number(text).map(Self::Candidates)
            }
        }
    }
}

/// What a setting of an index with lists finds, measured on held-out queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Lists whose codes are estimated; all of them is `exhaustive`.
    pub probes: usize,
    /// Rows scored for ten hits.
    pub candidates: usize,
    /// Share of the exact best hit found.
    pub recall_1: f64,
    /// Share of the exact three best hits found.
    pub recall_3: f64,
    /// Share of the exact ten best hits found.
    pub recall_10: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_efforts_come_back_from_each_other() {
        for name in ["calibrated", "recall=0.95", "recall=1", "exhaustive", "exact", "200", "lists=16:100"] {
            assert_eq!(name.parse::<Effort>().map(|effort| effort.to_string()).ok().as_deref(), Some(name));
        }
        for wrong in
            ["", "0", "-1", "10001", "recall=", "recall=1.1", "recall=NaN", "lists=0:5", "lists=5", "Exact", "exact "]
        {
            let told = wrong.parse::<Effort>().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                told.starts_with("effort: expected") && told.ends_with(&format!("found `{wrong}`")),
                "{wrong}: {told}"
            );
        }
    }
}
