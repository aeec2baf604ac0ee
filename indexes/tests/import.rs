//! Vectors that faiss and NumPy wrote come in as they are; files that are not whole, or not what they claim, are refused
//! with the numbers. The fixtures' README says how they were made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_indexes::{
    Comparison, ElementType, ErrorKind, ExportFormat, Flat, Interrupt, Matrix, MatrixSpec, MatrixWriter, Sharded,
    Tally, VectorFile, Vectors, export_vectors, read_npy,
};
use proptest::prelude::*;
use tempfile::TempDir;

const ROWS: u64 = 24;
const DIMENSIONS: usize = 8;

/// Files that hold the vectors of `vectors.npy` to the bit.
const EXACT: [&str; 15] = [
    "vectors.npy",
    "version_2.npy",
    "version_3.npy",
    "vectors.memmap",
    "flat_ip.faiss",
    "flat_l2.faiss",
    "hnsw_ip.faiss",
    "hnsw_l2.faiss",
    "id_map.faiss",
    "id_map2.faiss",
    "id_map_same.faiss",
    "ivf.faiss",
    "ivf_ids.faiss",
    "ivf_array.faiss",
    "ivf_hash.faiss",
];
/// Files that hold rounded vectors: those of the file of the same name in NumPy's format.
const ROUNDED: [&str; 6] = ["sq_fp16", "sq_bf16", "sq_8bit", "sq_8bit_uniform", "hnsw_sq8", "ivf_few"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/faiss").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).unwrap()
}

fn open(paths: &[PathBuf]) -> hindsearch_indexes::Result<VectorFile> {
    VectorFile::open(paths, DIMENSIONS)
}

fn all(file: &VectorFile) -> Vectors {
    file.read(0..file.rows()).unwrap()
}

/// Writes `bytes` and opens them.
fn opened(folder: &TempDir, bytes: &[u8]) -> hindsearch_indexes::Result<VectorFile> {
    let path = folder.path().join("vectors");
    fs::write(&path, bytes).unwrap();
    open(&[path])
}

fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// That `found` is a refusal in `words`.
#[track_caller]
fn refused(found: hindsearch_indexes::Result<VectorFile>, words: &[&str]) {
    let error = found.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "no {word:?} in: {error}");
    }
}

