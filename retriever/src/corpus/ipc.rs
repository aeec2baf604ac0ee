//! Arrow IPC, files and streams. Every size is held against the file before anything is reserved for it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::mem;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{FileDecoder, StreamReader, read_footer_length};
use arrow::ipc::{Block, root_as_footer};

/// The record batches of an Arrow IPC file, each read whole.
pub(super) struct FileBatches {
    file: File,
    length: u64,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
}

impl FileBatches {
    pub fn open(mut file: File) -> Result<(Self, SchemaRef), ArrowError> {
        let length = file.metadata()?.len();
        let mut end = [0; 10];
        let footer_end = length.checked_sub(end.len() as u64).ok_or_else(|| malformed("too few bytes"))?;
        read_at(&mut file, footer_end, &mut end)?;
        let footer_length = read_footer_length(end)?;
        let footer_start = footer_end.checked_sub(footer_length as u64);
        let mut footer = vec![0; footer_start.map_or(0, |_| footer_length)];
        read_at(&mut file, footer_start.ok_or_else(|| malformed("a footer longer than the file"))?, &mut footer)?;

        let footer = root_as_footer(&footer).map_err(|error| malformed(&error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| malformed("no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(malformed("numbers in the other byte order"));
        }
        let schema = Arc::new(try_fb_to_schema(schema)?);
        let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        for block in footer.dictionaries().into_iter().flatten() {
            decoder.read_dictionary(block, &read_block(&mut file, length, block)?)?;
        }
        let blocks: Vec<_> = footer.recordBatches().into_iter().flatten().copied().collect();
        Ok((Self { file, length, decoder, blocks: blocks.into_iter() }, schema))
    }
}

impl Iterator for FileBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        let bytes = read_block(&mut self.file, self.length, &block);
        bytes.and_then(|bytes| self.decoder.read_record_batch(&block, &bytes)).transpose()
    }
}

fn read_block(file: &mut File, file_length: u64, block: &Block) -> Result<Buffer, ArrowError> {
    let range = || {
        let start = u64::try_from(block.offset()).ok()?;
        let metadata = u64::try_from(block.metaDataLength()).ok()?;
        let length = u64::try_from(block.bodyLength()).ok()?.checked_add(metadata)?;
        (start.checked_add(length)? <= file_length).then_some((start, usize::try_from(length).ok()?))
    };
    let (start, length) = range().ok_or_else(|| malformed("a record batch beyond the file's end"))?;
    let mut bytes = vec![0; length];
    read_at(file, start, &mut bytes)?;
    Ok(bytes.into())
}

fn read_at(file: &mut File, start: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}

fn malformed(what: &str) -> ArrowError {
    ArrowError::IpcError(what.to_owned())
}

/// The record batches of an Arrow IPC stream, which must end with its end mark: without it, some may be missing.
pub(super) struct StreamBatches {
    reader: StreamReader<BufReader<File>>,
    ended: bool,
}

impl StreamBatches {
    pub fn open(file: BufReader<File>) -> Result<(Self, SchemaRef), ArrowError> {
        let reader = StreamReader::try_new(file, None)?;
        let schema = reader.schema();
        Ok((Self { reader, ended: false }, schema))
    }

    /// Whether the reader stopped behind an end mark, and not only because the file ended there.
    fn saw_end_mark(&mut self, start: u64) -> io::Result<bool> {
        let file = self.reader.get_mut();
        let mut mark = [0; 8];
        if file.stream_position()? < start + mark.len() as u64 {
            return Ok(false);
        }
        file.seek_relative(-(mark.len() as i64))?;
        file.read_exact(&mut mark)?;
        Ok(mark == [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])
    }
}

impl Iterator for StreamBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = match self.reader.get_mut().stream_position() {
            Ok(start) => start,
            Err(error) => return Some(Err(error.into())),
        };
        let batch = self.reader.next();
        if batch.is_some() || mem::replace(&mut self.ended, true) {
            return batch;
        }
        match self.saw_end_mark(start) {
            Ok(true) => None,
            Ok(false) => Some(Err(malformed("a stream without its end mark: is it cut short?"))),
            Err(error) => Some(Err(error.into())),
        }
    }
}
