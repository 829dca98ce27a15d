//! Option files, read exactly as the MariaDB client reads them.
//!
//! The rules are those of `mysys/my_default.c` of MariaDB 10.11, including the odd ones; the tests compare
//! this reader with `my_print_defaults` line by line. Where the client prints a warning and continues, this
//! reader emits a `tracing` event and continues.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, login_path};

/// How deep `!include` and `!includedir` may nest; deeper ones are skipped.
const INCLUDE_DEPTH_MAX: u32 = 10;

/// The client reads lines into a buffer of this many bytes; the rest of a longer line counts as the next
/// line, comment or not.
const LINE_BYTES_MAX: usize = 4094;

/// One option of an option file.
#[derive(Clone, PartialEq, Eq)]
pub struct OptionLine {
    /// The file it is in.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: u32,
    /// Its group, as written.
    pub group: String,
    /// The option's name, with `_` replaced by `-`.
    pub name: String,
    /// The value after the `=`; `None` if there was no `=`.
    pub value: Option<String>,
}

impl fmt::Debug for OptionLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.name.contains("pass") || self.name.contains("pwd");
        f.debug_struct("OptionLine")
            .field("file", &self.file)
            .field("line", &self.line)
            .field("group", &self.group)
            .field("name", &self.name)
            .field("value", if secret { &"***" } else { &self.value })
            .finish()
    }
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is an error if the file does not exist.
    pub required: bool,
}

/// The files to read, in order; a later file overrides an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionFiles {
    /// The files, in reading order.
    pub files: Vec<OptionFile>,
    /// What `~/` at the front of an `!include` means.
    pub home: Option<PathBuf>,
}

/// Reads `files` and returns, in the order of reading, the options in one of `groups`, or in a group of that
/// name with `suffix` appended. Group names match without regard to ASCII case.
///
/// # Errors
///
/// [`Error::OptionFile`] where the client would give up: a required file that can't be read, a group without
/// `]`, an option before any group, an `!include` without a name, an `!includedir` that can't be listed. Also
/// for a name or value that is not UTF-8. As in the client, an error inside an included file ends only that
/// file.
pub fn read_option_files(
    files: &OptionFiles,
    groups: &[String],
    suffix: Option<&str>,
) -> Result<Vec<OptionLine>, Error> {
    let mut wanted: Vec<String> = groups.to_vec();
    if let Some(suffix) = suffix {
        wanted.extend(groups.iter().map(|group| format!("{group}{suffix}")));
    }
    read(files, Some(wanted))
}

/// Reads the login file of MySQL's clients, as [`read_option_files`] does option files.
///
/// # Errors
/// Those of [`read_option_files`], and if it is not one.
pub(crate) fn read_login_file(path: &Path, groups: &[String]) -> Result<Vec<OptionLine>, Error> {
    let mut reader = Reader { wanted: Some(groups.to_vec()), home: None, found: Vec::new() };
    if let Some(content) = login_path::read(path).map_err(|why| whole_file(path, why.into()))? {
        reader.content(path, &content, INCLUDE_DEPTH_MAX)?;
    }
    reader.found.into_iter().map(RawOption::decode).collect()
}

/// Reads `files` and returns the options of every group, otherwise like [`read_option_files`].
///
/// # Errors
///
/// Those of [`read_option_files`].
pub fn read_all_options(files: &OptionFiles) -> Result<Vec<OptionLine>, Error> {
    read(files, None)
}

fn read(files: &OptionFiles, wanted: Option<Vec<String>>) -> Result<Vec<OptionLine>, Error> {
    let mut reader = Reader { wanted, home: files.home.as_deref(), found: Vec::new() };
    for file in &files.files {
        let read = reader.file(&file.path, 0)?;
        if !read && file.required {
            return Err(whole_file(&file.path, "cannot be read, and it was asked for".into()));
        }
    }
    reader.found.into_iter().map(RawOption::decode).collect()
}

struct Reader<'a> {
    /// `None` for every group.
    wanted: Option<Vec<String>>,
    home: Option<&'a Path>,
    found: Vec<RawOption>,
}

