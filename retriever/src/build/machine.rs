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

/// What the control group leaves, where it sets a limit. Cached file pages count as used there, and go when asked.
fn group_headroom() -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let statistics = read("memory.stat").unwrap_or_default();
    let cached = |name: &str| -> u64 {
        let line = statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    };
    let used = number("memory.current")?.saturating_sub(cached("inactive_file")).saturating_sub(cached("active_file"));
    Some(number("memory.max")?.saturating_sub(used))
}

/// Bytes that can still be written at `path`, or at the nearest folder above it that exists.
pub fn available_disk(path: &Path) -> Option<u64> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find(|folder| folder.exists())?;
    fs4::available_space(existing).ok()
}
