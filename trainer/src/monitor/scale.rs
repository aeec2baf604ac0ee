//! Where on an axis is a value, and which values are named on it?

/// About so many values are named.
const TICKS: f64 = 5.0;
/// Values beyond it are drawn at the edge, so that nothing overflows.
const LARGEST: f64 = 1e300;
/// Differences below it are none.
const SMALLEST: f64 = 1e-290;

/// An axis from values to places.
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    step: f64,
    empty: bool,
}

impl Scale {
    /// One that ends with the lowest and the highest value, at the places `from` and `to`.
    pub fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            let value = value.clamp(-LARGEST, LARGEST);
            (low, high) = (low.min(value), high.max(value));
        }
        let empty = low > high;
        if empty {
            (low, high) = (0.0, 1.0);
        } else if high - low <= (1e-9 * low.abs().max(high.abs())).max(SMALLEST) {
            let more = if low.abs() <= SMALLEST { 1.0 } else { low.abs() * 0.5 };
            (low, high) = (low - more, high + more);
        }
        Self { low, high, from, to, step: round_step((high - low) / TICKS), empty }
    }

    /// One that ends with round values.
    pub fn rounded(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let scale = Self::around(values, from, to);
        let step = scale.step;
        Self { low: (scale.low / step).floor() * step, high: (scale.high / step).ceil() * step, ..scale }
    }

    pub fn at(&self, value: f64) -> f64 {
        let share = (value.clamp(-LARGEST, LARGEST) - self.low) / (self.high - self.low);
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// The place at the axis' end.
    pub fn end(&self) -> f64 {
        self.to
    }

    /// Whether there was no value.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Places and names of round values.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let (first, last) = ((self.low / self.step - 1e-6).ceil(), (self.high / self.step + 1e-6).floor());
        // A few, unless rounding fails for numbers that are too large or too close.
        let count = ((last - first).max(0.0) as usize).min(3 * TICKS as usize);
        (0..=count)
            .map(|number| {
                let value = (first + number as f64) * self.step;
                (self.at(value), self.name(value))
            })
            .collect()
    }

    fn name(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        let largest = self.low.abs().max(self.high.abs());
        if largest >= 1e6 || self.step < 1e-4 {
            // As many digits as tell one step from the next.
            let digits = (value.abs() / self.step).log10().floor().clamp(0.0, 6.0) as usize;
            let text = format!("{value:.digits$e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
            return format!("{digits}e{exponent}");
        }
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        format!("{value:.decimals$}")
    }
}

/// The nearest of 1, 2 and 5, times a power of ten (Heckbert, Nice Numbers for Graph Labels, 1990).
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let leading = match step / power {
        share if share < 1.5 => 1.0,
        share if share < 3.5 => 2.0,
        share if share < 7.5 => 5.0,
        _ => 10.0,
    };
    leading * power
}
