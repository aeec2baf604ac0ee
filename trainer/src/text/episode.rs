//! Which tokens does the policy see in an episode?
//!
//! What it sampled is never tokenised again, and what a template does to earlier messages (leaving out thoughts, trimming) does
//! not matter: only what the template puts behind a message of the policy is taken from it.

use hindsearch_env::{Author, Prompt, Role, Span, Trajectory};

use super::guard::{Guard, unused};
use super::{Chat, ChatTemplate, Tokenizer};
use crate::{Error, Result};

impl ChatTemplate {
    /// The tokens of each span. Their concatenation is what the policy sees, up to the next message of its own; it never changes
    /// when the episode goes on.
    ///
    /// - The prompt has all up to and including the beginning of the policy's message; it is divided among its spans where their
    ///   messages begin.
    /// - The policy's spans keep their tokens. Where only a text is known, it is encoded.
    /// - An observation in the assistant's own message (running text) is encoded alone; one in a message of another role has all
    ///   that the template puts between the policy's message and its next one. The end of a turn that the policy has sampled
    ///   itself is not there twice.
    ///
    /// Texts never become control tokens. A span that has its tokens already keeps them. In a recipe of bare text there is no template.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the template refuses the chat, does not show what the assistant said, or for spans in an
    /// order in which no episode has them.
    pub fn encode_episode(
        &self,
        tokenizer: &Tokenizer,
        prompt: &Prompt,
        episode: &Trajectory,
    ) -> Result<Vec<Vec<u32>>> {
        let messages = episode.messages();
        let texts = messages.iter().map(|(_, text)| text.as_str()).chain(prompt.tools.as_deref());
        let guard = Guard::new(texts.clone());
        let sentinel = unused(texts.chain([guard.cover_sign()]));
        let writer =
            Writer { template: self, tokenizer, prompt, messages: &messages, guard: &guard, sentinel: &sentinel };

        let leading = episode.spans.iter().take_while(|span| span.author == Author::Prompt).count();
        let (begin, rest) = episode.spans.split_at(leading);
        let mut tokens: Vec<Vec<u32>> = if begin.iter().all(|span| !span.tokens.is_empty()) {
            begin.iter().map(|span| span.tokens.clone()).collect()
        } else {
            writer.prompt(begin)?
        };
        let mut places = places(&episode.spans).skip(leading);
        for span in rest {
            let place = places.next().unwrap_or_default();
            let running = prompt.bare || span.role == Role::Assistant;
            tokens.push(match span.author {
                _ if !span.tokens.is_empty() => span.tokens.clone(),
                Author::Policy | Author::Environment if running => tokenizer.encode(&span.text)?,
                Author::Environment => {
                    writer.observation(place, tokens.last().and_then(|tokens| tokens.last()).copied())?
                }
                Author::Policy | Author::Prompt => return Err(order("the prompt first, and the policy as assistant")),
            });
        }
        Ok(tokens)
    }

    /// The tokens of a chat up to the beginning of the assistant's next message. Texts never become control tokens.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the template refuses the chat.
    pub fn encode(&self, tokenizer: &Tokenizer, messages: &[(Role, String)]) -> Result<Vec<u32>> {
        let guard = Guard::new(messages.iter().map(|(_, text)| text.as_str()));
        let covered = messages.iter().map(|(role, text)| (*role, guard.cover(text, tokenizer)));
        let covered: Vec<(Role, String)> = covered.collect();
        let text = self.render(&Chat { messages: &covered, tools: None, generation_prompt: true })?;
        tokenizer.encode_template(&text, &guard)
    }

    /// The control token that the template puts behind a message of the assistant, if it is one: where the policy ends its turn.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the template refuses a chat of two messages.
    pub fn end_of_turn(&self, tokenizer: &Tokenizer) -> Result<Option<u32>> {
        let sentinel = unused(std::iter::empty());
        let messages = [(Role::User, "?".to_owned()), (Role::Assistant, sentinel.clone())];
        let text = self.render(&Chat { messages: &messages, tools: None, generation_prompt: false })?;
        let behind = text.rsplit_once(&sentinel).map_or("", |(_, behind)| behind);
        Ok(tokenizer
            .controls_in(behind)
            .first()
            .filter(|(at, _)| behind[..at.start].trim().is_empty())
            .map(|(_, id)| *id))
    }
}

