//! Vectors as one bit a coordinate, and queries against them.
//!
//! A row x is centred on the mean m of the corpus and rotated: y = H (x - m). Its code is the signs s of y. With
//! b = |y|^2 / sum |y_i| the product <y, r> is estimated as b x <s, r>, without bias over random rotations (Gao and
//! Long, *RaBitQ*, SIGMOD 2024, section 3). Of a query q the part along m needs no estimate: with r = H (q - c m) and
//! c = <m, q> / <m, m>, the score is estimated as <m, q> + c a + b x <s, r> with a = <x - m, m>. So it does not matter
//! how long queries and rows are.

use half::f16;
use pulp::{Arch, Simd, WithSimd};

use super::kernel::{BLOCK, FACTOR_BYTES, GROUP, Kernel, Query};
use super::rotation::{ROUNDS, Rotation};
use crate::{ElementType, MatrixSpec};

/// The map from vectors to codes.
#[derive(Debug, Clone)]
pub struct Coder {
    mean: Vec<f32>,
    /// The product of the mean with itself.
    mean_square: f32,
    /// Those of the rotation, as they are stored.
    signs: Vec<u8>,
    rotation: Rotation,
    units: Units,
}

/// What the two factors of a row are stored as multiples of: powers of two, so that nothing is lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Units {
    /// Of a, the product of the centred row and the mean.
    pub mean: f32,
    /// Of b, what a code is multiplied with.
    pub code: f32,
}

/// The coded form of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Factors {
    pub mean: f32,
    pub code: f32,
}

/// Coordinates of the code of a vector of `dimensions` values: those that are added are zero.
pub fn coordinates(dimensions: usize) -> usize {
    dimensions.next_multiple_of(GROUP)
}

/// Bytes of a row in a block: its code and its factors.
pub fn row_bytes(dimensions: usize) -> usize {
    coordinates(dimensions) / 8 + FACTOR_BYTES
}

impl Coder {
    /// Centres on `mean`; `signs` are those of [`Rotation::from_bits`].
    pub fn new(mean: Vec<f32>, signs: Vec<u8>, units: Units) -> Self {
        let rotation = Rotation::from_bits(&signs, coordinates(mean.len()));
        let mean_square = crate::dot::canonical(&mean, &mean);
        Self { mean, mean_square, signs, rotation, units }
    }

    /// Bytes of the signs of a rotation for vectors of `dimensions` values.
    pub fn sign_bytes(dimensions: usize) -> usize {
        ROUNDS * coordinates(dimensions) / 8
    }

    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    pub fn signs(&self) -> &[u8] {
        &self.signs
    }

    pub fn dimensions(&self) -> usize {
        self.mean.len()
    }

    /// How vectors are stored as rows of eight bits about the same mean.
    pub fn eight_bits(&self) -> MatrixSpec {
        MatrixSpec::new(self.dimensions(), ElementType::I8).with_mean(self.mean.clone())
    }

    pub fn units(&self) -> Units {
        self.units
    }

    /// Sets what factors are stored in, once their largest are known.
    pub fn set_units(&mut self, units: Units) {
        self.units = units;
    }

    /// The centred and rotated `vector`.
    pub fn rotate(&self, vector: &[f32], rotated: &mut [f32]) {
        self.rotate_off(vector, 1.0, rotated);
    }

    /// The rotated `vector` less so many times the mean.
    fn rotate_off(&self, vector: &[f32], means: f32, rotated: &mut [f32]) {
        let (values, rest) = rotated.split_at_mut(self.mean.len());
        for ((out, x), mean) in values.iter_mut().zip(vector).zip(&self.mean) {
            *out = x - means * mean;
        }
        rest.fill(0.0);
        self.rotation.apply(rotated);
    }

