//! What does a trainer need to let a teacher read an episode: which messages, which tokens, and which of them are learnt from?

use serde::{Deserialize, Serialize};

use super::{Placement, QuerySpan, placed};
use crate::trajectory::{Author, Role, Span, Trajectory};
use crate::{Error, Result};

/// How a teacher reads an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AlignOptions {
    /// Where the hint stands.
    pub placement: Placement,
    /// Which tokens of a search are its query.
    pub span: QuerySpan,
    /// The only turn whose query counts, from 0; those of all turns where none is named.
    pub turn: Option<usize>,
}

/// An episode as its teacher reads it. Student and teacher share the response token by token: the logits of token `j` stand at place
/// `prompt - 1 + j` of each one's own sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Aligned {
    /// What stands before the chat and its template; empty but for the placement `raw-prefix`.
    pub before: String,
    /// The teacher's prompt, hint and all. One of the assistant at its end is the beginning of its own message.
    pub messages: Vec<PromptMessage>,
    /// All tokens behind the prompt, as they were sampled and shown.
    pub response: Vec<u32>,
    /// For each of these whether the policy wrote it.
    pub policy_mask: Vec<bool>,
    /// For each of these whether it is part of a query that was searched for.
    pub query_mask: Vec<bool>,
    /// Tokens that hold letters of a query and letters around it.
    pub straddling: usize,
    /// Hints within the response, which the teacher alone reads: for the placement `step-prefix`.
    pub inserts: Vec<Insert>,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// A hint within a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Insert {
    /// The token of the response before which it stands.
    pub at: usize,
    /// The text, to be encoded by itself.
    pub text: String,
}

/// The episode with a hint in its place, as a trainer needs it.
///
/// # Errors
/// [`Error::InvalidInput`] for an episode of which some text behind the prompt has no tokens, or some message of the policy not the places
/// where they end, and for a turn that is not there.
pub fn align(episode: &Trajectory, hint: &str, options: &AlignOptions) -> Result<Aligned> {
    let leading = episode.spans.iter().take_while(|span| span.author == Author::Prompt).count();
    let has_tokens = |span: &Span| {
        let ends = span.author != Author::Policy || span.ends.len() == span.tokens.len();
        span.text.is_empty() || !span.tokens.is_empty() && ends
    };
    let mut behind = episode.spans.iter().enumerate().skip(leading);
    if let Some((number, _)) = behind.find(|(_, span)| !has_tokens(span)) {
        return Err(Error::invalid(
            format!("span {number} of the episode"),
            "`tokens`, and in the policy's spans `ends`, one a token",
            "others; play with a policy whose tokens are kept",
        ));
    }
    let turns = episode.turns.len();
    if let Some(turn) = options.turn.filter(|turn| *turn >= turns) {
        return Err(Error::invalid("turn", format!("one of the episode's {turns}, from 0"), turn.to_string()));
    }
    let skipped: usize = episode.spans[..leading].iter().map(|span| span.tokens.len()).sum();
    let behind = |mask: Vec<bool>| mask.into_iter().skip(skipped).collect();
    let query_mask = match options.turn {
        Some(turn) => episode.turn_mask(options.span, turn),
        None => episode.span_mask(options.span),
    };
    let told = placed(episode, hint, options.placement);
    let spans = &told.episode.spans;
    let leading = spans.iter().take_while(|span| span.author == Author::Prompt).count();
    let (mut at, mut inserts) = (0, Vec::new());
    for span in &spans[leading..] {
        if span.tokens.is_empty() && !span.text.is_empty() {
            inserts.push(Insert { at, text: span.text.clone() });
        }
        at += span.tokens.len();
    }
    let prompt = Trajectory { spans: spans[..leading].to_vec(), ..told.episode.clone() };
    let message = |(role, content)| PromptMessage { role, content };
    Ok(Aligned {
        before: told.before,
        messages: prompt.messages().into_iter().map(message).collect(),
        response: episode.tokens().into_iter().skip(skipped).collect(),
        policy_mask: behind(episode.policy_mask()),
        query_mask: behind(query_mask),
        straddling: episode.straddling(),
        inserts,
    })
}
