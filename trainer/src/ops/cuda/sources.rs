//! Which kernels are there, and for which types and sizes are they compiled?

/// Types of elements, as the sources name them.
pub(super) const ELEMENTS: [&str; 2] = ["float", "bf16"];

/// A size of heads for which attention is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HeadSize {
    /// Values of a head at most.
    pub dim: usize,
    /// Rows of a tile: as many as fit into 48 KiB of shared memory.
    pub tile: usize,
}

/// Sizes of heads, ascending.
pub(super) const HEADS: &[HeadSize] = &[
    HeadSize { dim: 32, tile: 32 },
    HeadSize { dim: 64, tile: 32 },
    HeadSize { dim: 128, tile: 16 },
    HeadSize { dim: 256, tile: 8 },
];
