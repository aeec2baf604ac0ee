//! A language model on an OpenAI-compatible server: vLLM, SGLang, llama.cpp, or OpenAI's own.
//!
//! Token ids and log-probabilities are kept exactly as the server reports them, where it does; a message is never tokenised
//! again. Where they do not fit the text, only the text is kept.

use serde_json::{Map, Value, json};

use super::{Policy, Turn};
use crate::endpoint::Endpoint;
use crate::preset::QueryForm;
use crate::rules::Message;
use crate::trajectory::Role;
use crate::{Error, Result};

/// How a model on a server is asked.
#[derive(Debug, Clone)]
pub struct ChatServerOptions {
    /// The model's name there.
    pub model: String,
    /// Whether text is continued (`/completions`) rather than a chat (`/chat/completions`): for models without a chat template.
    pub completions: bool,
    /// Whether fields are sent that only open servers know: stop strings are kept, token ids are given, and an assistant's
    /// message is continued. Off for servers that refuse what they do not know.
    pub extensions: bool,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Nucleus; 1 is all.
    pub top_p: f64,
    /// Requests at a time.
    pub callers: usize,
}

impl Default for ChatServerOptions {
    fn default() -> Self {
        Self { model: String::new(), completions: false, extensions: true, temperature: 1.0, top_p: 1.0, callers: 32 }
    }
}

/// A language model on a server.
pub struct ChatServer {
    endpoint: Endpoint,
    options: ChatServerOptions,
}

impl ChatServer {
    /// A model at this address.
    pub fn new(endpoint: Endpoint, options: ChatServerOptions) -> Self {
        Self { endpoint, options }
    }

    fn ask(&self, turn: &Turn<'_>) -> Result<Message> {
        let route = if self.continues_text(turn) { "completions" } else { "chat/completions" };
        let answer = self.endpoint.post(route, &self.request(turn))?;
        read(&answer, turn).ok_or_else(|| {
            self.endpoint.unexpected(route, "a choice with a text, or with why it ended without one", &answer)
        })
    }

    /// Whether the recipe, or whoever asks, wants text to go on rather than a chat.
    fn continues_text(&self, turn: &Turn<'_>) -> bool {
        self.options.completions || turn.rules.preset().prompt.bare
    }

    fn request(&self, turn: &Turn<'_>) -> Value {
        let preset = turn.rules.preset();
        let options = &self.options;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("model", json!(options.model));
        set("temperature", json!(options.temperature));
        set("top_p", json!(options.top_p));
        set("max_tokens", json!(preset.limits.response_tokens));
        // Some servers take a signed number of 32 bits.
        set("seed", json!(turn.seed >> 33));
        if !preset.grammar.stop.is_empty() {
            set("stop", json!(preset.grammar.stop));
        }
        let messages = turn.episode.messages();
        if self.continues_text(turn) {
            set("prompt", json!(messages.into_iter().map(|(_, text)| text).collect::<String>()));
            set("logprobs", json!(1));
        } else {
            let goes_on = messages.last().is_some_and(|(role, _)| *role == Role::Assistant);
            set("messages", chat(messages));
            set("logprobs", json!(true));
            // They were read when the preset was.
            if let Some(tools) = preset.prompt.tools.as_deref().and_then(|tools| serde_json::from_str(tools).ok()) {
                set("tools", tools);
            }
            if options.extensions && goes_on {
                set("add_generation_prompt", json!(false));
                set("continue_final_message", json!(true));
            }
        }
        if options.extensions {
            set("include_stop_str_in_output", json!(true));
            set("no_stop_trim", json!(true));
            set("return_token_ids", json!(true));
        }
        Value::Object(fields)
    }
}

impl Policy for ChatServer {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        turns.iter().map(|turn| self.ask(turn)).collect()
    }

    fn callers(&self) -> usize {
        self.options.callers
    }
}

fn chat(messages: Vec<(Role, String)>) -> Value {
    let message = |(number, (role, text)): (usize, (Role, String))| match role {
        Role::Tool => json!({ "role": role, "content": text, "tool_call_id": format!("call_{number}") }),
        role => json!({ "role": role, "content": text }),
    };
    messages.into_iter().enumerate().map(message).collect()
}

