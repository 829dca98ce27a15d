//! Strings, as the server compares them.

/// What the server knows about strings.
pub trait Collate: Send + Sync {
    /// Whether two strings of this collation are equal.
    fn equal(&self, collation: u32, one: &[u8], other: &[u8]) -> bool;

    /// Converts a literal of the condition from UTF-8 to the character set of the collation. `None` when the
    /// character set lacks one of its characters: then no value equals it.
    fn encode(&self, collation: u32, literal: &str) -> Option<Vec<u8>>;

    /// Converts a string of this collation to UTF-8. `None` when it is no string of its character set.
    fn decode(&self, collation: u32, text: &[u8]) -> Option<String>;

    /// Whether a string of this collation is LIKE a pattern.
    fn like(&self, collation: u32, text: &[u8], pattern: &Pattern) -> bool;
}

/// What LIKE compares with.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern, in the character set of the column.
    pub bytes: Vec<u8>,
    /// The escape character: the character after it stands for itself.
    pub escape: char,
    /// Whether values are padded with spaces that do not belong to them, as those of CHAR are.
    pub padded: bool,
}
