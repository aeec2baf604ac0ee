//! A published recipe as data: prompt, tags, limits, what an observation looks like, and what is rewarded.

#[cfg(feature = "schema")]
mod keys;
mod load;

use serde::{Deserialize, Serialize};

use crate::reward::RewardRules;
use crate::trajectory::Role;

#[cfg(feature = "schema")]
pub use keys::{Choice, Key, keys};
pub use load::PRESETS;
pub(crate) use load::Wrong;

/// A recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// Where its rules are from.
    pub source: String,
    /// What the policy is told.
    pub prompt: Prompt,
    /// What the policy writes.
    pub grammar: Grammar,
    /// What it is shown.
    pub observation: Observation,
    /// What is said to a message that is no action.
    pub invalid: Invalid,
    /// How long it goes on.
    pub limits: Limits,
    /// What it earns.
    pub reward: RewardRules,
}

/// The messages that an episode begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The system message; without one the chat template's own is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The user's message; `{question}` stands for the question.
    pub user: String,
    /// What the answer begins with, as the recipe puts words into the policy's mouth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    /// Whether a question without a question mark gets one.
    #[serde(default)]
    pub question_mark: bool,
    /// Whether the texts stand one behind the other as they are, without a chat template.
    #[serde(default)]
    pub bare: bool,
    /// The tools, as the JSON that chat templates take: a list of functions. Kept as text, since the order of its keys is part of
    /// what a policy was trained with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
}

/// An opening and a closing tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tags {
    /// Before.
    pub open: String,
    /// After.
    pub close: String,
}

/// How a message of the policy is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Grammar {
    /// Around thoughts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Tags>,
    /// Whether a search stands inside a thought, which goes on behind the passages and is closed before the answer alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub search_in_thought: bool,
    /// Around a query, or around the call of a tool.
    pub search: Tags,
    /// Around the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Tags>,
    /// How the answer is written, between the tags where there are any: `{answer}` stands for it. The answer alone where it is not
    /// given.
    #[serde(default = "bare", skip_serializing_if = "is_bare")]
    pub answer_form: String,
    /// What stands between the search tags.
    #[serde(default)]
    pub query: QueryForm,
    /// Strings that end a message. They belong to it.
    #[serde(default)]
    pub stop: Vec<String>,
    /// Where a message that went on is cut.
    #[serde(default)]
    pub cut: Cut,
    /// Which of several actions counts.
    #[serde(default)]
    pub choose: Choose,
    /// What ends an episode.
    #[serde(default)]
    pub end: End,
}

/// What stands between the search tags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "form", deny_unknown_fields)]
pub enum QueryForm {
    /// A query.
    #[default]
    Text,
    /// The call of a tool: `{"name": …, "arguments": {…}}`.
    Call {
        /// The tool's name.
        name: String,
        /// The argument with the query, or with the list of queries.
        argument: String,
    },
}

/// Where a message that went on after its action is cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// Nowhere.
    None,
    /// Behind the first closing search tag; without one, behind the first closing answer tag.
    #[default]
    SearchFirst,
    /// Behind the first closing search tag.
    Search,
    /// Behind whichever closing tag comes first.
    FirstClose,
}

/// Which of several actions in a message counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// The one that begins first.
    #[default]
    First,
    /// The one that begins last.
    Last,
    /// The one that ends last, from the opening tag that is nearest.
    Innermost,
    /// The first search; without one, the first answer.
    SearchFirst,
    /// The first answer; without one, the first search.
    AnswerFirst,
}

/// What ends an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// An answer.
    #[default]
    Answer,
    /// An opening and a closing answer tag anywhere in the message, whatever else it holds.
    AnswerTags,
    /// A message without a search.
    NoSearch,
}

