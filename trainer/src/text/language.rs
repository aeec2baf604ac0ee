//! How an episode is told to a model: its tokenizer and its chat template.

use std::sync::Arc;

use hindsearch_env::{Prompt, Trajectory};

use super::{ChatTemplate, Tokenizer};
use crate::Result;
use crate::model::ModelFiles;

/// A tokenizer and a chat template that belong together.
#[derive(Debug, Clone)]
pub struct Language {
    /// Turns text into tokens.
    pub tokenizer: Arc<Tokenizer>,
    /// Turns messages into text.
    pub template: Arc<ChatTemplate>,
    /// Tokens that end a message.
    ends: Arc<[u32]>,
}

impl Language {
    /// That of a model.
    ///
    /// # Errors
    /// Those of its files.
    pub fn open(files: &ModelFiles) -> Result<Self> {
        Self::new(files.tokenizer()?, files.chat_template()?)
    }

    /// Of these two.
    ///
    /// # Errors
    /// [`crate::Error::InvalidInput`] when the template refuses a plain chat.
    pub fn new(tokenizer: Tokenizer, template: ChatTemplate) -> Result<Self> {
        let turn = template.end_of_turn(&tokenizer)?;
        let ends = tokenizer.eos().iter().copied().chain(turn).collect();
        Ok(Self { tokenizer: Arc::new(tokenizer), template: Arc::new(template), ends })
    }

    /// Tokens that end a message of the policy: the end of a turn, the end of a text.
    pub fn ends(&self) -> &Arc<[u32]> {
        &self.ends
    }

    /// The episode with the tokens of all spans, as the policy saw and wrote them.
    ///
    /// # Errors
    /// Those of [`ChatTemplate::encode_episode`].
    pub fn tokenized(&self, prompt: &Prompt, episode: &Trajectory) -> Result<Trajectory> {
        let tokens = self.template.encode_episode(&self.tokenizer, prompt, episode)?;
        let mut episode = episode.clone();
        for (span, tokens) in episode.spans.iter_mut().zip(tokens) {
            span.tokens = tokens;
        }
        Ok(episode)
    }
}
