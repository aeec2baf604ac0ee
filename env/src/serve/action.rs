//! What a client calls an action: a text, or a message of the assistant with its tokens or the calls of its tools.

use hindsearch_retriever::serve::Fault;
use serde_json::{Value, json};

use crate::preset::{Grammar, QueryForm};
use crate::rules::Message;

/// The reason that says that a message was cut off by its limit of tokens, in the words of OpenAI, vLLM and SGLang.
const CUT_OFF: &str = "length";

/// Reads an action. The schema is [`schema`].
pub(super) fn read(grammar: &Grammar, action: &Value, finish_reason: Option<&str>) -> Result<Message, Fault> {
    let mut message = match action {
        Value::String(text) => Message::text(text.as_str()),
        Value::Object(fields) => {
            let mut text = content(&action["content"])?;
            for call in calls(&action["tool_calls"])? {
                text.push_str(&say_call(grammar, call)?);
            }
            let list = |name: &str| fields.get(name).filter(|value| !value.is_null());
            Message {
                text,
                tokens: numbers(list("tokens"), "tokens", |number| u32::try_from(number.as_u64()?).ok())?,
                logprobs: numbers(list("logprobs"), "logprobs", |number| Some(number.as_f64()? as f32))?,
                ends: numbers(list("ends"), "ends", |number| usize::try_from(number.as_u64()?).ok())?,
                cut_off: false,
            }
        }
        _ => return Err(Fault::invalid("action: expected a text, or a message of the assistant")),
    };
    message.cut_off = finish_reason == Some(CUT_OFF);
    Ok(message)
}

/// The schema of an action.
pub(super) fn schema() -> Value {
    let list = |kind: &str, what: &str| json!({ "type": "array", "items": { "type": kind }, "description": what });
    json!({
        "description": "What the policy wrote",
        "oneOf": [{ "type": "string" }, {
            "type": "object",
            "properties": {
                "role": { "const": "assistant" },
                "content": { "type": ["string", "array", "null"], "items": { "type": "object" } },
                "tool_calls": { "type": ["array", "null"], "items": { "type": "object" } },
                "tokens": list("integer", "Token ids, exactly as sampled"),
                "logprobs": list("number", "Natural log-probability of each token"),
                "ends": list("integer", "Where each token ends in the text, in bytes of UTF-8"),
            },
        }],
    })
}

/// The tools of a recipe, as OpenAI's interface describes them; none where queries are plain text.
pub(super) fn tools(grammar: &Grammar) -> Vec<Value> {
    let QueryForm::Call { name, argument } = &grammar.query else { return Vec::new() };
    let query = json!({
        "type": ["string", "array"], "items": { "type": "string" }, "description": "What to look for; several queries as a list",
    });
    vec![json!({
        "type": "function",
        "function": {
            "name": name,
            "description": "Finds passages of the corpus",
            "parameters": { "type": "object", "properties": { argument: query }, "required": [argument] },
        },
    })]
}

/// Text, or the text of its parts.
fn content(content: &Value) -> Result<String, Fault> {
    let wrong = || Fault::invalid("action.content: expected a text, or a list of parts with texts");
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            parts.iter().map(|part| part.as_str().or_else(|| part["text"].as_str()).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

fn calls(calls: &Value) -> Result<&[Value], Fault> {
    match calls {
        Value::Null => Ok(&[]),
        Value::Array(calls) => Ok(calls),
        _ => Err(Fault::invalid("action.tool_calls: expected a list")),
    }
}

/// A call that a server took out of the text, put back as the recipe has it.
fn say_call(grammar: &Grammar, call: &Value) -> Result<String, Fault> {
    if grammar.query == QueryForm::Text {
        return Err(Fault::invalid("action.tool_calls: this preset has no tools, queries are written between tags"));
    }
    let function = call.get("function").unwrap_or(call);
    let (name, arguments) = (&function["name"], &function["arguments"]);
    if !name.is_string() {
        return Err(Fault::invalid("action.tool_calls: expected calls with `name` and `arguments`"));
    }
    let tags = &grammar.search;
    Ok(format!("{}{}{}", tags.open, json!({ "name": name, "arguments": arguments }), tags.close))
}

fn numbers<T>(list: Option<&Value>, name: &str, number: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, Fault> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let read = list.as_array().and_then(|list| list.iter().map(number).collect());
    read.ok_or_else(|| Fault::invalid(format!("action.{name}: expected a list of numbers")))
}
