//! How are tensors kept in a safetensors file?

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use half::{bf16, f16};
use hindsearch_indexes::{Access, MappedFile, WholeFile};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::weights::Weight;
use crate::{Error, Result};

/// Numbers that are converted and written at a time.
const PIECE: usize = 1 << 16;

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoredType {
    /// 32 bits: what is in memory.
    #[default]
    F32,
    /// The upper 16 bits of it, rounded to the nearest, ties to even.
    Bf16,
}

impl StoredType {
    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
        }
    }

    /// Bytes of a number.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// As torch names it.
    pub(crate) fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
        }
    }

    fn append(self, numbers: &[f32], bytes: &mut Vec<u8>) {
        match self {
            Self::F32 => bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
            Self::Bf16 => bytes.extend(numbers.iter().flat_map(|&number| bf16::from_f32(number).to_le_bytes())),
        }
    }
}

/// All tensors of a file with their names, in the order of the file.
///
/// # Errors
/// [`Error::Io`]; [`Error::File`] for what is no safetensors file, is cut off, or holds numbers other than f32, bf16 and f16.
pub fn read_tensors(path: &Path) -> Result<Vec<(String, Weight)>> {
    let mapped = MappedFile::open(path, Access::Sequential).map_err(|error| of_indexes("read", path, error))?;
    let unusable = |found: String| Error::file(path, "tensors as safetensors keeps them", found);
    let bytes = mapped.as_ref();
    // A length of the header that is no such length is refused before anything is allocated for it.
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| unusable(error.to_string()))?;
    let data = bytes.get(size_of::<u64>() + header..).unwrap_or_default();
    let read = |name: String| {
        let info = metadata.info(&name).ok_or_else(|| unusable(format!("no `{name}`")))?;
        let bytes = data.get(info.data_offsets.0..info.data_offsets.1).ok_or_else(|| unusable("a cut".into()))?;
        let numbers: Vec<f32> = match info.dtype {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect(),
            Dtype::BF16 => bytes.as_chunks().0.iter().map(|number| bf16::from_le_bytes(*number).to_f32()).collect(),
            Dtype::F16 => bytes.as_chunks().0.iter().map(|number| f16::from_le_bytes(*number).to_f32()).collect(),
            other => return Err(Error::file(path, format!("`{name}` in f32, bf16 or f16"), format!("{other:?}"))),
        };
        Ok((name, Weight { shape: info.shape.clone(), data: numbers }))
    };
    metadata.offset_keys().into_iter().map(read).collect()
}

/// Writes tensors into a file that is whole, and durable, or not there.
///
/// # Errors
/// [`Error::Io`]; [`Error::InvalidInput`] for a shape that does not fit its numbers, and for two tensors of one name.
pub fn write_tensors(path: &Path, tensors: &[(&str, &Weight)], stored: StoredType) -> Result<()> {
    let mut end = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    for (name, weight) in tensors {
        weight.check(name)?;
        let start = end;
        end += weight.data.len() * stored.size();
        let info = TensorInfo { dtype: stored.dtype(), shape: weight.shape.clone(), data_offsets: (start, end) };
        infos.push(((*name).to_owned(), info));
    }
    // Without this transformers refuses the file.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let unusable = |found: String| Error::invalid("tensors to write", "tensors that fit their shapes", found);
    let metadata = Metadata::new(Some(about), infos).map_err(|error| unusable(error.to_string()))?;
    if metadata.tensors().len() != tensors.len() {
        return Err(unusable("two of one name".into()));
    }
    let mut header = serde_json::to_vec(&metadata).map_err(|error| unusable(error.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');

    let refused = |error: hindsearch_indexes::Error| of_indexes("write", path, error);
    let failed = Error::io("write", path);
    let mut file = WholeFile::create(path).map_err(refused)?;
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(&failed)?;
    file.write_all(&header).map_err(&failed)?;
    let mut bytes = Vec::with_capacity(PIECE * stored.size());
    for piece in tensors.iter().flat_map(|(_, weight)| weight.data.chunks(PIECE)) {
        bytes.clear();
        stored.append(piece, &mut bytes);
        file.write_all(&bytes).map_err(&failed)?;
    }
    file.publish().map_err(refused)
}

/// Writes a small file that is whole, and durable, or not there.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let refused = |error: hindsearch_indexes::Error| of_indexes("write", path, error);
    let mut file = WholeFile::create(path).map_err(refused)?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.publish().map_err(refused)
}

/// The error of a file of the crate `indexes`, as this crate words it.
fn of_indexes(action: &'static str, path: &Path, error: hindsearch_indexes::Error) -> Error {
    match error {
        hindsearch_indexes::Error::Io { source, .. } => Error::io(action, path)(source),
        other => Error::file(path, "an ordinary file", other.to_string()),
    }
}
