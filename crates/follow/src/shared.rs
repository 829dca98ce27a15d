//! What those who work beside each other tell each other: one applies changes, one compares and hands over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use progress::Progress;

use crate::Error;
use crate::touched::Touched;

#[derive(Default)]
struct Told {
    /// How the one in the background has ended.
    ended: Option<Result<(), Error>>,
    /// What the progress line says besides.
    words: String,
    /// Changes of the source that came after the cut-over, and are not on the target.
    late: Vec<String>,
    /// What the target can't have.
    omitted: Vec<String>,
}

/// What both know.
pub(crate) struct Shared<'a> {
    /// Where both tell the user something.
    pub(crate) report: &'a dyn Progress,
    /// Whether rows are compared, so that it must be known which were changed.
    pub(crate) is_watched: bool,
    /// Rows that were changed.
    pub(crate) touched: Touched,
    /// Ends what runs in the background.
    pub(crate) stop: Arc<AtomicBool>,
    has_caught_up: AtomicBool,
    is_cut_over: AtomicBool,
    has_programs_changed: AtomicBool,
    told: Mutex<Told>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(report: &'a dyn Progress) -> Shared<'a> {
        Shared {
            report,
            is_watched: false,
            touched: Touched::default(),
            stop: Arc::default(),
            has_caught_up: AtomicBool::default(),
            is_cut_over: AtomicBool::default(),
            has_programs_changed: AtomicBool::default(),
            told: Mutex::default(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All is applied that the source had once.
    pub(crate) fn catch_up(&self) {
        self.has_caught_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_caught_up(&self) -> bool {
        self.has_caught_up.load(Ordering::Relaxed)
    }

    /// Nothing is applied from here on: the target has taken over.
    pub(crate) fn cut_over(&self) {
        self.is_cut_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_cut_over(&self) -> bool {
        self.is_cut_over.load(Ordering::SeqCst)
    }

    /// A trigger or an event was changed.
    pub(crate) fn change_programs(&self) {
        self.has_programs_changed.store(true, Ordering::Relaxed);
    }

    /// Whether triggers or events were changed since it was asked last.
    pub(crate) fn have_programs_changed(&self) -> bool {
        self.has_programs_changed.swap(false, Ordering::Relaxed)
    }

    /// A change that came too late.
    pub(crate) fn late(&self, what: String) {
        self.told().late.push(what);
    }

    /// Something that the target can't have.
    pub(crate) fn omit(&self, what: String) {
        self.told().omitted.push(what);
    }

    pub(crate) fn take_omitted(&self) -> Vec<String> {
        std::mem::take(&mut self.told().omitted)
    }

    /// All changes that came too late.
    pub(crate) fn take_late(&self) -> Vec<String> {
        std::mem::take(&mut self.told().late)
    }

    /// Sets what the progress line says besides.
    pub(crate) fn say(&self, words: String) {
        self.told().words = words;
    }

    pub(crate) fn words(&self) -> String {
        self.told().words.clone()
    }

    /// What runs in the background has ended.
    pub(crate) fn end(&self, how: Result<(), Error>) {
        self.told().ended = Some(how);
    }

    /// Whether what runs in the background has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.told().ended.is_some()
    }

    /// How it has ended, once.
    pub(crate) fn take_end(&self) -> Option<Result<(), Error>> {
        self.told().ended.take()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits; `false` if it is stopped meanwhile.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        progress::pause(time, &self.stop)
    }
}