/// An option in the bytes of the file. It becomes text only after the reading, because invalid UTF-8, unlike
/// the client's errors, is no reason to leave an included file.
struct RawOption {
    file: PathBuf,
    line: u32,
    group: Vec<u8>,
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl RawOption {
    fn decode(self) -> Result<OptionLine, Error> {
        let text = |bytes: Vec<u8>, what: &str| {
            String::from_utf8(bytes).map_err(|_| Error::OptionFile {
                file: self.file.clone(),
                line: self.line,
                why: format!("{what} is not UTF-8; quote it if it ends in a letter with an accent"),
            })
        };
        let group = text(self.group, "the group")?;
        let name = text(self.name, "the option's name")?.replace('_', "-");
        let value = self.value.map(|value| text(value, "the value")).transpose()?;
        Ok(OptionLine { group, name, value, line: self.line, file: self.file })
    }
}

/// The current line.
struct OptionLocation<'a> {
    file: &'a Path,
    line: u32,
    depth: u32,
}

impl OptionLocation<'_> {
    fn wrong(&self, why: &str) -> Error {
        Error::OptionFile { file: self.file.to_owned(), line: self.line, why: why.to_owned() }
    }
}

fn whole_file(file: &Path, why: String) -> Error {
    Error::OptionFile { file: file.to_owned(), line: 0, why }
}

impl Reader<'_> {
    /// Reads one file. `false`: it does not exist, or we may not read it.
    fn file(&mut self, path: &Path, depth: u32) -> Result<bool, Error> {
        let Ok(about) = fs::metadata(path) else { return Ok(false) };
        if about.is_file() && about.permissions().mode() & 0o002 != 0 {
            tracing::warn!(file = %path.display(), "world-writable option file is ignored");
            return Ok(true);
        }
        if about.is_dir() {
            return Ok(true);
        }
        let Ok(content) = fs::read(path) else { return Ok(false) };
        self.content(path, &content, depth)?;
        Ok(true)
    }

    fn content(&mut self, path: &Path, content: &[u8], depth: u32) -> Result<(), Error> {
        let mut group: Option<Vec<u8>> = None;
        for (line, text) in (1..).zip(lines(content)) {
            self.line(&OptionLocation { file: path, line, depth }, text, &mut group)?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        location: &OptionLocation<'_>,
        text: &[u8],
        group: &mut Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let cut = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        let line = trim_start(&text[..cut]);
        match line.first() {
            None | Some(b'#' | b';') => Ok(()),
            Some(b'!') => self.directive(location, &line[1..]),
            Some(b'[') => {
                let Some(end) = line.iter().position(|&b| b == b']') else {
                    return Err(location.wrong("a group starts with [ and ends with ], the ] is missing"));
                };
                *group = Some(trim_end(&line[1..end]).to_vec());
                Ok(())
            }
            Some(_) => match group {
                Some(group) => {
                    self.option(location, group, line);
                    Ok(())
                }
                None => Err(location.wrong(
                    "an option before the first [group]: put a line such as [client] or [mysqld] above it",
                )),
            },
        }
    }

    fn option(&mut self, location: &OptionLocation<'_>, group: &[u8], line: &[u8]) {
        let is_this = |wanted: &String| wanted.as_bytes().eq_ignore_ascii_case(group);
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.iter().any(is_this)) {
            return;
        }
        let line = &line[..end_comment(line)];
        let (name, value) = match line.iter().position(|&b| b == b'=') {
            Some(at) => (&line[..at], Some(value(&line[at + 1..]))),
            None => (line, None),
        };
        self.found.push(RawOption {
            file: location.file.to_owned(),
            line: location.line,
            group: group.to_vec(),
            name: trim_end(name).to_vec(),
            value,
        });
    }

    /// Follows the directive after a `!`. Words other than the two directives are ignored, as in the client.
    fn directive(&mut self, location: &OptionLocation<'_>, text: &[u8]) -> Result<(), Error> {
        if location.depth >= INCLUDE_DEPTH_MAX {
            let (file, line) = (location.file.display(), location.line);
            tracing::warn!(%file, line, "include nested too deep is skipped");
            return Ok(());
        }
        let text = trim_start(text);
        if let Some(argument) = keyword(text, b"includedir") {
            self.include_dir(location, argument)
        } else if let Some(argument) = keyword(text, b"include") {
            let argument = include_argument(location, argument)?;
            let path = match (argument.strip_prefix("~/"), self.home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(&argument),
            };
            self.included(&path, location.depth + 1);
            Ok(())
        } else {
            Ok(())
        }
    }

    /// Reads the `.cnf` files of a folder in the order of their bytes.
    fn include_dir(&mut self, location: &OptionLocation<'_>, argument: &[u8]) -> Result<(), Error> {
        let folder = PathBuf::from(include_argument(location, argument)?);
        let unreadable = |e| location.wrong(&format!("cannot list {}: {e}", folder.display()));
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            if name.as_encoded_bytes().ends_with(b".cnf") {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            self.included(&folder.join(name), location.depth + 1);
        }
        Ok(())
    }

    /// Reads an included file. The client ends such a file at its first error and continues after the
    /// `!include`; so does this reader, but not silently.
    fn included(&mut self, path: &Path, depth: u32) {
        if let Err(error) = self.file(path, depth) {
            tracing::warn!(%error, "the rest of an included option file is ignored");
        }
    }
}

