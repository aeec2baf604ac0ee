//! What a message of the policy means. Only the message is looked at, never an observation.

use serde_json::Value;

use crate::preset::{Choose, Cut, End, Grammar, QueryForm, Tags};
use crate::text::strip;
use crate::trajectory::{Action, Bytes};

/// A message that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    pub action: Action,
    /// Between the tags of the action.
    pub content: Option<Bytes>,
    /// Where the message is cut.
    pub end: usize,
    pub fault: Option<Fault>,
}

/// What is wrong with the call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    Malformed,
    UnknownTool(String),
    Arguments,
}

/// The bytes between the first opening tag that has a closing one and that closing one.
fn first_between(text: &str, tags: &Tags) -> Option<Bytes> {
    let start = text.find(&tags.open)? + tags.open.len();
    // Behind the first opening tag no closing one is missing unless it is missing for all.
    let length = text[start..].find(&tags.close)?;
    Some(start..start + length)
}

/// All such bytes, one after the other, none inside another, as `re.findall` with a lazy group finds them.
pub(crate) fn all_between(text: &str, tags: &Tags) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(inside) = first_between(&text[from..], tags) {
        let inside = from + inside.start..from + inside.end;
        from = inside.end + tags.close.len();
        found.push(inside);
    }
    found
}

/// The bytes before the last closing tag and behind the opening one that is nearest to it.
fn innermost(text: &str, tags: &Tags) -> Option<Bytes> {
    let end = text.rfind(&tags.close)?;
    let start = text[..end].rfind(&tags.open)? + tags.open.len();
    Some(start..end)
}

/// Reads a message.
pub(crate) fn read(grammar: &Grammar, message: &str) -> Reading {
    let end = cut(grammar, message);
    let text = &message[..end];
    let pick = |tags: &Tags| match grammar.choose {
        Choose::Last => all_between(text, tags).pop(),
        Choose::Innermost => innermost(text, tags),
        _ => first_between(text, tags),
    };
    let (search, answer) = (pick(&grammar.search), grammar.answer.as_ref().and_then(pick));
    let has_answer_tags =
        grammar.answer.as_ref().is_some_and(|tags| text.contains(&tags.open) && text.contains(&tags.close));
    if grammar.end == End::AnswerTags && has_answer_tags {
        let text = answer.clone().map_or(String::new(), |inside| strip(&text[inside]).to_owned());
        return Reading { action: Action::Answer { text }, content: answer, end, fault: None };
    }
    let is_search = match (&search, &answer) {
        (Some(search), Some(answer)) => match grammar.choose {
            Choose::First => search.start - grammar.search.open.len() < answer.start - open_length(grammar),
            Choose::Last | Choose::Innermost => search.start > answer.start,
            Choose::SearchFirst => true,
            Choose::AnswerFirst => false,
        },
        (Some(_), None) => true,
        (None, _) => false,
    };
    let (action, content, fault) = match (is_search, search, answer) {
        (true, Some(inside), _) => match queries(&grammar.query, &text[inside.clone()]) {
            Ok(queries) => (Action::Search { queries }, Some(inside), None),
            Err(fault) => (Action::Invalid { reason: fault.reason() }, Some(inside), Some(fault)),
        },
        (_, _, Some(inside)) => (Action::Answer { text: strip(&text[inside.clone()]).to_owned() }, Some(inside), None),
        _ if grammar.end == End::NoSearch => (Action::End, None, None),
        _ => (Action::Invalid { reason: "neither a search nor an answer".into() }, None, None),
    };
    Reading { action, content, end, fault }
}

fn open_length(grammar: &Grammar) -> usize {
    grammar.answer.as_ref().map_or(0, |tags| tags.open.len())
}

fn cut(grammar: &Grammar, message: &str) -> usize {
    let behind = |tags: &Tags| message.find(&tags.close).map(|at| at + tags.close.len());
    let (search, answer) = (behind(&grammar.search), grammar.answer.as_ref().and_then(behind));
    let at = match grammar.cut {
        Cut::None => None,
        Cut::SearchFirst => search.or(answer),
        Cut::Search => search,
        Cut::FirstClose => search.into_iter().chain(answer).min(),
    };
    at.unwrap_or(message.len())
}

fn queries(form: &QueryForm, content: &str) -> Result<Vec<String>, Fault> {
    let QueryForm::Call { name, argument } = form else { return Ok(vec![strip(content).to_owned()]) };
    let call: Value = serde_json::from_str(content).map_err(|_| Fault::Malformed)?;
    let called = call["name"].as_str().ok_or(Fault::Malformed)?;
    if called != name {
        return Err(Fault::UnknownTool(called.to_owned()));
    }
    // Some models write the arguments as a text with JSON in it.
    let inner =
        call["arguments"].as_str().map(serde_json::from_str::<Value>).transpose().map_err(|_| Fault::Arguments)?;
    let given = &inner.as_ref().unwrap_or(&call["arguments"])[argument];
    let texts = match given {
        Value::String(query) => vec![query.clone()],
        Value::Array(queries) => {
            let texts = queries.iter().map(|query| query.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or(Fault::Arguments)?
        }
        _ => return Err(Fault::Arguments),
    };
    if texts.is_empty() { Err(Fault::Arguments) } else { Ok(texts) }
}

impl Fault {
    fn reason(&self) -> String {
        match self {
            Self::Malformed => "a call that is not JSON with the tool's name and arguments".into(),
            Self::Arguments => "a call without queries in its arguments".into(),
            Self::UnknownTool(name) => format!("a call of another tool, {name:?}"),
        }
    }
}
