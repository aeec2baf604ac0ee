//! Tasks are read from every usual form of file, and written to each.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsearch_env::tasks::{BUILT_IN, Format, ReadOptions, built_in, read, write};
use hindsearch_env::{Preset, Rules, Task};
use serde_json::{Value, json};

type Check = Result<(), Box<dyn Error>>;

const COLUMNAR: [Format; 3] = [Format::SearchR1, Format::Verl, Format::SkyRl];

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}

fn task(question: &str, answers: &[&str], source: &str) -> Task {
    Task::new(question.into(), strings(answers), source.into())
}

/// Tasks with and without everything that a task can have, in awkward text.
fn awkward() -> Vec<Task> {
    vec![
        task("Who discovered argon?", &["Lord Rayleigh", "William Ramsay", "氩 \"\u{1f600}\""], "nq")
            .with_source_id(Some("train_0".into()))
            .with_split(Some("train".into()))
            .with_passages(strings(&["109", "59"]))
            .with_augmented(strings(&["Rayleigh and Ramsay", "1894"])),
        task("line one\nQuestion: \"two\"\r\n\ttab \u{2028} \\ end ", &[" padded ", "a\nb"], "searchR1_odd source"),
        task("no question mark", &["1979"], "popqa").with_source_id(Some("7".into())),
        task("only a split", &["x"], "nq").with_split(Some("dev".into())),
        task("only passages", &["x"], "nq").with_passages(strings(&["p"])),
        task("only more wordings", &["x"], "nq").with_augmented(strings(&["y"])),
    ]
}

fn save(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf, Box<dyn Error>> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, bytes)?;
    Ok(path)
}

fn tasks(path: &Path) -> Result<Vec<Task>, hindsearch_env::Error> {
    Ok(read(&[path.to_path_buf()], &ReadOptions::default())?.tasks().to_vec())
}

/// What a file with one row is read to.
fn one(row: &Value) -> Result<Task, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = save(folder.path(), "rows.jsonl", row.to_string())?;
    Ok(tasks(&path)?.remove(0))
}

fn complaint(path: &Path) -> String {
    tasks(path).map_or_else(|error| error.to_string(), |tasks| format!("no complaint, {} tasks", tasks.len()))
}

#[test]
fn what_is_written_is_read_back_in_every_form_and_container() -> Check {
    let folder = tempfile::tempdir()?;
    let rules = Rules::new(Arc::new(Preset::named("hindsearch")?));
    for (name, format) in Format::NAMES {
        for container in ["jsonl", "jsonl.gz", "jsonl.zst", "parquet", "other"] {
            for rules in [None, Some(&rules)] {
                let path = folder.path().join(format!("{name}.{container}"));
                write(&path, &awkward(), format, rules)?;
                assert!(tasks(&path)? == awkward(), "{name}.{container} gives other tasks");
                let forced = ReadOptions { format: Some(format), ..ReadOptions::default() };
                assert!(read(&[path], &forced)?.tasks() == awkward(), "{name}.{container}, format given");
            }
        }
    }
    let left: Vec<_> =
        fs::read_dir(folder.path())?.map(|entry| entry.map(|e| e.file_name())).collect::<Result<_, _>>()?;
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
    Ok(())
}

#[test]
fn sets_of_many_batches_are_read_back_from_parquet() -> Check {
    let folder = tempfile::tempdir()?;
    let many: Vec<Task> = (0..10_000).map(|n| task(&format!("question {n}?"), &[&n.to_string()], "many")).collect();
    for format in COLUMNAR {
        let path = folder.path().join(format!("{format}.parquet"));
        write(&path, &many, format, None)?;
        assert!(tasks(&path)? == many, "{format}");
    }
    Ok(())
}

#[test]
fn files_of_a_format_have_the_same_columns_whatever_their_tasks_lack() -> Check {
    let folder = tempfile::tempdir()?;
    let all = awkward();
    for format in COLUMNAR {
        let mut columns = HashSet::new();
        for some in [&all[..1], &all[2..3]] {
            let path = folder.path().join("x.parquet");
            write(&path, some, format, None)?;
            let reader = parquet::file::reader::SerializedFileReader::new(fs::File::open(&path)?)?;
            let metadata = parquet::file::reader::FileReader::metadata(&reader).file_metadata();
            columns.insert(format!("{:?}", metadata.schema()));
        }
        assert_eq!(columns.len(), 1, "{format}");
    }
    Ok(())
}

