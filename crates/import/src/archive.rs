//! A file in a zip archive, read as a stream.
//!
//! The `zip` crate reads the directory. A member is then a part of the file that is inflated and summed here,
//! so nothing has to be unpacked first and nothing borrows.

use progress::count;
use std::io::{self, Read, Seek};

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

/// The first bytes of an archive, and of an empty one.
pub(crate) const MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// How many members are listed when there are too many to choose from.
const SHOWN: usize = 12;

/// Where a member is in its archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Offset of its bytes.
    pub(crate) start: u64,
    /// Length of its bytes.
    pub(crate) packed_bytes: u64,
    deflated: bool,
    bytes: u64,
    sum: u32,
}

/// Finds the only member with rows, or the requested one.
///
/// # Errors
/// What is wrong with the archive, or why no member can be chosen.
pub(crate) fn find(archive: impl Read + Seek, wanted: Option<&str>) -> Result<Member, String> {
    let broken = |error: zip::result::ZipError| format!("the zip archive can't be read: {error}");
    let mut archive = ZipArchive::new(archive).map_err(broken)?;
    let mut members = Vec::new();
    for at in 0..archive.len() {
        let member = archive.by_index_raw(at).map_err(broken)?;
        let name = member.name().map_err(broken)?.into_owned();
        // macOS adds these.
        if member.is_file() && !name.starts_with("__MACOSX/") && !name.ends_with(".DS_Store") {
            members.push((at, name));
        }
    }
    let has = |name: &str| members.iter().any(|(_, known)| known == name);
    if wanted.is_none() && has("xl/workbook.xml") {
        return Err(
            "is an Excel workbook; save the sheet as CSV, or libreoffice --convert-to csv FILE".to_owned()
        );
    }
    if wanted.is_none() && has("mimetype") && has("content.xml") {
        return Err(
            "is an OpenDocument file; save the sheet as CSV, or libreoffice --convert-to csv FILE".to_owned()
        );
    }
    let fits =
        |name: &str| wanted.is_none_or(|wanted| name == wanted || name.ends_with(&format!("/{wanted}")));
    let mut fitting = members.iter().filter(|(_, name)| fits(name));
    let (Some((at, name)), None) = (fitting.next(), fitting.next()) else {
        return Err(choose(wanted, &members));
    };
    let member = archive.by_index_raw(*at).map_err(broken)?;
    let deflated = match member.compression() {
        CompressionMethod::Stored => false,
        CompressionMethod::Deflated => true,
        _ => {
            return Err(format!(
                "{name} uses a compression method that is not supported; unzip -p FILE '{name}' | remora import - ..."
            ));
        }
    };
    if member.encrypted() {
        return Err(format!("{name} is encrypted; unzip it first"));
    }
    let (packed_bytes, bytes, sum) = (member.compressed_size(), member.size(), member.crc32());
    let start = member.data_start().ok_or("the zip archive does not say where its member begins")?;
    Ok(Member { name: name.clone(), start, packed_bytes, deflated, bytes, sum })
}

fn choose(wanted: Option<&str>, members: &[(usize, String)]) -> String {
    let names: Vec<&str> = members.iter().take(SHOWN).map(|(_, name)| name.as_str()).collect();
    let more = if members.len() > SHOWN { ", ..." } else { "" };
    let list = format!("{}{more}", names.join(", "));
    match wanted {
        _ if members.is_empty() => "is a zip archive without files".to_owned(),
        Some(wanted) => format!("does not have exactly one member {wanted}; it has {list}"),
        None => format!(
            "is a zip archive with {}; choose one with --member: {list}",
            count(members.len(), "file")
        ),
    }
}

impl Member {
    /// Its bytes, decompressed. `packed` must be positioned at [`Member::start`] of the archive.
    pub(crate) fn reader(&self, packed: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let packed = packed.take(self.packed_bytes);
        let plain: Box<dyn Read + Send> =
            if self.deflated { Box::new(DeflateDecoder::new(packed)) } else { Box::new(packed) };
        let sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
        Box::new(CheckedReader { plain, sum, left: self.bytes, expected: self.sum })
    }
}

/// Checks length and checksum at the end.
struct CheckedReader {
    plain: Box<dyn Read + Send>,
    sum: crc_fast::Digest,
    left: u64,
    expected: u32,
}

impl Read for CheckedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.plain.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            if self.left > 0 || self.sum.finalize() != u64::from(self.expected) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the member of the zip archive is damaged",
                ));
            }
            return Ok(0);
        }
        self.sum.update(buffer.get(..count).unwrap_or_default());
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the member of the zip archive is longer than its directory entry says",
            )
        })?;
        Ok(count)
    }
}
