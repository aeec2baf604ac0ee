//! How far do values lie apart, and how far may their mean be from the truth?

use serde::Serialize;

/// Two-sided 95 % quantiles of Student's t distribution with 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Values of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation (over n - 1), where there are two or more.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of values; none where there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Some(Self { n, mean, deviation: (n > 1).then(|| (squares / (n as f64 - 1.0)).sqrt()) })
    }

    /// Where the mean of many more such values lies, with 95 % confidence, if they are normally distributed: Student's interval. With
    /// more than 31 values it is a little too wide.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let quantile = STUDENT[(self.n.checked_sub(2)?).min(STUDENT.len() - 1)];
        let half = quantile * self.deviation? / (self.n as f64).sqrt();
        Some((self.mean - half, self.mean + half))
    }
}
