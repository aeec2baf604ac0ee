//! Where do presets come from, and what is wrong with one that cannot be used? A file's mistake is told with its line and its key.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{End, LastTurn, Preset, QueryForm};
use crate::render::{PASSAGE_PLACEHOLDERS, QUERY_PLACEHOLDERS};
use crate::{Error, Result};

/// Characters of a line with a mistake that are shown.
const SHOWN: usize = 120;

/// Declares the built-in presets.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// Names of the presets that are built in.
        pub const PRESETS: &[&str] = &[$($name),*];

        fn built_in(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../presets/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

presets![
    "hindsearch",
    "search-r1",
    "search-r1-v0.3",
    "autorefine",
    "skyrl",
    "slime",
    "verl-tool-call",
    "research",
    "r1-searcher",
    "asearcher",
    "zerosearch",
    "search-o1",
    "rllm",
    "tinker",
];

/// A value that its type allows and its key does not.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// The key, from the top: `limits.turns`.
    pub key: String,
    pub expected: String,
    pub found: String,
}

impl Wrong {
    pub fn new(key: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { key: key.into(), expected: expected.into(), found: found.into() }
    }

    /// As an error about the thing that holds the key.
    pub fn of(self, what: &str) -> Error {
        Error::invalid(format!("{what}, `{}`", self.key), self.expected, format!("`{}`", self.found))
    }
}

impl Preset {
    /// A preset that is built in.
    ///
    /// # Errors
    /// [`Error::NotFound`], which lists those that there are.
    pub fn named(name: &str) -> Result<Self> {
        let text = built_in(name).ok_or_else(|| Error::NotFound {
            what: format!("preset `{name}`"),
            remedy: format!("there are {}; or name a file that ends in .toml", PRESETS.join(", ")),
        })?;
        Self::parse(text, &format!("preset `{name}`"))
    }

    /// A preset that is built in, or one of a file, whose name ends in `.toml`.
    ///
    /// # Errors
    /// As [`named`](Self::named); [`Error::InvalidInput`], with line and key, and [`Error::Io`] for a file that cannot be used.
    pub fn load(name: &str) -> Result<Self> {
        if !name.ends_with(".toml") {
            return Self::named(name);
        }
        let text = std::fs::read_to_string(name).map_err(Error::io("read", Path::new(name)))?;
        Self::parse(&text, &format!("`{name}`"))
    }

    /// The same preset with some fields replaced: `{"limits": {"turns": 8}}`. A null takes a field away.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for what does not make a preset.
    pub fn with(&self, overrides: &serde_json::Value) -> Result<Self> {
        let refuse = |found: String| Error::invalid("overrides", "fields of a preset (see `/env/v1/presets`)", found);
        let mut fields = serde_json::to_value(self).map_err(|error| refuse(error.to_string()))?;
        replace(&mut fields, overrides);
        let preset: Self = serde_json::from_value(fields).map_err(|error| refuse(error.to_string()))?;
        preset.check().map_err(|wrong| wrong.of("overrides"))?;
        Ok(preset)
    }

