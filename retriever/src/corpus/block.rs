//! The layout of a record batch in the store, read in place: only the bytes of the row that is asked for are touched.

use arrow::ipc::root_as_message;

use crate::Passage;

/// The string columns of one record batch.
pub(super) struct Block<'a> {
    id: Strings<'a>,
    title: Strings<'a>,
    text: Strings<'a>,
}

/// A column of strings: offsets (i32, little-endian, one more than rows) into data, and validity bits (none: all valid).
struct Strings<'a> {
    validity: &'a [u8],
    offsets: &'a [u8],
    data: &'a [u8],
}

/// What is wrong with a block, as (expected, found).
pub(super) type Damage = (String, String);

impl<'a> Block<'a> {
    /// `metadata` is the message with its length prefix, `body` what its buffers point into.
    pub fn parse(metadata: &[u8], body: &'a [u8], rows: u64) -> Result<Self, Damage> {
        let damage = |expected: &str, found: String| (expected.to_owned(), found);
        let message = metadata
            .strip_prefix(&[0xff; 4])
            .and_then(|rest| rest.split_first_chunk::<4>())
            .and_then(|(length, rest)| rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?))
            .ok_or_else(|| damage("a record batch", "bytes that begin no message".into()))?;
        let message = root_as_message(message).map_err(|error| damage("a record batch", error.to_string()))?;
        let batch =
            message.header_as_record_batch().ok_or_else(|| damage("a record batch", "another message".into()))?;
        if u64::try_from(batch.length()) != Ok(rows) || batch.compression().is_some() {
            return Err(damage(&format!("{rows} uncompressed rows"), format!("{} rows", batch.length())));
        }
        let buffers = batch.buffers().filter(|buffers| buffers.len() == 9);
        let buffers = buffers.ok_or_else(|| damage("three columns of strings", "other columns".into()))?;
        let buffer = |index: usize| {
            let buffer = buffers.get(index);
            let start = usize::try_from(buffer.offset()).ok();
            let end = usize::try_from(buffer.length()).ok().zip(start).and_then(|(length, at)| at.checked_add(length));
            start.zip(end).and_then(|(start, end)| body.get(start..end)).ok_or_else(|| {
                let found = format!("a buffer of {} bytes at {}", buffer.length(), buffer.offset());
                damage(&format!("buffers within {} bytes", body.len()), found)
            })
        };
        let column = |first: usize| -> Result<Strings<'a>, Damage> {
            Ok(Strings { validity: buffer(first)?, offsets: buffer(first + 1)?, data: buffer(first + 2)? })
        };
        Ok(Self { id: column(0)?, title: column(3)?, text: column(6)? })
    }

    /// Row `row` of this block; the caller has checked that it exists.
    pub fn passage(&self, row: usize) -> Result<Passage, Damage> {
        let text = |column: &Strings<'_>| column.get(row).map(str::to_owned);
        let title = if self.title.is_valid(row)? { Some(text(&self.title)?) } else { None };
        Ok(Passage { id: text(&self.id)?, title, text: text(&self.text)? })
    }

    /// The id of row `row`.
    pub fn id(&self, row: usize) -> Result<&'a str, Damage> {
        self.id.get(row)
    }
}

impl<'a> Strings<'a> {
    fn is_valid(&self, row: usize) -> Result<bool, Damage> {
        if self.validity.is_empty() {
            return Ok(true);
        }
        match self.validity.get(row / 8) {
            Some(byte) => Ok(byte >> (row % 8) & 1 == 1),
            None => Err((format!("a validity bit for row {row}"), format!("{} bytes", self.validity.len()))),
        }
    }

    fn get(&self, row: usize) -> Result<&'a str, Damage> {
        let offset = |row: usize| {
            let bytes = self.offsets.get(row.checked_mul(4)?..)?.first_chunk::<4>()?;
            usize::try_from(i32::from_le_bytes(*bytes)).ok()
        };
        let range = offset(row).zip(offset(row + 1));
        let bytes = range
            .and_then(|(start, end)| self.data.get(start..end))
            .ok_or_else(|| (format!("row {row} within {} bytes", self.data.len()), format!("the range {range:?}")))?;
        str::from_utf8(bytes).map_err(|error| ("UTF-8".to_owned(), format!("row {row}: {error}")))
    }
}