/// What the policy is shown of what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// In which message it stands: running text, or one of its own.
    pub role: Role,
    /// Before the passages.
    #[serde(default)]
    pub before: String,
    /// Behind them; always there, however little room is left.
    #[serde(default)]
    pub after: String,
    /// A passage: `{number}` from 1, `{title}` (first line of the contents, quotes kept), `{text}` (the rest), `{contents}`,
    /// `{name}` (the title without quotes), `{id}`, `{score}` (three decimals), `{query}`.
    pub passage: String,
    /// A passage without a title in quotes; as any other where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untitled: Option<String>,
    /// Whether blanks around `{text}` and `{contents}` go.
    #[serde(default)]
    pub strip: bool,
    /// Where `{text}` and `{contents}` end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<Clip>,
    /// Between two passages of a query.
    #[serde(default)]
    pub separator: String,
    /// Before the passages of each query: `{query}`, `{number}`.
    #[serde(default)]
    pub query: String,
    /// Between the passages of two queries.
    #[serde(default)]
    pub between: String,
    /// In place of passages where there are none.
    #[serde(default)]
    pub empty: String,
    /// Whether blanks around the passages of a query go.
    #[serde(default)]
    pub trim: bool,
    /// Whether the passages become `{"result": "…"}`.
    #[serde(default)]
    pub json: JsonForm,
    /// Whether text that looks like a tag or a control token is made inert. Off, recipes get the very bytes that they were
    /// published with, and rewards are as safe as before: they never look at observations.
    #[serde(default = "yes")]
    pub escape: bool,
    /// Passages for a query.
    pub top_k: usize,
    /// The most that an observation may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What goes when there is too much.
    #[serde(default)]
    pub overflow: Overflow,
}

/// The most that a passage may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Characters.
    pub characters: usize,
    /// What stands where more would come.
    #[serde(default)]
    pub mark: String,
}

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Budget {
    /// Tokens of the policy; where no tokenizer is known, four characters count as one.
    Tokens(usize),
    /// Characters.
    Characters(usize),
}

/// What goes when there is too much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The passages of the lowest ranks, then the end of the last one that is left.
    #[default]
    Passages,
    /// The end of the observation, closing tag and all, as Search-R1 does it.
    End,
    /// The middle of the passages, as verl does it.
    Middle,
}

/// Whether and how passages are wrapped in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JsonForm {
    /// They are not.
    #[default]
    None,
    /// With all characters as they are.
    Unicode,
    /// With `\u` escapes for all that is not ASCII, as Python writes it.
    Ascii,
}

/// What is said to a message that is no action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Invalid {
    /// What happens.
    pub then: Then,
    /// What is said.
    #[serde(default)]
    pub reply: String,
    /// What is said to a call that is no JSON; the usual reply where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// What is said to a call of another tool, `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_tool: Option<String>,
    /// What is said to a call without queries, or with something else in their place; as to one that is no JSON where it is not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// What happens after a message that is no action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// The reply is said.
    Reply,
    /// An observation without passages is shown.
    Empty,
    /// Nothing is said, and the policy goes on.
    GoOn,
    /// Nothing is said. A message that was cut off by its limit goes on; after any other one the episode is over, since the policy
    /// has ended it.
    GoOnIfCutOff,
    /// The episode is over.
    End,
}

/// How long an episode goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Messages of the policy in which it may search.
    pub turns: usize,
    /// Searches; further ones are not carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searches: Option<usize>,
    /// What is said to a search beyond `searches`; where it is not given, the last turn's rule holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<String>,
    /// What is said to a search for what was searched before; where it is not given, it is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<String>,
    /// Queries in one message; the first ones are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// What happens when no turn is left.
    pub last_turn: LastTurn,
    /// What is said before the last answer, where `last_turn` is `force`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub force: String,
    /// Tokens of a message of the policy.
    pub response_tokens: usize,
    /// Tokens of prompt and episode together. An observation gets at most half of what is left of them.
    pub context_tokens: usize,
}

/// What happens when no turn is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LastTurn {
    /// The last search is carried out, and the policy may answer once more.
    ExtraAnswer,
    /// The last search is carried out, what was found is shown together with `force`, and the policy may answer once more.
    Force,
    /// The last search is carried out, and the episode is over.
    Observe,
    /// The last message gets no reply, and a search in it is not carried out.
    Stop,
}

fn bare() -> String {
    "{answer}".into()
}

fn is_bare(form: &str) -> bool {
    form == "{answer}"
}

fn yes() -> bool {
    true
}
