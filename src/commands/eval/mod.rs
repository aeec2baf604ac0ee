//! `hindsearch eval ...`: how good is what is found, and what is answered?

mod qa;
mod retrieval;

use super::Context;
use crate::failure::Failure;

/// Measure quality
#[derive(clap::Subcommand)]
pub enum Command {
    /// Ask an index questions whose passages or answers are known
    Retrieval(retrieval::Args),
    /// Let a policy answer questions, with or without experience
    Qa(Box<qa::Args>),
}

impl Command {
    /// Whether it is long and writes as it goes, so that it stops at a safe point.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Qa(args) if args.keeps())
    }
}

/// Runs one of them.
///
/// # Errors
/// Those of the command.
pub fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Retrieval(args) => retrieval::run(args, context),
        Command::Qa(args) => qa::run(*args, context),
    }
}
