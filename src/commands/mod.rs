//! One file a command: its arguments, its help, and what it prints. Logic lives in the crates.

pub mod ablate;
pub mod append;
pub mod bench;
pub mod build;
pub mod compact;
pub mod completions;
pub mod config;
pub mod delete;
pub mod doctor;
pub mod embed;
pub mod env;
pub mod eval;
pub mod experience;
pub mod export;
pub mod growth;
pub mod inspect;
pub mod losses;
#[cfg(feature = "serve")]
pub mod mcp;
pub mod merge;
pub mod plan;
pub mod search;
#[cfg(feature = "serve")]
pub mod serve;
pub mod train;
pub mod verify;
#[cfg(feature = "view")]
pub mod view;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use hindsearch::config::Config;
use hindsearch::indexes::{Interrupt, WholeFile};
use hindsearch::retriever::embed::{Backend, CardOverrides, EmbedOptions, ModelSource, Pooling, Precision};
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::ProgressLine;

/// Bytes that a line of texts may have.
const LONGEST_LINE: u64 = 16 << 20;

/// What every command is given.
pub struct Context {
    /// The resolved settings.
    pub config: Config,
    /// Whether to print JSON.
    pub json: bool,
    /// Whether to show no progress.
    pub quiet: bool,
    /// Set by Ctrl-C.
    pub interrupt: Interrupt,
}

impl Context {
    /// Standard output, buffered; flush it before the end.
    pub fn out(&self) -> BufWriter<io::StdoutLock<'static>> {
        BufWriter::new(io::stdout().lock())
    }

    /// Progress on stderr.
    pub fn progress(&self) -> ProgressLine {
        ProgressLine::new(self.quiet || self.json)
    }

    /// Prints one JSON document.
    ///
    /// # Errors
    /// When standard output fails.
    pub fn print_json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut out = self.out();
        serde_json::to_writer_pretty(&mut out, value)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }

    /// Says something on stderr, but to those who want silence.
    pub fn tell(&self, words: std::fmt::Arguments<'_>) {
        if !self.quiet {
            // Nobody may be reading; the work goes on.
            let _ = writeln!(io::stderr(), "{words}");
        }
    }
}

/// Writes a text file under a temporary name and renames it, so that no partial file ever bears the final one.
///
/// # Errors
/// Those of `write`; a folder or disk that refuses, with the path.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut file = WholeFile::create(path)?;
    // Inside, every stream failure is this file's.
    write(&mut file).map_err(|failure| match failure {
        Failure::Stream(source) => hindsearch::indexes::Error::io("write", path)(source).into(),
        other => other,
    })?;
    Ok(file.publish()?)
}

/// The lines of a file of texts, or of standard input for `-`.
///
/// # Errors
/// A file that cannot be opened; for each line, bytes that are not UTF-8 and whatever stops the reading.
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<String, Failure>>, Failure> {
    let refused = move |source| Failure::from(hindsearch::indexes::Error::io("read", path)(source));
    let input: Box<dyn BufRead> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(refused)?))
    };
    let mut input = input;
    let (mut number, mut ended) = (0, false);
    Ok(std::iter::from_fn(move || {
        let mut line = Vec::new();
        if ended {
            return None;
        }
        number += 1;
        let unusable = |found: &str| {
            Failure::Usage(format!(
                "`{}`, line {number}: expected UTF-8 of at most 16 MiB, found {found}",
                path.display()
            ))
        };
        let read = (&mut input).take(LONGEST_LINE + 1).read_until(b'\n', &mut line).map_err(refused);
        let line = match read {
            Ok(0) => return None,
            Ok(_) if line.len() as u64 > LONGEST_LINE => Err(unusable("a longer line")),
            Ok(_) => String::from_utf8(line).map_err(|_| unusable("other bytes")),
            Err(error) => Err(error),
        };
        ended = line.is_err();
        Some(line.map(|line| {
            let line = line.trim_end_matches(['\n', '\r']);
            (if number == 1 { line.trim_start_matches('\u{feff}') } else { line }).to_owned()
        }))
    }))
}

/// The model that the settings name, or the one of a `--model` flag. One on the hub is fetched first, where this program
/// was built to do so.
///
/// # Errors
/// A name that is neither a folder nor a hub id; a hub that cannot be reached.
pub fn model_source(context: &Context, settings: &Config, flag: Option<&str>) -> Result<ModelSource, Failure> {
    let source = flag.unwrap_or(&settings.model.source).parse::<ModelSource>()?;
    #[cfg(feature = "hub")]
    if matches!(source, ModelSource::Hub { .. }) {
        use hindsearch::retriever::embed::{Fetch, HubSettings};
        let wanted = embed_options(settings);
        let progress = context.progress();
        source.fetch(&Fetch {
            settings: &HubSettings::from_env(),
            precisions: &[wanted.query_precision, wanted.passage_precision],
            progress: &|step| progress.show("fetching the model", "bytes", step),
            interrupt: &context.interrupt,
        })?;
        progress.finish();
    }
    #[cfg(not(feature = "hub"))]
    let _ = context;
    Ok(source)
}

/// How the settings want the model run. Their values have been checked when they were resolved.
pub fn embed_options(settings: &Config) -> EmbedOptions {
    let precision = |name: &str| match name {
        "fp32" => Some(Precision::Fp32),
        "fp16" => Some(Precision::Fp16),
        "int8" => Some(Precision::Int8),
        _ => None,
    };
    let unless_auto = |text: &String| (text != "auto").then(|| text.clone());
    let model = &settings.model;
    EmbedOptions {
        backend: if settings.embed.backend == "rten" { Backend::Rten } else { Backend::Onnx },
        query_precision: precision(&model.query_precision),
        passage_precision: precision(&model.passage_precision),
        threads: settings.embed.threads,
        card: CardOverrides {
            pooling: match model.pooling.as_str() {
                "mean" => Some(Pooling::Mean),
                "cls" => Some(Pooling::Cls),
                _ => None,
            },
            query_prefix: unless_auto(&model.query_prefix),
            passage_prefix: unless_auto(&model.passage_prefix),
            max_length: (model.max_length > 0).then_some(model.max_length),
            ..CardOverrides::default()
        },
        ..EmbedOptions::default()
    }
}
