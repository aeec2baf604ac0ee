//! `hindsearch completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::Failure;

/// Print a shell's completion script
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  hindsearch completions bash > ~/.local/share/bash-completion/completions/hindsearch"
)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When standard output fails.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "hindsearch", &mut script);
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
}
