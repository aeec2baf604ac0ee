//! The templates of `tests/dialects`, as its README explains them.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Map, Value};

/// The passages that answers are about.
pub struct Corpus {
    passages: Vec<Passage>,
    /// Rows by template and text.
    rows: HashMap<(&'static str, String), BTreeSet<usize>>,
}

struct Passage {
    id: String,
    title: String,
    text: String,
}

/// What is known within one element of a list.
#[derive(Default)]
struct Scope {
    /// From 1; 0 outside of any list.
    position: usize,
    /// The score of the element before.
    ceiling: Option<f64>,
    score: Option<f64>,
    /// The passages that all texts so far may be of.
    rows: Option<BTreeSet<usize>>,
}

impl Corpus {
    /// Reads a corpus in the form of wiki-18.
    pub fn read(path: &Path) -> Self {
        let mut corpus = Self { passages: Vec::new(), rows: HashMap::new() };
        for line in std::fs::read_to_string(path).expect("a corpus").lines() {
            let entry: Value = serde_json::from_str(line).expect("JSON");
            let field = |name: &str| entry[name].as_str().expect("text").to_owned();
            let (id, contents) = (field("id"), field("contents"));
            let (title, text) = contents.split_once('\n').expect("a title line");
            let title = title.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(title);
            let passage = Passage { id: id.clone(), title: title.into(), text: text.into() };
            let row = corpus.passages.len();
            for (template, value) in
                [("$id", &id), ("$title", &passage.title), ("$text", &passage.text), ("$contents", &contents)]
            {
                corpus.rows.entry((template, value.clone())).or_default().insert(row);
            }
            corpus.passages.push(passage);
        }
        corpus
    }

    /// Says where the answer differs from the template.
    pub fn check(&self, template: &Value, answer: &Value) -> Result<(), String> {
        self.compare(template, answer, &mut Scope::default()).map_err(|(path, what)| format!("answer{path}: {what}"))
    }

    fn compare(&self, template: &Value, found: &Value, scope: &mut Scope) -> Result<(), (String, String)> {
        let differs = || Err((String::new(), format!("expected {template}, found {found}")));
        match (template, found) {
            (Value::String(name), _) if name.starts_with('$') => self.name(name, found, scope),
            (Value::Object(each), _) if each.contains_key("$each") => self.each(each, found),
            (Value::Object(expected), Value::Object(entries)) => {
                for (key, template) in expected.iter().filter(|(key, _)| *key != "$exact") {
                    let at = |(path, what)| (format!(".{key}{path}"), what);
                    let value = entries.get(key).ok_or_else(|| at((String::new(), "missing".into())))?;
                    self.compare(template, value, scope).map_err(at)?;
                }
                let further = entries.keys().find(|key| !expected.contains_key(*key));
                match further.filter(|_| expected.get("$exact") == Some(&Value::Bool(true))) {
                    Some(key) => Err((format!(".{key}"), "not expected".into())),
                    None => Ok(()),
                }
            }
            (Value::Array(expected), Value::Array(items)) if expected.len() == items.len() => {
                for (at, (template, item)) in expected.iter().zip(items).enumerate() {
                    self.compare(template, item, scope).map_err(|(path, what)| (format!("[{at}]{path}"), what))?;
                }
                Ok(())
            }
            (Value::Number(expected), Value::Number(number)) if expected.as_f64() == number.as_f64() => Ok(()),
            _ if template == found => Ok(()),
            _ => differs(),
        }
    }

    fn name(&self, name: &str, found: &Value, scope: &mut Scope) -> Result<(), (String, String)> {
        let number = found.as_f64().filter(|number| number.is_finite());
        let right = match name {
            "$any" => true,
            "$string" => found.as_str().is_some_and(|text| !text.is_empty()),
            "$number" => number.is_some(),
            "$score" => {
                scope.score = number;
                number.is_some_and(|score| scope.ceiling.is_none_or(|ceiling| score <= ceiling))
            }
            "$rank" => number == Some(scope.position as f64),
            "$doc" => found.as_str() == Some(&format!("doc_{}", scope.position)),
            "$url" => found.as_str().is_some_and(|text| text.starts_with("http")),
            "$id" | "$title" | "$text" | "$contents" | "$line" => {
                let rows = found.as_str().map(|text| self.rows_of(name, text)).unwrap_or_default();
                let common = scope.rows.take().map_or_else(|| rows.clone(), |before| &before & &rows);
                scope.rows = Some(common.clone());
                !common.is_empty()
            }
            other => panic!("the template {other} is not known"),
        };
        if right { Ok(()) } else { Err((String::new(), format!("expected {name}, found {found}"))) }
    }

