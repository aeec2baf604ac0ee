//! How is a model told what is data and what is an instruction? By lines of dashes that the data cannot hold.

/// Named texts, each between two lines that none of the texts contains.
pub(crate) fn fenced(parts: &[(&str, String)]) -> String {
    let data: String = parts.iter().map(|(_, text)| text.as_str()).collect();
    let fence = (0..).map(|number| format!("----- {:08x}", blake3_word(&data, number)));
    let fence = fence.into_iter().find(|fence| !data.contains(fence.as_str())).unwrap_or_default();
    parts.iter().map(|(name, text)| format!("{name}\n{fence}\n{text}\n{fence}\n")).collect::<Vec<_>>().join("\n")
}

/// A word that depends on the data, so that the data cannot hold it but by chance.
fn blake3_word(data: &str, number: u32) -> u32 {
    let mut hash = blake3::Hasher::new();
    hash.update(&number.to_le_bytes()).update(data.as_bytes());
    let bytes = hash.finalize();
    u32::from_le_bytes([bytes.as_bytes()[0], bytes.as_bytes()[1], bytes.as_bytes()[2], bytes.as_bytes()[3]])
}
