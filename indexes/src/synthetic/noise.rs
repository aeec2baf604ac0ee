//! Where do random numbers come from that any thread can have in any order?

/// Mean and standard deviation of the sum of eight bytes.
const SUM_MEAN: f32 = 8.0 * 127.5;
const SUM_DEVIATION: f32 = 209.021_51;
/// The odd number nearest to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// An endless list of random numbers, given by its name alone; every number can be had without those before it.
///
/// The numbers are those of SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream(u64);

impl Stream {
    /// The list number `number` of the kind `kind`.
    #[inline(always)]
    pub fn new(seed: u64, kind: Kind, number: u64) -> Self {
        let seed = mix(seed.wrapping_add(STEP));
        Self(mix(mix(seed ^ kind as u64).wrapping_add(number.wrapping_mul(STEP))))
    }

    #[inline(always)]
    fn bits(self, at: u64) -> u64 {
        mix(self.0.wrapping_add((at + 1).wrapping_mul(STEP)))
    }

    /// The number at `at`, even over 0..1.
    #[inline(always)]
    pub fn uniform(self, at: u64) -> f64 {
        (self.bits(at) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The number at `at`, even over 0..`end`.
    pub fn below(self, at: u64, end: usize) -> usize {
        (self.uniform(at) * end as f64) as usize
    }

    /// The number at `at`, standard normal.
    #[inline(always)]
    pub fn normal(self, at: u64) -> f32 {
        // Eight bytes of one word added up: normal but beyond 4.9 deviations, where it has nothing.
        let bits = self.bits(at);
        let pairs = (bits & 0x00ff_00ff_00ff_00ff) + ((bits >> 8) & 0x00ff_00ff_00ff_00ff);
        let sum = pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48;
        (sum as i32 as f32 - SUM_MEAN) / SUM_DEVIATION
    }

    /// The numbers from `from` on, standard normal.
    #[inline(always)]
    pub fn normals(self, from: u64, out: &mut [f32]) {
        out.iter_mut().zip(from..).for_each(|(out, at)| *out = self.normal(at));
    }
}

/// What a list is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    World = 1,
    Topic,
    Subtopic,
    Anisotropy,
    Article,
    Row,
    Query,
}

/// A one-to-one scrambling of 64 bits.
#[inline(always)]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_the_moments_of_normals() {
        let mut x = vec![0.0; 1 << 20];
        Stream::new(7, Kind::Row, 3).normals(0, &mut x);
        let moment = |power| x.iter().map(|x| f64::from(*x).powi(power)).sum::<f64>() / x.len() as f64;
        // Deviations of these means: 0.001, 0.0014, 0.0039 and 0.0096. A sum of eight has a fourth moment of 2.85.
        assert!(moment(1).abs() < 0.005, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.007, "{}", moment(2));
        assert!(moment(3).abs() < 0.02, "{}", moment(3));
        assert!((moment(4) - 2.85).abs() < 0.05, "{}", moment(4));
    }

    #[test]
    fn lists_of_other_names_have_nothing_in_common() {
        let list =
            |seed, kind, number| (0..1000).map(|at| Stream::new(seed, kind, number).bits(at)).collect::<Vec<_>>();
        let mut all =
            [list(1, Kind::Row, 0), list(1, Kind::Row, 1), list(2, Kind::Row, 0), list(1, Kind::Query, 0)].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4000);
    }
}
