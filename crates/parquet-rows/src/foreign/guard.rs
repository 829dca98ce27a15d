//! The one place in which panics of the libraries that read files end.
//!
//! Their decoders are written for files that a sound program wrote: on other bytes some of them fail
//! assertions, or look for an element that is not there. A file from somewhere else must not end the process,
//! so such a panic becomes an error here. The readers that were at work are not used again.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use super::Error;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Nobody is told about a panic that becomes an error; all others are reported as before.
fn quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                usual(info);
            }
        }));
    });
}

/// Does work in which a library may panic because of the bytes of a file in `format`.
///
/// # Errors
/// Those of the work; [`Error::Damaged`] for a panic.
pub(crate) fn guarded<T>(format: &'static str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    quiet();
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let line = what.lines().next().unwrap_or_default();
        Err(Error::Damaged { format, what: format!("it can't be decoded ({line})") })
    })
}
