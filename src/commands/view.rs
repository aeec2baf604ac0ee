//! `hindsearch view RUN`: a page that shows trajectories, until it is told to stop.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use hindsearch::env::viewer::{Catalogue, Viewer};
use serde_json::json;

use super::Context;
use crate::failure::Failure;
use crate::output::count;

/// Arguments of `hindsearch view`.
#[derive(clap::Args)]
#[command(after_help = "\
The file may still grow: the page's `Reload` shows what a run has added. Only this machine is served; from elsewhere, go
through a tunnel: `ssh -L 8700:127.0.0.1:8700 HOST`.

Examples:
  hindsearch view runs/first                        # http://127.0.0.1:8700
  hindsearch view trajectories.jsonl.zst --port 0")]
pub struct Args {
    /// A file of trajectories, the folder of a run that holds `trajectories.jsonl` or `trajectories.jsonl.zst`, or that of a training
    /// run, of which the last step is shown
    run: PathBuf,
    /// Address of this machine to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8700)]
    port: u16,
}

/// Shows the run until SIGTERM or Ctrl-C.
///
/// # Errors
/// A file that is missing or holds something else, an address that others can reach, a port that is taken.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let progress = context.progress();
    let catalogue = Catalogue::open(&args.run, &|step| progress.show("reading", "bytes", step));
    progress.finish();
    let catalogue = catalogue?;
    let (plays, path) = (catalogue.len(), catalogue.path().display().to_string());
    let viewer = Viewer::bind(catalogue, SocketAddr::new(args.host, args.port))?;
    let address = format!("http://{}", viewer.address());
    if context.json {
        let line = json!({ "address": address, "file": path, "trajectories": plays, "pid": std::process::id() });
        // Nobody may be reading; the viewer goes on.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    if !context.quiet {
        let _ = writeln!(
            std::io::stderr(),
            "{} trajectories of `{path}` at {address}/ . Ctrl-C stops.",
            count(plays as u64)
        );
    }
    Ok(viewer.run_until_told()?)
}