/// The message in which each span stands.
fn places(spans: &[Span]) -> impl Iterator<Item = usize> {
    let mut place = 0;
    spans.iter().enumerate().map(move |(number, span)| {
        place += usize::from(number > 0 && spans[number - 1].role != span.role);
        place
    })
}

struct Writer<'a> {
    template: &'a ChatTemplate,
    tokenizer: &'a Tokenizer,
    prompt: &'a Prompt,
    messages: &'a [(Role, String)],
    guard: &'a Guard,
    sentinel: &'a str,
}

impl Writer<'_> {
    fn prompt(&self, spans: &[Span]) -> Result<Vec<Vec<u32>>> {
        let places: Vec<usize> = places(spans).collect();
        let count = places.last().map_or(0, |last| last + 1);
        let mut messages = self.messages[..count].to_vec();
        if let Some((_, text)) = messages.last_mut() {
            // The policy may go on in the same message.
            let own = spans.iter().zip(&places).filter(|(_, place)| **place + 1 == count);
            *text = own.map(|(span, _)| span.text.as_str()).collect();
        }
        // An assistant's message at the end is the beginning of the policy's own.
        let is_begun = !self.prompt.bare && messages.last().is_some_and(|(role, _)| *role == Role::Assistant);
        let begun = messages.pop_if(|_| is_begun);
        let mut text = self.text(&messages)?;
        let mut starts = Vec::with_capacity(spans.len());
        for pair in places.windows(2) {
            let last = begun.is_some() && pair[1] + 1 == count;
            starts.push(if last { text.len() } else { self.start(&messages, pair[1])? });
        }
        text.extend(begun.map(|(_, text)| self.guard.cover(&text, self.tokenizer)));

        let begin = if self.prompt.bare { self.tokenizer.begin() } else { &[] };
        let encode = |text: &str| Ok::<_, Error>([begin, &self.tokenizer.encode_template(text, self.guard)?].concat());
        let mut rest = encode(&text)?;
        let mut tokens = Vec::with_capacity(spans.len());
        let mut taken = 0;
        for start in starts {
            let before = encode(text.get(..start).unwrap_or_default())?.len();
            let behind = rest.split_off(before.saturating_sub(taken).min(rest.len()));
            taken += rest.len();
            tokens.push(std::mem::replace(&mut rest, behind));
        }
        if !spans.is_empty() {
            tokens.push(rest);
        }
        Ok(tokens)
    }

    /// Where a message of the prompt begins in its text.
    fn start(&self, messages: &[(Role, String)], place: usize) -> Result<usize> {
        let mut messages = messages[..=place].to_vec();
        messages[place].1 = self.sentinel.to_owned();
        Ok(self.text(&messages)?.find(self.sentinel).unwrap_or(0))
    }

    /// What the template makes of these messages, with stand-ins for the control tokens in them.
    fn text(&self, messages: &[(Role, String)]) -> Result<String> {
        let cover = |(role, text): &(Role, String)| (*role, self.guard.cover(text, self.tokenizer));
        let messages: Vec<(Role, String)> = messages.iter().map(cover).collect();
        if self.prompt.bare {
            return Ok(messages.into_iter().map(|(_, text)| text).collect());
        }
        let tools = self.prompt.tools.as_deref();
        self.template.render(&Chat { messages: &messages, tools, generation_prompt: true })
    }

    /// What stands between the assistant's message before this place and its next one; `last` is the last token so far.
    fn observation(&self, place: usize, last: Option<u32>) -> Result<Vec<u32>> {
        let mut messages = self.messages.get(..=place).unwrap_or_default().to_vec();
        match messages.len().checked_sub(2).and_then(|before| messages.get_mut(before)) {
            Some((Role::Assistant, text)) => *text = self.sentinel.to_owned(),
            _ => return Err(order("observations behind messages of the policy")),
        }
        let text = self.text(&messages)?;
        let Some((_, behind)) = text.rsplit_once(self.sentinel) else {
            let what = format!("chat template ({})", self.template.origin());
            return Err(Error::invalid(what, "one that shows what the assistant said", "nothing of it"));
        };
        let mut tokens = self.tokenizer.encode_template(behind, self.guard)?;
        let ended = tokens.first().is_some_and(|&first| Some(first) == last && self.tokenizer.is_special(first));
        if ended {
            tokens.remove(0);
        }
        Ok(tokens)
    }
}

fn order(expected: &str) -> Error {
    Error::invalid("spans of an episode", expected, "another order")
}
