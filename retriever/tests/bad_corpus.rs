//! A corpus that cannot be used gives one clear error at the right place; no row is lost on the way there.

mod corpus_files;

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use corpus_files::{Check, Folder, arrow_file, arrow_stream, batch, gzip, parquet, read, zstd};
use hindsearch_indexes::ErrorKind;
use hindsearch_retriever::corpus::CorpusReader;
use hindsearch_retriever::{Error, Passage, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// Reads to the first error: the rows before it, and it.
fn read_until_error(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) -> Check<(Vec<Passage>, Option<Error>)> {
    let path = folder.file(name, bytes)?;
    let mut reader = match CorpusReader::open(&[path], None) {
        Ok(reader) => reader,
        Err(error) => return Ok((Vec::new(), Some(error))),
    };
    let mut passages = Vec::new();
    for passage in reader.by_ref() {
        match passage {
            Ok(passage) => passages.push(passage),
            Err(error) => {
                assert!(reader.next().is_none(), "a reader ends after an error");
                return Ok((passages, Some(error)));
            }
        }
    }
    Ok((passages, None))
}

#[test]
fn a_bad_line_is_named_by_file_line_and_byte() -> Check {
    let folder = Folder::new()?;
    let good = "{\"id\": 1, \"text\": \"é\"}\n";
    let second = good.len() as u64;
    let cases: [(&str, &[u8], u64, u64, &str); 28] = [
        (
            "a.jsonl",
            b"{\"id\": 2, \"text\": \"cut sh",
            2,
            second,
            "ends inside it, near `{\"id\": 2, \"text\": \"cut sh`",
        ),
        ("a.jsonl", b"{\"id\": 2}\n", 2, second, "neither `contents` nor `text` for id `2`"),
        ("a.jsonl", b"{\"title\": \"x\", \"text\": \"y\"}\n", 2, second, "no id"),
        ("a.jsonl", b"{\"id\": \"\", \"text\": \"y\"}\n", 2, second, "an empty id"),
        ("a.jsonl", b"{\"id\": 1.5, \"text\": \"y\"}\n", 2, second, "floating point `1.5`"),
        ("a.jsonl", b"{\"id\": 2, \"text\": [1]}\n", 2, second, "invalid type: sequence, expected a string"),
        ("a.jsonl", b"{\"id\": 2, \"text\": \"\", \"title\": \"\"}\n", 2, second, "a title or a text"),
        ("a.jsonl", b"{\"id\": 2, \"contents\": \"\"}\n", 2, second, "a title or a text"),
        ("a.jsonl", b"{\"id\": 2, \"contents\": \"\\\"\\\"\\n\"}\n", 2, second, "a title or a text"),
        ("a.jsonl", b"{\"id\": 2, \"id\": 3, \"text\": \"y\"}\n", 2, second, "duplicate field `id`"),
        ("a.jsonl", b"[\"2\", \"y\"]\n", 2, second, "expected a JSON object, found `[\"2\", \"y\"]`"),
        ("a.jsonl", b"{\"id\": 2, \"text\": \"y\"} {}\n", 2, second, "trailing characters"),
        ("a.jsonl", b"{'id': 2}\n", 2, second, "(column 2), near `{'id': 2}`"),
        ("a.jsonl", b"\n\n{\"id\": 2, \"text\": \"y\"}\n", 2, second, "a blank line with more lines after it"),
        ("a.jsonl", b"{\"id\": 2, \"text\": \"\\ud800\"}\n", 2, second, "expected a JSON object"),
        ("a.jsonl", b"{\"id\": 2, \"text\": \"caf\xe9\"}\n", 2, second, "0xe9 at byte 46"),
        (
            "a.jsonl",
            b"{\"id\": 2, \"text\": \"\x1b[31m\x07\"}\n",
            2,
            second,
            "near `{\"id\": 2, \"text\": \"\\u{1b}[31m\\u{7}\"}`",
        ),
        ("a.tsv", b"no tab\n", 2, 4, "expected id, tab, text, found no tab in `no tab`"),
        ("a.tsv", b"\ttext\n", 2, 4, "an empty id"),
        ("a.tsv", b"2\t\n", 2, 4, "a title or a text"),
        ("a.tsv", b"2\t\xff\n", 2, 4, "the byte 0xff at byte 6"),
        ("a.tsv", b"\n2\tx\n", 2, 4, "a blank line with more lines after it"),
        ("dpr.tsv", b"2\tx\n", 3, 22, "expected 3 fields, as in the header, found 2"),
        ("dpr.tsv", b"2\tx\ty\tz\n", 3, 22, "expected 3 fields, as in the header, found 4"),
        ("dpr.tsv", b"2\t\"x\" y\tz\n", 3, 22, "the line's end after a closing quote, found ` y"),
        ("dpr.tsv", b"2\t\"never\nclosed\n", 3, 22, "the quoted field begins `never\\nclosed"),
        ("dpr.tsv", b"2\t\"\"\t\"\"\n", 3, 22, "a title or a text"),
        ("dpr.tsv", b"2\t\"x\n\xc3\t\"\ty\n", 4, 27, "the byte 0xc3 at byte 27"),
    ];
    for (name, bad, line, byte, message) in cases {
        let start = match name {
            "a.jsonl" => good,
            "a.tsv" => "1\tx\n",
            _ => "id\ttext\ttitle\n1\txxx\ty\n",
        };
        for packed in [0, 1, 2] {
            let bytes = [start.as_bytes(), bad].concat();
            let (name, bytes) = match packed {
                0 => (name.to_owned(), bytes),
                1 => (format!("{name}.gz"), gzip(bytes)?),
                _ => (format!("{name}.zst"), zstd(bytes)?),
            };
            let (passages, error) = read_until_error(&folder, &name, bytes)?;
            let shown = String::from_utf8_lossy(bad);
            assert_eq!(passages.len(), 1, "{name} {shown}");
            let Some(Error::Line { path, line: at_line, byte: at_byte, .. }) = &error else {
                panic!("{name} {shown}: {error:?}");
            };
            assert_eq!((path.clone(), *at_line, *at_byte), (folder.path().join(&name), line, byte), "{shown}");
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(message), "{name} {shown}: {text}");
        }
    }
    Ok(())
}