    fn rows_of(&self, template: &str, text: &str) -> BTreeSet<usize> {
        if template != "$line" {
            let known = self.rows.iter().find(|((name, value), _)| *name == template && value == text);
            return known.map(|(_, rows)| rows.clone()).unwrap_or_default();
        }
        let Some((id, words)) = text.split_once('\t').filter(|_| !text.contains('\n')) else { return BTreeSet::new() };
        let same = |passage: &Passage| {
            let expected = passage.title.split_whitespace().chain(passage.text.split_whitespace());
            passage.id == id && expected.eq(words.split_whitespace())
        };
        self.passages.iter().enumerate().filter(|(_, passage)| same(passage)).map(|(row, _)| row).collect()
    }

    fn each(&self, template: &Map<String, Value>, found: &Value) -> Result<(), (String, String)> {
        let length = template["$len"].as_u64().expect("a length") as usize;
        let items = found.as_array().filter(|items| items.len() == length);
        let items = items.ok_or_else(|| (String::new(), format!("expected a list of {length}, found {found}")))?;
        let (mut ceiling, mut seen) = (None, BTreeSet::new());
        for (at, item) in items.iter().enumerate() {
            let mut scope = Scope { position: at + 1, ceiling, ..Scope::default() };
            let place = |(path, what)| (format!("[{at}]{path}"), what);
            self.compare(&template["$each"], item, &mut scope).map_err(place)?;
            ceiling = scope.score;
            // A title alone may be that of many passages.
            if let Some(row) = scope.rows.filter(|rows| rows.len() == 1).and_then(|rows| rows.first().copied())
                && !seen.insert(row)
            {
                return Err(place((String::new(), format!("passage {} once more", self.passages[row].id))));
            }
        }
        Ok(())
    }
}

#[test]
fn what_differs_is_found() {
    use serde_json::json;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("corpus.jsonl");
    let lines = [json!({"id": "a", "contents": "\"T\"\nx y"}), json!({"id": "b", "contents": "\"T\"\nz"})];
    std::fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).expect("a file");
    let corpus = Corpus::read(&path);
    let hits = json!({"$each": {"id": "$id", "text": "$text", "score": "$score", "rank": "$rank"}, "$len": 2});
    let hit =
        |id: &str, text: &str, score: f64, rank: u64| json!({"id": id, "text": text, "score": score, "rank": rank});
    let good = [
        (hits.clone(), json!([hit("a", "x y", 0.5, 1), hit("b", "z", 0.5, 2)])),
        (json!(["$line", "$title", 1]), json!(["a\tT   x  y", "T", 1.0])),
        (json!({"a": null}), json!({"a": null, "b": 1})),
    ];
    for (template, answer) in &good {
        assert_eq!(corpus.check(template, answer), Ok(()));
    }
    for (template, answer) in [
        (&hits, json!([hit("a", "x y", 0.5, 1)])),
        (&hits, json!([hit("a", "x y", 0.5, 1), hit("b", "z", 0.6, 2)])),
        (&hits, json!([hit("a", "z", 0.5, 1), hit("b", "z", 0.5, 2)])),
        (&hits, json!([hit("a", "x y", 0.5, 1), hit("a", "x y", 0.5, 2)])),
        (&hits, json!([hit("a", "x y", 0.5, 1), hit("b", "z", 0.5, 1)])),
        (&json!({"$exact": true, "a": 1}), json!({"a": 1, "b": 1})),
        (&json!({"a": null}), json!({})),
        (&json!("$string"), json!("")),
        (&json!("$line"), json!("b\tT   x y")),
        (&json!(["$id", "$text"]), json!(["a", "z"])),
    ] {
        assert!(corpus.check(template, &answer).is_err(), "{template} took {answer}");
    }
}
