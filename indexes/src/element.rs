//! How a value of a vector is stored.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The storage type of a vector's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// IEEE 754 single precision: the vectors as the embedder gave them.
    F32,
    /// IEEE 754 half precision: half the memory, the same hits.
    #[default]
    F16,
    /// Eight-bit integers about a mean, with one scale a row: a quarter of the memory, nearly the same hits.
    I8,
    /// Sixteen-bit integers about a mean, with one scale a row, in two planes: searches read the upper eight bits, and
    /// the lower ones of the few rows that these do not tell apart. The same hits.
    I16,
}

impl ElementType {
    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::I16 => 2,
            Self::I8 => 1,
        }
    }

    /// Whether values are stored as their distance from a mean, which the matrix then has to be given.
    pub fn is_centred(self) -> bool {
        matches!(self, Self::I8 | Self::I16)
    }

    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I8 => "i8",
            Self::I16 => "i16",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ElementType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::F32, Self::F16, Self::I8, Self::I16].into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            Error::InvalidInput {
                what: "element type".into(),
                expected: "`f32`, `f16`, `i8` or `i16`".into(),
                found: format!("`{text}`"),
            }
        })
    }
}
