//! Places that contradict a guess made from the beginning of the files.

use std::fmt;

use rows::{Contradiction, DialectCheck};

use crate::Error;
use crate::chunk::Chunk;

/// A place in a file that contradicts a guess.
pub(crate) struct FileContradiction {
    /// The file's name.
    pub name: String,
    /// Line where the record begins, from 1.
    pub line: u64,
    /// What is there.
    pub first: Contradiction,
    /// Later places of the chunk on which another option decides: their lines, and what is there.
    others: Vec<(u64, Contradiction)>,
}

impl fmt::Display for FileContradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.name, self.line, self.what())
    }
}

/// The advice if both quotes and escapes are contradicted.
const OUTFILE: &str =
    "files of SELECT ... INTO OUTFILE and mysqldump --tab are read with --quote none --escape '\\'";

impl FileContradiction {
    /// The first contradiction in a chunk.
    pub(crate) fn of(chunk: &Chunk, dialect_check: &DialectCheck) -> Option<FileContradiction> {
        let mut contradictions = dialect_check.look(chunk.bytes());
        // What is equally early stays in its order.
        contradictions.sort_by_key(|contradiction| contradiction.offset);
        let mut contradictions = contradictions.into_iter();
        let mut found = FileContradiction::at(chunk, contradictions.next()?);
        for contradiction in contradictions {
            let known = |other: &Contradiction| other.kind.remedy() == contradiction.kind.remedy();
            if !known(&found.first) && !found.others.iter().any(|(_, other)| known(other)) {
                found.others.push((chunk.line_at(contradiction.offset), contradiction));
            }
        }
        Some(found)
    }

    pub(crate) fn at(chunk: &Chunk, contradiction: Contradiction) -> FileContradiction {
        FileContradiction {
            name: chunk.name.to_string(),
            line: chunk.line_at(contradiction.offset),
            first: contradiction,
            others: Vec::new(),
        }
    }

    /// All contradictions, so that one command can decide all of them.
    fn what(&self) -> String {
        let mut what = self.first.to_string();
        for (line, other) in &self.others {
            what += &format!(". Besides, on line {line} {other}");
        }
        let about = |remedy: &str| {
            let mut contradictions =
                std::iter::once(&self.first).chain(self.others.iter().map(|(_, other)| other));
            contradictions.any(|contradiction| contradiction.kind.remedy().starts_with(remedy))
        };
        if about("--quote") && about("--escape") {
            what += &format!(". {OUTFILE}");
        }
        what
    }

    /// The import can't continue until the user has decided.
    pub(crate) fn error(self) -> Error {
        let what = self.what();
        Error::Record { name: self.name, line: self.line, what }
    }
}

/// Bytes that are not text, for a message.
pub(crate) fn bad_text(rest: &[u8]) -> String {
    let bytes: Vec<String> = rest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("the bytes {} are not UTF-8", bytes.join(" "))
}
