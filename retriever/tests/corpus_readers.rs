//! Every usual corpus format is read to the same passages.

mod corpus_files;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray, UInt8Array,
};
use arrow::datatypes::Int32Type;
use corpus_files::{Check, Folder, arrow_file, arrow_stream, batch, gzip, parquet, passage, read, rows, strings, zstd};
use hindsearch_retriever::Passage;
use hindsearch_retriever::corpus::{CorpusReader, Format};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn json_lines_come_in_three_shapes_and_two_kinds_of_id() -> Check {
    let folder = Folder::new()?;
    let lines = concat!(
        r#"{"id": "a", "contents": "\"Pavia Cathedral\"\nA \u2013 church.", "url": "https://example.org"}"#,
        "\n",
        r#"{"id": 7, "title": "Two words", "text": "text"}"#,
        "\n",
        r#"{"text": "no title\nat all", "id": -1}"#,
        "\n",
        r#"{"_id": "MED-10", "title": "", "text": "beir", "metadata": {"a": [1, {"b": null}]}}"#,
        "\n",
        r#"{"id": "e", "title": null, "contents": null, "text": "nulls"}"#,
        "\n",
        r#"{"id": "f", "contents": "Citibank\n", "title": "ignored", "text": "ignored"}"#,
    );
    let expected = [
        passage("a", Some("\"Pavia Cathedral\""), "A \u{2013} church."),
        passage("7", Some("\"Two words\""), "text"),
        passage("-1", None, "no title\nat all"),
        passage("MED-10", None, "beir"),
        passage("e", None, "nulls"),
        passage("f", Some("Citibank"), ""),
    ];
    assert_eq!(folder.read("corpus.jsonl", lines)?, expected);
    Ok(())
}

#[test]
fn dpr_is_read_with_csv_quoting() -> Check {
    let folder = Folder::new()?;
    let table = concat!(
        "id\ttext\ttitle\n",
        "1\t\"Aaron ( or ; \"\"Ahärôn\"\") is\ta prophet\"\tAaron\n",
        "2\tit said \"no\" in the middle\t\"\"\"Heroes\"\"\"\n",
        "3\t\"two\r\n\nlines\"\t\n",
        "4\t\"\"\tonly a title\n",
    );
    let expected = [
        passage("1", Some("\"Aaron\""), "Aaron ( or ; \"Ahärôn\") is\ta prophet"),
        passage("2", Some("\"\"Heroes\"\""), "it said \"no\" in the middle"),
        passage("3", None, "two\r\n\nlines"),
        passage("4", Some("\"only a title\""), ""),
    ];
    assert_eq!(folder.read("psgs_w100.tsv", table)?, expected);

    let reordered = "\"title\"\tid\turl\ttext\r\nAaron\t1\tu\tx\r\n";
    assert_eq!(folder.read("reordered.tsv", reordered)?, [passage("1", Some("\"Aaron\""), "x")]);
    assert_eq!(folder.read("contents.tsv", "id\tcontents\n1\t\"T\nx\"\n")?, [passage("1", Some("T"), "x")]);
    Ok(())
}

#[test]
fn ms_marco_has_neither_header_nor_quotes() -> Check {
    let folder = Folder::new()?;
    let table = "0\tThe \"Manhattan\" project\n7\t\"open quote\twith a tab\n";
    let expected = [passage("0", None, "The \"Manhattan\" project"), passage("7", None, "\"open quote\twith a tab")];
    assert_eq!(folder.read("collection.tsv", table)?, expected);
    Ok(())
}

