//! What kind of ONNX graph is this? Reads the few facts that decide how a graph may be run, straight from its protobuf
//! encoding and without loading the weights (message and field numbers: `onnx.proto3` of the ONNX project).

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use hindsearch_indexes::{Access, MappedFile};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How a graph keeps its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    Fp32,
    /// 16-bit floats.
    Fp16,
    /// 8-bit integers or smaller, with scales.
    Int8,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Int8 => "int8",
        })
    }
}

/// What the encoding of a graph tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFacts {
    /// How the weights are kept: any integer weight matrix makes it [`Precision::Int8`].
    pub precision: Precision,
    /// Activations are quantised with a scale taken over the whole batch, so that a text's vector would depend on its
    /// batch neighbours.
    pub dynamic_quantization: bool,
    /// Some products are of integers, which processors round differently.
    pub integer_products: bool,
    /// Files beside the graph that hold weights.
    pub external: Vec<PathBuf>,
}

/// Reads the facts of the graph at `path`.
///
/// # Errors
/// [`Error::File`] when the file is not an ONNX graph or a file of weights beside it is missing.
pub fn inspect(path: &Path) -> Result<GraphFacts> {
    let file = MappedFile::open(path, Access::Random)?;
    let bytes = file.as_ref();
    if bytes.starts_with(b"version https://git-lfs") {
        return Err(not_a_graph(path, "a Git LFS pointer", "fetch the real file with `git lfs pull`"));
    }
    let mut scan = Scan::default();
    let remedy = "export or download the model again";
    scan.model(bytes).ok_or_else(|| not_a_graph(path, "bytes of another kind, or a cut file", remedy))?;
    if scan.nodes == 0 {
        return Err(not_a_graph(path, "no graph inside", remedy));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let external: Vec<PathBuf> = scan.external.iter().map(|name| folder.join(name)).collect();
    if let Some(missing) = external.iter().find(|file| !file.is_file()) {
        let found = format!("weights kept in `{}`, which does not exist", missing.display());
        return Err(not_a_graph(path, &found, "copy that file beside the graph"));
    }
    let precision = match () {
        () if scan.integer_weights => Precision::Int8,
        () if scan.f16_bytes > scan.f32_bytes => Precision::Fp16,
        () => Precision::Fp32,
    };
    let Scan { dynamic_quantization, integer_products, .. } = scan;
    Ok(GraphFacts { precision, dynamic_quantization, integer_products, external })
}

fn not_a_graph(path: &Path, found: &str, remedy: &str) -> Error {
    Error::File { path: path.into(), expected: "an ONNX graph".into(), found: found.into(), remedy: remedy.into() }
}

#[derive(Default)]
struct Scan {
    nodes: u64,
    dynamic_quantization: bool,
    integer_products: bool,
    integer_weights: bool,
    f32_bytes: u64,
    f16_bytes: u64,
    external: BTreeSet<String>,
}

impl Scan {
    /// `ModelProto`: `graph` = 7. `None` for malformed bytes, here and below.
    fn model(&mut self, bytes: &[u8]) -> Option<()> {
        for_each_field(bytes, |number, value| match (number, value) {
            (7, Value::Bytes(graph)) => self.graph(graph),
            _ => Some(()),
        })
    }

    /// `GraphProto`: `node` = 1, `initializer` = 5.
    fn graph(&mut self, bytes: &[u8]) -> Option<()> {
        for_each_field(bytes, |number, value| match (number, value) {
            (1, Value::Bytes(node)) => self.node(node),
            (5, Value::Bytes(tensor)) => self.tensor(tensor),
            _ => Some(()),
        })
    }

    /// `NodeProto`: `op_type` = 4, `attribute` = 5; `AttributeProto`: `t` = 5, the value of a `Constant`.
    fn node(&mut self, bytes: &[u8]) -> Option<()> {
        self.nodes += 1;
        for_each_field(bytes, |number, value| match (number, value) {
            (4, Value::Bytes(op)) => {
                self.dynamic_quantization |= op.starts_with(b"DynamicQuantize");
                // Activations become integers by one of these; integer weights alone are turned into floats first.
                let integers: [&[u8]; 3] = [b"DynamicQuantize", b"QuantizeLinear", b"QLinear"];
                self.integer_products |= integers.iter().any(|name| op.starts_with(name));
                Some(())
            }
            (5, Value::Bytes(attribute)) => for_each_field(attribute, |number, value| match (number, value) {
                (5, Value::Bytes(tensor)) => self.tensor(tensor),
                _ => Some(()),
            }),
            _ => Some(()),
        })
    }

    /// `TensorProto`: `dims` = 1, `data_type` = 2, `external_data` = 13.
    fn tensor(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut rank, mut elements, mut data_type) = (0u32, 1u64, 0u64);
        for_each_field(bytes, |number, value| {
            match (number, value) {
                (1, Value::Varint(length)) => (rank, elements) = (rank + 1, elements.saturating_mul(length)),
                (1, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        (rank, elements) = (rank + 1, elements.saturating_mul(varint(&mut packed)?));
                    }
                }
                (2, Value::Varint(kind)) => data_type = kind,
                (13, Value::Bytes(entry)) => self.external_entry(entry)?,
                _ => {}
            }
            Some(())
        })?;
        // TensorProto.DataType: 1 float, 2 uint8, 3 int8, 10 float16, 21 uint4, 22 int4.
        match data_type {
            1 => self.f32_bytes = self.f32_bytes.saturating_add(elements.saturating_mul(4)),
            10 => self.f16_bytes = self.f16_bytes.saturating_add(elements.saturating_mul(2)),
            2 | 3 | 21 | 22 => self.integer_weights |= rank >= 2,
            _ => {}
        }
        Some(())
    }

    /// `StringStringEntryProto`: `key` = 1, `value` = 2; the key `location` names the file.
    fn external_entry(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut key, mut text) = (&b""[..], &b""[..]);
        for_each_field(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(bytes)) => key = bytes,
                (2, Value::Bytes(bytes)) => text = bytes,
                _ => {}
            }
            Some(())
        })?;
        if key == b"location" {
            self.external.insert(String::from_utf8_lossy(text).into_owned());
        }
        Some(())
    }
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// Walks the fields of one protobuf message; `None` when the bytes are not one.
fn for_each_field<'a>(mut bytes: &'a [u8], mut visit: impl FnMut(u64, Value<'a>) -> Option<()>) -> Option<()> {
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut bytes)?),
            1 => take(&mut bytes, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Value::Bytes(take(&mut bytes, length)?)
            }
            5 => take(&mut bytes, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        visit(tag >> 3, value)?;
    }
    Some(())
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(length)?;
    *bytes = tail;
    Some(head)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = bytes.split_first()?;
        *bytes = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
