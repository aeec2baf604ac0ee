//! What is told about a batch beside its loss?

use std::collections::BTreeMap;

/// A number that is gathered over micro-batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Shares that add up.
    Sum(f64),
    /// The mean of `count` values.
    Mean {
        /// Their sum.
        sum: f64,
        /// How many there are.
        count: f64,
    },
    /// The largest value.
    Max(f64),
}

impl Metric {
    /// The number; none for a mean or a maximum of nothing.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Sum(value) => Some(value),
            Self::Mean { count: 0.0, .. } | Self::Max(f64::NEG_INFINITY) => None,
            Self::Mean { sum, count } => Some(sum / count),
            Self::Max(value) => Some(value),
        }
    }
}

/// Metrics by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, Metric>);

impl Metrics {
    /// Adds what was found under a name to what is there. A NaN stays.
    pub fn add(&mut self, name: impl Into<String>, metric: Metric) {
        self.0
            .entry(name.into())
            .and_modify(|there| {
                *there = match (*there, metric) {
                    (Metric::Sum(a), Metric::Sum(b)) => Metric::Sum(a + b),
                    (Metric::Mean { sum: a, count: m }, Metric::Mean { sum: b, count: n }) => {
                        Metric::Mean { sum: a + b, count: m + n }
                    }
                    (Metric::Max(a), Metric::Max(b)) if a.is_nan() || a >= b => Metric::Max(a),
                    // The newer one stands for a name that changed its kind.
                    (_, newer) => newer,
                }
            })
            .or_insert(metric);
    }

    /// Adds the metrics of another micro-batch, or of another objective.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, metric)| self.add(name.clone(), *metric));
    }

    /// The number under a name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(|metric| metric.value())
    }

    /// Names and numbers, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(name, metric)| Some((name.as_str(), metric.value()?)))
    }
}
