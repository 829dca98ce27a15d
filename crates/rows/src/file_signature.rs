//! Recognises files that are not delimited text by their first bytes, and says how to convert them.

use crate::json;

/// Offsets, the bytes there, and what to say.
const BINARY: [(usize, &[u8], &str); 19] = [
    (
        0,
        b"PAR1",
        "is a Parquet file, which is not read from its beginning to its end; write it to a file of its own, not compressed and \
         in no archive, and name that",
    ),
    (
        0,
        b"SQLite format 3\0",
        "is an SQLite database; sqlite3 -csv -header FILE 'SELECT * FROM t' writes a table as CSV to a pipe",
    ),
    (0, b"\x1f\x9d", "is compressed with compress (.Z); zcat FILE | remora import - ..."),
    (
        0,
        b"PK\x03\x04",
        "is a zip archive, which can't be read from a pipe; unzip -p FILE MEMBER | remora import - ..., or name the file",
    ),
    (0, b"7z\xbc\xaf\x27\x1c", "is a 7-Zip archive; 7z x -so FILE | remora import - ..."),
    (0, b"Rar!\x1a\x07", "is a RAR archive; unpack it first"),
    (257, b"ustar", "is a tar archive; tar -xOf FILE MEMBER | remora import - ..."),
    (0, b"%PDF-", "is a PDF; extract its tables with another program first"),
    (0, b"Obj\x01", "is an Avro file; convert it to JSON lines or CSV first (avro-tools tojson FILE)"),
    (
        0,
        b"ARROW1\0\0",
        "is an Arrow (Feather) file; write it to a file of its own, not compressed and in no archive, and name that",
    ),
    (0, b"FEA1", "is a Feather file; convert it to CSV first (pyarrow)"),
    (
        0,
        b"\xff\xff\xff\xff",
        "is an Arrow stream; write it to a file of its own, not compressed and in no archive, and name that",
    ),
    (
        0,
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "is an old Excel or other Office file (.xls); save it as CSV, or libreoffice --convert-to csv FILE",
    ),
    (0, b"\x89HDF\r\n\x1a\n", "is an HDF5 file; convert it to CSV first"),
    (0, b"\x93NUMPY", "is a NumPy array; numpy.savetxt writes it as text"),
    (0, b"PGDMP", "is in pg_dump's custom format; pg_restore -f - FILE shows it as SQL"),
    (0, b"\xff\xfe\0\0", "is UTF-32; iconv -f UTF-32 -t UTF-8 FILE | remora import - ..."),
    (0, b"\0\0\xfe\xff", "is UTF-32; iconv -f UTF-32 -t UTF-8 FILE | remora import - ..."),
    (0, b"LZIP\x01", "is compressed with lzip; lzip -dc FILE | remora import - ..."),
];

/// How other kinds of text begin, in lower case.
const TEXT: [(&str, &str); 15] = [
    ("-- mysql dump", SQL),
    ("-- mariadb dump", SQL),
    ("/*!", SQL),
    ("/*m!", SQL),
    ("-- phpmyadmin sql dump", SQL),
    ("-- postgresql database dump", SQL),
    ("pragma foreign_keys", SQL),
    ("begin transaction;", SQL),
    ("create table ", SQL),
    ("insert into ", SQL),
    ("drop table ", SQL),
    ("create database ", SQL),
    ("<?xml", "is XML; convert it to CSV first"),
    ("<!doctype html", "is an HTML page, perhaps the error page of a download; open it in a browser"),
    ("<html", "is an HTML page, perhaps the error page of a download; open it in a browser"),
];

const SQL: &str = "is a file of SQL statements; the client runs it: mariadb DATABASE < FILE";

/// For a file that is not rows of text: what it is, judged by its first bytes, and what to do with it. The
/// result completes a sentence that begins with the file's name.
#[must_use]
pub fn foreign(head: &[u8]) -> Option<&'static str> {
    let found =
        BINARY.iter().find(|(at, magic, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    // Text may also begin with these letters.
    let orc = head.starts_with(b"ORC") && head.iter().take(64).any(|byte| *byte < b'\t');
    found
        .map(|(_, _, what)| *what)
        .or(orc.then_some("is an ORC file; convert it to CSV first (orc-tools, pyarrow)"))
}

/// The same for text, already decoded.
#[must_use]
pub fn foreign_text(text: &[u8]) -> Option<&'static str> {
    let start = text.trim_ascii_start();
    let begins =
        |with: &str| start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    if let Some((_, what)) = TEXT.iter().find(|(with, _)| begins(with)) {
        return Some(what);
    }
    let (first, behind) = start.split_first()?;
    let next = behind.trim_ascii_start().first().copied();
    match (first, next) {
        (b'[', Some(next)) if is_array(text, next) => {
            Some("is a JSON array; jq -c '.[]' FILE | remora import - ... converts it to lines")
        }
        (b'{', Some(b'"')) if !json::is_json_lines(text) => Some(
            "is JSON, but not one object on each line; jq -c . FILE | remora import - ... converts it to lines",
        ),
        _ => None,
    }
}

/// Whether a text that begins with `[` and this byte is one array, and not an array on each line.
fn is_array(text: &[u8], next: u8) -> bool {
    !json::is_json_arrays(text) && (matches!(next, b'{' | b'[') || json::is_json_array(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_known_by_how_they_begin() {
        let mut tar = vec![b'a'; 257];
        tar.extend(b"ustar\x0000");
        for head in [&b"PAR1\x15\x04"[..], b"SQLite format 3\0\x10", b"\x1f\x9d\x90", b"PK\x03\x04\x14", &tar]
        {
            assert!(foreign(head).is_some(), "{head:?}");
        }
        for text in [
            "-- MariaDB dump 10.19\n",
            "/*!40101 SET NAMES utf8 */;\n",
            "\nINSERT INTO t VALUES (1);\n",
            "[\n {\"a\": 1}]",
            "[[1,2]]",
            "[\"a\",\"b\"]\n",
            "[\n1,\n2\n]\n",
            "[1,\n2]\n",
            "{\n\"a\": 1\n}\n",
            "<!DOCTYPE html>\n",
        ] {
            assert!(foreign_text(text.as_bytes()).is_some(), "{text:?}");
        }
        for text in [
            "id,name\n",
            "PARTY,x\n",
            "ORCID,name\n",
            "[a],b\n",
            "{1234},x\n",
            "{\"a\":1}\n",
            "[1,2]\n[3,4]\n",
            "[[1],2]\n[[3],4]\n",
            "",
            "[",
            "created,x\n",
            "-- a comment\n1,2\n",
            "insert,into\n",
        ] {
            assert_eq!((foreign(text.as_bytes()), foreign_text(text.as_bytes())), (None, None), "{text:?}");
        }
    }
}
