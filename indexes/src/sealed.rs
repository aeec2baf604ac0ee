//! JSON files that carry their own checksum.
//!
//! The file is the pretty-printed object with one more member, `checksum`, on its last line but one. Taking that line
//! and the comma before it away gives back the bytes that were hashed, so no rule for canonical JSON is needed.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

const BEFORE: &[u8] = b",\n  \"checksum\": \"";
const AFTER: &[u8] = b"\"\n}\n";
const END: &[u8] = b"\n}";
const DIGITS: usize = 2 * blake3::OUT_LEN;

/// The bytes of a sealed file. `object` becomes a JSON object with at least one member.
///
/// # Errors
/// That of serializing the object.
pub fn seal(object: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let body = serde_json::to_vec_pretty(object)?;
    let checksum = blake3::hash(&body).to_hex();
    let open = body.strip_suffix(END).unwrap_or(&body);
    Ok([open, BEFORE, checksum.as_bytes(), AFTER].concat())
}

/// The object's bytes, once the checksum agrees. `path` is for the message.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn unseal(path: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    let unsealed = || Error::Corrupt {
        path: path.to_path_buf(),
        expected: "JSON that ends in its `checksum`".into(),
        found: format!("{} bytes without one", bytes.len()),
    };
    let rest = bytes.strip_suffix(AFTER).ok_or_else(unsealed)?;
    let (rest, checksum) = rest.split_at_checked(rest.len().saturating_sub(DIGITS)).ok_or_else(unsealed)?;
    let open = rest.strip_suffix(BEFORE).ok_or_else(unsealed)?;
    let body = [open, END].concat();
    let found = blake3::hash(&body).to_hex();
    if found.as_bytes() == checksum {
        return Ok(body);
    }
    Err(Error::Corrupt {
        path: path.to_path_buf(),
        expected: format!("contents of BLAKE3 `{}`", String::from_utf8_lossy(checksum).escape_debug()),
        found: format!("`{found}`"),
    })
}

/// Reads an unsealed object; `expected` says what, for the message.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn parse<T: DeserializeOwned>(path: &Path, body: &[u8], expected: &str) -> Result<T> {
    serde_json::from_slice(body).map_err(|e| Error::Corrupt {
        path: path.to_path_buf(),
        expected: expected.into(),
        found: e.to_string(),
    })
}
