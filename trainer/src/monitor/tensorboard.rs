//! How are numbers written so that TensorBoard shows them?
//!
//! A file of events is a sequence of records: length (u64, little-endian), masked CRC32C of the length, the bytes, masked
//! CRC32C of the bytes (TensorFlow's `record_writer`). The bytes are a protocol buffer `Event`. Four messages are enough:
//!
//! ```text
//! Event       1 double wall_time, 2 int64 step, 3 string file_version | 5 Summary | 7 SessionLog
//! Summary     1 repeated Value
//! Value       1 string tag, 2 float simple_value
//! SessionLog  1 enum status (1: START, from this step on what was there before counts no more)
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::metrics::Record;

const PREFIX: &str = "events.out.tfevents.";
const VERSION: &str = "brain.Event:2";
/// The kinds of values in a protocol buffer, in the low bits of a field's key.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const BYTES: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// The name for the events of this start of the run. TensorBoard reads a folder's files in the order of their names.
pub(super) fn next_file(folder: &Path) -> io::Result<PathBuf> {
    let mut last = 0;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        last = last.max(number.unwrap_or(0_u64));
    }
    Ok(folder.join(format!("{PREFIX}{:010}", last.saturating_add(1))))
}

/// What a file begins with: its version, and that in the files before it `step` and all later ones count no more.
pub(super) fn begin(step: u64, wall: f64) -> Vec<u8> {
    let mut version = head(wall, 0);
    field(&mut version, 3, VERSION.as_bytes());
    let mut start = head(wall, step);
    field(&mut start, 7, &[(1 << 3) | VARINT as u8, 1]);
    [record(&version), record(&start)].concat()
}

/// The numbers of a step.
pub(super) fn event(numbers: &Record, wall: f64) -> Vec<u8> {
    let mut summary = Vec::new();
    for (name, value) in &numbers.values {
        let mut one = Vec::new();
        field(&mut one, 1, name.as_bytes());
        key(&mut one, 2, FOUR_BYTES);
        one.extend((*value as f32).to_le_bytes());
        field(&mut summary, 1, &one);
    }
    let mut event = head(wall, numbers.step);
    field(&mut event, 5, &summary);
    record(&event)
}

fn head(wall: f64, step: u64) -> Vec<u8> {
    let mut event = Vec::new();
    key(&mut event, 1, EIGHT_BYTES);
    event.extend(wall.to_le_bytes());
    key(&mut event, 2, VARINT);
    varint(&mut event, step);
    event
}

fn key(into: &mut Vec<u8>, number: u64, kind: u64) {
    varint(into, number << 3 | kind);
}

fn field(into: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    key(into, number, BYTES);
    varint(into, bytes.len() as u64);
    into.extend(bytes);
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), bytes, &masked(bytes)].concat()
}

/// A checksum, turned and shifted so that one over bytes that hold checksums is sound as well.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}
