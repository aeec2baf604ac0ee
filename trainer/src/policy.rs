//! The model plays: a policy for the environment that writes on this machine.

use std::sync::Arc;

use hindsearch_env::Message;
use hindsearch_env::policy::{Policy, Turn};

use crate::decoder::Decoder;
use crate::generate::{Engine, EngineOptions, Reason, Request, Sampling};
use crate::text::{Detokenizer, Language};
use crate::{Error, Result};

/// A language model that writes the messages of episodes.
pub struct LocalPolicy {
    engine: Engine,
    language: Language,
    sampling: Sampling,
    /// Tokens that the model can hold.
    positions: usize,
    rows: usize,
}

impl LocalPolicy {
    /// This model, speaking this language. Its weights must not change while the policy lives.
    ///
    /// # Errors
    /// Those of [`Engine::new`]; sampling that means nothing.
    pub fn new(decoder: Arc<Decoder>, language: Language, sampling: Sampling, options: EngineOptions) -> Result<Self> {
        sampling.check()?;
        let positions = decoder.config().max_positions;
        Ok(Self { engine: Engine::new(decoder, options)?, language, sampling, positions, rows: options.rows })
    }

    fn write(&self, turn: &Turn<'_>) -> Result<Message> {
        let preset = turn.rules.preset();
        let Language { tokenizer, template, .. } = &self.language;
        let tokens = template.encode_episode(tokenizer, &preset.prompt, turn.episode)?.concat();
        let room = self.positions.saturating_sub(tokens.len());
        if room == 0 {
            let found = format!("{} tokens before the next message", tokens.len());
            return Err(Error::invalid(
                "the episode",
                format!("fewer than the model's {} positions", self.positions),
                found,
            ));
        }
        let mut watched = Detokenizer::new(tokenizer, &preset.grammar.stop);
        let ends = self.language.ends().clone();
        let request = Request {
            tokens,
            limit: preset.limits.response_tokens.min(room),
            sampling: self.sampling,
            seed: turn.seed,
            stops: Box::new(move |token| watched.push(token).is_some() || ends.contains(&token)),
        };
        let written = self.engine.generate(request)?;
        let mut message = Detokenizer::new(tokenizer, &[]);
        for token in &written.tokens {
            message.push(*token);
        }
        let (text, ends) = message.message();
        let cut_off = written.reason == Reason::Limit;
        Ok(Message { text, tokens: written.tokens, logprobs: written.logprobs, ends, cut_off })
    }
}

impl Policy for LocalPolicy {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<hindsearch_env::Result<Message>> {
        let fault = |error: Error| hindsearch_env::Error::Unavailable {
            what: "the policy".into(),
            found: error.to_string(),
            remedy: "the same episode is tried again".into(),
        };
        turns.iter().map(|turn| self.write(turn).map_err(fault)).collect()
    }

    /// Each caller is a row of the batch.
    fn callers(&self) -> usize {
        self.rows
    }
}
