//! What goes into a corpus store comes out of it, byte for byte, or not at all.

mod corpus_files;

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs};

use corpus_files::{Check, Folder, gzip, passage, read, rows};
use hindsearch_indexes::{ElementType, ErrorKind, IndexKind, Interrupt, Manifest, Progress};
use hindsearch_retriever::corpus::{Corpus, CorpusReader, CorpusStore, CorpusSummary};
use hindsearch_retriever::{Error, Passage, Result};
use proptest::prelude::*;
use serde_json::{Value, json};

fn quiet(_: Progress) {}

fn write(folder: &Path, corpus: &[PathBuf]) -> Result<CorpusSummary> {
    let mut reader = CorpusReader::open(corpus, None)?;
    CorpusStore::write(&mut reader, folder, &quiet, &Interrupt::new())
}

/// A store of the passages of one file.
fn store(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) -> Check<CorpusStore> {
    let corpus = folder.file(name, bytes)?;
    write(folder.path(), &[corpus])?;
    Ok(CorpusStore::open(folder.path())?)
}

/// What a generation with a store of so many passages says of itself.
fn manifest(rows: u64) -> Manifest {
    Manifest::new(IndexKind::Flat, rows, 8, ElementType::F32)
}

fn json_lines(rows: impl Iterator<Item = Value>) -> String {
    rows.map(|row| format!("{row}\n")).collect()
}

/// Enough rows for several record batches.
fn many(rows: u64) -> String {
    json_lines((0..rows).map(|row| match row % 3 {
        0 => json!({"id": format!("id-{row}"), "contents": format!("Title\nrow {row}")}),
        1 => json!({"id": format!("id-{row}"), "contents": format!("row {row} without a title")}),
        _ => json!({"id": format!("id-{row}"), "contents": format!("\nrow {row} with an empty title")}),
    }))
}

#[test]
fn rows_are_found_by_number_and_by_id() -> Check {
    let folder = Folder::new()?;
    let store = store(&folder, "a.jsonl", many(10_000))?;
    assert_eq!((store.len(), store.is_empty(), store.summary().rows), (10_000, false, 10_000));
    for row in (0..10_000).step_by(7).chain([4095, 4096, 8191, 8192, 9999]) {
        let expected = match row % 3 {
            0 => passage(&format!("id-{row}"), Some("Title"), &format!("row {row}")),
            1 => passage(&format!("id-{row}"), None, &format!("row {row} without a title")),
            _ => passage(&format!("id-{row}"), Some(""), &format!("row {row} with an empty title")),
        };
        assert_eq!(store.contents(row)?, expected.contents());
        assert_eq!(store.row_of(&expected.id)?, Some(row));
        assert_eq!(store.get(row)?, expected);
    }
    for absent in ["", "id", "id-10000", "id-1 "] {
        assert_eq!(store.row_of(absent)?, None);
    }
    for row in [10_000, u64::MAX] {
        let error = store.get(row).err().ok_or("a row beyond the last")?;
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("10000 rows"));
    }
    Ok(())
}

#[test]
fn a_scan_gives_the_rows_from_anywhere_to_the_end() -> Check {
    let folder = Folder::new()?;
    let corpus = many(9000);
    let store = store(&folder, "a.jsonl", &corpus)?;
    let expected = folder.read("b.jsonl", &corpus)?;
    for start in [0, 1, 4095, 4096, 4097, 8999, 9000, 9001, u64::MAX] {
        let scanned = store.scan(start)?.collect::<Result<Vec<_>>>()?;
        let rest = expected.get(usize::try_from(start)?..).unwrap_or_default();
        assert!(scanned == rest, "from row {start}: {} rows, not {}", scanned.len(), rest.len());
    }
    Ok(())
}

#[test]
fn long_passages_are_kept_whole() -> Check {
    let folder = Folder::new()?;
    let lengths = [1, 3 << 20, 5 << 20, (8 << 20) + 1, 15 << 20, 0, 7];
    let expected = lengths.map(|length| passage(&length.to_string(), Some("\"t\""), &"x".repeat(length)));
    let corpus =
        json_lines(lengths.iter().map(|length| json!({"id": length, "title": "t", "text": "x".repeat(*length)})));
    let store = store(&folder, "a.jsonl", corpus)?;
    for (row, expected) in (0..).zip(&expected) {
        assert!(store.get(row)? == *expected, "row {row}");
    }
    Ok(())
}

