//! Estimates of a block of 64 rows for a few queries at once, in the vector instructions that the machine has.
//!
//! A query is rounded to whole numbers, one a coordinate, so that all kernels add the same integers and give the same
//! bits; they differ in how many coordinates they look up at once. The sums become estimates by the same fused
//! operations in the same order. The scalar kernel is the oracle of the others.

mod scalar;
mod table;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
pub use table::QueryParts;
pub use table::{Line, Query, bytes_of};

/// Rows of a block.
pub const BLOCK: usize = 64;
/// Bytes of a row's two factors.
pub const FACTOR_BYTES: usize = 4;
/// Coordinates of a code come in groups of so many: what three bytes hold.
pub const GROUP: usize = 24;

/// Estimates of the rows of a block for one query.
pub type Estimates = [f32; BLOCK];

/// Takes what a kernel found worth a look.
pub trait Sink {
    /// The estimate that a row needs, for the query at this place.
    fn threshold(&self, query: usize) -> f32;

    /// Takes the estimates of block `block`, counted from the first of the call; bits of `passed` tell the rows that
    /// reach the threshold.
    fn take(&mut self, query: usize, block: usize, passed: u64, estimates: &Estimates);
}

/// A set of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// One row after the other; the definition.
    Scalar,
    /// Look-ups of four coordinates, 32 rows at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Look-ups of six coordinates, 64 rows at once.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Look-ups of four coordinates, 16 rows at once.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Kernel {
    /// Those that this machine runs, the fastest first.
    pub fn available() -> Vec<Self> {
        let all = [
            #[cfg(target_arch = "x86_64")]
            (Self::Avx512, avx512::is_available()),
            #[cfg(target_arch = "x86_64")]
            (Self::Avx2, avx2::is_available()),
            #[cfg(target_arch = "aarch64")]
            (Self::Neon, true),
            (Self::Scalar, true),
        ];
        all.into_iter().filter(|(_, is_available)| *is_available).map(|(kernel, _)| kernel).collect()
    }

    /// The fastest.
    pub fn best() -> Self {
        static BEST: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| Self::available()[0])
    }

    /// The coordinates that this kernel looks up at once.
    fn lookup(self) -> table::Lookup {
        match self {
            Self::Scalar => table::Lookup::None,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => table::Lookup::Four,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => table::Lookup::Six,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => table::Lookup::Four,
        }
    }

    /// Estimates all rows of whole `blocks` for `queries`, which were made for this kernel. Blocks that fit the
    /// second-level cache are fastest.
    ///
    /// # Panics
    /// When `blocks` are not whole, or there are no queries.
    pub fn scan(self, blocks: &[u8], queries: &[&Query], sink: &mut impl Sink) {
        assert!(!queries.is_empty(), "a query");
        assert!(queries.iter().all(|query| query.kernel() == self), "queries made for this kernel");
        let bytes = queries[0].code_bytes();
        assert!(queries.iter().all(|query| query.code_bytes() == bytes), "queries of one length");
        assert!(blocks.len().is_multiple_of((bytes + FACTOR_BYTES) * BLOCK), "whole blocks");
        match self {
            Self::Scalar => scalar::scan(blocks, queries, sink),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::scan(blocks, queries, sink),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::scan(blocks, queries, sink),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => neon::scan(blocks, queries, sink),
        }
    }
}

/// Hands the sink what a block's sums come to for the query at place `at`, where a row reaches its threshold.
#[inline(always)]
fn offer(sums: &[u16; BLOCK], factors: &[u8], query: &Query, at: usize, block: usize, sink: &mut impl Sink) {
    let mut estimates = [0.0; BLOCK];
    let passed = estimate(sums, factors, query, sink.threshold(at), &mut estimates);
    if passed != 0 {
        sink.take(at, block, passed, &estimates);
    }
}

/// Estimates from the sums of a block, for kernels that leave this to the compiler; bits of the result tell the rows
/// that reach `threshold`. `factors` are the block's, behind its codes.
#[inline(always)]
fn estimate(sums: &[u16; BLOCK], factors: &[u8], query: &Query, threshold: f32, estimates: &mut Estimates) -> u64 {
    let parts = query.parts();
    let (first, second) = factors.split_at(2 * BLOCK);
    let factor =
        |bytes: &[u8], row: usize| crate::matrix::f16_value(u16::from_le_bytes([bytes[2 * row], bytes[2 * row + 1]]));
    for row in 0..BLOCK {
        let of_sum = parts.per_unit.mul_add(f32::from(sums[row]), parts.at_zero);
        let of_mean = factor(first, row).mul_add(parts.mean_unit, parts.base);
        estimates[row] = factor(second, row).mul_add(of_sum, of_mean);
    }
    let mut passed = 0;
    for (row, estimate) in estimates.iter().enumerate() {
        passed |= u64::from(*estimate >= threshold) << row;
    }
    passed
}
