//! A rotation that spreads what a vector says evenly over its coordinates, so that their signs alone are a good code.
//!
//! Rounds of random signs and a Hadamard transform (Ailon and Chazelle, *The Fast Johnson-Lindenstrauss Transform*,
//! 2009) take n log n additions and no matrix. Where the number of coordinates is no power of two, rounds take turns
//! with the first and the last power of two of them.

use pulp::{Arch, Simd, WithSimd};

use crate::hadamard::hadamard;

/// Rounds: two over each end mix all coordinates with each other.
pub const ROUNDS: usize = 4;

/// An orthogonal map of vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotation {
    /// For each round a factor of 1 or -1 for each coordinate.
    signs: Vec<f32>,
    coordinates: usize,
}

impl Rotation {
    /// Takes the signs from `bits`: for each round a bit for each coordinate, from the lowest bit of a byte on; a set
    /// bit is minus.
    ///
    /// # Panics
    /// When there are not [`ROUNDS`] x `coordinates` bits, or `coordinates` is no multiple of 8.
    pub fn from_bits(bits: &[u8], coordinates: usize) -> Self {
        assert_eq!(bits.len() * 8, ROUNDS * coordinates, "a sign for each round and coordinate");
        let sign = |bit: usize| if bits[bit / 8] >> (bit % 8) & 1 == 1 { -1.0 } else { 1.0 };
        Self { signs: (0..ROUNDS * coordinates).map(sign).collect(), coordinates }
    }

    /// Rotates `vector` in place.
    ///
    /// # Panics
    /// When `vector` has another number of coordinates.
    pub fn apply(&self, vector: &mut [f32]) {
        assert_eq!(vector.len(), self.coordinates, "coordinates to rotate");
        Arch::new().dispatch(Rotate { rotation: self, vector });
    }
}

struct Rotate<'a> {
    rotation: &'a Rotation,
    vector: &'a mut [f32],
}

impl WithSimd for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let coordinates = self.vector.len();
        let window = 1 << coordinates.ilog2();
        let scale = 1.0 / (window as f32).sqrt();
        for (round, signs) in self.rotation.signs.chunks_exact(coordinates).enumerate() {
            for (x, sign) in self.vector.iter_mut().zip(signs) {
                *x *= sign;
            }
            let first = if round % 2 == 0 { 0 } else { coordinates - window };
            let part = &mut self.vector[first..first + window];
            hadamard(part);
            for x in part {
                *x *= scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(coordinates: usize) -> Rotation {
        let bytes = ROUNDS * coordinates / 8;
        let mut bits = vec![0; bytes];
        blake3::Hasher::new().update(b"signs").finalize_xof().fill(&mut bits);
        Rotation::from_bits(&bits, coordinates)
    }

    #[test]
    fn lengths_and_products_stay() {
        for coordinates in [24, 48, 384, 768, 1032] {
            let rotation = rotation(coordinates);
            let of = |seed: f32| (0..coordinates).map(|i| (i as f32 * seed).sin()).collect::<Vec<f32>>();
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            let (a, b) = (of(0.7), of(1.3));
            let (mut c, mut d) = (a.clone(), b.clone());
            rotation.apply(&mut c);
            rotation.apply(&mut d);
            assert!((dot(&a, &b) - dot(&c, &d)).abs() < 1e-3, "{coordinates}");
            assert!((dot(&a, &a) - dot(&c, &c)).abs() < 1e-3, "{coordinates}");
        }
    }

    #[test]
    fn a_single_coordinate_is_spread_over_all() {
        let rotation = rotation(768);
        let mut vector = vec![0.0; 768];
        vector[700] = 1.0;
        rotation.apply(&mut vector);
        let largest = vector.iter().fold(0f32, |most, x| most.max(x.abs()));
        assert!(largest < 0.2, "{largest}");
        assert!(vector.iter().filter(|x| x.abs() > 1e-6).count() > 700);
    }
}
