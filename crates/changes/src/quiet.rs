//! Reports without the notes that are no news to who follows a log.

use progress::Progress;

/// Passes on all but notes. They say that the last file is being written, or that the end of a transaction
/// is not there yet.
pub(crate) struct WithoutNotes<'a>(pub(crate) &'a dyn Progress);

impl Progress for WithoutNotes<'_> {
    fn phase(&self, name: &str, bytes: Option<u64>) {
        self.0.phase(name, bytes);
    }

    fn read(&self, bytes: u64) {
        self.0.read(bytes);
    }

    fn done(&self, rows: u64, bytes: u64) {
        self.0.done(rows, bytes);
    }

    fn note(&self, _: &str) {}

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }
}
