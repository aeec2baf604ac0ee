//! Disks that fail, and a small build to try on them.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod build;
pub mod faulty;
pub mod quantized;
pub mod volatile;

use std::path::Path;

use tempfile::TempDir;

/// A folder, in memory where there is such a place: it is fast, and nothing here needs a real disk.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    folder.expect("a temporary folder")
}
