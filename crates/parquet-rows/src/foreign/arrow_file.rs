//! Arrow IPC: files (also called Feather, version 2) and streams.
//!
//! A file has its messages where a list at its end says, a stream has them one after the other. The lengths
//! in messages are compared with the file before memory is taken for them.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MessageHeader, MetadataVersion, convert};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::guard::guarded;
use super::input::{self, Input};
use super::kind::{self, Column};
use super::{Error, Options};

/// The name of the format in messages.
pub(crate) const FORMAT: &str = "Arrow";
/// How a file begins and ends.
pub(crate) const MAGIC: &[u8; 6] = b"ARROW1";
/// How each message of a stream begins.
pub(crate) const CONTINUATION: &[u8; 4] = &[0xff; 4];

/// The most bytes of one message and of what it decompresses to.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// The length of the footer and the magic bytes.
const TAIL_BYTES: u64 = 10;
/// The fewest bytes of a file.
const FILE_BYTES_MIN: u64 = 20;

/// An opened file or stream.
pub(crate) struct File {
    schema: Arc<Schema>,
    version: MetadataVersion,
    /// Where messages are: in a stream one after the other, in a file where its end says.
    places: Places,
    pub(crate) columns: Vec<Column>,
}

fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged { format: FORMAT, what: what.into() }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Error {
        damaged(error.to_string())
    }
}

/// Where the messages with rows are.
#[derive(Clone)]
enum Places {
    /// One after the other, from here on.
    Stream(u64),
    /// In this order.
    Listed(std::collections::VecDeque<u64>),
}

/// A message: its metadata with the bytes before them, and the length of its body.
struct Message {
    metadata: Vec<u8>,
    body_at: u64,
    body: u64,
    kind: MessageHeader,
    version: MetadataVersion,
}

impl Message {
    /// Where the next message begins.
    fn end(&self) -> u64 {
        self.body_at.saturating_add(self.body)
    }

    /// The message at a place; `None` at the end of the stream.
    fn read(input: &dyn Input, at: u64) -> Result<Option<Message>, Error> {
        if at == input.length() {
            return Ok(None);
        }
        let head = input::bytes(input, at, 8)?;
        let (mark, length) = head.split_at(4);
        if mark != CONTINUATION {
            return Err(damaged("a message does not begin as it should"));
        }
        let length = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        if length == 0 {
            return Ok(None);
        }
        let whole = u64::from(length) + 8;
        if at.checked_add(whole).is_none_or(|end| end > input.length()) || whole > MESSAGE_BYTES_MAX {
            return Err(damaged("a message is longer than the file"));
        }
        let metadata = input::bytes(input, at, usize::try_from(whole).unwrap_or(usize::MAX))?;
        let message = arrow_ipc::root_as_message(metadata.get(8..).unwrap_or_default());
        let message = message.map_err(|error| damaged(error.to_string()))?;
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        let body_at = at + whole;
        if body_at.checked_add(body).is_none_or(|end| end > input.length()) {
            return Err(damaged("a batch of rows is longer than the file"));
        }
        if body > MESSAGE_BYTES_MAX {
            return Err(too_large(body));
        }
        let (kind, version) = (message.header_type(), message.version());
        Ok(Some(Message { metadata, body_at, body, kind, version }))
    }

    /// All of it as the library takes it.
    fn whole(mut self, input: &dyn Input) -> Result<(Block, Buffer), Error> {
        let length = usize::try_from(self.body).unwrap_or(usize::MAX);
        let body = input::bytes(input, self.body_at, length)?;
        check_lengths(&self.metadata, &body)?;
        let before = i32::try_from(self.metadata.len()).map_err(|_| damaged("a message is too long"))?;
        let block = Block::new(0, before, i64::try_from(body.len()).unwrap_or(i64::MAX));
        input.used((self.metadata.len() + body.len()) as u64);
        self.metadata.extend_from_slice(&body);
        Ok((block, Buffer::from_vec(self.metadata)))
    }
}

fn too_large(bytes: u64) -> Error {
    Error::TooLarge(format!(
        "the Arrow file has a batch of {bytes} bytes, and more than 1 GiB are not read at once; write it again with smaller \
         batches, or as Parquet"
    ))
}

/// Checks what the compressed parts of a batch claim to have when they are decompressed.
fn check_lengths(metadata: &[u8], body: &[u8]) -> Result<(), Error> {
    let message = arrow_ipc::root_as_message(metadata.get(8..).unwrap_or_default());
    let message = message.map_err(|error| damaged(error.to_string()))?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => None,
    };
    let Some(batch) = batch else { return Err(damaged("a message has no rows")) };
    let compressed = batch.compression().is_some();
    let mut total = 0_u64;
    for part in batch.buffers().into_iter().flatten() {
        let (from, length) = (usize::try_from(part.offset()), usize::try_from(part.length()));
        let range =
            from.ok().zip(length.ok()).and_then(|(from, length)| Some(from..from.checked_add(length)?));
        let bytes = range.and_then(|range| body.get(range));
        let bytes = bytes.ok_or_else(|| damaged("a batch of rows has values beyond its end"))?;
        let claimed = bytes.first_chunk().map_or(0, |length| i64::from_le_bytes(*length));
        let own = if compressed { claimed.max(0).unsigned_abs() } else { bytes.len() as u64 };
        total = total.saturating_add(own);
    }
    if total > MESSAGE_BYTES_MAX {
        return Err(too_large(total));
    }
    Ok(())
}

