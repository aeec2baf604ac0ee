//! A run's numbers are all recorded, whatever they are and whatever the disk does, and read the same after a resume.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hindsearch_trainer::{Error, Monitor, Notice, OnNotice, Record, read_metrics};

/// What was shown.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<(Vec<String>, Vec<String>)>>);

impl Shown {
    fn on_notice(&self) -> OnNotice {
        let shown = self.0.clone();
        Arc::new(move |notice| {
            let mut shown = shown.lock().expect("no panic");
            match notice {
                Notice::Step(line) => shown.0.push(line.to_owned()),
                Notice::Trouble(why) => shown.1.push(why.to_owned()),
            }
        })
    }

    fn steps(&self) -> Vec<String> {
        self.0.lock().expect("no panic").0.clone()
    }

    fn troubles(&self) -> Vec<String> {
        self.0.lock().expect("no panic").1.clone()
    }
}

fn open(folder: &Path, after: Option<u64>) -> Monitor {
    Monitor::open(folder, after, Shown::default().on_notice()).expect("a monitor")
}

fn record(monitor: &Monitor, steps: std::ops::RangeInclusive<u64>) {
    for step in steps {
        let x = step as f64;
        monitor.record(step, &[("loss", 1.0 / x), ("reward/mean", x / 3.0)]);
        if step % 2 == 0 {
            monitor.record(step, &[("evaluation/em", x / 100.0)]);
        }
    }
}

fn read(folder: &Path) -> Vec<Record> {
    read_metrics(&folder.join("metrics.jsonl"), &|why| panic!("{why}")).expect("metrics")
}

/// The lines without their seconds.
fn timeless(folder: &Path) -> Vec<(u64, BTreeMap<String, f64>)> {
    read(folder).into_iter().map(|record| (record.step, record.values)).collect()
}

#[test]
fn every_number_comes_back_also_those_that_json_cannot_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let strange =
        [("nan", f64::NAN), ("up", f64::INFINITY), ("down", f64::NEG_INFINITY), ("third", 1.0 / 3.0), ("tiny", 5e-324)];
    let monitor = open(folder.path(), None);
    monitor.record(1, &strange);
    drop(monitor);
    let text = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("a file");
    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON, for other readers too");
    assert_eq!((&line["values"]["nan"], &line["values"]["up"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!(line["not_finite"], serde_json::json!({"nan": "NaN", "up": "inf", "down": "-inf"}));
    let found = read(folder.path()).pop().expect("a record");
    assert_eq!(found.step, 1);
    assert!(found.seconds >= 0.0);
    for (name, value) in strange {
        assert!(found.values[name] == value || found.values[name].is_nan() && value.is_nan(), "{name}");
    }
}

#[test]
fn after_a_resume_the_file_is_that_of_a_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, stopped) = (folder.path().join("whole"), folder.path().join("stopped"));
    for path in [&whole, &stopped] {
        fs::create_dir(path).expect("a folder");
    }
    record(&open(&whole, None), 1..=12);

    record(&open(&stopped, None), 1..=7);
    let seconds = read(&stopped).into_iter().rfind(|one| one.step == 6).expect("a record").seconds;
    // Killed while it wrote: half a line is left. The checkpoint is of step 6.
    let path = stopped.join("metrics.jsonl");
    let half = fs::read_to_string(&path).expect("a file") + "{\"step\":8,\"sec";
    fs::write(&path, &half).expect("a file");
    // Whoever has the file open keeps it whole: it is replaced, not shortened.
    let before = folder.path().join("before");
    fs::hard_link(&path, &before).expect("a second name");
    let shown = Shown::default();
    let monitor = Monitor::open(&stopped, Some(6), shown.on_notice()).expect("a monitor");
    record(&monitor, 7..=9);
    drop(monitor);
    assert_eq!(fs::read_to_string(&before).expect("a file"), half);
    assert!(shown.troubles().len() == 1 && shown.troubles()[0].contains("cut off"), "{:?}", shown.troubles());
    record(&open(&stopped, Some(9)), 10..=12);

    assert_eq!(timeless(&stopped), timeless(&whole));
    let all: Vec<f64> = read(&stopped).iter().map(|one| one.seconds).collect();
    assert!(all.is_sorted() && all.last() >= Some(&seconds), "time goes on: {all:?}");
    let keys = |path: &Path| {
        let text = fs::read_to_string(path.join("metrics.jsonl")).expect("a file");
        let cut = |line: &str| {
            let (before, after) = line.split_once("\"seconds\":").expect("seconds");
            format!("{before}{}", after.split_once(',').expect("more").1)
        };
        text.lines().map(cut).collect::<Vec<_>>()
    };
    assert_eq!(keys(&stopped), keys(&whole), "byte for byte, seconds aside");

    // Without any checkpoint it begins anew.
    drop(open(&stopped, None));
    assert_eq!(timeless(&stopped), []);
}

