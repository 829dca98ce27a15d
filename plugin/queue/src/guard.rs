//! Calls from C++: their errors, and panics, which must not cross into C++.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use queue::{Error, Queue};

use crate::abi::{
    RQ_CONDITION, RQ_CORRUPT, RQ_DISK, RQ_DROPPED, RQ_EXISTS, RQ_FAILED, RQ_MISSING, RQ_PANIC, RQ_TOO_LARGE,
    RqError,
};

/// Why a call failed.
pub(crate) enum Fault {
    Queue(Error),
    Condition(condition::Error),
    Other(c_int, String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Queue(error)
    }
}

impl From<condition::Error> for Fault {
    fn from(error: condition::Error) -> Fault {
        Fault::Condition(error)
    }
}

impl Fault {
    fn code(&self) -> c_int {
        match self {
            Fault::Queue(Error::Missing { .. }) => RQ_MISSING,
            Fault::Queue(Error::Exists { .. }) => RQ_EXISTS,
            Fault::Queue(Error::Dropped) => RQ_DROPPED,
            Fault::Queue(Error::Corrupt { .. } | Error::Version { .. }) => RQ_CORRUPT,
            Fault::Queue(Error::Failed { .. }) => RQ_FAILED,
            Fault::Queue(Error::TooLarge { .. }) => RQ_TOO_LARGE,
            // What an argument of a function names, as a condition does.
            Fault::Queue(Error::Reader { .. } | Error::ReaderLease) | Fault::Condition(_) => RQ_CONDITION,
            Fault::Queue(_) => RQ_DISK,
            Fault::Other(code, _) => *code,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Fault::Queue(error) => error.to_string(),
            Fault::Condition(error) => error.to_string(),
            Fault::Other(_, text) => text.clone(),
        }
    }
}

/// Runs `work`; a panic becomes an error, and puts the queue of the call out of service.
pub(crate) fn guard(
    error: *mut RqError,
    queue: Option<&Queue>,
    work: impl FnOnce() -> Result<c_int, Fault>,
) -> c_int {
    guard_all(error, queue, work)
}

/// Like [`guard`], for a call about several queues.
pub(crate) fn guard_all<'queue>(
    error: *mut RqError,
    queues: impl IntoIterator<Item = &'queue Queue>,
    work: impl FnOnce() -> Result<c_int, Fault>,
) -> c_int {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => return code,
        Ok(Err(fault)) => fault,
        Err(_) => {
            let why = "an internal error of the queue engine; please report it";
            // If that panics too, the queues stay as they are.
            catch_unwind(AssertUnwindSafe(|| queues.into_iter().for_each(|queue| queue.fail(why)))).ok();
            Fault::Other(RQ_PANIC, why.to_owned())
        }
    };
    if !error.is_null() {
        // SAFETY: the caller's buffer, which nobody else uses during the call.
        let error = unsafe { &mut *error };
        error.fill(&fault.text());
    }
    fault.code()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use queue::{Definition, Engine, Options, Queue, RealDisk};

    use super::{Fault, guard};
    use crate::abi::{RQ_FAILED, RQ_OK, RQ_PANIC, RqError};

    fn queue(folder: &std::path::Path) -> Arc<Queue> {
        let options = Options { threads: 0, ..Options::new(|| 0, || [7; 16]) };
        let engine = Engine::start(Arc::new(RealDisk), options).unwrap();
        engine.create(folder, &Definition::default()).unwrap();
        engine.open(folder).unwrap()
    }

    fn text(error: &RqError) -> String {
        error
            .text
            .iter()
            .take_while(|byte| **byte != 0)
            .map(|byte| char::from(byte.cast_unsigned()))
            .collect()
    }

    #[test]
    fn a_panic_is_an_error_and_ends_the_service_of_its_queue() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (queue(&parent.path().join("one")), queue(&parent.path().join("other")));
        let mut error = RqError { text: [0; 512] };
        let publish = |queue: &Queue| queue.publish(&[b"row"], None).map(|_| RQ_OK).map_err(Fault::Queue);
        assert_eq!(guard(&raw mut error, Some(&one), || publish(&one)), RQ_OK);
        assert_eq!(guard(&raw mut error, Some(&one), || panic!("a fault of ours")), RQ_PANIC);
        assert!(text(&error).contains("report it"), "{}", text(&error));
        assert_eq!(guard(&raw mut error, Some(&one), || publish(&one)), RQ_FAILED);
        assert!(text(&error).contains("out of service"), "{}", text(&error));
        assert_eq!(guard(&raw mut error, Some(&other), || publish(&other)), RQ_OK);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let mut error = RqError { text: [1; 512] };
        guard(&raw mut error, None, || Err(Fault::Other(5, "x".repeat(1000))));
        assert_eq!(text(&error), "x".repeat(511));
    }
}