#[test]
fn vectors_come_in_as_faiss_and_numpy_hold_them() {
    let expected = read_npy(&fixture("vectors.npy")).unwrap();
    for name in EXACT {
        let file = open(&[fixture(name)]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((file.rows(), file.dimensions()), (ROWS, DIMENSIONS), "{name}");
        assert_eq!(all(&file), expected, "{name}");
    }
    for name in ROUNDED {
        let file = open(&[fixture(&format!("{name}.faiss"))]).unwrap();
        let (found, expected) = (all(&file), read_npy(&fixture(&format!("{name}.npy"))).unwrap());
        // Compilers may fuse a product and a sum.
        let near = found.as_slice().iter().zip(expected.as_slice()).all(|(a, b)| (a - b).abs() <= 1e-6);
        assert!(near && found.len() == expected.len(), "{name}: {found:?} {expected:?}");
    }
    let half = read_npy(&fixture("half.npy")).unwrap();
    assert_eq!(half, read_npy(&fixture("sq_fp16.npy")).unwrap());
}

#[test]
fn any_rows_can_be_read_in_any_order() {
    for name in ["flat_ip.faiss", "ivf_ids.faiss", "sq_8bit.faiss"] {
        let file = open(&[fixture(name)]).unwrap();
        let whole = all(&file);
        for start in (0..=ROWS).rev() {
            for end in start..=ROWS {
                let values = start as usize * DIMENSIONS..end as usize * DIMENSIONS;
                assert_eq!(
                    file.read(start..end).unwrap().as_slice(),
                    &whole.as_slice()[values],
                    "{name} {start} {end}"
                );
            }
        }
        assert_eq!(file.read(3..ROWS + 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn formats_and_metrics_are_told() {
    for (name, format, comparison) in [
        ("flat_ip.faiss", "IxFI", Comparison::InnerProduct),
        ("hnsw_l2.faiss", "IxF2) under a graph (IHNf)", Comparison::Distance),
        ("id_map2.faiss", "id map (IxM2)", Comparison::InnerProduct),
        ("half.npy", "NumPy array (f2)", Comparison::InnerProduct),
        ("vectors.memmap", "raw f32", Comparison::InnerProduct),
    ] {
        let file = open(&[fixture(name)]).unwrap();
        assert!(file.format().contains(format), "{}", file.format());
        assert_eq!(file.comparison(), comparison, "{name}");
    }
}

#[test]
fn parts_are_one_file_wherever_it_was_split() {
    let folder = scratch();
    let (head, middle, tail) =
        (folder.path().join("part_aa"), folder.path().join("part_ab"), folder.path().join("part_ac"));
    for name in ["hnsw_ip.faiss", "id_map.faiss", "ivf_hash.faiss", "vectors.npy", "vectors.memmap"] {
        let (whole, expected) = (bytes(name), all(&open(&[fixture(name)]).unwrap()));
        // The first bytes of a file tell what it is; those of an index within begin no file of its own.
        let inner = |at: usize| whole[at..].starts_with(b"IxF");
        for at in (8..whole.len()).filter(|at| !inner(*at)) {
            let second = (at + (whole.len() - at) / 3..whole.len()).find(|at| !inner(*at)).unwrap_or(at);
            fs::write(&head, &whole[..at]).unwrap();
            fs::write(&middle, &whole[at..second]).unwrap();
            fs::write(&tail, &whole[second..]).unwrap();
            let file = open(&[head.clone(), middle.clone(), tail.clone()]).unwrap();
            assert_eq!(all(&file), expected, "{name} split at {at} and {second}");
        }
    }
    let whole = bytes("hnsw_ip.faiss");
    fs::write(&head, &whole[..900]).unwrap();
    fs::write(&tail, &whole[1000..]).unwrap();
    refused(open(&[head, tail]), &["2 parts"]);
}

#[test]
fn whole_files_follow_one_another() {
    let file = open(&["flat_ip.faiss", "half.npy", "ivf.faiss"].map(fixture)).unwrap();
    assert_eq!(file.rows(), 3 * ROWS);
    assert_eq!(file.path_of(ROWS), fixture("half.npy"));
    let (exact, half) = (read_npy(&fixture("vectors.npy")).unwrap(), read_npy(&fixture("half.npy")).unwrap());
    let expected = [exact.as_slice(), half.as_slice(), exact.as_slice()].concat();
    assert_eq!(all(&file).as_slice(), expected);
    let across = file.read(ROWS - 1..2 * ROWS + 1).unwrap();
    assert_eq!(across.as_slice(), &expected[(ROWS as usize - 1) * DIMENSIONS..(2 * ROWS as usize + 1) * DIMENSIONS]);

    let folder = scratch();
    let other = folder.path().join("other.npy");
    hindsearch_indexes::write_npy(&other, &Vectors::new(3, vec![1.0; 6]).unwrap()).unwrap();
    refused(open(&[fixture("vectors.npy"), other]), &["8 values a row", "3 values a row"]);
}

#[test]
fn a_file_cut_anywhere_is_refused_with_the_missing_bytes() {
    let folder = scratch();
    for name in EXACT.into_iter().map(str::to_owned).chain(ROUNDED.map(|name| format!("{name}.faiss"))) {
        let whole = bytes(&name);
        for length in 0..whole.len() {
            // Whole rows of a raw array are one, of fewer rows.
            if name == "vectors.memmap" && length > 0 && length.is_multiple_of(4 * DIMENSIONS) {
                assert_eq!(opened(&folder, &whole[..length]).unwrap().rows(), (length / 4 / DIMENSIONS) as u64);
                continue;
            }
            let known = length >= 8 && name != "vectors.memmap";
            refused(opened(&folder, &whole[..length]), if known { &["are missing", "bytes"] } else { &["bytes"] });
        }
    }
}

#[test]
fn trailing_bytes_are_refused_with_their_number() {
    let folder = scratch();
    for name in EXACT.into_iter().map(str::to_owned).chain(ROUNDED.map(|name| format!("{name}.faiss"))) {
        if name != "vectors.memmap" {
            refused(opened(&folder, &[bytes(&name), vec![0; 7]].concat()), &["7 too many"]);
        }
    }
    refused(
        opened(&folder, &[bytes("vectors.memmap"), vec![0; 7]].concat()),
        &["24 rows and 7 bytes", "32 bytes each"],
    );
}

#[test]
fn other_formats_are_named_with_what_to_do() {
    for (name, words) in [
        ("refused_sq_4bit.faiss", ["4 bit", "import the vectors that it was made from"]),
        ("refused_pca.faiss", ["IxPT", "transformation"]),
        ("refused_refine.faiss", ["IxRF", "reconstruct_n"]),
        ("refused_pq.faiss", ["IxPq", "product-quantised"]),
        ("refused_no_vectors.faiss", ["without its vectors", "import the flat index"]),
        ("id_map_strangers.faiss", ["0 to 23", "ids from 100 to 261: 24 outside"]),
        ("id_map_twice.faiss", ["ids from 0 to 11", "12 more than once"]),
        ("refused_fortran.npy", ["C order", "ascontiguousarray"]),
        ("refused_double.npy", ["<f8", "numpy.save"]),
        ("refused_flat.npy", ["two dimensions", "(192,)"]),
        ("refused_objects.npy", ["|O", "numpy.save"]),
    ] {
        refused(open(&[fixture(name)]), &words);
    }
    let folder = scratch();
    for (start, words) in [
        (&b"\x80\x04\x95"[..], ["pickle", "numpy.save"]),
        (b"PK\x03\x04", [".npz", "numpy.save"]),
        (b"\x1f\x8b\x08", ["gzip", "unpack"]),
        (b"version https://git-lfs.github.com/spec/v1", ["Git LFS", "git lfs pull"]),
        (b"hello", ["a faiss index, a NumPy array", "--model"]),
    ] {
        refused(opened(&folder, &[start, &[1; 50]].concat()), &words);
    }
    assert_eq!(open(&[]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(open(&[folder.path().join("none")]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(open(&[folder.path().to_path_buf()]).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// A flat index's header that claims `d` values, `n` rows and `count` values in all.
fn flat(d: i32, n: i64, metric: i32, count: u64) -> Vec<u8> {
    let unused = (1_i64 << 20).to_le_bytes();
    let parts: [&[u8]; 8] = [
        b"IxFI",
        &d.to_le_bytes(),
        &n.to_le_bytes(),
        &unused,
        &unused,
        &[1],
        &metric.to_le_bytes(),
        &count.to_le_bytes(),
    ];
    parts.concat()
}

fn npy(shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

#[test]
fn absurd_headers_are_refused_with_their_numbers() {
    let folder = scratch();
    let cases: [(Vec<u8>, &str); 15] = [
        (flat(8, -1, 0, 0), "-1"),
        (flat(-8, 1, 0, 8), "-8"),
        (flat(0, 1, 0, 0), "1 to 1048576"),
        (flat((1 << 20) + 1, 1, 0, (1 << 20) + 1), "1048577"),
        (flat(8, i64::MAX, 0, u64::MAX), "73786976294838206456 values"),
        (flat(1, i64::MAX, 0, i64::MAX as u64), "36893488147419103228 are missing"),
        (flat(8, 1 << 40, 0, 1 << 43), "are missing"),
        (flat(8, 2, 0, 15), "16 values, 2 rows of 8"),
        (flat(8, 2, 1, 16), "metric that `IxFI` stands for"),
        (flat(8, 2, 4, 16), "metric 4"),
        (npy("(9223372036854775808, 8)"), "are missing"),
        (npy("(99999999999999999999999, 8)"), "one array"),
        (npy("(-1, 8)"), "one array"),
        (npy("(1, 1048577)"), "1048577"),
        ([b"\x93NUMPY\x02\x00", &u32::MAX.to_le_bytes()[..]].concat(), "4294967295"),
    ];
    for (bytes, words) in cases {
        refused(opened(&folder, &bytes), &[words]);
    }

    // Indexes in one another without an end.
    let header = &flat(8, 2, 0, 0)[4..37];
    let nested: Vec<u8> = (0..1000).flat_map(|_| [b"IxMp", header].concat()).collect();
    refused(opened(&folder, &nested), &["in one another"]);
}

#[test]
fn the_share_of_half_precision_values_is_counted() {
    let mut tally = Tally::default();
    tally.add(&read_npy(&fixture("half.npy")).unwrap());
    assert_eq!((tally.values, tally.exact_f16), (192, 192));
    tally.add(&read_npy(&fixture("vectors.npy")).unwrap());
    assert!(tally.values == 384 && tally.exact_f16 < 200, "{tally:?}");
    assert!((tally.least_norm - 1.0).abs() < 1e-3 && (tally.greatest_norm - 1.0).abs() < 1e-3, "{tally:?}");
    assert_eq!(Tally::default().share_exact_f16(), 1.0);
}

#[test]
fn exported_files_are_those_that_faiss_and_numpy_write() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let vectors = read_npy(&fixture("vectors.npy")).unwrap();
    let mut writer = MatrixWriter::create(&path("vectors"), MatrixSpec::new(DIMENSIONS, ElementType::F32)).unwrap();
    writer.append(&vectors).unwrap();
    writer.finish().unwrap();
    let index = Sharded::single(Flat::new(Arc::new(Matrix::open(&path("vectors")).unwrap())));
    for (name, written) in [("out.faiss", "flat_ip.faiss"), ("out.npy", "vectors.npy")] {
        let format = ExportFormat::of(&path(name)).unwrap();
        export_vectors(&index, &path(name), format, &|_| (), &Interrupt::new()).unwrap();
        assert_eq!(fs::read(path(name)).unwrap(), bytes(written), "{name}");
    }
    assert_eq!(ExportFormat::of(&path("out.index")), Some(ExportFormat::Faiss));
    assert_eq!(ExportFormat::of(&path("out.txt")), None);

    let interrupt = Interrupt::new();
    interrupt.stop();
    export_vectors(&index, &path("stopped.npy"), ExportFormat::Npy, &|_| (), &interrupt).unwrap_err();
    assert!(!path("stopped.npy").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(3000)))]

    /// Whatever bytes say, the answer is vectors of the file's length or an error.
    #[test]
    fn changed_bytes_never_panic(
        which in 0..EXACT.len() + ROUNDED.len(),
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..5),
        near_the_start in any::<bool>(),
    ) {
        let mut changed = match EXACT.get(which) {
            Some(name) => bytes(name),
            None => bytes(&format!("{}.faiss", ROUNDED[which - EXACT.len()])),
        };
        let end = if near_the_start { changed.len().min(160) } else { changed.len() };
        for (place, value) in changes {
            changed[(place * end as f64) as usize] = value;
        }
        let folder = scratch();
        if let Ok(file) = opened(&folder, &changed) {
            let bytes_of_values = file.rows() * file.dimensions() as u64;
            prop_assert!(bytes_of_values <= changed.len() as u64);
            prop_assert_eq!(all(&file).len() as u64, file.rows());
        }
    }
}
