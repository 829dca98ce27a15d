//! What crosses the boundary to C++, as queue_abi.h declares it.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use queue::{ConditionError, Error, Queue};

pub(crate) const OK: c_int = 0;
pub(crate) const END: c_int = 10;
const PANIC: c_int = 9;

/// Bytes that belong to the other side, or to us for the duration of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RqSlice {
    pub(crate) bytes: *const u8,
    pub(crate) len: usize,
}

/// Where the reason of a failure is written, with a 0 behind it.
#[repr(C)]
pub struct RqError {
    text: [c_char; 512],
}

/// A column of a table that is created.
#[repr(C)]
pub struct RqColumn {
    pub(crate) name: RqSlice,
    pub(crate) kind: u32,
    pub(crate) one: u32,
    pub(crate) two: u32,
    pub(crate) is_variable: u32,
    pub(crate) place: u32,
    pub(crate) len: u32,
    pub(crate) null_bit: i32,
    pub(crate) members: *const RqSlice,
    pub(crate) member_count: usize,
}

/// A table that is created.
#[repr(C)]
pub struct RqDefinition {
    pub(crate) sync: u32,
    pub(crate) null_bytes: u32,
    pub(crate) fixed_bytes: u32,
    pub(crate) columns: *const RqColumn,
    pub(crate) column_count: usize,
}

/// A queue to wait on.
#[repr(C)]
pub struct RqTarget {
    pub(crate) queue: *const Queue,
    pub(crate) condition: RqSlice,
}

/// What is in a queue and what happened in it.
#[repr(C)]
#[derive(Default)]
pub struct RqStatus {
    pub(crate) values: [u64; 30],
}

/// What the core asks of the server.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RqServer {
    pub(crate) fault: RqSlice,
    pub(crate) equal: extern "C" fn(u32, RqSlice, RqSlice) -> c_int,
    pub(crate) encode: extern "C" fn(u32, RqSlice, *mut u8, usize) -> c_long,
    pub(crate) like: extern "C" fn(u32, RqSlice, c_int, RqSlice, u32) -> c_int,
}

/// Asked now and then by a wait.
pub type Alive = extern "C" fn(*mut c_void) -> c_int;

impl RqSlice {
    pub(crate) fn new(bytes: &[u8]) -> RqSlice {
        RqSlice { bytes: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The bytes are there as long as the result is used.
    pub(crate) unsafe fn get<'bytes>(self) -> &'bytes [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller promises it.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

/// # Safety
/// The pointer is to `len` values that stay as they are while the result is used; it may be null when `len`
/// is 0.
pub(crate) unsafe fn array<'values, T>(values: *const T, len: usize) -> &'values [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(values, len) }
}

/// Why a call did nothing.
pub(crate) enum Fault {
    Queue(Error),
    Condition(ConditionError),
    Other(c_int, String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Queue(error)
    }
}

impl From<ConditionError> for Fault {
    fn from(error: ConditionError) -> Fault {
        Fault::Condition(error)
    }
}

impl Fault {
    fn code(&self) -> c_int {
        match self {
            Fault::Queue(Error::Missing { .. }) => 1,
            Fault::Queue(Error::Exists { .. }) => 2,
            Fault::Queue(Error::Dropped) => 3,
            Fault::Queue(Error::Corrupt { .. } | Error::Version { .. }) => 4,
            Fault::Queue(Error::Failed { .. }) => 6,
            Fault::Queue(Error::TooLarge { .. }) => 7,
            Fault::Queue(_) => 5,
            Fault::Condition(_) => 8,
            Fault::Other(code, _) => *code,
        }
    }

    fn text(&self) -> String {
        match self {
            Fault::Queue(error) => error.to_string(),
            Fault::Condition(error) => error.to_string(),
            Fault::Other(_, text) => text.clone(),
        }
    }
}

/// Runs `work`; a panic is an error, and puts the queue it was about out of service.
pub(crate) fn guard(
    error: *mut RqError,
    queue: Option<&Queue>,
    work: impl FnOnce() -> Result<c_int, Fault>,
) -> c_int {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => return code,
        Ok(Err(fault)) => fault,
        Err(_) => {
            let why = "the queue engine failed inside; please report it";
            // A second panic, in putting it out of service, leaves it as it is.
            catch_unwind(AssertUnwindSafe(|| queue.into_iter().for_each(|queue| queue.fail(why)))).ok();
            Fault::Other(PANIC, why.to_owned())
        }
    };
    if !error.is_null() {
        // SAFETY: the caller's buffer, which nobody else uses meanwhile.
        let error = unsafe { &mut *error };
        error.fill(&fault.text());
    }
    fault.code()
}

impl RqError {
    pub(crate) fn fill(&mut self, text: &str) {
        let room = self.text.len() - 1;
        let bytes = text.bytes().take(room).map(u8::cast_signed);
        for (to, from) in self.text.iter_mut().zip(bytes.chain([0])) {
            *to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use queue::{Definition, Engine, Options, Queue, RealDisk};

    use super::{Fault, OK, PANIC, RqError, guard};

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
        let publish = |queue: &Queue| queue.publish(&[b"row"], None).map(|_| OK).map_err(Fault::Queue);
        assert_eq!(guard(&raw mut error, Some(&one), || publish(&one)), OK);
        assert_eq!(guard(&raw mut error, Some(&one), || panic!("a fault of ours")), PANIC);
        assert!(text(&error).contains("report it"), "{}", text(&error));
        assert_eq!(guard(&raw mut error, Some(&one), || publish(&one)), 6);
        assert!(text(&error).contains("out of service"), "{}", text(&error));
        assert_eq!(guard(&raw mut error, Some(&other), || publish(&other)), OK);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let mut error = RqError { text: [1; 512] };
        guard(&raw mut error, None, || Err(Fault::Other(5, "x".repeat(1000))));
        assert_eq!(text(&error), "x".repeat(511));
    }
}
