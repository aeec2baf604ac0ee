//! What people read on stdout: aligned facts, numbers, and text made harmless.

use std::io::{self, Write};

/// Prints name and value pairs, aligned.
///
/// # Errors
/// Whatever `out` refuses.
pub fn facts(out: &mut dyn Write, facts: &[(&str, String)]) -> io::Result<()> {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().try_for_each(|(name, value)| writeln!(out, "  {name:width$}  {}", harmless(value)))
}

/// Text from passages and files with everything that could steer a terminal or reorder the line made visible.
pub fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => ' ',
            c if c.is_control() => '\u{fffd}',
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// The first `width` characters, with an ellipsis where text was cut.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Bytes as people say them: `1.5 GB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A duration as people say it: `2 h 5 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 10.0 => format!("{seconds:.1} s"),
        0..120 => format!("{whole} s"),
        120..7200 => format!("{} min", whole / 60),
        7200..172_800 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} days {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A count with its thousands apart: `21,015,324`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut spaced = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            spaced.push(',');
        }
        spaced.push(digit);
    }
    spaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(harmless("a\u{1b}[31mred\u{202e}x\ny"), "a\u{fffd}[31mred\u{fffd}x y");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(21_015_324), "21,015,324");
        assert_eq!(count(999), "999");
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(32_280_000_000), "32.3 GB");
        assert_eq!(duration(0.25), "0.2 s");
        assert_eq!(duration(7500.0), "2 h 5 min");
    }
}
