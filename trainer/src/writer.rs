//! A model on this machine that writes texts on request: a judge, or one that reflects.

use std::sync::Arc;

use hindsearch_env::{Request as Asked, Role, Writer};

use crate::decoder::Decoder;
use crate::generate::{Engine, EngineOptions, Request, Sampling};
use crate::model::ModelFiles;
use crate::ops::Placement;
use crate::text::{Detokenizer, Language};
use crate::{Error, Result};

/// A language model that writes greedily.
pub struct LocalWriter {
    engine: Engine,
    language: Language,
    name: String,
    positions: usize,
    rows: usize,
}

impl LocalWriter {
    /// This model. Its weights must not change while the writer lives.
    ///
    /// # Errors
    /// Those of [`Engine::new`].
    pub fn new(decoder: Arc<Decoder>, language: Language, name: impl Into<String>) -> Result<Self> {
        let (positions, options) = (decoder.config().max_positions, EngineOptions::default());
        let engine = Engine::new(decoder, options)?;
        Ok(Self { engine, language, name: name.into(), positions, rows: options.rows })
    }

    /// The model of a folder or a file.
    ///
    /// # Errors
    /// Those of its files.
    pub fn open(files: &ModelFiles, name: impl Into<String>, placement: &Placement) -> Result<Self> {
        let decoder = Decoder::placed(files.config(), files.weights()?, false, placement)?;
        Self::new(Arc::new(decoder), Language::open(files)?, name)
    }

    fn text(&self, asked: &Asked) -> Result<String> {
        let Language { tokenizer, template, .. } = &self.language;
        let messages = [(Role::System, asked.system.clone()), (Role::User, asked.user.clone())];
        let tokens = template.encode(tokenizer, &messages)?;
        let room = self.positions.saturating_sub(tokens.len());
        if room == 0 {
            let expected = format!("fewer than the {} positions of `{}`", self.positions, self.name);
            return Err(Error::invalid(
                "what a model is asked to write about",
                expected,
                format!("{} tokens", tokens.len()),
            ));
        }
        let ends = self.language.ends().clone();
        let written = self.engine.generate(Request {
            tokens,
            limit: asked.tokens.min(room),
            sampling: Sampling::greedy(),
            seed: 0,
            stops: Box::new(move |token| ends.contains(&token)),
        })?;
        let mut message = Detokenizer::new(tokenizer, &[]);
        for token in &written.tokens {
            message.push(*token);
        }
        Ok(message.message().0)
    }
}

impl Writer for LocalWriter {
    fn name(&self) -> &str {
        &self.name
    }

    fn write(&self, requests: &[Asked]) -> Vec<hindsearch_env::Result<String>> {
        let fault = |error: Error| hindsearch_env::Error::Unavailable {
            what: format!("model `{}`", self.name),
            found: error.to_string(),
            remedy: "see whether the model is usable, and whether what it reads is not too long".into(),
        };
        // Each caller is a row of the engine's batch.
        let size = requests.len().div_ceil(self.rows).max(1);
        let write = |part: &[Asked]| part.iter().map(|asked| self.text(asked).map_err(fault)).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let callers = requests.chunks(size).map(|part| (part, scope.spawn(move || write(part))));
            let callers: Vec<_> = callers.collect();
            let ended = || fault(Error::invalid("a thread", "its texts", "a defect, see standard error"));
            let texts = callers
                .into_iter()
                .map(|(part, caller)| caller.join().unwrap_or_else(|_| part.iter().map(|_| Err(ended())).collect()));
            texts.flatten().collect()
        })
    }
}
