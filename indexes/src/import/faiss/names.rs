//! The kinds of faiss indexes by the letters that they begin with.

const KINDS: [(&[u8; 4], &str); 32] = [
    (b"IxFI", "a flat index by inner product"),
    (b"IxF2", "a flat index by L2"),
    (b"IxFl", "a flat index"),
    (b"IHNf", "HNSW over flat vectors"),
    (b"IHNs", "HNSW over a scalar quantiser"),
    (b"IHNp", "HNSW over product-quantised codes"),
    (b"IHN2", "HNSW over two levels of codes"),
    (b"IHNc", "HNSW made from CAGRA"),
    (b"IHc2", "HNSW made from CAGRA"),
    (b"IHfP", "HNSW over flat vectors in panorama layout"),
    (b"INSf", "a graph (NSG) over flat vectors"),
    (b"IxMp", "an id map"),
    (b"IxM2", "an id map with its inverse"),
    (b"IxSQ", "a scalar quantiser"),
    (b"IxPT", "an index behind a transformation of the vectors"),
    (b"IxRF", "an index with a second one that refines it"),
    (b"IxPq", "product-quantised codes"),
    (b"IPfs", "product-quantised codes for fast scan"),
    (b"IxRq", "residual-quantised codes"),
    (b"IxLS", "additive-quantised codes (LSQ)"),
    (b"IxLa", "lattice-quantised codes"),
    (b"Ixrq", "1-bit codes (RaBitQ)"),
    (b"Irfn", "1-bit codes (RaBitQ) for fast scan"),
    (b"IwFl", "inverted lists of whole vectors"),
    (b"IwP2", "inverted lists of whole vectors in panorama layout"),
    (b"IwSq", "inverted lists of scalar-quantised codes"),
    (b"IwPQ", "inverted lists of product-quantised codes"),
    (b"IwQR", "inverted lists of product-quantised codes with refinement"),
    (b"IwPf", "inverted lists of product-quantised codes for fast scan"),
    (b"IwRQ", "inverted lists of residual-quantised codes"),
    (b"Iwrq", "inverted lists of 1-bit codes (RaBitQ)"),
    (b"Iwrn", "inverted lists of 1-bit codes (RaBitQ) for fast scan"),
];

/// What an index that begins with these letters is.
pub(super) fn of(letters: [u8; 4]) -> Option<&'static str> {
    KINDS.iter().find(|(kind, _)| **kind == letters).map(|(_, name)| *name)
}
