//! How does a model want a chat to be written?

use std::collections::BTreeMap;
use std::path::Path;

use hindsearch_env::Role;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};
use serde_json::Value as Json;

use super::gguf_tokenizer::named_tokens;
use super::python_json::tojson;
use super::tokenizer::token_text;
use crate::model::{Gguf, read_json};
use crate::{Error, Result};

/// Instructions of a template that may be carried out for a chat.
const FUEL: u64 = 10_000_000;
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
/// For models that come without a template.
const PLAIN: &str = r"{% for message in messages %}
{{ message.role | capitalize }}:
{{ message.content }}{% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n\n' }}
{%- endfor %}
{% if add_generation_prompt %}
Assistant:
{% endif %}";

/// A chat template in Jinja, as transformers renders it: blocks take their line with them, `tojson` writes as Python does.
/// There is no clock: templates that ask whether `strftime_now` is there learn that it is not, and write the date that they were
/// made with, so that a chat is the same tomorrow.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    origin: String,
    tokens: BTreeMap<String, String>,
}

/// What is rendered.
#[derive(Debug, Clone, Copy)]
pub struct Chat<'a> {
    /// Roles and texts.
    pub messages: &'a [(Role, String)],
    /// Tools, as JSON in OpenAI's format.
    pub tools: Option<&'a str>,
    /// Whether the beginning of the assistant's next message follows.
    pub generation_prompt: bool,
}

impl ChatTemplate {
    /// The template of a model's folder: its `chat_template.jinja`, or else what `tokenizer_config.json` has, or else a plain one.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for a template that cannot be read.
    pub fn open(folder: &Path) -> Result<Self> {
        let config = folder.join("tokenizer_config.json");
        let fields = if config.is_file() { read_json(&config)? } else { Json::Null };
        let token = |(name, value): (&String, &Json)| {
            name.ends_with("_token").then(|| Some((name.clone(), token_text(value)?))).flatten()
        };
        let tokens = fields.as_object().into_iter().flatten().filter_map(token).collect();
        let file = folder.join("chat_template.jinja");
        if file.is_file() {
            let source = std::fs::read_to_string(&file).map_err(Error::io("read", &file))?;
            return Self::read(&file, vec![(DEFAULT, source)], tokens);
        }
        let named = |entry: &Json| {
            let name = [DEFAULT, TOOL_USE].into_iter().find(|name| entry["name"] == **name)?;
            Some((name, entry["template"].as_str()?.to_owned()))
        };
        let sources = match &fields["chat_template"] {
            Json::Null => return Self::plain(tokens),
            Json::String(source) => vec![(DEFAULT, source.clone())],
            Json::Array(entries) => entries.iter().filter_map(named).collect(),
            _ => Vec::new(),
        };
        Self::read(&config, sources, tokens)
    }

    /// The template of a GGUF file, or a plain one.
    pub(crate) fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let tokens = named_tokens(gguf)?.into_iter().map(|(name, token)| (name.to_owned(), token)).collect();
        let keys = [(DEFAULT, "tokenizer.chat_template"), (TOOL_USE, "tokenizer.chat_template.tool_use")];
        let source = |(name, key)| Some((name, gguf.text(key)?.to_owned()));
        let sources: Vec<_> = keys.into_iter().filter_map(source).collect();
        if sources.is_empty() { Self::plain(tokens) } else { Self::read(gguf.path(), sources, tokens) }
    }

    /// A template of one's own. `tokens` are what it calls `bos_token`, `eos_token` and so on.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for what is no template.
    pub fn from_source(source: &str, tokens: BTreeMap<String, String>) -> Result<Self> {
        let unusable = |error: String| Error::invalid("chat template", "Jinja", error);
        Self::compile("given", vec![(DEFAULT, source.to_owned())], tokens).map_err(unusable)
    }

    fn plain(tokens: BTreeMap<String, String>) -> Result<Self> {
        let unusable = |error: String| Error::invalid("plain chat template", "Jinja", error);
        Self::compile("plain: none came with the model", vec![(DEFAULT, PLAIN.to_owned())], tokens).map_err(unusable)
    }

    fn read(path: &Path, sources: Vec<(&str, String)>, tokens: BTreeMap<String, String>) -> Result<Self> {
        if !sources.iter().any(|(name, _)| *name == DEFAULT) {
            return Err(Error::file(path, "a `chat_template`: a text, or a list with one named `default`", "others"));
        }
        let unusable = |error: String| Error::file(path, "a chat template in Jinja", error);
        Self::compile(&path.display().to_string(), sources, tokens).map_err(unusable)
    }

    fn compile(
        origin: &str,
        sources: Vec<(&str, String)>,
        tokens: BTreeMap<String, String>,
    ) -> std::result::Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", tojson);
        environment.add_function(
            "raise_exception",
            |message: String| -> std::result::Result<Value, minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        for (name, source) in sources {
            let added = environment.add_template_owned(name.to_owned(), source);
            added.map_err(|error| format!("{error:#}"))?;
        }
        Ok(Self { environment, origin: origin.to_owned(), tokens })
    }

    /// Where the template is from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The text of a chat.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the template refuses the chat, and for tools that are no JSON.
    pub fn render(&self, chat: &Chat<'_>) -> Result<String> {
        let tools: Option<Value> = chat
            .tools
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| Error::invalid("tools of a chat", "JSON in OpenAI's format", error.to_string()))?;
        let name = if tools.is_some() { TOOL_USE } else { DEFAULT };
        let template = self.environment.get_template(name).or_else(|_| self.environment.get_template(DEFAULT));
        let message = |(role, text): &(Role, String)| context! { role => role_name(*role), content => text };
        let refused = |error: minijinja::Error| {
            let what = format!("chat template ({})", self.origin);
            Error::invalid(what, "one that renders this chat", format!("{error:#}"))
        };
        let tokens = Value::from_pairs(self.tokens.clone());
        let chat = context! {
            messages => chat.messages.iter().map(message).collect::<Vec<_>>(),
            tools => tools,
            documents => (),
            add_generation_prompt => chat.generation_prompt,
            ..tokens
        };
        template.and_then(|template| template.render(chat)).map_err(refused)
    }
}

/// A role's name in templates.
fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}
