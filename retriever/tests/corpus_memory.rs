//! Memory does not grow with the corpus, and no small file makes it grow. One test, so that nothing else is counted.

#![cfg(target_os = "linux")]

mod corpus_files;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use corpus_files::{Check, Folder, arrow_file, arrow_stream, batch, parquet, read};
use hindsearch_indexes::{Interrupt, Progress};
use hindsearch_retriever::corpus::{Corpus, CorpusReader, CorpusStore};

const MIB: u64 = 1 << 20;

/// A field of the process's status, in bytes: `VmHWM`, the peak, or `RssAnon`, what cannot be dropped.
fn memory(field: &str) -> Check<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? * 1024)
}

/// The largest amount of memory that `work` adds.
fn peak(work: impl FnOnce() -> Check) -> Check<u64> {
    // Resets the peak: proc(5).
    fs::write("/proc/self/clear_refs", "5")?;
    let before = memory("VmHWM")?;
    work()?;
    Ok(memory("VmHWM")?.saturating_sub(before))
}

#[test]
fn memory_depends_neither_on_the_corpus_nor_on_what_a_file_claims() -> Check {
    let folder = Folder::new()?;
    let quiet = |_: Progress| {};
    let never = Interrupt::new();

    let corpus = folder.path().join("corpus.jsonl");
    let mut file = BufWriter::new(File::create(&corpus)?);
    let rows = 200_000;
    for row in 0..rows {
        let words = format!("word{} ", row % 977).repeat(60);
        writeln!(file, "{{\"id\": \"{row}\", \"contents\": \"\\\"Title {row}\\\"\\n{words}\"}}")?;
    }
    file.flush()?;
    assert!(corpus.metadata()?.len() > 90 * MIB);

    let writing = peak(|| {
        let mut reader = CorpusReader::open(std::slice::from_ref(&corpus), None)?;
        CorpusStore::write(&mut reader, folder.path(), &quiet, &never)?;
        Ok(())
    })?;
    assert!(writing < 48 * MIB, "writing a store took {} MiB", writing / MIB);

    let before = memory("RssAnon")?;
    let store = CorpusStore::open(folder.path())?;
    for row in (0..rows).step_by(37) {
        let passage = store.get(row)?;
        assert_eq!(store.row_of(&passage.id)?, Some(row));
    }
    let reading = memory("RssAnon")?.saturating_sub(before);
    assert!(reading < 8 * MIB, "reading rows took {} MiB", reading / MIB);

    let store = Corpus::from(store);
    let leaving = peak(|| {
        store.verify(&quiet, &never)?;
        store.export_jsonl(&folder.path().join("out.jsonl"), &quiet, &never)?;
        Ok(store.export_parquet(&folder.path().join("out.parquet"), &quiet, &never)?)
    })?;
    assert!(leaving < 160 * MIB, "exporting took {} MiB", leaving / MIB);

    // Every byte of small columnar files, sizes included, set to what makes a number large.
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    let batches = [batch(vec![("id", ids), ("text", text)])?];
    for bytes in [parquet(&batches)?, arrow_file(&batches)?, arrow_stream(&batches)?] {
        for position in 0..bytes.len() {
            for value in [0x0f, 0x7f, 0xff] {
                let mut altered = bytes.clone();
                altered[position] = value;
                let path = folder.file("altered", altered)?;
                let used = peak(|| {
                    // What comes out is not the question here.
                    let _ = read(&[path], None);
                    Ok(())
                })?;
                assert!(used < 128 * MIB, "byte {position} as {value:#x}: {} MiB", used / MIB);
            }
        }
    }
    Ok(())
}
