//! How does Python write JSON? Chat templates show tools to models in its spacing, and models have learnt it.

use std::io;

use minijinja::{Error, ErrorKind, Value, value::Kwargs};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// `json.dumps(value, ensure_ascii=False, indent=indent)`, the filter `tojson` of transformers' templates.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // The others are what transformers' filter takes; none of them changes what is usual.
    for name in ["ensure_ascii", "separators", "sort_keys"] {
        let _: Option<Value> = options.get(name)?;
    }
    options.assert_all_used()?;
    let mut bytes = Vec::new();
    let spaces = " ".repeat(indent.unwrap_or(0).min(16));
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine)),
        Some(_) => {
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        }
    };
    let failed = |error: String| Error::new(ErrorKind::BadSerialization, error);
    written.map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
    Ok(Value::from_safe_string(text))
}

/// Commas and colons are followed by a space.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
