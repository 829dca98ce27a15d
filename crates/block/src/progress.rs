//! How a run tells what it is doing.

/// What a run reports while it works. Called from several threads.
pub trait Progress: Sync {
    /// A new phase begins: its name, and how many bytes it will go through if that is known.
    fn phase(&self, name: &str, bytes: Option<u64>);
    /// Bytes gone through since the last call.
    fn advance(&self, bytes: u64);
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
    fn advance(&self, _: u64) {}
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}