#[test]
fn a_file_that_is_no_corpus_is_refused_as_a_whole() -> Check {
    let folder = Folder::new()?;
    let float_id: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let float_ids = batch(vec![("id", float_id), ("text", text.clone())])?;
    let numbers = batch(vec![("id", number.clone()), ("text", number.clone())])?;
    let unnamed = batch(vec![("key", number), ("body", text)])?;
    let cases: [(&str, Vec<u8>, &str); 16] = [
        ("a.jsonl", Vec::new(), "found an empty file"),
        ("a.jsonl.gz", gzip("")?, "found an empty file"),
        ("a.jsonl.zst", zstd("")?, "found an empty file"),
        ("a.jsonl", b"\n\n".to_vec(), "expected at least one passage, found none"),
        ("a.tsv", b"id\ttext\ttitle\n".to_vec(), "expected at least one passage, found none"),
        ("a.jsonl.gz", b"{\"id\": 1}".to_vec(), "expected gzip data, as the name says"),
        ("a.txt", b"just words".to_vec(), "found `just words`"),
        ("a.json", b"[{\"id\": 1}]".to_vec(), "found `[{\"id\": 1}]`"),
        ("a", vec![0; 100], "expected JSON lines, tab-separated values, Parquet or Arrow"),
        ("a.parquet", b"not at all".to_vec(), "expected Parquet that is whole"),
        ("a.arrow", b"not at all".to_vec(), "expected Arrow that is whole"),
        ("a.parquet.gz", gzip(parquet(slice::from_ref(&numbers))?)?, "decompress it first"),
        ("a.parquet", parquet(slice::from_ref(&float_ids))?, "the column `id` of type Float64"),
        ("a.arrow", arrow_file(&[numbers])?, "the column `text` of type Int64"),
        ("a.parquet", parquet(slice::from_ref(&unnamed))?, "found the columns `key`, `body`"),
        ("a.arrow", arrow_stream(&[unnamed])?, "found the columns `key`, `body`"),
    ];
    for (name, bytes, message) in cases {
        let (passages, error) = read_until_error(&folder, name, &bytes)?;
        let error = error.ok_or_else(|| format!("{name}: no error, but `{message}` expected"))?;
        assert!(passages.is_empty());
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains(message), "{name}: {text}");
        assert!(text.contains(&folder.path().join(name).display().to_string()), "{text}");
    }
    assert_eq!(read(&[], None).err().map(|error| error.kind()), Some(ErrorKind::InvalidInput));
    let device = read(&["/dev/null".into()], None).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(device.contains("write the passages to a file first"), "{device}");
    let missing = read(&[folder.path().join("missing.jsonl")], None);
    assert_eq!(missing.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    Ok(())
}

