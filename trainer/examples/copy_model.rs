//! Reads a model, a folder of safetensors or a GGUF file, and writes it as a folder that transformers loads.

use std::path::Path;
use std::process::ExitCode;

use hindsearch_trainer::{ModelFiles, ModelOutput, Result, StoredType, write_model};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (from, to, stored) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [from, to] => (from, to, StoredType::F32),
        [from, to, "bf16"] => (from, to, StoredType::Bf16),
        _ => {
            eprintln!("usage: copy_model MODEL FOLDER [bf16]");
            return ExitCode::from(2);
        }
    };
    match copy(Path::new(from), Path::new(to), stored) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.kind().exit_code())
        }
    }
}

fn copy(from: &Path, to: &Path, stored: StoredType) -> Result<()> {
    let model = ModelFiles::open(from)?;
    let output = ModelOutput { stored, files: model.companions()?, ..ModelOutput::default() };
    write_model(to, model.config(), &model.weights()?, &output)
}