/// The text after `word` if `text` starts with it and white space follows.
fn keyword<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let rest = text.strip_prefix(word)?;
    rest.first().is_some_and(|&b| is_space(b)).then_some(rest)
}

/// The argument of a directive. The client takes the last byte for the line end without looking, so a last
/// line without a line end loses a byte.
fn include_argument(location: &OptionLocation<'_>, text: &[u8]) -> Result<String, Error> {
    let text = trim_start(text);
    let argument = trim_end(&text[..text.len().saturating_sub(1)]);
    if argument.is_empty() {
        return Err(location.wrong("!include and !includedir need a path behind them"));
    }
    String::from_utf8(argument.to_vec()).map_err(|_| location.wrong("the path is not UTF-8"))
}

/// Splits as `fgets` with a bounded buffer does; each piece keeps its line end.
fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|&b| b == b'\n').flat_map(|line| line.chunks(LINE_BYTES_MAX))
}

/// White space as in Latin-1, which the client uses: it includes the no-break space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0xA0)
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&b| !is_space(b)).unwrap_or(text.len());
    &text[start..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&b| !is_space(b)).map_or(0, |last| last + 1);
    &text[..end]
}

/// Where the comment at the end of an option line begins: at the first `#` outside quotes. Inside quotes a
/// backslash escapes a quote after it.
fn end_comment(line: &[u8]) -> usize {
    let mut quote = 0;
    let mut escaped = false;
    for (at, &byte) in line.iter().enumerate() {
        if matches!(byte, b'\'' | b'"') && !escaped {
            if quote == 0 {
                quote = byte;
            } else if quote == byte {
                quote = 0;
            }
        }
        if quote == 0 && byte == b'#' {
            return at;
        }
        escaped = quote != 0 && byte == b'\\' && !escaped;
    }
    line.len()
}

/// The value after the `=`: trimmed, without one pair of quotes around it, with escapes resolved.
fn value(text: &[u8]) -> Vec<u8> {
    let mut text = trim_end(trim_start(text));
    if let [first @ (b'"' | b'\''), inner @ .., last] = text
        && first == last
    {
        text = inner;
    }
    let mut value = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        match bytes.next() {
            None => value.push(b'\\'),
            Some(b'n') => value.push(b'\n'),
            Some(b't') => value.push(b'\t'),
            Some(b'r') => value.push(b'\r'),
            Some(b'b') => value.push(0x08),
            Some(b's') => value.push(b' '),
            Some(b @ (b'"' | b'\'' | b'\\')) => value.push(b),
            Some(other) => value.extend([b'\\', other]),
        }
    }
    value
}