    /// The same for many, row-major, in the first part of `rotated`.
    pub fn rotate_all<'r>(&self, vectors: &[f32], rotated: &'r mut [f32]) -> &'r [f32] {
        let coordinates = coordinates(self.dimensions());
        let rotated = &mut rotated[..vectors.len() / self.dimensions() * coordinates];
        for (vector, rotated) in vectors.chunks_exact(self.dimensions()).zip(rotated.chunks_exact_mut(coordinates)) {
            self.rotate(vector, rotated);
        }
        rotated
    }

    /// Writes the signs of `rotated`, a set bit for what is not negative, and gives the factors of `vector`.
    pub fn encode(&self, vector: &[f32], rotated: &[f32], code: &mut [u8]) -> Factors {
        Arch::new().dispatch(Encode { mean: &self.mean, vector, rotated, code })
    }

    /// A query for `kernel`; `rotated` is room for the coordinates of a code.
    pub fn query(&self, kernel: Kernel, query: &[f32], rotated: &mut [f32]) -> Query {
        let base = crate::dot::canonical(&self.mean, query);
        let along_mean = if self.mean_square.is_normal() { base / self.mean_square } else { 0.0 };
        self.rotate_off(query, along_mean, rotated);
        Query::new(kernel, rotated, base, along_mean, self.units)
    }

    /// Writes row `lane` of a block.
    pub fn put(&self, block: &mut [u8], lane: usize, code: &[u8], factors: Factors) {
        for (column, byte) in block.chunks_exact_mut(BLOCK).zip(code) {
            column[lane] = *byte;
        }
        let (mean, code_factor) = block[code.len() * BLOCK..].split_at_mut(2 * BLOCK);
        let stored = |factor: f32, unit: f32| f16::from_f32(factor / unit).to_le_bytes();
        mean[2 * lane..][..2].copy_from_slice(&stored(factors.mean, self.units.mean));
        code_factor[2 * lane..][..2].copy_from_slice(&stored(factors.code, self.units.code));
    }
}

/// Makes a code and its factors, compiled for the instructions of the machine.
struct Encode<'a> {
    mean: &'a [f32],
    vector: &'a [f32],
    rotated: &'a [f32],
    code: &'a mut [u8],
}

impl WithSimd for Encode<'_> {
    type Output = Factors;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Factors {
        let (mut squares, mut sizes) = ([0f64; 8], [0f64; 8]);
        for (byte, eight) in self.code.iter_mut().zip(self.rotated.as_chunks::<8>().0) {
            let mut bits = [0; 8];
            for lane in 0..8 {
                let y = eight[lane];
                bits[lane] = if y >= 0.0 { 1 << lane } else { 0 };
                squares[lane] += f64::from(y * y);
                sizes[lane] += f64::from(y.abs());
            }
            *byte = bits.into_iter().fold(0, |byte, bit| byte | bit);
        }
        let (vectors, vector_rest) = self.vector.as_chunks::<8>();
        let (means, mean_rest) = self.mean.as_chunks::<8>();
        let mut of_mean = [0f64; 8];
        let product = |x: f32, mean: f32| f64::from(x - mean) * f64::from(mean);
        for (x, mean) in vectors.iter().zip(means) {
            for lane in 0..8 {
                of_mean[lane] += product(x[lane], mean[lane]);
            }
        }
        let rest: f64 = vector_rest.iter().zip(mean_rest).map(|(x, mean)| product(*x, *mean)).sum();
        let (squares, sizes): (f64, f64) = (squares.into_iter().sum(), sizes.into_iter().sum());
        let code = if sizes > 0.0 { squares / sizes } else { 0.0 };
        Factors { mean: (of_mean.into_iter().sum::<f64>() + rest) as f32, code: code as f32 }
    }
}

impl Factors {
    /// The larger of each.
    pub fn larger(self, other: Self) -> Self {
        Self { mean: self.mean.abs().max(other.mean.abs()), code: self.code.max(other.code) }
    }
}

impl Units {
    /// Units in which factors up to `largest` fit a half-precision number, with all its bits.
    pub fn covering(largest: Factors) -> Self {
        // The largest becomes less than 2^15 and at least 2^14.
        let unit = |largest: f32| match largest > 0.0 && largest.is_finite() {
            true => 2f32.powi((largest.log2().floor() as i32 - 14).clamp(-126, 127)),
            false => 1.0,
        };
        Self { mean: unit(largest.mean), code: unit(largest.code) }
    }
}