    fn parse(text: &str, what: &str) -> Result<Self> {
        let line = |at: usize| format!("{what}, line {}", text[..at].matches('\n').count() + 1);
        let preset: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| text.floor_char_boundary(span.start));
            let key = Lines::of(text).key(at).map_or(String::new(), |key| format!(", `{key}`"));
            let expected = "a key and a value that a preset has (`hindsearch env presets --keys` lists all)";
            let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
            let there: String = text[start..].lines().next().unwrap_or_default().chars().take(SHOWN).collect();
            Error::invalid(format!("{}{key}", line(at)), expected, format!("`{there}`: {}", error.message()))
        })?;
        preset.check().map_err(|wrong| {
            let at = Lines::of(text).start(&wrong.key);
            wrong.of(&line(at))
        })?;
        Ok(preset)
    }

    /// What types cannot say.
    fn check(&self) -> Result<(), Wrong> {
        let grammar = &self.grammar;
        let tags = [("think", &grammar.think), ("answer", &grammar.answer), ("search", &Some(grammar.search.clone()))];
        for (name, tags) in tags {
            if let Some(tags) = tags.as_ref().filter(|tags| tags.open.is_empty() || tags.close.is_empty()) {
                let found = format!("{}{}", tags.open, tags.close);
                return Err(Wrong::new(format!("grammar.{name}"), "tags that are not empty", found));
            }
        }
        if !grammar.answer_form.contains("{answer}") {
            return Err(Wrong::new("grammar.answer_form", "a text with `{answer}`", &grammar.answer_form));
        }
        if !self.prompt.user.contains("{question}") {
            return Err(Wrong::new("prompt.user", "a text with `{question}`", &self.prompt.user));
        }
        self.check_placeholders()?;
        if grammar.end != End::NoSearch && grammar.answer.is_none() {
            return Err(Wrong::new("grammar.answer", "tags, where an answer ends the episode", "nothing"));
        }
        if let Some(tools) = &self.prompt.tools
            && !has_function(tools, &grammar.query)
        {
            let expected = "a JSON list of functions, among them the one of `grammar.query`";
            return Err(Wrong::new("prompt.tools", expected, tools));
        }
        for (key, value) in [
            ("observation.top_k", self.observation.top_k),
            ("limits.turns", self.limits.turns),
            ("limits.response_tokens", self.limits.response_tokens),
            ("limits.context_tokens", self.limits.context_tokens),
            ("limits.searches", self.limits.searches.unwrap_or(1)),
            ("limits.queries", self.limits.queries.unwrap_or(1)),
            ("observation.clip.characters", self.observation.clip.as_ref().map_or(1, |clip| clip.characters)),
        ] {
            if value == 0 {
                return Err(Wrong::new(key, "at least 1", "0"));
            }
        }
        if (self.limits.last_turn == LastTurn::Force) == self.limits.force.is_empty() {
            let expected = "a text exactly where `last_turn` is `force`";
            return Err(Wrong::new("limits.force", expected, &self.limits.force));
        }
        self.reward.check()
    }

    /// A name in braces that nothing is put in for is a slip, which the policy would read.
    fn check_placeholders(&self) -> Result<(), Wrong> {
        let Self { prompt, grammar, observation, invalid, limits, .. } = self;
        let none: &[&str] = &[];
        let templates = [
            ("prompt.system", prompt.system.as_deref(), none),
            ("prompt.user", Some(&*prompt.user), &["question"]),
            ("prompt.assistant", prompt.assistant.as_deref(), none),
            ("grammar.answer_form", Some(&*grammar.answer_form), &["answer"]),
            ("observation.before", Some(&*observation.before), none),
            ("observation.after", Some(&*observation.after), none),
            ("observation.passage", Some(&*observation.passage), PASSAGE_PLACEHOLDERS),
            ("observation.untitled", observation.untitled.as_deref(), PASSAGE_PLACEHOLDERS),
            ("observation.separator", Some(&*observation.separator), none),
            ("observation.query", Some(&*observation.query), QUERY_PLACEHOLDERS),
            ("observation.between", Some(&*observation.between), none),
            ("observation.empty", Some(&*observation.empty), none),
            ("invalid.reply", Some(&*invalid.reply), none),
            ("invalid.malformed", invalid.malformed.as_deref(), none),
            ("invalid.unknown_tool", invalid.unknown_tool.as_deref(), &["name"]),
            ("invalid.arguments", invalid.arguments.as_deref(), none),
            ("limits.exceeded", limits.exceeded.as_deref(), none),
            ("limits.repeated", limits.repeated.as_deref(), none),
            ("limits.force", Some(&*limits.force), none),
        ];
        for (key, template, known) in templates {
            let unknown = placeholders(template.unwrap_or_default()).into_iter().find(|name| !known.contains(name));
            if let Some(unknown) = unknown {
                let names = known.iter().map(|name| format!("`{{{name}}}`")).collect::<Vec<_>>().join(", ");
                let names = if names.is_empty() { "nothing".into() } else { names };
                return Err(Wrong::new(key, format!("{names} in braces"), format!("{{{unknown}}}")));
            }
        }
        Ok(())
    }
}

/// Objects are merged, all else is replaced.
fn replace(fields: &mut serde_json::Value, overrides: &serde_json::Value) {
    match (fields, overrides) {
        (serde_json::Value::Object(fields), serde_json::Value::Object(overrides)) => {
            for (name, value) in overrides {
                replace(fields.entry(name.clone()).or_insert(serde_json::Value::Null), value);
            }
        }
        (field, value) => *field = value.clone(),
    }
}

/// Whether the tools are a list that holds the function of the calls that are read.
fn has_function(tools: &str, form: &QueryForm) -> bool {
    let QueryForm::Call { name, argument } = form else { return false };
    let tools: Vec<serde_json::Value> = serde_json::from_str(tools).unwrap_or_default();
    tools.iter().map(|tool| &tool["function"]).any(|function| {
        function["name"].as_str() == Some(name) && function["parameters"]["properties"][argument].is_object()
    })
}

/// The names in braces. What stands behind a LaTeX command, as in `\boxed{yes}` and `\frac{a}{b}`, is its argument and no name.
fn placeholders(template: &str) -> Vec<&str> {
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut names = Vec::new();
    let mut argument_end = None;
    for (at, _) in template.match_indices('{') {
        let Some((inside, _)) = template[at + 1..].split_once('}') else { break };
        if !is_name(inside) {
            continue;
        }
        let is_argument = argument_end == Some(at) || template[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        if is_argument {
            argument_end = Some(at + inside.len() + 2);
        } else {
            names.push(inside);
        }
    }
    names
}

/// Where each key of a file stands, in bytes.
struct Lines(Vec<(String, std::ops::Range<usize>)>);

impl Lines {
    /// Those of a file that is TOML; of another one, none.
    fn of(text: &str) -> Self {
        let mut all = Vec::new();
        if let Ok(table) = DeTable::parse(text) {
            Self::collect(table.get_ref(), "", &mut all);
        }
        Self(all)
    }

    fn collect(table: &DeTable<'_>, within: &str, all: &mut Vec<(String, std::ops::Range<usize>)>) {
        for (key, value) in table {
            let path = format!("{within}{}", key.get_ref());
            all.push((path.clone(), key.span().start.min(value.span().start)..value.span().end));
            if let DeValue::Table(table) = value.get_ref() {
                Self::collect(table, &format!("{path}."), all);
            }
        }
    }

    /// The key at a byte: of those that hold it the smallest.
    fn key(&self, at: usize) -> Option<&str> {
        let holding = self.0.iter().filter(|(_, bytes)| bytes.contains(&at));
        holding.min_by_key(|(_, bytes)| bytes.len()).map(|(key, _)| key.as_str())
    }

    /// Where a key begins, or what it should stand in; 0 where not even that is there.
    fn start(&self, key: &str) -> usize {
        let around = |other: &str| key.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let around = self.0.iter().filter(|(other, _)| around(other));
        around.max_by_key(|(other, _)| other.len()).map_or(0, |(_, bytes)| bytes.start)
    }
}