impl File {
    /// Reads the schema.
    pub(crate) fn open(input: &dyn Input, options: &Options, is_stream: bool) -> Result<File, Error> {
        guarded(FORMAT, || {
            let (schema, version, places) = if is_stream { stream(input)? } else { footer(input)? };
            let mut columns = Vec::new();
            for field in schema.fields() {
                let name = field.name().clone();
                let kind = match kind::of_field(field) {
                    Ok(kind) => kind,
                    Err(_) if options.leaves_out(&name) => kind::Kind::Null,
                    Err(what) => return Err(Error::column(&name, what)),
                };
                columns.push(Column { name, kind, required: !field.is_nullable() });
            }
            let fields: Vec<Field> = schema.fields().iter().map(|field| bytes_for_text(field)).collect();
            Ok(File { schema: Arc::new(Schema::new(fields)), version, places, columns })
        })
    }

    /// Batches of the rows, with these columns.
    pub(crate) fn batches(self: &Arc<File>, input: Arc<dyn Input>, columns: Vec<usize>) -> Batches {
        let decoder = FileDecoder::new(Arc::clone(&self.schema), self.version);
        Batches { places: self.places.clone(), decoder, input, columns }
    }
}

/// The schema of a stream, its version, and where its other messages begin.
fn stream(input: &dyn Input) -> Result<(Schema, MetadataVersion, Places), Error> {
    let message = Message::read(input, 0)?.ok_or_else(|| damaged("it has no schema"))?;
    let parsed = arrow_ipc::root_as_message(message.metadata.get(8..).unwrap_or_default());
    let parsed = parsed.map_err(|error| damaged(error.to_string()))?;
    let schema = parsed.header_as_schema().ok_or_else(|| damaged("it has no schema"))?;
    Ok((known(schema)?, message.version, Places::Stream(message.end())))
}

/// What stands at the end of a file: its schema, its version, and where its messages are.
fn footer(input: &dyn Input) -> Result<(Schema, MetadataVersion, Places), Error> {
    let end = input.length();
    let tail_at = end.checked_sub(TAIL_BYTES).filter(|_| end >= FILE_BYTES_MIN);
    let tail = tail_at.map(|at| input::bytes(input, at, 10)).transpose()?.unwrap_or_default();
    let (length, magic) = tail.split_at_checked(4).unwrap_or_default();
    if magic != MAGIC {
        return Err(damaged("its end is missing; it may not be complete"));
    }
    let length = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let at = tail_at.and_then(|at| at.checked_sub(u64::from(length)));
    let at = at.ok_or_else(|| damaged("its footer is longer than the file"))?;
    let bytes = input::bytes(input, at, usize::try_from(length).unwrap_or(usize::MAX))?;
    let footer = arrow_ipc::root_as_footer(&bytes).map_err(|error| damaged(error.to_string()))?;
    let schema = footer.schema().ok_or_else(|| damaged("it has no schema"))?;
    let dictionaries = footer.dictionaries().into_iter().flatten();
    let blocks = dictionaries.chain(footer.recordBatches().into_iter().flatten());
    let places = blocks.map(|block| u64::try_from(block.offset()).unwrap_or(u64::MAX)).collect();
    Ok((known(schema)?, footer.version(), Places::Listed(places)))
}

/// A schema whose numbers are in the usual order of bytes.
fn known(schema: arrow_ipc::Schema<'_>) -> Result<Schema, Error> {
    if schema.endianness() != arrow_ipc::Endianness::Little {
        return Err(damaged("its numbers are in the order of bytes of another kind of machine"));
    }
    Ok(convert::try_fb_to_schema(schema)?)
}

/// A field as the library should read it: text as bytes, because it refuses the whole batch for one that is
/// not UTF-8.
fn bytes_for_text(field: &Field) -> Field {
    fn of(kind: &DataType) -> DataType {
        match kind {
            DataType::Utf8 => DataType::Binary,
            DataType::LargeUtf8 => DataType::LargeBinary,
            DataType::Utf8View => DataType::BinaryView,
            DataType::Dictionary(keys, values) => DataType::Dictionary(keys.clone(), Box::new(of(values))),
            other => other.clone(),
        }
    }
    let kind = of(field.data_type());
    field.clone().with_data_type(kind)
}

/// The rows of a file, a batch at a time.
pub(crate) struct Batches {
    places: Places,
    decoder: FileDecoder,
    input: Arc<dyn Input>,
    columns: Vec<usize>,
}

impl Batches {
    /// The values of the next rows, as [`super::parquet_file::Batches::next`] returns them.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>, Error> {
        guarded(FORMAT, || {
            loop {
                let message = match &mut self.places {
                    Places::Stream(at) => {
                        let message = Message::read(&*self.input, *at)?;
                        *at = message.as_ref().map_or(*at, Message::end);
                        message
                    }
                    Places::Listed(places) => {
                        let at = places.pop_front();
                        let message = at.map(|at| Message::read(&*self.input, at)).transpose()?;
                        if message.as_ref().is_some_and(Option::is_none) {
                            return Err(damaged("a batch of rows is missing"));
                        }
                        message.flatten()
                    }
                };
                let Some(message) = message else { return Ok(None) };
                let kind = message.kind;
                let (block, bytes) = message.whole(&*self.input)?;
                match kind {
                    MessageHeader::DictionaryBatch => self.decoder.read_dictionary(&block, &bytes)?,
                    MessageHeader::RecordBatch => {
                        let batch = self.decoder.read_record_batch(&block, &bytes)?;
                        let batch: RecordBatch = batch.ok_or_else(|| damaged("a batch has no rows"))?;
                        let arrays = self.columns.iter().filter_map(|at| batch.columns().get(*at).cloned());
                        return Ok(Some((arrays.collect(), batch.num_rows())));
                    }
                    _ => return Err(damaged("there is a message of an unknown kind")),
                }
            }
        })
    }
}
