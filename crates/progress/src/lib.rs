//! How long work tells what it is doing: the words between those who do it and the one who shows it.
//!
//! Import, dump and block backups know nothing of each other and nothing of terminals; they all say this.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a pause checks whether to end.
const PAUSE_CHECK: Duration = Duration::from_millis(50);

/// Waits for a time. Returns false if the user asked to stop meanwhile.
pub fn pause(time: Duration, stop: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        // It may wake too early, which the loop sees.
        std::thread::park_timeout(left.min(PAUSE_CHECK));
    }
    false
}

/// A number of things as people say it: `1 row`, `2 rows`, `0 other objects`. The noun is the word for one;
/// what we count takes an s, or es behind an x.
///
/// ```
/// use progress::count;
///
/// assert_eq!([count(0u64, "row"), count(1u64, "row")], ["0 rows", "1 row"]);
/// assert_eq!([count(2usize, "more bad row"), count(3usize, "index")], ["2 more bad rows", "3 indexes"]);
/// ```
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let end = match (number == N::from(1), noun.ends_with('x')) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{number} {noun}{end}")
}

/// A number as people read it.
///
/// ```
/// assert_eq!([950.0, 12_345.0, 4.56e6, 7.89e9].map(progress::short), ["950", "12.3 k", "4.56 M", "7.89 G"]);
/// ```
#[must_use]
pub fn short(number: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if number >= unit {
            let digits = if number / unit < 10.0 { 2 } else { 1 };
            return format!("{:.digits$} {name}", number / unit);
        }
    }
    format!("{number:.0}")
}

/// A number that is shown with few digits.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
#[must_use]
pub fn as_f64(number: u64) -> f64 {
    number as f64
}

/// A number of bytes.
///
/// ```
/// assert_eq!([0, 950, 12_345].map(progress::size), ["0 B", "950 B", "12.3 kB"]);
/// ```
#[must_use]
pub fn size(bytes: u64) -> String {
    let number = short(as_f64(bytes));
    if number.contains(' ') { format!("{number}B") } else { format!("{number} B") }
}

/// `0:08`, `12:34`, `1:02:03`
#[must_use]
pub fn clock(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.round()).unwrap_or_default().as_secs();
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// How far a part of a phase is: a table.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// Rows that are done.
    pub rows: u64,
    /// Bytes that are done, in the measure of the total; when it is whole, those of its rows as text.
    pub bytes: u64,
    /// Bytes there are; an estimate maybe, 0 where nobody knows.
    pub bytes_total: u64,
    /// Whether nothing of it is left.
    pub is_whole: bool,
}

/// What is reported while work continues. Called from several threads.
pub trait Progress: Sync {
    /// A new phase begins: its name, and how many bytes it will go through if that is known.
    fn phase(&self, name: &str, bytes: Option<u64>);
    /// Bytes gone through since the last call, in the measure of the phase's total.
    fn read(&self, bytes: u64);
    /// Rows and bytes of text that are done since the last call.
    fn done(&self, rows: u64, bytes: u64);
    /// How many things of a phase that has no bytes are done, and how many there are. The noun is the word
    /// for one.
    fn step(&self, _done: usize, _total: usize, _noun: &str) {}
    /// How work without an end is doing, such as `3 s behind`.
    fn state(&self, _text: &str) {}
    /// How far a part of the phase is. It is begun when it is told of first.
    fn part(&self, _: &Part<'_>) {}
    /// The last phase has ended: what follows is final.
    fn end(&self) {}
    /// Something the user should know, one line.
    fn note(&self, text: &str);
    /// Something the user should worry about, one line.
    fn warn(&self, text: &str);
}

/// A [`Progress`] that several owners report to.
pub type Shared = Arc<dyn Progress + Send + Sync>;

impl<P: Progress + Send + ?Sized> Progress for Arc<P> {
    fn phase(&self, name: &str, bytes: Option<u64>) {
        (**self).phase(name, bytes);
    }

    fn read(&self, bytes: u64) {
        (**self).read(bytes);
    }

    fn done(&self, rows: u64, bytes: u64) {
        (**self).done(rows, bytes);
    }

    fn step(&self, done: usize, total: usize, noun: &str) {
        (**self).step(done, total, noun);
    }

    fn state(&self, text: &str) {
        (**self).state(text);
    }

    fn part(&self, part: &Part<'_>) {
        (**self).part(part);
    }

    fn end(&self) {
        (**self).end();
    }

    fn note(&self, text: &str) {
        (**self).note(text);
    }

    fn warn(&self, text: &str) {
        (**self).warn(text);
    }
}

impl<P: Progress + ?Sized> Progress for &P {
    fn phase(&self, name: &str, bytes: Option<u64>) {
        (**self).phase(name, bytes);
    }

    fn read(&self, bytes: u64) {
        (**self).read(bytes);
    }

    fn done(&self, rows: u64, bytes: u64) {
        (**self).done(rows, bytes);
    }

    fn step(&self, done: usize, total: usize, noun: &str) {
        (**self).step(done, total, noun);
    }

    fn state(&self, text: &str) {
        (**self).state(text);
    }

    fn part(&self, part: &Part<'_>) {
        (**self).part(part);
    }

    fn end(&self) {
        (**self).end();
    }

    fn note(&self, text: &str) {
        (**self).note(text);
    }

    fn warn(&self, text: &str) {
        (**self).warn(text);
    }
}

/// Passes on all but notes, for work within other work: its notes would be no news, or about something else.
pub struct WithoutNotes<P>(pub P);

impl<P: Progress> Progress for WithoutNotes<P> {
    fn phase(&self, name: &str, bytes: Option<u64>) {
        self.0.phase(name, bytes);
    }

    fn read(&self, bytes: u64) {
        self.0.read(bytes);
    }

    fn done(&self, rows: u64, bytes: u64) {
        self.0.done(rows, bytes);
    }

    fn part(&self, part: &Part<'_>) {
        self.0.part(part);
    }

    fn note(&self, _: &str) {}

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }
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
