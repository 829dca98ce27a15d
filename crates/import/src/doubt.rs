//! Places that contradict a guess made from the beginning of the files.

use std::fmt;

use rows::{Doubt, Watch};

use crate::Error;
use crate::chunk::Chunk;

/// A place in a file that contradicts a guess.
pub(crate) struct Doubted {
    /// The file's name.
    pub name: String,
    /// Line where the record begins, from 1.
    pub line: u64,
    /// What is there.
    pub doubt: Doubt,
}

impl fmt::Display for Doubted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.name, self.line, self.doubt)
    }
}

impl Doubted {
    /// The first contradiction in a chunk.
    pub(crate) fn of(chunk: &Chunk, watch: &Watch) -> Option<Doubted> {
        let doubt = watch.look(chunk.bytes()).into_iter().min_by_key(|doubt| doubt.offset)?;
        Some(Doubted::at(chunk, doubt))
    }

    pub(crate) fn at(chunk: &Chunk, doubt: Doubt) -> Doubted {
        Doubted { name: chunk.name.to_string(), line: chunk.line_at(doubt.offset), doubt }
    }

    /// The import can't continue until the user has decided.
    pub(crate) fn error(self) -> Error {
        Error::Record { name: self.name, line: self.line, what: self.doubt.to_string() }
    }
}

/// Bytes that are not text, for a message.
pub(crate) fn bad_text(rest: &[u8]) -> String {
    let bytes: Vec<String> = rest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("the bytes {} are not UTF-8", bytes.join(" "))
}
