//! Numbers in the pages of index files: little-endian, at fixed places.

/// Bytes of a page: the size of headers and footers, and the alignment of what is mapped.
pub const PAGE: usize = 4096;

/// The number at `at`, which must have its four bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The number at `at`, which must have its eight bytes.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