#[test]
fn rows_without_an_id_or_a_text_are_named_in_columnar_files() -> Check {
    let folder = Folder::new()?;
    let column = |values: &[Option<&str>]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let cases = [
        ([Some("1"), None], [Some("x"), Some("y")], "no id"),
        ([Some("1"), Some("2")], [Some("x"), None], "neither `contents` nor `text` for id `2`"),
        ([Some("1"), Some("2")], [Some("x"), Some("")], "a title or a text"),
    ];
    for (ids, texts, message) in cases {
        let rows = [batch(vec![("id", column(&ids)), ("text", column(&texts))])?];
        for (name, bytes) in
            [("a.parquet", parquet(&rows)?), ("a.arrow", arrow_file(&rows)?), ("a", arrow_stream(&rows)?)]
        {
            let (passages, error) = read_until_error(&folder, name, bytes)?;
            assert_eq!(passages.len(), 1);
            assert!(matches!(&error, Some(Error::Line { line: 2, .. })), "{error:?}");
            assert!(error.is_some_and(|error| error.to_string().contains(message)));
        }
    }
    Ok(())
}

#[test]
fn a_compressed_file_cut_anywhere_is_an_error_and_never_a_shorter_corpus() -> Check {
    let folder = Folder::new()?;
    let line = |id: u32| format!("{{\"id\": {id}, \"text\": \"text {}\"}}\n", u64::from(id).wrapping_pow(9));
    let text = |ids: Range<u32>| ids.map(line).collect::<String>();
    let whole = folder.read("whole.jsonl", text(0..20))?;
    let members = [gzip(text(0..10))?, gzip(text(10..20))?];
    let frames = [zstd(text(0..10))?, zstd(text(10..20))?];
    for (name, parts) in [("a.jsonl.gz", members), ("a.jsonl.zst", frames)] {
        let bytes = parts.concat();
        assert_eq!(folder.read(name, &bytes)?, whole);
        for length in (1..bytes.len()).filter(|length| *length != parts[0].len()) {
            let (passages, error) = read_until_error(&folder, name, &bytes[..length])?;
            assert!(error.is_some(), "{name} cut at {length} of {}", bytes.len());
            assert_eq!(passages, whole[..passages.len()], "{name} cut at {length}");
        }
    }
    Ok(())
}

#[test]
fn a_compressed_file_that_was_altered_never_gives_other_rows_silently() -> Check {
    let folder = Folder::new()?;
    let text = (0..20u64).map(|id| format!("{{\"id\": {id}, \"text\": \"{}\"}}\n", id.pow(7))).collect::<String>();
    let whole = folder.read("whole.jsonl", &text)?;
    let mut checked = zstd::Encoder::new(Vec::new(), 3)?;
    checked.include_checksum(true)?;
    std::io::Write::write_all(&mut checked, text.as_bytes())?;
    for (name, bytes) in [("a.jsonl.gz", gzip(&text)?), ("a.jsonl.zst", checked.finish()?)] {
        for position in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[position] ^= 1 << (position % 8);
            let (passages, error) = read_until_error(&folder, name, altered)?;
            assert!(error.is_some() || passages == whole, "{name}: bit in byte {position}");
        }
    }
    Ok(())
}