#[test]
fn a_prompt_is_what_the_rules_begin_with() -> Check {
    let folder = tempfile::tempdir()?;
    let rules = Rules::new(Arc::new(Preset::named("hindsearch")?));
    let path = folder.path().join("x.jsonl");
    let asked = task("Who?", &["x"], "nq");
    for (format, place) in [(Format::SearchR1, "/prompt"), (Format::NemoGym, "/responses_create_params/input")] {
        write(&path, [&asked], format, Some(&rules))?;
        let row: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let messages = rules.begin(&asked, 0).messages();
        let expected: Vec<_> = messages.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
        assert_eq!(row.pointer(place), Some(&Value::from(expected)));
    }
    Ok(())
}

#[test]
fn files_of_other_programs_are_read() -> Check {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tasks");
    let rows: [(&str, &str, &[&str], &str); 3] = [
        ("train_0", "Who discovered argon?", &["Lord Rayleigh", "William Ramsay"], "nq"),
        ("train_1", "Où est né Émile Zola", &["Paris"], "hotpotqa"),
        ("train_2", "Which \"element\"\nis 18th?", &["argon", "Ar", "氩"], "nq"),
    ];
    // Layout, whether ids are there, the split, whether only the first answer is there.
    let files = [
        ("search-r1", true, Some("train"), false),
        ("verl", false, Some("test"), false),
        ("skyrl", false, Some("test"), true),
        ("list", false, None, false),
        ("string", false, None, true),
    ];
    for (name, ids, split, only_first) in files {
        let expected = rows.map(|(id, question, answers, source)| {
            task(question, if only_first { &answers[..1] } else { answers }, source)
                .with_source_id(ids.then(|| id.into()))
                .with_split(split.map(str::to_owned))
        });
        assert!(tasks(&golden.join(format!("{name}.parquet")))? == expected, "{name}");
    }
    Ok(())
}

#[test]
fn every_shape_of_gold_is_read() -> Check {
    let shapes = [json!({"target": ["Paris"]}), json!({"target": "Paris"}), json!(["Paris"]), json!("Paris")];
    for gold in &shapes {
        let kwargs = json!({"search": {"create_kwargs": {"ground_truth": gold, "question": "Where?"}}});
        let rows = [
            json!({"question": "Where?", "golden_answers": gold, "metadata": {}}),
            json!({"question": "Where?", "reward_model": {"style": "rule", "ground_truth": gold}}),
            json!({"extra_info": {"question": "Where?"}, "reward_model": {"ground_truth": gold}, "golden_answers": ["no"]}),
            json!({"prompt": [{"role": "user", "content": "Question: no. Question: Where?\n"}], "reward_model": {"ground_truth": gold}}),
            json!({"data_source": "searchR1_rows", "prompt": [], "extra_info": {"tools_kwargs": kwargs}}),
            json!({"data_source": "searchR1_rows", "extra_info": {"question": "Where?"}, "reward_spec": {"ground_truth": gold}}),
            json!({"qid": null, "idx": null, "question": "Where?", "answer": gold}),
            json!({"question": "Where?", "answer": gold, "aug_answer": null}),
            json!({"responses_create_params": {"input": [{"role": "user", "content": "Where?"}]}, "expected_answer": gold}),
            json!({"responses_create_params": {"input": "Where?"}, "answer": gold}),
            json!({"_id": null, "question": "Where?", "target": gold}),
            json!({"question": "Where?", "answers": gold}),
        ];
        for row in rows {
            assert!(one(&row)? == task("Where?", &["Paris"], "rows"), "{row}");
        }
    }
    let number = one(&json!({"id": 7, "question": "When?", "golden_answers": [1979, "1979 AD", " "]}))?;
    assert!(number == task("When?", &["1979", "1979 AD"], "rows").with_source_id(Some("7".into())));
    Ok(())
}

