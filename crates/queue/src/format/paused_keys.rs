//! The keys that are paused: a file beside the checkpoint, which is there while there are any.
//! docs/formats/queue.md has the table.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::Path;

use disk::{Disk, Output};

use crate::Error;
use crate::format::wire::{ByteReader, checksum, put_varint};

/// Its name in the queue's folder.
pub(crate) const PAUSED_KEYS: &str = "paused-keys";

const MAGIC: [u8; 8] = *b"RMQPAUSE";
const VERSION: u16 = 1;

/// The bytes of the file, for the hashes of these keys.
fn encode(keys: &BTreeSet<u64>) -> Vec<u8> {
    let mut body = Vec::new();
    put_varint(&mut body, keys.len() as u64);
    keys.iter().for_each(|key| body.extend(key.to_le_bytes()));
    let mut out = Vec::from(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([0, 0]);
    out.extend(checksum(&[&body]).to_le_bytes());
    out.extend(body);
    out
}

fn decode(file: &Path, bytes: &[u8]) -> Result<BTreeSet<u64>, Error> {
    let corrupt =
        || Error::Corrupt { file: file.to_owned(), what: "no list of paused keys".to_owned(), offset: 0 };
    let mut reader = ByteReader::new(bytes);
    if reader.array() != Some(MAGIC) {
        return Err(corrupt());
    }
    let version = reader.u16().ok_or_else(corrupt)?;
    if version != VERSION {
        return Err(Error::Version {
            file: file.to_owned(),
            what: format!("paused keys of version {version}"),
        });
    }
    let (zero, sum) = (reader.u16(), reader.u32());
    let body = reader.rest();
    if sum != Some(checksum(&[body])) || zero != Some(0) {
        return Err(corrupt());
    }
    let mut reader = ByteReader::new(body);
    let count = reader.count().filter(|count| *count <= body.len()).ok_or_else(corrupt)?;
    let keys = (0..count).map(|_| reader.u64()).collect::<Option<_>>();
    keys.filter(|_| reader.is_empty()).ok_or_else(corrupt)
}

/// Reads the keys that are paused in a queue's folder.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<BTreeSet<u64>, Error> {
    let file = folder.join(PAUSED_KEYS);
    let mut source = match disk.open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other.map_err(Error::disk(&file))?,
    };
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).map_err(Error::disk(&file))?;
    decode(&file, &bytes)
}

/// Replaces the keys that are paused in a queue's folder; durable on return.
pub(crate) fn write(disk: &dyn Disk, folder: &Path, keys: &BTreeSet<u64>) -> Result<(), Error> {
    let file = folder.join(PAUSED_KEYS);
    let replace = || {
        if keys.is_empty() {
            return match disk.remove(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => disk.sync_folder(folder),
            };
        }
        let mut output = Output::create(disk, &file)?;
        output.write_all(&encode(keys))?;
        output.finish()
    };
    replace().map_err(Error::disk(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_damage_is_told() {
        let (file, keys) = (Path::new("paused-keys"), BTreeSet::from([0, 7, u64::MAX]));
        let bytes = encode(&keys);
        assert_eq!(decode(file, &bytes).unwrap(), keys);
        for at in 0..bytes.len() {
            decode(file, &bytes[..at]).unwrap_err();
            let mut other = bytes.clone();
            other[at] ^= 1;
            decode(file, &other).unwrap_err();
        }
    }
}