/// The message in an answer.
///
/// An empty one is the model's where the server says how it ended: the model said its end token at once, or a limit cut it off
/// before a word. Without that the server gave nothing, which is its own fault and no message.
fn read(answer: &Value, turn: &Turn<'_>) -> Option<Message> {
    let choice = &answer["choices"][0];
    let said = choice["message"]["content"].as_str().or_else(|| choice["text"].as_str()).unwrap_or_default();
    let calls = calls(&choice["message"]["tool_calls"], turn);
    let has_ended = ["stop", "length"].iter().any(|reason| choice["finish_reason"] == *reason);
    if said.is_empty() && calls.is_empty() && !has_ended {
        return None;
    }
    let cut_off = choice["finish_reason"] == "length";
    let mut message = Message { text: said.to_owned(), cut_off, ..Message::default() };
    if !calls.is_empty() {
        message.text.push_str(&calls);
        return Some(message);
    }
    if let Some(sampled) = sampled(choice, &message.text) {
        (message.text, message.tokens, message.logprobs, message.ends) = sampled;
    } else if !cut_off {
        restore_stop(&mut message.text, choice, &turn.rules.preset().grammar.stop);
    }
    Some(message)
}

/// Calls of tools that the server took out of the text, as the recipe writes them.
fn calls(calls: &Value, turn: &Turn<'_>) -> String {
    let grammar = &turn.rules.preset().grammar;
    if !matches!(grammar.query, QueryForm::Call { .. }) {
        return String::new();
    }
    let call = |call: &Value| {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
        let body = json!({ "name": function["name"], "arguments": arguments.unwrap_or(function["arguments"].clone()) });
        format!("{}\n{body}\n{}", grammar.search.open, grammar.search.close)
    };
    calls.as_array().into_iter().flatten().map(call).collect::<Vec<_>>().join("\n")
}

type Sampled = (String, Vec<u32>, Vec<f32>, Vec<usize>);

/// The tokens with their bytes, where the server gives all of them and they say what the text says.
fn sampled(choice: &Value, text: &str) -> Option<Sampled> {
    let ids = choice["token_ids"].as_array()?;
    let tokens =
        ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect::<Option<Vec<u32>>>()?;
    let content = choice["logprobs"]["content"].as_array()?;
    if content.len() != tokens.len() || tokens.is_empty() {
        return None;
    }
    let (mut bytes, mut logprobs, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for token in content {
        // A log-probability of exactly 0 may come out as a tiny positive number.
        logprobs.push(Some(token["logprob"].as_f64()?.min(0.0) as f32).filter(|logprob| logprob.is_finite())?);
        for byte in token["bytes"].as_array()? {
            bytes.push(u8::try_from(byte.as_u64()?).ok()?);
        }
        ends.push(bytes.len());
    }
    let whole = String::from_utf8(bytes).ok()?;
    // The server may have cut the text inside the last token; the token was sampled whole. An end token says nothing.
    if !whole.starts_with(text) {
        return None;
    }
    let ends = ends.into_iter().map(|end| (end..=whole.len()).find(|&at| whole.is_char_boundary(at)).unwrap_or(end));
    Some((whole.clone(), tokens, logprobs, ends.collect()))
}

/// Puts back the string that ended the message, where the server took it away.
fn restore_stop(text: &mut String, choice: &Value, stops: &[String]) {
    if stops.iter().any(|stop| text.ends_with(stop.as_str())) {
        return;
    }
    let named = [&choice["stop_reason"], &choice["matched_stop"], &choice["stopping_word"]];
    let named = named.into_iter().filter_map(Value::as_str).find(|named| stops.iter().any(|stop| stop == named));
    // Without a word from the server: a tag that is open must have been closed, or the message would not have ended.
    let closes = |stop: &&String| {
        let open = stop.replacen("</", "<", 1);
        stop.starts_with("</") && text.rfind(&open).is_some_and(|at| !text[at..].contains(stop.as_str()))
    };
    let guessed = || {
        (choice["finish_reason"] == "stop")
            .then(|| stops.iter().filter(closes).max_by_key(|stop| text.rfind(&stop.replacen("</", "<", 1))))
    };
    if let Some(stop) = named.or_else(|| guessed().flatten().map(String::as_str)) {
        text.push_str(stop);
    }
}

impl Endpoint {
    pub(crate) fn unexpected(&self, route: &str, expected: &str, found: &Value) -> Error {
        let shown: String = self.hide(&found.to_string()).chars().take(200).collect();
        Error::Unavailable {
            what: format!("{}/{route}", self.address()),
            found: format!("expected {expected}, found `{shown}`"),
            remedy: "name the address of an OpenAI-compatible server, up to `/v1`".into(),
        }
    }
}