#[test]
fn a_torn_last_line_is_told_and_a_damaged_one_before_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    record(&open(folder.path(), None), 1..=3);
    let path = folder.path().join("metrics.jsonl");
    let text = fs::read_to_string(&path).expect("a file");
    let records = read(folder.path()).len();
    for cut in 1..text.len() {
        fs::write(&path, &text[..cut]).expect("a file");
        let told = Mutex::new(0);
        let found = read_metrics(&path, &|_| *told.lock().expect("no panic") += 1).expect("metrics");
        let whole = text[..cut].matches('\n').count();
        assert_eq!(found.len(), whole);
        let torn = !text[..cut].ends_with('\n');
        assert_eq!(*told.lock().expect("no panic"), usize::from(torn), "at {cut}");
    }
    let lines: Vec<&str> = text.lines().collect();
    for damage in ["", "{}", "{\"step\": 2, \"seconds\": 1, \"values\": {\"loss\": null}}", "\u{0}\u{0}"] {
        let mut damaged = lines.clone();
        damaged[1] = damage;
        let damaged = damaged.join("\n") + "\n";
        fs::write(&path, &damaged).expect("a file");
        let error = read_metrics(&path, &|_| ()).expect_err("damaged");
        assert!(matches!(error, Error::File { .. }) && error.to_string().contains("line 2"), "{error}");
        // And nothing is thrown away.
        assert!(Monitor::open(folder.path(), Some(1), Shown::default().on_notice()).is_err());
        assert_eq!(fs::read_to_string(&path).expect("a file"), damaged);
    }
    fs::write(&path, text).expect("a file");
    assert_eq!(read(folder.path()).len(), records);
}

#[test]
fn a_disk_that_refuses_neither_stops_nor_fails_a_step_and_is_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = Shown::default();
    let monitor = Monitor::open(folder.path(), None, shown.on_notice()).expect("a monitor");
    monitor.sync();
    assert!(shown.troubles().is_empty(), "that nothing was recorded yet is no trouble: {:?}", shown.troubles());
    monitor.record(1, &[("loss", 1.0)]);
    monitor.sync();
    let path = folder.path().join("metrics.jsonl");
    let before = fs::read(&path).expect("a file");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a folder in its place");
    for step in 2..=5 {
        monitor.record(step, &[("loss", 1.0)]);
    }
    monitor.sync();
    assert_eq!(monitor.lost(), 4);
    assert!(shown.troubles().len() == 1 && shown.troubles()[0].contains("metrics.jsonl"), "{:?}", shown.troubles());
    assert_eq!(shown.steps().len(), 5, "the console still tells");
    assert_eq!(
        events(folder.path()).iter().filter(|event| !event.values.is_empty()).count(),
        5,
        "and so does TensorBoard"
    );
    // When the disk comes back, recording goes on.
    fs::remove_dir(&path).expect("removed");
    fs::write(&path, before).expect("a file");
    monitor.record(6, &[("loss", 1.0)]);
    drop(monitor);
    assert_eq!(read(folder.path()).iter().map(|one| one.step).collect::<Vec<_>>(), [1, 6]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_whole_lines_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = Shown::default();
    let monitor = Monitor::open(folder.path(), None, shown.on_notice()).expect("a monitor");
    let path = folder.path().join("metrics.jsonl");
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    monitor.record(1, &[("loss", 1.0)]);
    monitor.sync();
    assert_eq!(monitor.lost(), 1);
    fs::remove_file(&path).expect("removed");
    monitor.record(2, &[("loss", 1.0)]);
    drop(monitor);
    assert_eq!(read(folder.path()).iter().map(|one| one.step).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_console_line_is_short_and_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = Shown::default();
    let monitor = Monitor::open(folder.path(), None, shown.on_notice()).expect("a monitor");
    monitor.record(
        42,
        &[
            ("reward", 0.25),
            ("loss", -1.23456789),
            ("rate", 1e-6),
            ("tokens", 12_345.0),
            ("kl", f64::NAN),
            ("zero", 0.0),
        ],
    );
    assert_eq!(shown.steps(), ["step 42  kl NaN  loss -1.235  rate 1.00e-6  reward 0.2500  tokens 12345  zero 0"]);
}

/// An event as a reader of TensorBoard's format sees it.
#[derive(Debug, Default, PartialEq)]
struct Event {
    step: u64,
    version: Option<String>,
    starts: bool,
    values: Vec<(String, f32)>,
}

/// The events of all files in order, each record's checksums compared bit by bit.
fn events(folder: &Path) -> Vec<Event> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().contains("events.out.tfevents."));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let bytes = fs::read(path).expect("a file");
        let mut rest = &bytes[..];
        while let Some((length, after)) = rest.split_first_chunk::<8>() {
            let (sum, after) = after.split_first_chunk::<4>().expect("a checksum");
            assert_eq!(u32::from_le_bytes(*sum), masked(length));
            let (body, after) = after.split_at(u64::from_le_bytes(*length) as usize);
            let (sum, after) = after.split_first_chunk::<4>().expect("a checksum");
            assert_eq!(u32::from_le_bytes(*sum), masked(body));
            all.push(event(body));
            rest = after;
        }
        assert!(rest.is_empty());
    }
    all
}