#[test]
fn line_ends_marks_and_blank_last_lines_do_not_matter() -> Check {
    let folder = Folder::new()?;
    let expected = [passage("1", None, "a"), passage("2", None, "b")];
    let files = [
        ("x.jsonl", "{\"id\":1,\"text\":\"a\"}", "{\"id\":2,\"text\":\"b\"}"),
        ("x.tsv", "1\ta", "2\tb"),
        ("y.tsv", "id\ttext\n1\ta", "2\tb"),
    ];
    for (name, first, second) in files {
        for end in ["\n", "\r\n"] {
            for last in ["", end, &format!("{end}{end}  {end}")] {
                for mark in ["", "\u{feff}"] {
                    let text = format!("{mark}{}{end}{second}{last}", first.replace('\n', end));
                    assert_eq!(folder.read(name, &text)?, expected, "{text:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn compressed_members_parts_and_folders_are_one_stream_in_order() -> Check {
    let folder = Folder::new()?;
    let line = |id: u32| format!("{{\"id\": {id}, \"text\": \"t\"}}\n");
    let half = line(3).len() / 2;
    let members = [gzip(line(1))?, gzip(line(2))?, gzip(&line(3)[..half])?, gzip(&line(3)[half..])?].concat();
    let frames = [zstd(line(4))?, zstd(line(5))?].concat();
    folder.file("b.jsonl.gz", members)?;
    folder.file("c.jsonl.zst", frames)?;
    folder.file("d", line(6))?;
    folder.file("a.tsv", "0\tt")?;
    folder.file(".hidden", "not passages")?;
    folder.file("_SUCCESS", "")?;

    let ids = |passages: Vec<Passage>| passages.into_iter().map(|passage| passage.id).collect::<Vec<_>>();
    assert_eq!(ids(read(&[folder.path().to_path_buf()], None)?), ["0", "1", "2", "3", "4", "5", "6"]);
    let two = [folder.path().join("d"), folder.path().join("b.jsonl.gz")];
    assert_eq!(ids(read(&two, None)?), ["6", "1", "2", "3"]);
    Ok(())
}

#[test]
fn columnar_files_are_read_whatever_their_string_types() -> Check {
    let folder = Folder::new()?;
    let titles = [Some("A b"), None, Some("")];
    let texts = [Some("x"), Some("y\nz"), Some("\u{1f600}")];
    let expected = [passage("1", Some("\"A b\""), "x"), passage("2", None, "y\nz"), passage("3", None, "\u{1f600}")];
    let ids: [ArrayRef; 6] = [
        strings::<StringArray>(&[Some("1"), Some("2"), Some("3")]),
        strings::<StringViewArray>(&[Some("1"), Some("2"), Some("3")]),
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(Int32Array::from(vec![1, 2, 3])),
        Arc::new(UInt8Array::from(vec![1, 2, 3])),
        Arc::new(DictionaryArray::<Int32Type>::from_iter(["1", "2", "3"])),
    ];
    let text: [ArrayRef; 3] =
        [strings::<StringArray>(&texts), strings::<LargeStringArray>(&texts), strings::<StringViewArray>(&texts)];
    for (index, id) in ids.iter().enumerate() {
        for text in &text {
            let name = if index % 2 == 0 { "id" } else { "_id" };
            let numbers: ArrayRef = Arc::new(Int32Array::from(vec![9, 9, 9]));
            let title = strings::<StringArray>(&titles);
            let columns = vec![("n", numbers), ("text", text.clone()), (name, id.clone()), ("title", title)];
            let whole = batch(columns)?;
            let parts = [whole.slice(0, 1), whole.slice(1, 2)];
            let dictionary = id.data_type().is_nested() || index == 5;
            assert_eq!(folder.read("a.parquet", parquet(&parts)?)?, expected, "{}", id.data_type());
            // The writers of Arrow IPC take one dictionary a file.
            let parts = if dictionary { &[whole] as &[_] } else { &parts };
            assert_eq!(folder.read("b.arrow", arrow_file(parts)?)?, expected, "{}", id.data_type());
            assert_eq!(folder.read("c", arrow_stream(parts)?)?, expected, "{}", id.data_type());
        }
    }
    let contents = strings::<StringArray>(&[Some("T\nx")]);
    let wiki = batch(vec![("id", strings::<StringArray>(&[Some("0")])), ("contents", contents)])?;
    assert_eq!(folder.read("d", parquet(&[wiki])?)?, [passage("0", Some("T"), "x")]);
    Ok(())
}

#[test]
fn a_format_that_is_named_overrides_the_files_name() -> Check {
    let folder = Folder::new()?;
    let header_like = folder.file("x.txt", "id\ttext\n1\tt\n")?;
    assert_eq!(read(std::slice::from_ref(&header_like), None)?, [passage("1", None, "t")]);
    let as_passages = read(&[header_like], Some(Format::MsMarco))?;
    assert_eq!(as_passages, [passage("id", None, "text"), passage("1", None, "t")]);
    let odd = folder.file("y.csv", " \n")?;
    assert!(CorpusReader::open(std::slice::from_ref(&odd), None).is_err());
    assert!(CorpusReader::open(&[odd], Some(Format::Jsonl)).is_ok());
    for (name, format) in Format::NAMES {
        assert_eq!(name.parse::<Format>()?, format);
        assert_eq!(format.to_string(), name);
    }
    assert!("csv".parse::<Format>().is_err_and(|error| error.to_string().contains("`jsonl`, `dpr`")));
    Ok(())
}

#[test]
fn progress_ends_at_the_bytes_on_disk() -> Check {
    let folder = Folder::new()?;
    let lines = (0..5000).map(|id| format!("{{\"id\": {id}, \"text\": \"text {id}\"}}\n")).collect::<String>();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5000));
    let columns =
        batch(vec![("id", ids.clone()), ("text", arrow::compute::cast(&ids, &arrow::datatypes::DataType::Utf8)?)])?;
    let columns = [columns];
    let paths = [
        folder.file("a.jsonl.gz", gzip(lines)?)?,
        folder.file("b.parquet", parquet(&columns)?)?,
        folder.file("c.arrow", arrow_file(&columns)?)?,
    ];
    let length = paths.iter().map(|path| path.metadata().map(|data| data.len())).sum::<Result<u64, _>>()?;
    let mut reader = CorpusReader::open(&paths, None)?;
    let mut last = 0;
    while let Some(passage) = reader.next() {
        passage?;
        assert!(reader.progress().done >= last);
        last = reader.progress().done;
    }
    assert_eq!((reader.progress().done, reader.progress().total), (length, Some(length)));
    assert_eq!(reader.rows(), 15_000);
    Ok(())
}

/// The files lie beside this test; `made_with_pyarrow.py` there says how they were made.
#[test]
fn files_written_by_pyarrow_are_read() -> Check {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus_files/pyarrow");
    let expected: Vec<_> = (0..10)
        .map(|row| {
            let title = (row % 3 != 0).then(|| format!("\"Title {row}\""));
            Passage { id: format!("{row}"), title, text: format!("Text of row {row} \u{2013} \"quoted\"\n\tend") }
        })
        .collect();
    for name in ["snappy.parquet", "zstd.parquet", "file.arrow", "stream.arrow", "dictionary.parquet"] {
        assert_eq!(read(&[folder.join(name)], None)?, expected, "{name}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The same rows in every format that can hold them are the same passages.
    #[test]
    fn every_format_gives_back_what_was_written(rows in rows(), compress in 0..3) {
        let check = || -> Check {
            let folder = Folder::new()?;
            let expected: Vec<_> =
                rows.iter().map(|(id, title, text)| Passage::from_fields(id.clone(), title, text.clone())).collect();
            let packed = |name: &str, bytes: Vec<u8>| -> Check<Vec<Passage>> {
                match compress {
                    0 => folder.read(name, bytes),
                    1 => folder.read(&format!("{name}.gz"), gzip(bytes)?),
                    _ => folder.read(&format!("{name}.zst"), zstd(bytes)?),
                }
            };
            let json = |row: &dyn Fn(&(String, String, String)) -> serde_json::Value| {
                rows.iter().map(|r| format!("{}\n", row(r))).collect::<String>().into_bytes()
            };
            let fields = json(&|(id, title, text)| json!({"id": id, "title": title, "text": text}));
            assert_eq!(packed("fields.jsonl", fields)?, expected);
            let beir = json(&|(id, title, text)| json!({"_id": id, "title": title, "text": text, "metadata": {}}));
            assert_eq!(packed("beir.jsonl", beir)?, expected);
            let wiki = json(&|(id, title, text)| json!({"id": id, "contents": format!("\"{title}\"\n{text}")}));
            let contents: Vec<_> =
                rows.iter().map(|(id, title, text)| format!("{id}|\"{title}\"\n{text}")).collect();
            let read: Vec<_> =
                packed("wiki.jsonl", wiki)?.iter().map(|p| format!("{}|{}", p.id, p.contents())).collect();
            assert_eq!(read, contents);

            let mut writer = csv::WriterBuilder::new().delimiter(b'\t').from_writer(Vec::new());
            writer.write_record(["id", "text", "title"])?;
            for (id, title, text) in &rows {
                writer.write_record([id, text, title])?;
            }
            assert_eq!(packed("psgs.tsv", writer.into_inner()?)?, expected);

            let flat = |text: &str| text.replace(['\n', '\r', '\t'], " ");
            let table: String = rows.iter().map(|(id, _, text)| format!("{}\t{}\n", flat(id), flat(text))).collect();
            let expected_flat: Vec<_> =
                rows.iter().map(|(id, _, text)| passage(&flat(id), None, &flat(text))).collect();
            assert_eq!(packed("collection.tsv", table.into_bytes())?, expected_flat);

            let column = |pick: fn(&(String, String, String)) -> &String| -> ArrayRef {
                Arc::new(StringArray::from_iter_values(rows.iter().map(pick)))
            };
            let whole = batch(vec![("id", column(|r| &r.0)), ("title", column(|r| &r.1)), ("text", column(|r| &r.2))])?;
            let split = rows.len() / 2;
            let parts = [whole.slice(0, split), whole.slice(split, rows.len() - split)];
            assert_eq!(folder.read("a.parquet", parquet(&parts)?)?, expected);
            assert_eq!(folder.read("a.arrow", arrow_file(&parts)?)?, expected);
            assert_eq!(folder.read("stream", arrow_stream(&parts)?)?, expected);
            Ok(())
        };
        check().map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}
