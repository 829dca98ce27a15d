//! How long work tells what it is doing: the words between those who do it and the one who shows it.
//!
//! Import, dump and block backups know nothing of each other and nothing of terminals; they all say this.

/// How far a part of a phase is: a table.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// Rows that are done.
    pub rows: u64,
    /// Bytes that are done.
    pub bytes: u64,
    /// Bytes there are; an estimate maybe, 0 where nobody knows.
    pub bytes_total: u64,
    /// Whether nothing of it is left.
    pub is_whole: bool,
}

/// What is reported while work goes on. Called from several threads.
pub trait Progress: Sync {
    /// A new phase begins: its name, and how many bytes it will go through if that is known.
    fn phase(&self, name: &str, bytes: Option<u64>);
    /// Bytes gone through since the last call, in the measure of the phase's total.
    fn read(&self, bytes: u64);
    /// Rows and bytes of text that are done since the last call.
    fn done(&self, rows: u64, bytes: u64);
    /// How far a part of the phase is. It is begun when it is told of first.
    fn part(&self, _: &Part<'_>) {}
    /// Something the user should know, one line.
    fn note(&self, text: &str);
    /// Something the user should worry about, one line.
    fn warn(&self, text: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: &str, _: Option<u64>) {}
    fn read(&self, _: u64) {}
    fn done(&self, _: u64, _: u64) {}
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}