/// Short rows in several record batches, in the three columnar forms.
fn columnar(rows: usize) -> Check<[(&'static str, Vec<u8>); 3]> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("text {row}"))));
    let whole = batch(vec![("id", ids), ("text", text)])?;
    let parts: Vec<RecordBatch> = (0..rows).step_by(2).map(|row| whole.slice(row, 2.min(rows - row))).collect();
    Ok([("a.parquet", parquet(&parts)?), ("a.arrow", arrow_file(&parts)?), ("a", arrow_stream(&parts)?)])
}

#[test]
fn a_columnar_file_cut_anywhere_is_an_error_and_never_a_shorter_corpus() -> Check {
    let folder = Folder::new()?;
    for (name, bytes) in columnar(5)? {
        let whole = folder.read(name, &bytes)?;
        assert_eq!(whole.len(), 5);
        for length in 0..bytes.len() - 1 {
            let (passages, error) = read_until_error(&folder, name, &bytes[..length])?;
            assert!(error.is_some() || passages == whole, "{name} cut at {length} of {}", bytes.len());
            assert_eq!(passages, whole[..passages.len()], "{name} cut at {length}");
        }
    }
    Ok(())
}

/// Neither format has checksums, so altered text may pass; what may not happen is a dead process.
#[test]
fn a_columnar_file_that_was_altered_is_an_error_or_a_corpus_but_never_a_crash() -> Check {
    let folder = Folder::new()?;
    for (name, bytes) in columnar(5)? {
        for position in 0..bytes.len() {
            for value in [bytes[position] ^ (1 << (position % 8)), 0xff] {
                let mut altered = bytes.clone();
                altered[position] = value;
                let (passages, error) = read_until_error(&folder, name, altered)?;
                assert!(error.is_some() || !passages.is_empty());
            }
        }
    }
    Ok(())
}

/// The decoder would reserve, and fill, what a page header says.
#[test]
fn a_page_header_that_claims_too_much_is_refused_before_the_page_is_read() -> Check {
    let folder = Folder::new()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((100..200).map(|id| id.to_string())));
    let long = "x".repeat(1_500_000);
    let texts = StringArray::from_iter_values((0..100).map(|row| if row == 0 { long.as_str() } else { "y" }));
    let rows = batch(vec![("id", ids), ("text", Arc::new(texts))])?;
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties))?;
    writer.write(&rows)?;
    let bytes = writer.into_inner()?;
    assert_eq!(folder.read("a.parquet", &bytes)?.len(), 100);

    // In Thrift's compact protocol: 0x15, an i32; 0x4c, a struct four fields on; numbers zigzag in groups of 7 bits.
    // A dictionary page (type 2) says its size, its compressed size, and then how many values it has.
    let find = |header: &dyn Fn(&[u8]) -> bool| bytes.windows(7).position(header).ok_or("the page header");
    let long_text = find(&|window| window[..3] == [0x15, 4, 0x15] && window[3..6].iter().all(|byte| *byte >= 0x80))?;
    let ids = find(&|window| window[..4] == [0x4c, 0x15, 0xc8, 1])?;
    let cases: [(usize, &[u8], &str); 2] = [
        (long_text + 3, &[0xfe, 0xff, 0xff, 0x7f], "to 134217727 bytes, more than 200 times, in column `text`"),
        (ids + 2, &[0xfe, 0x7f], "a dictionary of 8191 values in 700 bytes, in column `id`"),
    ];
    for (at, value, message) in cases {
        let mut altered = bytes.clone();
        altered[at..at + value.len()].copy_from_slice(value);
        let (passages, error) = read_until_error(&folder, "a.parquet", altered)?;
        assert!(passages.is_empty());
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(message), "{text}");
    }
    Ok(())
}