#[test]
fn asearcher_keeps_its_id_and_its_further_wordings() -> Check {
    for id in ["qid", "id", "idx"] {
        let row =
            json!({id: 12, "question": "Where?", "answer": "Paris", "source": "nq", "aug_answer": ["Paris, France"]});
        let expected = task("Where?", &["Paris"], "nq").with_source_id(Some("12".into()));
        assert!(one(&row)? == expected.with_augmented(strings(&["Paris, France"])), "{id}");
    }
    Ok(())
}

#[test]
fn a_format_can_be_forced() -> Check {
    let folder = tempfile::tempdir()?;
    let row = json!({"id": "1", "question": "Where?", "golden_answers": ["Paris"], "target": "Rome"});
    let path = save(folder.path(), "rows.jsonl", row.to_string())?;
    let forced = ReadOptions { format: Some("plain".parse()?), ..ReadOptions::default() };
    assert_eq!(tasks(&path)?[0].gold().answers(), ["Paris"]);
    assert_eq!(read(&[path], &forced)?.tasks()[0].gold().answers(), ["Rome"]);
    for (name, format) in Format::NAMES {
        assert_eq!(name.parse::<Format>()?, format);
        assert_eq!(format.to_string(), name);
    }
    let error = "verll".parse::<Format>().err().ok_or("a format `verll`")?.to_string();
    assert!(error.contains("`verll`") && error.contains("`verl`"), "{error}");
    Ok(())
}

#[test]
fn marks_line_ends_blank_lines_compression_and_parts_do_not_matter() -> Check {
    let folder = tempfile::tempdir()?;
    let line = |n: usize| format!("{{\"id\":\"{n}\",\"question\":\"question {n}\",\"golden_answers\":[\"a\"]}}");
    let text = format!("\u{feff}\r\n{}\r\n  \r\n{}\n\n{}", line(0), line(1), line(2));
    let gzip = |text: &str| -> Result<Vec<u8>, std::io::Error> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes())?;
        encoder.finish()
    };
    // Files that were joined have several members.
    let (head, tail) = text.split_at(40);
    let files = [
        ("plain/nq.jsonl", text.clone().into_bytes()),
        ("gz/nq.jsonl.gz", [gzip(head)?, gzip(tail)?].concat()),
        ("zst/nq.jsonl.zst", [zstd::encode_all(head.as_bytes(), 1)?, zstd::encode_all(tail.as_bytes(), 1)?].concat()),
    ];
    let expected: Vec<Task> =
        (0..3).map(|n| task(&format!("question {n}"), &["a"], "nq").with_source_id(Some(n.to_string()))).collect();
    for (name, bytes) in files {
        assert!(tasks(&save(folder.path(), name, bytes)?)? == expected, "{name}");
    }
    let parts =
        [save(folder.path(), "1/nq.jsonl", line(0))?, save(folder.path(), "0/nq.jsonl", line(1) + "\n" + &line(2))?];
    assert!(read(&parts, &ReadOptions::default())?.tasks() == expected);
    Ok(())
}

