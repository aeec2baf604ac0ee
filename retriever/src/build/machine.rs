//! What this machine has left: memory and disk.

use std::path::Path;

/// Bytes of memory that a new process can use: the kernel's estimate, or less where a control group limits us.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    let free = kibibytes.saturating_mul(1024);
    Some(group_headroom().map_or(free, |headroom| headroom.min(free)))
}

/// What the control group leaves, where it sets a limit.
fn group_headroom() -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

/// Bytes that can still be written at `path`, or at the nearest folder above it that exists.
pub fn available_disk(path: &Path) -> Option<u64> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find(|folder| folder.exists())?;
    fs4::available_space(existing).ok()
}
