//! What does a kernel take? Read from its source, so that a launch with other arguments is refused.

use candle_core::{DType, Result};

/// A kernel's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// Values that are only read; tiles are five u32 each.
    Reads(DType),
    /// Values that are written.
    Writes(DType),
    U32,
    U64,
    F32,
}

/// Threads of a block, and parameters.
#[derive(Debug)]
pub(super) struct Signature {
    pub threads: usize,
    pub parameters: Vec<Parameter>,
}

/// Of the kernel `name` in a source: `KERNEL(threads) name(parameters)`. `tile` is the rows of a tile, where the source has tiles.
///
/// # Errors
/// Where the source has no such kernel, or one that is not understood.
pub(super) fn signature(source: &str, name: &str, element: DType, tile: usize) -> Result<Signature> {
    let wrong = |what: &str| candle_core::Error::Msg(format!("kernel `{name}`: {what}"));
    let mut heads = source.split("KERNEL(").skip(1).filter_map(|rest| rest.split_once(") "));
    let start = format!("{name}(");
    let found =
        heads.find_map(|(threads, rest)| Some((threads, rest.strip_prefix(start.as_str())?.split_once(')')?.0)));
    let (threads, list) = found.ok_or_else(|| wrong("expected it in its source"))?;
    let threads = match threads {
        "TILE * LANES" => tile * 8,
        number => number.parse().map_err(|_| wrong("expected the number of its threads"))?,
    };
    let parameters = list.split(',').map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        let (constant, words) = match words.as_slice() {
            ["const", rest @ ..] => (true, rest),
            all => (false, all),
        };
        let [kind, place] = words else { return Err(wrong("expected a type and a name of each parameter")) };
        let dtype = match *kind {
            "ELEMENT" => element,
            "bf16" => DType::BF16,
            "float" => DType::F32,
            "double" => DType::F64,
            "unsigned" | "Tile" => DType::U32,
            "size_t" => DType::I64,
            other => return Err(wrong(&format!("`{other}` is no type of a parameter"))),
        };
        Ok(match (place.starts_with('*'), constant, dtype) {
            (true, true, _) => Parameter::Reads(dtype),
            (true, false, _) => Parameter::Writes(dtype),
            (false, _, DType::U32) => Parameter::U32,
            (false, _, DType::I64) => Parameter::U64,
            (false, _, DType::F32) if *kind == "float" => Parameter::F32,
            _ => return Err(wrong("expected a number that is passed by value")),
        })
    });
    Ok(Signature { threads, parameters: parameters.collect::<Result<_>>()? })
}