#[test]
fn a_bad_line_is_named_and_its_answer_is_not_shown() -> Check {
    let folder = tempfile::tempdir()?;
    let good = "{\"question\":\"q\",\"golden_answers\":[\"a\"]}";
    let lines: [(&[u8], &str); 10] = [
        (b"{\"question\":\"Where?\",\"golden_answers\":[\"CANARY\"]", "ends early"),
        (b"{\"question\":\"Where?\" \"golden_answers\":[\"CANARY\"]}", "byte 22"),
        (b"[\"CANARY\"]", "one JSON object"),
        (b"{\"question\":\"Where?\",\"answer_text\":\"CANARY\"}", "`answer_text`"),
        (b"{\"golden_answers\":[\"CANARY\"]}", "the question in `question`"),
        (b"{\"question\":[\"CANARY\"],\"golden_answers\":[\"CANARY\"]}", "a list"),
        (b"{\"question\":\"Where?\",\"golden_answers\":[true,\"CANARY\"]}", "`golden_answers`"),
        (b"{\"question\":\"Where?\",\"golden_answers\":[\" \",\"\"]}", "not blank"),
        (b"{\"question\":\"  \",\"golden_answers\":[\"CANARY\"]}", "blank text"),
        (b"{\"question\":\"CANARY\xff\",\"golden_answers\":[\"CANARY\"]}", "byte 19"),
    ];
    for (line, expected) in lines {
        let bytes = [good.as_bytes(), b"\n\n", line, b"\n", good.as_bytes()].concat();
        let error = complaint(&save(folder.path(), "bad.jsonl", bytes)?);
        assert!(error.contains("bad.jsonl`, line 3:") && error.contains(expected), "{error}");
        assert!(!error.contains("CANARY"), "{error}");
    }
    let unknown = complaint(&save(folder.path(), "x.jsonl", "{\"prompt_text\": \"CANARY\"}")?);
    assert!(unknown.contains("`prompt_text`") && unknown.contains("`flashrag`"), "{unknown}");
    for (name, bytes) in [("empty.jsonl", ""), ("blank.jsonl", "\n\n"), ("lie.parquet", good)] {
        let error = complaint(&save(folder.path(), name, bytes)?);
        assert!(error.contains(name), "{error}");
    }
    assert!(complaint(&folder.path().join("none.jsonl")).contains("none.jsonl"));
    assert!(read(&[], &ReadOptions::default()).is_err());
    Ok(())
}

#[test]
fn damaged_files_are_refused_at_every_length() -> Check {
    let folder = tempfile::tempdir()?;
    for name in ["x.parquet", "x.jsonl.gz", "x.jsonl.zst"] {
        let path = folder.path().join(name);
        write(&path, &awkward(), Format::SearchR1, None)?;
        let whole = fs::read(&path)?;
        for length in (4..whole.len() - 1).step_by(37) {
            let error = complaint(&save(folder.path(), name, &whole[..length])?);
            assert!(error.contains(name), "{name} of {length} bytes: {error}");
        }
    }
    Ok(())
}

#[test]
fn a_file_name_says_what_its_rows_do_not() -> Check {
    let folder = tempfile::tempdir()?;
    let row = json!({"question": "Where?", "golden_answers": ["Paris"]}).to_string();
    let names = [
        ("nq_test.jsonl", "nq", Some("test")),
        ("a/hotpotqa/dev.jsonl", "hotpotqa", Some("dev")),
        ("squad_v1.1_dev.jsonl", "squad_v1.1", Some("dev")),
        ("dev_incorpus.jsonl", "dev_incorpus", None),
        ("b/nfcorpus/queries.jsonl", "nfcorpus", None),
    ];
    for (name, source, split) in names {
        let path = save(folder.path(), name, &row)?;
        let read_as = |options: &ReadOptions| read(std::slice::from_ref(&path), options);
        let expected = task("Where?", &["Paris"], source).with_split(split.map(str::to_owned));
        assert!(read_as(&ReadOptions::default())?.tasks() == [expected], "{name}");
        let told = ReadOptions { source: Some("s".into()), split: Some("p".into()), ..ReadOptions::default() };
        assert!(read_as(&told)?.tasks() == [task("Where?", &["Paris"], "s").with_split(Some("p".into()))], "{name}");
    }
    Ok(())
}

