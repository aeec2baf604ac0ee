//! How are values stored in the files of others?

use half::{bf16, f16};

/// How a row's values are coded.
#[derive(Debug)]
pub(super) enum Coding {
    F32,
    F16,
    Bf16,
    /// One byte a value: the middle of its 255th of a range.
    Bytes(Vec<ByteRange>),
}

/// The range of a dimension: its lowest value and its width.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteRange {
    pub low: f32,
    pub width: f32,
}

impl Coding {
    pub fn value_bytes(&self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Bytes(_) => 1,
        }
    }

    pub fn row_bytes(&self, dimensions: usize) -> usize {
        dimensions * self.value_bytes() as usize
    }

    /// Decodes whole rows.
    pub fn decode(&self, dimensions: usize, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => each(bytes, out, f32::from_le_bytes),
            Self::F16 => each(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            Self::Bf16 => each(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
            Self::Bytes(ranges) => {
                for (bytes, out) in bytes.chunks_exact(dimensions).zip(out.chunks_exact_mut(dimensions)) {
                    for ((byte, out), range) in bytes.iter().zip(out).zip(ranges) {
                        *out = range.low + (f32::from(*byte) + 0.5) / 255.0 * range.width;
                    }
                }
            }
        }
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = value(*bytes);
    }
}
