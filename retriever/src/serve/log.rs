//! One JSON object a line on standard error. Whatever could steer a terminal or reorder a line is escaped.
//!
//! A thread of its own writes, so that a reader that is slow or stuck never holds up a request: lines that find no room are
//! dropped, and counted in the next one that does.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

/// Lines that may wait to be written.
const ROOM: usize = 8192;
/// How long the end of the program waits for them.
const LAST_LINES: Duration = Duration::from_millis(500);

static DROPPED: AtomicU64 = AtomicU64::new(0);

enum Job {
    Write(String),
    Tell(SyncSender<()>),
}

fn writer() -> Option<&'static SyncSender<Job>> {
    static WRITER: OnceLock<Option<SyncSender<Job>>> = OnceLock::new();
    let start = || {
        let (sender, jobs) = sync_channel(ROOM);
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(move || write(&jobs)).is_ok().then_some(sender)
    };
    WRITER.get_or_init(start).as_ref()
}

fn write(jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            // Nobody may be reading; the server goes on.
            Job::Write(line) => drop(std::io::stderr().write_all(line.as_bytes())),
            Job::Tell(done) => drop(done.send(())),
        }
    }
}

/// Waits a little for the lines that are not written yet.
pub(super) fn finish() {
    let (done, told) = sync_channel(1);
    if writer().is_some_and(|writer| writer.try_send(Job::Tell(done)).is_ok()) {
        let _ = told.recv_timeout(LAST_LINES);
    }
}

/// Writes an event with its facts.
pub(super) fn event(name: &str, facts: &[(&str, Value)]) {
    let mut line = Map::new();
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    line.insert("time".into(), (time.as_millis() as u64 as f64 / 1000.0).into());
    line.insert("event".into(), name.into());
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        line.insert("lines_dropped_before".into(), dropped.into());
    }
    line.extend(facts.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let line = format!("{}\n", escape(&Value::Object(line).to_string()));
    if let Some(Err(TrySendError::Full(_))) = writer().map(|writer| writer.try_send(Job::Write(line))) {
        DROPPED.fetch_add(dropped + 1, Ordering::Relaxed);
    }
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