#[test]
fn beir_needs_answers_and_its_judgements_choose_the_split() -> Check {
    let folder = tempfile::tempdir()?;
    let silent =
        save(folder.path(), "silent/queries.jsonl", json!({"_id": "1", "text": "Where?", "metadata": {}}).to_string())?;
    let error = complaint(&silent);
    assert!(error.contains("line 1") && error.contains("metadata.answer") && error.contains("`beir`"), "{error}");

    let query =
        |id: &str| json!({"_id": id, "text": format!("Where is {id}?"), "metadata": {"answer": "here"}}).to_string();
    let lines = [query("1"), query("2"), json!({"_id": "3", "text": "not judged"}).to_string()].join("\n");
    let path = save(folder.path(), "hotpotqa/queries.jsonl", lines)?;
    let qrels = "query-id\tcorpus-id\tscore\n1\tp9\t1\n2\tp3\t0\n1\tp4\t2\n4\tp5\t1\n";
    let qrels = save(folder.path(), "hotpotqa/qrels/dev.tsv", qrels)?;
    let options = ReadOptions { qrels: Some(qrels), ..ReadOptions::default() };
    let expected = task("Where is 1?", &["here"], "hotpotqa")
        .with_source_id(Some("1".into()))
        .with_split(Some("dev".into()))
        .with_passages(strings(&["p9", "p4"]));
    assert!(read(std::slice::from_ref(&path), &options)?.tasks() == [expected]);

    save(folder.path(), "hotpotqa/qrels/dev.tsv", "1\tp9\tgood\n")?;
    let error = read(std::slice::from_ref(&path), &options).err().ok_or("no error")?.to_string();
    assert!(error.contains("dev.tsv`, line 1") && error.contains("good"), "{error}");
    save(folder.path(), "hotpotqa/qrels/dev.tsv", "9\tp9\t1\n")?;
    assert!(read(&[path], &options).err().ok_or("no error")?.to_string().contains("judged"));

    let out = folder.path().join("out/queries.jsonl");
    fs::create_dir(folder.path().join("out"))?;
    write(&out, &awkward(), Format::Beir, None)?;
    let train = fs::read_to_string(folder.path().join("out/qrels/train.tsv"))?;
    assert_eq!(train, "query-id\tcorpus-id\tscore\ntrain_0\t109\t1\ntrain_0\t59\t1\n");
    assert!(folder.path().join("out/qrels/test.tsv").exists());
    let twice = ["a?", "b?"].map(|question| task(question, &["x"], "nq").with_source_id(Some("0".into())));
    assert!(write(&out, &twice, Format::Beir, None).is_err());
    Ok(())
}

#[test]
fn what_cannot_be_written_leaves_the_old_file() -> Check {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("x.parquet");
    write(&path, &awkward(), Format::Verl, None)?;
    for bad in [vec![], vec![task("q", &[], "s")], vec![task("q", &[" "], "s")]] {
        assert!(write(&path, &bad, Format::Verl, None).is_err());
    }
    assert!(tasks(&path)? == awkward());
    let nowhere = folder.path().join("none/x.jsonl");
    let error = write(&nowhere, &awkward(), Format::Plain, None).err().ok_or("no error")?.to_string();
    assert!(error.contains("none"), "{error}");
    Ok(())
}

#[test]
fn the_sample_is_built_in() -> Check {
    let sample = built_in(BUILT_IN[0])?;
    assert!(sample.duplicates().is_empty());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/questions.jsonl");
    let options = ReadOptions { source: Some("sample".into()), ..ReadOptions::default() };
    assert_eq!(sample, read(&[file], &options)?);
    assert_eq!(sample.tasks().len(), 218);
    assert!(sample.tasks().iter().all(|task| !task.passages().is_empty() && task.source() == "sample"));
    assert!(built_in("simple").err().ok_or("a set `simple`")?.to_string().contains("`sample`"));
    Ok(())
}

#[test]
fn real_data_sets_are_read_and_written() -> Check {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/qa");
    if !folder.is_dir() {
        writeln!(std::io::stderr(), "skipped: no `{}`", folder.display())?;
        return Ok(());
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    let set = read(&files, &ReadOptions::default())?;
    let lines = files.iter().map(|file| Ok(fs::read_to_string(file)?.lines().count()));
    let lines: usize = lines.sum::<Result<_, std::io::Error>>()?;
    assert_eq!(set.tasks().len() + set.duplicates().len(), lines);
    assert!(set.tasks().iter().any(|task| task.source() == "nq" && task.split() == Some("test")));
    let out = tempfile::tempdir()?;
    for (name, format) in Format::NAMES.into_iter().filter(|(_, format)| *format != Format::Beir) {
        let path = out.path().join(name);
        write(&path, set.tasks(), format, None)?;
        assert!(tasks(&path)? == set.tasks(), "{name}");
    }
    Ok(())
}
