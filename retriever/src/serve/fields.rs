//! Fields of a JSON object as the servers of the Search-R1 family read them, and their words for what is wrong: FastAPI's
//! `detail`, all faults at once.

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::options::Limits;

/// Reads fields and collects what is wrong with them.
pub(super) struct Fields<'a> {
    body: &'a Value,
    object: &'a Map<String, Value>,
    limits: &'a Limits,
    wrong: Vec<Value>,
}

impl<'a> Fields<'a> {
    pub fn of(body: &'a Value, limits: &'a Limits) -> Result<Self, Fault> {
        match body {
            Value::Object(object) => Ok(Self { body, object, limits, wrong: Vec::new() }),
            other => Err(refusal(vec![json!({
                "type": "model_attributes_type", "loc": ["body"], "input": shortened(other),
                "msg": "Input should be a valid dictionary or object to extract fields from",
            })])),
        }
    }

    /// Whether a field is there, even if it is null.
    pub fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// Adds a fault to what is told at the end.
    pub fn refuse(&mut self, kind: &str, at: &[Value], message: impl Into<String>, input: &Value) {
        let location: Vec<&Value> = at.iter().collect();
        let mut path = vec![json!("body")];
        path.extend(location.into_iter().cloned());
        self.wrong.push(json!({ "type": kind, "loc": path, "msg": message.into(), "input": shortened(input) }));
    }

    /// A field that must be there.
    pub fn required(&mut self, name: &str) -> Option<&'a Value> {
        let value = self.object.get(name);
        if value.is_none() {
            self.refuse("missing", &[json!(name)], "Field required", self.body);
        }
        value
    }

    /// One query.
    pub fn query(&mut self, name: &str) -> String {
        let Some(value) = self.required(name) else { return String::new() };
        self.text(&[json!(name)], value)
    }

    /// A list of queries.
    pub fn queries(&mut self, name: &str) -> Vec<String> {
        let most = self.limits.queries;
        let items = self.list(name, most);
        items.iter().enumerate().map(|(at, item)| self.text(&[json!(name), json!(at)], item)).collect()
    }

    /// A list of at most `most`.
    pub fn list(&mut self, name: &str, most: usize) -> &'a [Value] {
        match self.required(name) {
            None => &[],
            Some(Value::Array(items)) if items.len() <= most => items,
            Some(Value::Array(items)) => {
                let message = format!("List should have at most {most} items after validation, not {}", items.len());
                self.refuse("too_long", &[json!(name)], message, &json!(items.len()));
                &[]
            }
            Some(other) => {
                self.refuse("list_type", &[json!(name)], "Input should be a valid list", other);
                &[]
            }
        }
    }

    /// Text of at most as many bytes as a query may have.
    pub fn text(&mut self, at: &[Value], value: &Value) -> String {
        match value {
            Value::String(text) if text.len() <= self.limits.query => text.clone(),
            Value::String(text) => {
                let message = format!("String should have at most {} bytes, not {}", self.limits.query, text.len());
                self.refuse("string_too_long", at, message, &json!(text.len()));
                String::new()
            }
            other => {
                self.refuse("string_type", at, "Input should be a valid string", other);
                String::new()
            }
        }
    }

    /// A number of passages: null and a missing field say nothing.
    pub fn count(&mut self, name: &str) -> Option<usize> {
        let value = self.object.get(name).filter(|value| !value.is_null())?;
        let most = self.limits.top_k;
        match whole(value) {
            Ok(number) if (0..=most as i64).contains(&number) => Some(number as usize),
            Ok(number) => {
                let (kind, message) = if number < 0 {
                    ("greater_than_equal", "Input should be greater than or equal to 0".to_owned())
                } else {
                    ("less_than_equal", format!("Input should be less than or equal to {most}"))
                };
                self.refuse(kind, &[json!(name)], message, value);
                None
            }
            Err((kind, message)) => {
                self.refuse(kind, &[json!(name)], message, value);
                None
            }
        }
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.object.get(name) else { return default };
        let known = match value {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
            Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
            Value::String(text) => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "t" | "yes" | "y" | "on" => Some(true),
                "0" | "false" | "f" | "no" | "n" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        };
        known.unwrap_or_else(|| {
            let parsed = value.is_string() || value.as_i64().is_some();
            let (kind, message) = if parsed {
                ("bool_parsing", "Input should be a valid boolean, unable to interpret input")
            } else {
                ("bool_type", "Input should be a valid boolean")
            };
            self.refuse(kind, &[json!(name)], message, value);
            default
        })
    }

    /// All faults, if there are any.
    pub fn finish(self) -> Result<(), Fault> {
        if self.wrong.is_empty() { Ok(()) } else { Err(refusal(self.wrong)) }
    }
}

/// A whole number, also from text and from a float without a fraction.
fn whole(value: &Value) -> Result<i64, (&'static str, &'static str)> {
    const PARSING: (&str, &str) =
        ("int_parsing", "Input should be a valid integer, unable to parse string as an integer");
    const FRACTION: (&str, &str) =
        ("int_from_float", "Input should be a valid integer, got a number with a fractional part");
    const SIZE: (&str, &str) =
        ("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size");
    let from_float = |number: f64| match number {
        _ if number.fract() != 0.0 => Err(FRACTION),
        _ if number.abs() < 9e15 => Ok(number as i64),
        _ => Err(SIZE),
    };
    match value {
        Value::Bool(flag) => Ok(i64::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Ok(number),
            None => number.as_f64().map_or(Err(SIZE), from_float),
        },
        Value::String(text) => {
            let text = text.trim();
            let digits: String = text.strip_suffix(".0").unwrap_or(text).replace('_', "");
            digits.parse().map_err(|_| PARSING)
        }
        _ => Err(("int_type", "Input should be a valid integer")),
    }
}

fn refusal(wrong: Vec<Value>) -> Fault {
    let first = &wrong[0];
    let place = first["loc"].as_array().map(|path| {
        path.iter()
            .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(".")
    });
    let message = format!("{}: {}", place.unwrap_or_default(), first["msg"].as_str().unwrap_or_default());
    Fault { detail: Some(Value::Array(wrong)), ..Fault::invalid(message) }
}

/// What was sent, unless it is so much that the answer would be, too.
fn shortened(input: &Value) -> Value {
    let text = input.to_string();
    if text.len() <= 1024 { input.clone() } else { json!(format!("({} bytes)", text.len())) }
}
