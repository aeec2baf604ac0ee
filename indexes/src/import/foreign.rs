//! What is a file that is not read, and what can be done with it?

/// What is read, for messages.
pub(super) const READ: &str = "a faiss index, a NumPy array (`.npy`) or a raw array";

/// A format by its first bytes.
pub(super) struct Foreign {
    start: &'static [u8],
    pub format: &'static str,
    pub remedy: &'static str,
}

const UNPACK: &str = "unpack it first";
const SAVE: &str = "save the array with `numpy.save` and import that";

const KNOWN: [Foreign; 14] = [
    pickle(b"\x80\x02"),
    pickle(b"\x80\x03"),
    pickle(b"\x80\x04"),
    pickle(b"\x80\x05"),
    Foreign { start: b"PK\x03\x04", format: "a zip archive (`.npz`, `.pt`)", remedy: SAVE },
    Foreign { start: b"\x1f\x8b", format: "gzip", remedy: UNPACK },
    Foreign { start: b"\x28\xb5\x2f\xfd", format: "zstd", remedy: UNPACK },
    Foreign { start: b"\xfd7zXZ", format: "xz", remedy: UNPACK },
    Foreign { start: b"\x89HDF", format: "HDF5", remedy: SAVE },
    Foreign { start: b"PAR1", format: "Parquet", remedy: SAVE },
    Foreign { start: b"ARROW1", format: "Arrow", remedy: SAVE },
    Foreign { start: b"usearch", format: "a usearch index", remedy: SAVE },
    Foreign { start: b"HSVECTOR", format: "vectors of this program", remedy: "use the index folder that they are in" },
    Foreign {
        start: b"version ",
        format: "a pointer of Git LFS",
        remedy: "fetch the file itself (`git lfs pull`), then import it",
    },
];

const fn pickle(start: &'static [u8]) -> Foreign {
    Foreign {
        start,
        format: "a Python pickle, which may run any program when it is read",
        remedy: "if you trust its maker, load it in Python, put the vectors in corpus order and `numpy.save` them",
    }
}

/// The format that begins like `start`.
pub(super) fn name(start: [u8; super::parts::START]) -> Option<&'static Foreign> {
    KNOWN.iter().find(|known| start.starts_with(known.start))
}