#[test]
fn an_id_that_occurs_twice_is_refused_and_both_places_are_named() -> Check {
    let folder = Folder::new()?;
    let target = Folder::new()?;
    let line = |id: u32| format!("{{\"id\": \"{id}\", \"text\": \"x\"}}\n");
    let first = folder.file("a.jsonl", (0..5000).map(line).collect::<String>())?;
    let second = folder.file("b.jsonl", (5000..5100).chain([3]).map(line).collect::<String>())?;
    let error = write(target.path(), &[first, second]).err().ok_or("a duplicate was taken")?;
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(text.contains("id `3`"), "{text}");
    assert!(text.contains("passage 4 of `") && text.contains("a.jsonl`"), "{text}");
    assert!(text.contains("passage 101 of `") && text.contains("b.jsonl`"), "{text}");
    assert!(target.names()?.is_empty());
    Ok(())
}

#[test]
fn a_corpus_that_fails_or_is_interrupted_leaves_nothing_and_harms_nothing() -> Check {
    let folder = Folder::new()?;
    let target = Folder::new()?;
    let bad = folder.file("bad.jsonl", many(9000) + "{\"id\": \"half")?;
    assert!(matches!(write(target.path(), std::slice::from_ref(&bad)), Err(Error::Line { line: 9001, .. })));
    assert!(target.names()?.is_empty());

    let good = folder.file("good.jsonl", many(9000))?;
    let summary = write(target.path(), std::slice::from_ref(&good))?;
    assert_eq!(target.names()?, ["ids", "passages"]);
    assert!(write(target.path(), &[bad]).is_err());

    let interrupt = Interrupt::new();
    let stop = |_: Progress| interrupt.stop();
    let mut reader = CorpusReader::open(&[good], None)?;
    let result = CorpusStore::write(&mut reader, target.path(), &stop, &interrupt);
    assert!(matches!(result, Err(Error::Index(hindsearch_indexes::Error::Interrupted))), "{result:?}");

    assert_eq!(target.names()?, ["ids", "passages"]);
    let store = CorpusStore::open(target.path())?;
    store.verify(&quiet, &Interrupt::new())?;
    assert_eq!(*store.summary(), summary);
    Ok(())
}

#[test]
fn what_a_killed_process_left_is_overwritten() -> Check {
    let folder = Folder::new()?;
    let target = Folder::new()?;
    target.file("passages.tmp", "half of something".repeat(100_000))?;
    target.file("ids.tmp", "half")?;
    write(target.path(), &[folder.file("a.jsonl", many(10))?])?;
    CorpusStore::open(target.path())?.verify(&quiet, &Interrupt::new())?;
    assert_eq!(target.names()?, ["ids", "passages"]);
    Ok(())
}

#[test]
fn two_writers_of_one_file_do_not_mix() -> Check {
    let folder = Folder::new()?;
    let target = Folder::new()?;
    let corpus = folder.file("a.jsonl", many(9000))?;
    let second = Cell::new(None);
    let second = Mutex::new(second);
    let during = |_: Progress| {
        if let Ok(mut second) = second.lock() {
            let result = write(target.path(), std::slice::from_ref(&corpus));
            second.get_mut().get_or_insert(result);
        }
    };
    let mut reader = CorpusReader::open(std::slice::from_ref(&corpus), None)?;
    CorpusStore::write(&mut reader, target.path(), &during, &Interrupt::new())?;
    let result = second.lock().map_err(|error| error.to_string())?.take();
    let error = result.and_then(Result::err).ok_or("the second writer was let in")?;
    assert_eq!(error.kind(), ErrorKind::Locked);
    CorpusStore::open(target.path())?.verify(&quiet, &Interrupt::new())?;
    Ok(())
}

