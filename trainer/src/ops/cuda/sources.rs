//! Which kernels are there, and for which types and sizes are they compiled?

use candle_core::DType;

/// Types of elements, as the sources name them.
const ELEMENTS: [&str; 2] = ["float", "bf16"];

/// A source of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    /// The file, for messages.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    /// Whether products and sums may become one operation, which rounds once: faster, but not as the CPU does it.
    pub(super) fused: bool,
}

macro_rules! source {
    ($name:literal) => {
        Source { name: concat!($name, ".cu"), text: include_str!(concat!($name, ".cu")), fused: true }
    };
}

/// What all sources begin with.
pub(super) const COMMON: &str = include_str!("common.cuh");
pub(crate) const ADAMW: Source = Source { fused: false, ..source!("adamw") };
pub(crate) const ATTENTION: Source = source!("attention");
pub(crate) const ATTENTION_MMA: Source = source!("attention_mma");
pub(crate) const DECODE: Source = source!("decode");
pub(crate) const EMBEDDING: Source = source!("embedding");
pub(crate) const LOGITS: Source = source!("logits");
pub(crate) const MEANS: Source = source!("means");
pub(crate) const NORM: Source = source!("norm");
pub(crate) const ROTARY: Source = source!("rotary");
pub(crate) const SWIGLU: Source = source!("swiglu");

/// A size of heads for which attention is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HeadSize {
    /// Values of a head at most.
    pub dim: usize,
    /// Rows of a tile: as many as fit into 48 KiB of shared memory.
    pub tile: usize,
}

/// Sizes of heads for which attention by tensor cores is compiled, in bf16 alone. No other heads fit.
const MMA_HEADS: &[HeadSize] = &[HeadSize { dim: 64, tile: 64 }, HeadSize { dim: 128, tile: 64 }];

/// Sizes of heads of all others, ascending; smaller heads fit, too.
const HEADS: &[HeadSize] = &[
    HeadSize { dim: 32, tile: 32 },
    HeadSize { dim: 64, tile: 32 },
    HeadSize { dim: 128, tile: 16 },
    HeadSize { dim: 256, tile: 8 },
];

/// What a source is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(super) element: DType,
    pub(super) head: Option<HeadSize>,
}

impl Form {
    /// For elements of this type; nothing where there is no kernel for it.
    pub(crate) fn of(element: DType) -> Option<Self> {
        matches!(element, DType::F32 | DType::BF16).then_some(Self { element, head: None })
    }

    /// For heads of `dim` values, too; nothing where they are larger than all for which kernels are compiled.
    pub(super) fn with_heads(self, dim: usize) -> Option<Self> {
        let head = HEADS.iter().find(|head| dim <= head.dim)?;
        Some(Self { head: Some(*head), ..self })
    }

    /// The same, where tensor cores take such heads.
    pub(super) fn with_mma_heads(self, dim: usize) -> Option<Self> {
        let head = MMA_HEADS.iter().find(|head| dim == head.dim && self.element == DType::BF16)?;
        Some(Self { head: Some(*head), ..self })
    }

    /// The compiler's options.
    pub(super) fn options(self, source: &Source) -> Vec<String> {
        let element = ELEMENTS[usize::from(self.element == DType::BF16)];
        let mut options = vec![format!("-DELEMENT={element}")];
        if let Some(HeadSize { dim, tile }) = self.head {
            options.extend([format!("-DDIM={dim}"), format!("-DTILE={tile}")]);
        }
        options.extend(["--std=c++17".into(), "--gpu-architecture=compute_80".into()]);
        options.push(format!("--fmad={}", source.fused));
        options
    }
}
