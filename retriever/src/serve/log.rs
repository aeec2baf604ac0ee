//! One JSON object a line on standard error. Whatever could steer a terminal or reorder a line is escaped.

use std::io::Write;
use std::time::SystemTime;

use serde_json::{Map, Value};

/// Writes an event with its facts.
pub(super) fn event(name: &str, facts: &[(&str, Value)]) {
    let mut line = Map::new();
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    line.insert("time".into(), (time.as_millis() as u64 as f64 / 1000.0).into());
    line.insert("event".into(), name.into());
    line.extend(facts.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let line = format!("{}\n", escape(&Value::Object(line).to_string()));
    // Nobody may be reading; the server goes on.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// JSON with every character escaped that is not shown as itself. (Control characters below U+0020 are already.)
fn escape(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{61c}'
            | '\u{feff}' => {
                plain.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_steers_the_terminal() {
        let line = serde_json::json!({ "path": "/a\u{1b}[31m\n\u{202e}b\u{9b}c" }).to_string();
        assert_eq!(escape(&line), r#"{"path":"/a\u001b[31m\n\u202eb\u009bc"}"#);
    }
}
