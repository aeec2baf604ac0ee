//! Memory grows neither with a file of vectors nor with what its header claims. One test, so that nothing else is counted.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use hindsearch_indexes::VectorFile;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const DIMENSIONS: usize = 256;

/// The peak of the process's memory, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// The most that `work` adds to it.
fn added(work: impl FnOnce()) -> u64 {
    // Resets the peak: proc(5).
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    work();
    peak().saturating_sub(before)
}

#[test]
fn memory_depends_neither_on_the_file_nor_on_what_it_claims() {
    // In memory where there is such a place: it is fast, and files there are not the process's.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap();
    let path = folder.path().join("vectors");
    let mut file = File::create(&path).unwrap();
    let block: Vec<u8> = (0..MIB / 4).flat_map(|x| (x as f32).to_le_bytes()).collect();
    for _ in 0..160 {
        file.write_all(&block).unwrap();
    }
    let streaming = added(|| {
        let file = VectorFile::open(std::slice::from_ref(&path), DIMENSIONS).unwrap();
        assert_eq!(file.rows(), 160 * 1024);
        for row in (0..file.rows()).step_by(1024) {
            assert_eq!(file.read(row..row + 1024).unwrap().as_slice()[1], 1.0);
        }
    });
    assert!(streaming < 24 * MIB, "streaming took {} MiB", streaming / MIB);

    // Every byte of every fixture, sizes included, set to what makes a number large.
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/faiss");
    let claiming = added(|| {
        for fixture in fs::read_dir(fixtures).unwrap() {
            let bytes = fs::read(fixture.unwrap().path()).unwrap();
            for position in 0..bytes.len() {
                for value in [0x7f, 0xff] {
                    let mut altered = bytes.clone();
                    altered[position] = value;
                    fs::write(&path, &altered).unwrap();
                    if let Ok(file) = VectorFile::open(std::slice::from_ref(&path), 8) {
                        file.read(0..file.rows()).unwrap();
                    }
                }
            }
        }
    });
    assert!(claiming < 64 * MIB, "refusing took {} MiB", claiming / MIB);
}
