//! What the commands share that change an index: `append`, `delete`, `compact` and `merge`.

use std::io::Write;

use hindsearch::indexes::Effort;
use hindsearch::retriever::OpenOptions;
use hindsearch::retriever::build::{BuildReport, Means};

use super::Context;
use super::inspect::describe;
use super::search::open_options;
use crate::failure::Failure;
use crate::output::{count, duration, facts};

/// How an index is changed.
#[derive(clap::Args)]
pub struct Way {
    /// Model folder or hub id, where it is not where the index was built with it
    #[arg(long)]
    model: Option<String>,
    /// Discard unfinished work of another kind in the index folder
    #[arg(long)]
    restart: bool,
}

impl Way {
    /// The same for the library. The index knows how it wants texts; the settings say only how its model runs.
    ///
    /// # Errors
    /// A model's name that is neither a folder nor a hub id; a hub that cannot be reached.
    pub fn means(&self, context: &Context) -> Result<Means, Failure> {
        let OpenOptions { model, embed, .. } = open_options(context, self.model.as_deref(), Effort::default())?;
        Ok(Means { model, embed, restart: self.restart })
    }
}

/// Prints what the index is now.
///
/// # Errors
/// When standard output fails.
pub fn tell(context: &Context, did: &str, report: &BuildReport) -> Result<(), Failure> {
    if context.json {
        return context.print_json(report);
    }
    let mut out = context.out();
    let parts = [(report.embedded, "embedded"), (report.deleted, "deleted")];
    let parts: Vec<String> =
        parts.iter().filter(|(rows, _)| *rows > 0).map(|(rows, what)| format!("{} {what}", count(*rows))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    writeln!(out, "{did} {}, generation {}, in {}{parts}", report.out, report.generation, duration(report.seconds))?;
    facts(&mut out, &describe(&report.manifest, &report.provenance))?;
    Ok(out.flush()?)
}
