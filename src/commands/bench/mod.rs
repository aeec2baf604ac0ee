//! `hindsearch bench ...`: how fast is it, and what stops it from being faster?

mod index;
mod picture;
mod vectors;

use super::Context;
use crate::failure::Failure;

/// Measure speed
#[derive(clap::Subcommand)]
pub enum Command {
    /// Measure an index: recall, latency, throughput, and what bounds it
    Index(Box<index::Args>),
    /// Write vectors with the neighbour structure of text embeddings
    Vectors(vectors::Args),
}

/// Runs one of them.
///
/// # Errors
/// Those of the command.
pub fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Index(args) => index::run(*args, context),
        Command::Vectors(args) => vectors::run(args, context),
    }
}
