//! Reads the index ahead, so that the first questions need not wait for the disk.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use hindsearch_indexes::split_shard_file;

use super::service::Service;

/// Small, as the allocator keeps a buffer of megabytes for each thread that had one, and each generation has a thread.
const STEP: usize = 256 << 10;
/// Share of the free memory that reading ahead may fill.
const SHARE: f64 = 0.8;

/// Starts a thread that does so, where that is wanted. What does not fit into memory stays on the disk.
pub(super) fn start(service: &Arc<Service>) {
    if !service.options().page_in {
        return;
    }
    let service = Arc::downgrade(service);
    let Some(strong) = service.upgrade() else { return };
    let generation = strong.serving().retriever().generation().path().to_path_buf();
    let number = strong.serving().retriever().generation().number();
    let mut files: Vec<_> = strong.serving().retriever().generation().manifest().files.clone();
    // Searching needs these first; passages are read a few at a time.
    let rank = |name: &str| ["graph", "codes", "vectors", "ids", "passages"].iter().position(|known| *known == name);
    files.sort_by_key(|file| rank(split_shard_file(&file.name).0));
    strong.metrics().page_in_total.set(files.iter().map(|file| file.length as i64).sum());
    drop(strong);
    let budget = (available_memory() as f64 * SHARE) as u64;
    let read = move || {
        let (mut buffer, mut done) = (vec![0; STEP], 0u64);
        for file in files {
            let Ok(mut file) = File::open(generation.join(&file.name)) else { return };
            while let Ok(count @ 1..) = file.read(&mut buffer) {
                done += count as u64;
                // Whoever asks meanwhile comes first.
                std::thread::sleep(Duration::from_micros(100));
                let Some(service) = service.upgrade() else { return };
                // The next generation has a thread of its own.
                if service.serving().retriever().generation().number() != number {
                    return;
                }
                service.metrics().page_in.set(done as i64);
                if done > budget {
                    return;
                }
            }
        }
    };
    // Without a thread for it, pages come when they are needed.
    let _ = std::thread::Builder::new().name("read ahead".into()).spawn(read);
}

/// Bytes that programs can still have; all where the system does not tell.
fn available_memory() -> u64 {
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = facts.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(u64::MAX, |kilobytes| kilobytes * 1024)
}
