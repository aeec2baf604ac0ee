//! Which keys may a preset have, what does each mean, and which values may it take? It is read from the types that read presets, so
//! it says what they take.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Preset;

/// A key of a preset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Key {
    /// From the top: `limits.turns`; `[]` behind a list stands for each of its entries.
    pub key: String,
    /// For which value of another key there is this one: `scorer = "f1"`; nothing where there always is.
    pub only_with: Option<String>,
    /// What it means.
    pub about: String,
    /// `text`, `number`, `whole number`, `true or false`, `table`, `list of …`.
    pub kind: &'static str,
    /// Whether a preset must have it, where it has the table in which it stands.
    pub required: bool,
    /// What holds where it is not given; nothing where it has no value then.
    pub default: Option<Value>,
    /// The values that it may take, where they are few.
    pub values: Vec<Choice>,
}

/// A value that a key may take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The value.
    pub value: String,
    /// What it means.
    pub about: String,
}

/// All keys of a preset.
pub fn keys() -> Vec<Key> {
    let schema = schemars::schema_for!(Preset).to_value();
    let mut list = Listing { definitions: &schema["$defs"], keys: Vec::new() };
    list.table("", None, &schema);
    list.keys
}

/// The keys so far, and the types that others are made of.
struct Listing<'a> {
    definitions: &'a Value,
    keys: Vec<Key>,
}

impl<'a> Listing<'a> {
    /// The type behind a reference, or behind something that may be left out.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        let some = || schema["anyOf"].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"));
        match name.map(|name| &self.definitions[name]).or_else(some) {
            Some(inner) => self.resolved(inner),
            None => schema,
        }
    }

    /// The keys of a table.
    fn table(&mut self, within: &str, only_with: Option<&str>, table: &'a Value) {
        let required = |name: &str| table["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        for (name, schema) in table["properties"].as_object().into_iter().flatten() {
            // The one that tells the kinds of a table apart is listed with them.
            if schema.get("const").is_none() {
                self.key(&format!("{within}{name}"), only_with, schema, required(name));
            }
        }
    }

    /// A key, and those that its value holds.
    fn key(&mut self, key: &str, only_with: Option<&str>, schema: &'a Value, required: bool) {
        let mut inner = self.resolved(schema);
        let mut within = format!("{key}.");
        let kind = kind(inner, self.resolved(&inner["items"]));
        let about = [schema, inner].into_iter().find_map(|schema| schema["description"].as_str()).unwrap_or_default();
        let kinds = inner["oneOf"].as_array();
        let is_choice = kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind.get("const").is_some()));
        self.keys.push(Key {
            key: key.to_owned(),
            only_with: only_with.map(str::to_owned),
            about: plain(about),
            kind,
            required,
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            values: if is_choice {
                kinds.into_iter().flatten().map(|kind| choice(kind, "const")).collect()
            } else {
                Vec::new()
            },
        });
        if inner["type"] == "array" {
            inner = self.resolved(&inner["items"]);
            within = format!("{key}[].");
        }
        self.table(&within, only_with, inner);
        if !is_choice {
            self.kinds(&within, inner);
        }
    }

    /// The keys of a table of several kinds, which one of its keys tells apart, or which each have a key of their own.
    fn kinds(&mut self, within: &str, table: &'a Value) {
        let kinds: Vec<&Value> = table["oneOf"].as_array().into_iter().flatten().collect();
        let Some(tag) = kinds.first().and_then(|kind| tag(kind)) else {
            // One of them is given, and what is said of the kind is said of its key.
            for kind in kinds {
                for (name, schema) in kind["properties"].as_object().into_iter().flatten() {
                    self.keys.push(Key {
                        key: format!("{within}{name}"),
                        only_with: None,
                        about: plain(kind["description"].as_str().unwrap_or_default()),
                        kind: self::kind(schema, &Value::Null),
                        required: false,
                        default: None,
                        values: Vec::new(),
                    });
                }
            }
            return;
        };
        self.keys.push(Key {
            key: format!("{within}{tag}"),
            only_with: None,
            about: plain(table["description"].as_str().unwrap_or_default()),
            kind: "text",
            required: true,
            default: None,
            values: kinds.iter().map(|kind| Choice { value: constant(kind, tag), ..choice(kind, "const") }).collect(),
        });
        for kind in kinds {
            self.table(within, Some(&format!("{tag} = \"{}\"", constant(kind, tag))), kind);
        }
    }
}

/// The key whose value tells a kind of table from the others.
fn tag(kind: &Value) -> Option<&str> {
    let properties: &Map<String, Value> = kind["properties"].as_object()?;
    properties.iter().find(|(_, schema)| schema.get("const").is_some()).map(|(name, _)| name.as_str())
}

fn constant(kind: &Value, tag: &str) -> String {
    kind["properties"][tag]["const"].as_str().unwrap_or_default().to_owned()
}

fn choice(schema: &Value, value: &str) -> Choice {
    Choice {
        value: schema[value].as_str().unwrap_or_default().to_owned(),
        about: plain(schema["description"].as_str().unwrap_or_default()),
    }
}

fn kind(schema: &Value, items: &Value) -> &'static str {
    // A value that may be left out has two types, the second of which is none.
    let name = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match name {
        Some("string") => "text",
        Some("boolean") => "true or false",
        Some("integer") => "whole number",
        Some("number") => "number",
        Some("array") if items["type"] == "string" => "list of texts",
        Some("array") => "list of tables",
        None if schema["oneOf"][0].get("const").is_some() => "text",
        _ => "table",
    }
}

/// A description in one line.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
