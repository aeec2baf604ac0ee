//! One file a command: its arguments, its help, and what it prints. Logic lives in the crates.

pub mod build;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod embed;
pub mod eval;
pub mod export;
pub mod inspect;
pub mod search;
pub mod verify;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use hindsearch::config::Config;
use hindsearch::indexes::Interrupt;
use hindsearch::retriever::embed::{Backend, CardOverrides, EmbedOptions, ModelSource, Pooling, Precision};
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::ProgressLine;

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
}

/// Writes a text file under a temporary name and renames it, so that no partial file ever bears the final one.
///
/// # Errors
/// Those of `write`; a folder or disk that refuses, with the path.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let refused = |source| Failure::from(hindsearch::indexes::Error::io("write", path)(source));
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = hindsearch::indexes::temporary_file(folder).map_err(refused)?;
    {
        let mut buffered = BufWriter::new(&mut file);
        // Inside, every stream failure is this file's.
        write(&mut buffered).map_err(|failure| match failure {
            Failure::Stream(source) => refused(source),
            other => other,
        })?;
        buffered.flush().map_err(refused)?;
    }
    file.as_file().sync_all().map_err(refused)?;
    file.persist(path).map_err(|e| refused(e.error))?;
    Ok(())
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
    Ok(input.lines().enumerate().map(move |(at, line)| {
        line.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                Failure::Usage(format!("`{}`, line {}: expected UTF-8, found other bytes", path.display(), at + 1))
            }
            _ => refused(error),
        })
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
