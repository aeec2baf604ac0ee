//! The best estimates of a query, whoever found them in whatever order.

/// Keeps the best `capacity` of all (estimate, slot) offered: highest estimate first, equal ones by slot.
#[derive(Debug, Clone)]
pub struct Candidates {
    capacity: usize,
    /// Keys: less is better.
    kept: Vec<u64>,
    threshold: f32,
}

/// Keys collected before the best are picked out, for each one that is kept.
const SLACK: usize = 4;

impl Candidates {
    /// `capacity` must not be 0.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            kept: Vec::with_capacity(capacity.saturating_mul(SLACK).min(1 << 20)),
            threshold: f32::NEG_INFINITY,
        }
    }

    /// The estimate below which nothing can be among the best.
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Takes a slot whose estimate is at least the threshold.
    pub fn push(&mut self, estimate: f32, slot: u32) {
        self.kept.push(key(estimate, slot));
        if self.kept.len() >= self.capacity.saturating_mul(SLACK) {
            self.shrink();
        }
    }

    /// Takes over what another has kept.
    pub fn merge(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.kept.len() > self.capacity {
            self.kept.select_nth_unstable(self.capacity - 1);
            self.kept.truncate(self.capacity);
        }
        if self.kept.len() == self.capacity {
            let worst = self.kept.iter().copied().max().unwrap_or_default();
            self.threshold = estimate(worst);
        }
    }

    /// The slots kept, in no order.
    pub fn into_slots(mut self) -> impl Iterator<Item = u32> {
        self.shrink();
        self.kept.into_iter().map(slot)
    }
}

fn key(estimate: f32, slot: u32) -> u64 {
    let bits = estimate.to_bits();
    // Bits of floats in the order of their values, then turned around.
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!ascending) << 32 | u64::from(slot)
}

fn slot(key: u64) -> u32 {
    key as u32
}

fn estimate(key: u64) -> f32 {
    let ascending = !((key >> 32) as u32);
    f32::from_bits(if ascending >> 31 == 1 { ascending & !(1 << 31) } else { !ascending })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_whatever_order_they_come() {
        let all: Vec<(f32, u32)> = (0..1000u32).map(|i| (((i * 7919) % 97) as f32 - 40.0, i)).collect();
        let mut expected = all.clone();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        expected.truncate(30);
        for turn in 0..4 {
            let mut parts = [Candidates::new(30), Candidates::new(30)];
            let order: Vec<_> = if turn % 2 == 0 { all.clone() } else { all.iter().rev().copied().collect() };
            for (at, (estimate, slot)) in order.into_iter().enumerate() {
                let part = &mut parts[(at * (turn + 1)) % 2];
                if estimate >= part.threshold() {
                    part.push(estimate, slot);
                }
            }
            let [mut first, second] = parts;
            first.merge(second);
            let mut found: Vec<u32> = first.into_slots().collect();
            let mut slots: Vec<u32> = expected.iter().map(|(_, slot)| *slot).collect();
            found.sort_unstable();
            slots.sort_unstable();
            assert_eq!(found, slots);
        }
    }
}
