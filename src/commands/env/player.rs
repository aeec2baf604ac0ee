//! Who plays, as arguments that several commands have.

use std::num::NonZero;

use hindsearch::env::Task;
use hindsearch::env::policy::{Guesser, Oracle, Policy};
use serde_json::{Value, json};

use crate::failure::Failure;

/// A policy.
#[derive(clap::Args)]
pub struct Player {
    /// Who plays: the address of an OpenAI-compatible server, `oracle` (is told the answers) or `guesser`
    #[arg(long)]
    policy: String,
    /// The model's name on that server
    #[arg(long)]
    model: Option<String>,
    /// Episodes under way at a time
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    parallel: u32,
    /// Continue text instead of a chat, for models without a chat template
    #[arg(long)]
    completions: bool,
    /// Send the server only what OpenAI's own knows
    #[arg(long)]
    plain: bool,
}

/// How a model's tokens are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Drawing {
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus; 1 is all.
    pub top_p: f64,
}

impl Player {
    /// The policy. These tasks are what `oracle` knows the answers of.
    ///
    /// # Errors
    /// A policy that nobody knows, or a server's without the name of its model.
    pub fn open(&self, tasks: &[Task], drawing: Drawing) -> Result<Box<dyn Policy>, Failure> {
        match self.policy.as_str() {
            "oracle" => Ok(Box::new(Oracle::new(tasks))),
            "guesser" => Ok(Box::new(Guesser)),
            other if !other.starts_with("http://") && !other.starts_with("https://") => Err(Failure::Usage(format!(
                "`--policy {other}`: expected `oracle`, `guesser`, or the address of a server such as http://127.0.0.1:8001/v1"
            ))),
            #[cfg(feature = "remote")]
            address => {
                use hindsearch::env::Endpoint;
                use hindsearch::env::policy::{ChatServer, ChatServerOptions};
                let Some(model) = self.model.clone() else {
                    return Err(Failure::Usage(format!(
                        "`--policy {address}` needs `--model`, the model's name there"
                    )));
                };
                let options = ChatServerOptions {
                    model,
                    completions: self.completions,
                    extensions: !self.plain,
                    temperature: drawing.temperature,
                    top_p: drawing.top_p,
                    callers: self.parallel as usize,
                };
                Ok(Box::new(ChatServer::new(Endpoint::from_environment(address)?, options)))
            }
            #[cfg(not(feature = "remote"))]
            other => {
                let _ = drawing;
                Err(Failure::Usage(format!("`--policy {other}`: this program is built without `remote`")))
            }
        }
    }

    /// Episodes under way at a time.
    pub fn parallel(&self) -> NonZero<usize> {
        NonZero::new(self.parallel as usize).unwrap_or(NonZero::<usize>::MIN)
    }

    /// What decides what is played, for a run's description.
    pub fn facts(&self, drawing: Drawing) -> Value {
        json!({
            "policy": self.policy, "model": self.model, "completions": self.completions, "plain": self.plain,
            "temperature": drawing.temperature, "top_p": drawing.top_p,
        })
    }
}
