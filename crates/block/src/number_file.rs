//! Small files of numbers: magic bytes, the numbers, and a hash of everything.

use std::io;

use disk::Source;

use crate::Error;
use crate::file::read_exact_at;
use crate::store::Store;

/// Limit for the bytes of such a file.
const LEN_MAX: u64 = 1 << 26;

/// Encodes such a file.
pub(crate) fn encode(magic: &[u8; 8], numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut out = magic.to_vec();
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let sum = *blake3::hash(&out).as_bytes();
    out.extend_from_slice(&sum);
    out
}

/// The numbers, if the bytes are such a file and undamaged.
pub(crate) fn decode(magic: &[u8; 8], bytes: &[u8]) -> Option<Vec<u64>> {
    let (covered, sum) = bytes.split_last_chunk::<32>()?;
    let numbers = covered.strip_prefix(magic)?;
    if blake3::hash(covered).as_bytes() != sum || numbers.len() % 8 != 0 {
        return None;
    }
    let (numbers, _) = numbers.as_chunks::<8>();
    Some(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

/// Writes such a file atomically, replacing an existing one.
pub(crate) fn write(
    store: &dyn Store,
    name: &str,
    magic: &[u8; 8],
    numbers: impl IntoIterator<Item = u64>,
) -> Result<(), Error> {
    let written = store.create(name).and_then(|mut upload| {
        upload.write_all(&encode(magic, numbers))?;
        upload.finish()
    });
    written.map_err(Error::store(store.shown(name)))
}

/// Reads such a file; `None` if it does not exist. The inner `None`: it is damaged.
pub(crate) fn read(
    store: &dyn Store,
    name: &str,
    magic: &[u8; 8],
) -> Result<Option<Option<Vec<u64>>>, Error> {
    read_opened(&store.shown(name), magic, store.open(name))
}

/// Reads such a file that was opened; `shown` is its name in messages.
pub(crate) fn read_opened(
    shown: &str,
    magic: &[u8; 8],
    opened: io::Result<Box<dyn Source>>,
) -> Result<Option<Option<Vec<u64>>>, Error> {
    let failed = |source| Error::Store { name: shown.to_owned(), source };
    let source = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A damaged sealed file can't even be opened.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Some(None)),
        source => source.map_err(failed)?,
    };
    let len = source.stat().map_err(failed)?.len.min(LEN_MAX);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    match read_exact_at(&*source, 0, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(None)),
        read => read.map_err(failed).map(|()| Some(decode(magic, &bytes))),
    }
}
