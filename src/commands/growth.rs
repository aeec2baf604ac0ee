//! What the commands share that change an index: `append`, `delete`, `compact` and `merge`.

use std::io::Write;

use hindsearch::retriever::build::BuildReport;
use hindsearch::retriever::embed::{CardOverrides, EmbedOptions, ModelSource};

use super::Context;
use super::inspect::describe;
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
    pub restart: bool,
}

impl Way {
    /// Where the model is, where that is said.
    ///
    /// # Errors
    /// A name that is neither a folder nor a hub id; a hub that cannot be reached.
    pub fn model(&self, context: &Context) -> Result<Option<ModelSource>, Failure> {
        self.model.as_deref().map(|name| super::model_source(context, &context.config, Some(name))).transpose()
    }

    /// How the index's model is run. The index knows how it wants texts.
    pub fn embed(&self, context: &Context) -> EmbedOptions {
        EmbedOptions {
            card: CardOverrides::default(),
            query_precision: None,
            passage_precision: None,
            ..super::embed_options(&context.config)
        }
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