fn event(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    for (number, value) in fields(bytes) {
        match (number, value) {
            (1, Field::Fixed(wall)) => {
                let wall = f64::from_le_bytes(wall.try_into().expect("eight bytes"));
                assert!(wall > 1.6e9, "seconds since 1970: {wall}");
            }
            (2, Field::Number(step)) => event.step = step,
            (3, Field::Bytes(version)) => event.version = Some(String::from_utf8(version).expect("text")),
            (5, Field::Bytes(summary)) => {
                for (_, value) in fields(&summary) {
                    let Field::Bytes(value) = value else { panic!("a value") };
                    match &fields(&value)[..] {
                        [(1, Field::Bytes(tag)), (2, Field::Fixed(number))] => {
                            let tag = String::from_utf8(tag.clone()).expect("text");
                            event.values.push((tag, f32::from_le_bytes(number[..].try_into().expect("four bytes"))));
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            (7, Field::Bytes(log)) => event.starts = fields(&log) == [(1, Field::Number(1))],
            other => panic!("{other:?}"),
        }
    }
    event
}

#[derive(Debug, PartialEq)]
enum Field {
    Number(u64),
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("more");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut take = |count: usize| bytes.split_off(..count).expect("more").to_vec();
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Fixed(take(8)),
            5 => Field::Fixed(take(4)),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(bytes.split_off(..length).expect("more").to_vec())
            }
            other => panic!("kind {other}"),
        };
        all.push((key >> 3, field));
    }
    all
}

/// CRC-32C by its definition, masked as TensorFlow does.
fn masked(bytes: &[u8]) -> u32 {
    let sum = !bytes.iter().fold(!0_u32, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 })
    });
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[test]
fn tensorboard_is_given_every_step_once_also_after_a_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    let monitor = open(folder.path(), None);
    monitor.record(1, &[("loss", 0.5), ("größe/\"x\"", f64::NAN)]);
    monitor.record(300, &[("loss", -2.0)]);
    drop(monitor);
    let monitor = open(folder.path(), Some(200));
    monitor.record(201, &[("loss", 3.0)]);
    drop(monitor);
    let all = events(folder.path());
    let version = || Event { version: Some("brain.Event:2".into()), ..Event::default() };
    assert_eq!(all.len(), 7);
    assert_eq!((&all[0], &all[4]), (&version(), &version()), "each file begins with its version");
    assert_eq!((all[1].step, all[1].starts), (0, true));
    assert_eq!((all[5].step, all[5].starts), (201, true), "later steps before this count no more");
    assert_eq!((all[2].step, &all[2].values[1]), (1, &("loss".to_owned(), 0.5)));
    assert!(all[2].values[0].0 == "größe/\"x\"" && all[2].values[0].1.is_nan());
    assert_eq!((all[3].step, &all[3].values[..]), (300, &[("loss".to_owned(), -2.0)][..]));
    assert_eq!((all[6].step, &all[6].values[..]), (201, &[("loss".to_owned(), 3.0)][..]));
}