#[test]
fn the_hash_depends_on_the_rows_and_on_nothing_else() -> Check {
    let hash = |name: &str, bytes: Vec<u8>| -> Check<String> {
        let folder = Folder::new()?;
        Ok(store(&folder, name, bytes)?.summary().blake3.clone())
    };
    let base = hash("a.jsonl", br#"{"id": "1", "title": "T", "text": "x"}"#.to_vec())?;
    assert_eq!(hash("a.jsonl.gz", gzip(r#"{"contents": "\"T\"\nx", "id": 1}"#)?)?, base);
    assert_eq!(hash("a.tsv", b"id\ttext\ttitle\n1\tx\tT\n".to_vec())?, base);
    let others = [
        r#"{"id": "2", "title": "T", "text": "x"}"#,
        r#"{"id": "1", "title": "T", "text": "y"}"#,
        r#"{"id": "1", "title": "Tx", "text": ""}"#,
        r#"{"id": "1", "contents": "\"T\"x"}"#,
        r#"{"id": "1", "contents": "\n\"T\"x"}"#,
        r#"{"id": "1\"T\"", "contents": "x"}"#,
    ];
    let two = r#"{"id": "1", "text": "x"}"#.to_owned() + "\n" + r#"{"id": "2", "text": "y"}"#;
    let swapped = r#"{"id": "2", "text": "y"}"#.to_owned() + "\n" + r#"{"id": "1", "text": "x"}"#;
    let mut hashes = HashSet::from([base]);
    for other in others.into_iter().chain([two.as_str(), swapped.as_str()]) {
        assert!(hashes.insert(hash("a.jsonl", other.into())?), "{other}");
    }
    Ok(())
}

#[test]
fn exports_hold_the_contents_byte_for_byte() -> Check {
    let folder = Folder::new()?;
    let out = Folder::new()?;
    let corpus = many(9000)
        + "{\"id\": \"q\", \"contents\": \"\\\"\\\"x\\\"\\\"\\n\\t\\u0000\\r\\n\\u2028\\\\ \\ud83d\\ude00\"}\n";
    let store = store(&folder, "a.jsonl", &corpus)?;
    let before: Vec<_> = contents(&folder.read("b.jsonl", &corpus)?);
    let (jsonl, parquet) = (out.path().join("corpus.jsonl"), out.path().join("corpus.parquet"));
    let store = Corpus::from(store);
    store.export_jsonl(&jsonl, &quiet, &Interrupt::new())?;
    store.export_parquet(&parquet, &quiet, &Interrupt::new())?;
    assert_eq!(out.names()?, ["corpus.jsonl", "corpus.parquet"]);
    assert!(contents(&read(std::slice::from_ref(&jsonl), None)?) == before);
    assert!(contents(&read(&[parquet], None)?) == before);
    // Another reader of JSON agrees.
    for (line, (id, contents)) in fs::read_to_string(&jsonl)?.lines().zip(&before) {
        assert_eq!(serde_json::from_str::<Value>(line)?, json!({"id": id, "contents": contents}));
    }

    let interrupt = Interrupt::new();
    interrupt.stop();
    assert!(store.export_jsonl(&out.path().join("more.jsonl"), &quiet, &interrupt).is_err());
    assert!(store.export_parquet(&out.path().join("more.parquet"), &quiet, &interrupt).is_err());
    assert_eq!(out.names()?, ["corpus.jsonl", "corpus.parquet"]);
    Ok(())
}

fn contents(passages: &[Passage]) -> Vec<(String, String)> {
    passages.iter().map(|passage| (passage.id.clone(), passage.contents().into_owned())).collect()
}

/// Runs only where the real data lies: in `HINDSEARCH_SHARED`, or in `../shared` beside the workspace.
#[test]
fn real_wiki_18_comes_out_as_it_went_in() -> Check {
    let shared = env::var_os("HINDSEARCH_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let corpus = shared.join("data/corpus/wiki18_mini.jsonl");
    if !corpus.exists() {
        return Ok(());
    }
    let folder = Folder::new()?;
    write(folder.path(), std::slice::from_ref(&corpus))?;
    let store = CorpusStore::open(folder.path())?;
    store.verify(&quiet, &Interrupt::new())?;
    let exported = folder.path().join("out.jsonl");
    Corpus::open_in(folder.path(), &manifest(store.len()))?.export_jsonl(&exported, &quiet, &Interrupt::new())?;
    let (before, after) = (fs::read_to_string(corpus)?, fs::read_to_string(exported)?);
    assert_eq!(before.lines().count(), after.lines().count());
    for (row, (before, after)) in (0..).zip(before.lines().zip(after.lines())) {
        let (before, after): (Value, Value) = (serde_json::from_str(before)?, serde_json::from_str(after)?);
        assert_eq!((&before["id"], &before["contents"]), (&after["id"], &after["contents"]));
        let id = before["id"].as_str().ok_or("an id")?;
        assert_eq!(store.row_of(id)?, Some(row));
        assert_eq!(Value::from(store.contents(row)?), before["contents"]);
    }
    Ok(())
}

#[test]
fn files_cut_anywhere_are_refused() -> Check {
    let folder = Folder::new()?;
    store(&folder, "a.jsonl", many(5000))?;
    for name in ["passages", "ids"] {
        let path = folder.path().join(name);
        let whole = fs::read(&path)?;
        for length in (0..whole.len()).step_by(4093).chain(whole.len() - 600..whole.len()) {
            fs::remove_file(&path)?;
            fs::write(&path, &whole[..length])?;
            let error = CorpusStore::open(folder.path()).err().ok_or(format!("{name} cut at {length} was opened"))?;
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name} cut at {length}: {error}");
            assert!(error.to_string().contains(&path.display().to_string()));
        }
        fs::write(&path, whole)?;
    }
    Ok(())
}

/// A bit flips: verification finds it, and what does not verify still never ends the process or gives bytes that are
/// not text.
#[test]
fn altered_bytes_are_found_and_never_crash() -> Check {
    let folder = Folder::new()?;
    let expected = folder.read("b.jsonl", many(60))?;
    store(&folder, "a.jsonl", many(60))?;
    for name in ["passages", "ids"] {
        let path = folder.path().join(name);
        let whole = fs::read(&path)?;
        let mut unnoticed = 0;
        for position in 0..whole.len() {
            let mut altered = whole.clone();
            altered[position] ^= 1 << (position % 8);
            // A new file each time: a mapped one must not change.
            fs::remove_file(&path)?;
            fs::write(&path, altered)?;
            let Ok(store) = CorpusStore::open(folder.path()) else { continue };
            for row in 0..60 {
                let _ = store.get(row);
                let _ = store.row_of(&format!("id-{row}"));
            }
            if store.verify(&quiet, &Interrupt::new()).is_ok() {
                // Padding, names and offsets of unused fields: nothing that is read may differ.
                unnoticed += 1;
                let rows = store.scan(0)?.collect::<Result<Vec<_>>>()?;
                assert!(rows == expected, "{name}: bit in byte {position}");
            }
        }
        assert!(name != "ids" || unnoticed == 0);
        fs::write(&path, whole)?;
    }
    Ok(())
}

#[test]
fn another_format_version_is_refused_as_such() -> Check {
    let folder = Folder::new()?;
    store(&folder, "a.jsonl", many(5))?;
    let replace = |name: &str, from: &[u8], to: &[u8]| -> Check {
        let path = folder.path().join(name);
        let mut bytes = fs::read(&path)?;
        let at = bytes.windows(from.len()).rposition(|window| window == from).ok_or("the bytes to replace")?;
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::remove_file(&path)?;
        Ok(fs::write(&path, bytes)?)
    };
    replace("ids", b"hindsids\x01", b"hindsids\x02")?;
    let error = CorpusStore::open(folder.path()).err().ok_or("opened")?;
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    Ok(())
}

#[test]
fn files_of_two_corpora_are_not_mixed() -> Check {
    let (first, second) = (Folder::new()?, Folder::new()?);
    store(&first, "a.jsonl", many(50))?;
    store(&second, "a.jsonl", many(50).replace("Title", "title"))?;
    fs::rename(second.path().join("ids"), first.path().join("ids"))?;
    let error = CorpusStore::open(first.path()).err().ok_or("opened")?;
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_store_gives_back_every_passage(rows in rows()) {
        let check = || -> Check {
            let folder = Folder::new()?;
            let corpus = json_lines(rows.iter().map(|(id, title, text)| json!({"_id": id, "title": title, "text": text})));
            let store = store(&folder, "a.jsonl", corpus)?;
            assert_eq!(store.len(), rows.len() as u64);
            for (row, (id, title, text)) in (0..).zip(&rows) {
                assert_eq!(store.get(row)?, Passage::from_fields(id.clone(), title, text.clone()));
                assert_eq!(store.row_of(id)?, Some(row));
            }
            store.verify(&quiet, &Interrupt::new())?;
            let out = folder.path().join("out.jsonl");
            let before: Vec<_> = contents(&store.scan(0)?.collect::<Result<Vec<_>>>()?);
            Corpus::from(store).export_jsonl(&out, &quiet, &Interrupt::new())?;
            assert_eq!(contents(&read(&[out], None)?), before);
            Ok(())
        };
        check().map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}