#[test]
fn lines_and_passages_have_a_largest_size() -> Check {
    let folder = Folder::new()?;
    let limit = 16 << 20;
    let line = |length: usize| format!("1\t{}\n", "x".repeat(length - 3));
    assert_eq!(folder.read("a.tsv", line(limit))?.len(), 1);
    let (_, error) = read_until_error(&folder, "a.tsv", [line(100), line(limit + 1)].concat())?;
    assert!(matches!(error, Some(Error::Line { line: 2, byte: 100, .. })), "{error:?}");
    let (_, error) = read_until_error(&folder, "a.jsonl", vec![b'{'; limit + 100])?;
    assert!(error.is_some_and(|error| error.to_string().contains("expected a line of at most 16 MiB")));

    let table = format!("id\ttext\n1\tx\n2\t\"{}", "many short lines\n".repeat(limit / 17 + 1));
    let (passages, error) = read_until_error(&folder, "dpr.tsv", table)?;
    assert_eq!(passages.len(), 1);
    assert!(error.is_some_and(|error| error.to_string().contains("is a quote missing?")));

    let long = "x".repeat(limit);
    let rows = [batch(vec![
        ("id", Arc::new(StringArray::from(vec!["1"])) as ArrayRef),
        ("text", Arc::new(StringArray::from(vec![long.as_str()])) as ArrayRef),
    ])?];
    let (_, error) = read_until_error(&folder, "a.parquet", parquet(&rows)?)?;
    assert!(error.is_some_and(|error| error.to_string().contains("a passage of at most 16777216 bytes")));
    Ok(())
}

#[test]
fn a_small_file_that_expands_beyond_reason_is_stopped_early() -> Check {
    let folder = Folder::new()?;
    let text = "x".repeat(4000);
    let line = format!("{{\"id\": 1, \"text\": \"{text}\"}}\n");
    let lines = line.repeat((100 << 20) / line.len());
    for (name, bytes) in [("a.jsonl.gz", gzip(&lines)?), ("a.jsonl.zst", zstd(&lines)?)] {
        let (_, error) = read_until_error(&folder, name, bytes)?;
        let Some(Error::Line { byte, expected, .. }) = error else { panic!("{name}: no error") };
        assert!(expected.contains("expands at most 200 times"), "{expected}");
        assert!((60 << 20..80 << 20).contains(&byte), "{byte}");
    }
    // What expands as text does is read to its end, however large.
    let honest = (0..700_000u64).map(|id| {
        format!(
            "{id}\t{:x} text of a passage of usual length that repeats a little and then ends, as they do\n",
            id.wrapping_pow(9)
        )
    });
    assert_eq!(folder.read("a.tsv.gz", gzip(honest.collect::<String>())?)?.len(), 700_000);

    let text: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&text, 1000)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let rows = vec![batch(vec![("id", ids), ("text", text)])?; 50];
    let bytes = parquet(&rows)?;
    let limit = (64 << 20).max(bytes.len() * 200);
    let (passages, error) = read_until_error(&folder, "a.parquet", bytes)?;
    assert!(error.is_some_and(|error| error.to_string().contains("200 times")));
    assert!(passages.len() * 4000 <= limit);
    Ok(())
}

#[test]
fn a_folder_with_something_else_in_it_is_refused() -> Check {
    let folder = Folder::new()?;
    folder.file("a.jsonl", "{\"id\": 1, \"text\": \"x\"}")?;
    std::fs::create_dir(folder.path().join("more"))?;
    let error = |result: Result<Vec<Passage>>| result.err().map(|error| error.to_string()).unwrap_or_default();
    let folder_path = [folder.path().to_path_buf()];
    assert!(error(read(&folder_path, None)).contains("the folder `more` in it"));
    std::fs::remove_dir(folder.path().join("more"))?;
    folder.file("notes.txt", "words")?;
    assert!(error(read(&folder_path, None)).contains("notes.txt"));
    Ok(())
}
