//! The C interface of loadable functions, as shared by MySQL 5.6 to 9 and MariaDB 10.6 to 12.
//!
//! Layout from `include/mysql_com.h` (`UDF_INIT`, `UDF_ARGS`) of these servers. Some of them have `my_bool`
//! where others have `bool`; it is one byte, zero or one, in all of them.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

/// The server's number for "a string".
pub(crate) const STRING_RESULT: c_int = 0;
/// The server's number for "a whole number".
const INT_RESULT: c_int = 2;
/// Size of the server's buffer for the error text of an `_init` function, including the zero at its end.
const MESSAGE_SIZE: usize = 512;
/// The general error number, for errors without one of their own.
const ER_UNKNOWN_ERROR: c_uint = 1105;

/// What a function tells the server about itself, and its state for one statement.
#[repr(C)]
#[derive(Debug)]
pub struct UdfInit {
    pub(crate) maybe_null: u8,
    decimals: c_uint,
    pub(crate) max_length: c_ulong,
    pub(crate) ptr: *mut c_void,
    const_item: u8,
    extension: *mut c_void,
}

/// The arguments of a call.
#[repr(C)]
#[derive(Debug)]
pub struct UdfArgs {
    count: c_uint,
    types: *mut c_int,
    values: *mut *mut c_char,
    lengths: *mut c_ulong,
    maybe_null: *mut c_char,
    attributes: *mut *mut c_char,
    attribute_lengths: *mut c_ulong,
    extension: *mut c_void,
}

impl UdfArgs {
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// Asks the server to turn every argument into a string.
    ///
    /// # Safety
    /// To be called only in an `_init` function, with the arguments that the server passed to it.
    pub(crate) unsafe fn want_strings(&mut self) {
        for index in 0..self.count() {
            let kind = self.types.wrapping_add(index);
            // SAFETY: `types` has `count` elements, and `_init` may write them.
            unsafe { kind.write(STRING_RESULT) };
        }
    }

    /// Longest value that the argument can have; in a call, the length of its value.
    ///
    /// # Safety
    /// `self` was passed by the server and `index < count`.
    pub(crate) unsafe fn length(&self, index: usize) -> usize {
        let length = self.lengths.wrapping_add(index);
        // SAFETY: `lengths` has `count` elements.
        let length = unsafe { *length };
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// The value of an argument: `None` for NULL, and, in `_init`, for an argument that is not constant.
    ///
    /// # Safety
    /// `self` was passed by the server, `index < count`, and the arguments are already strings.
    pub(crate) unsafe fn value(&self, index: usize) -> Option<&[u8]> {
        let value = self.values.wrapping_add(index);
        // SAFETY: `values` has `count` elements.
        let value = unsafe { *value };
        if value.is_null() {
            return None;
        }
        // SAFETY: the same holds for `lengths`.
        let length = unsafe { self.length(index) };
        // SAFETY: the server keeps `length` bytes at `value` until the call returns.
        Some(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) })
    }

    /// The type of an argument before `want_strings`.
    ///
    /// # Safety
    /// `self` was passed by the server and `index < count`.
    unsafe fn kind(&self, index: usize) -> c_int {
        let kind = self.types.wrapping_add(index);
        // SAFETY: `types` has `count` elements.
        unsafe { *kind }
    }

    /// Whether an argument is a string before `want_strings`.
    ///
    /// # Safety
    /// `self` was passed by the server and `index < count`.
    pub(crate) unsafe fn is_string(&self, index: usize) -> bool {
        // SAFETY: the same holds for `kind`.
        unsafe { self.kind(index) == STRING_RESULT }
    }

    /// The value of a constant whole number, before `want_strings`.
    ///
    /// # Safety
    /// `self` was passed by the server to an `_init` function and `index < count`.
    pub(crate) unsafe fn whole(&self, index: usize) -> Option<i64> {
        // SAFETY: the same holds for `kind`.
        if unsafe { self.kind(index) } != INT_RESULT {
            return None;
        }
        let value = self.values.wrapping_add(index);
        // SAFETY: `values` has `count` elements.
        let value = unsafe { *value };
        if value.is_null() {
            return None;
        }
        // SAFETY: the value of an integer is a `long long`.
        Some(unsafe { value.cast::<i64>().read_unaligned() })
    }
}

/// Writes an error text for an `_init` function that fails.
///
/// # Safety
/// `message` is the server's buffer for it.
pub(crate) unsafe fn refuse(message: *mut c_char, text: &str) {
    let mut end = text.len().min(MESSAGE_SIZE - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = &text.as_bytes()[..end];
    // SAFETY: the buffer has `MESSAGE_SIZE` bytes, and ours are shorter.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), message.cast::<u8>(), bytes.len()) };
    let end = message.wrapping_add(bytes.len());
    // SAFETY: one byte is left for the zero at the end.
    unsafe { end.write(0) };
}

/// Writes a line to the server's error log, which is the server's standard error.
pub(crate) fn log(text: &str) {
    use std::io::Write as _;
    // If it can't be written there is nobody to tell.
    writeln!(std::io::stderr(), "[Warning] urlpack: {text}").ok();
}

type PrintError = unsafe extern "C" fn(c_uint, *const c_char, c_ulong, ...);

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, found: *mut DlInfo) -> c_int;
    fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int;
}

/// Advises the kernel to use large pages (`asm-generic/mman-common.h`).
const MADV_HUGEPAGE: c_int = 14;

/// The result of `dladdr` (POSIX.1-2024, `dlfcn.h`).
#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

/// Raises an SQL error in the current statement.
///
/// The interface of loadable functions has no way to say why a call failed. The servers' own function for
/// that can be found, though: by its C name in MariaDB and in MySQL before 8, by its C++ name later. A server
/// without it returns NULL and no reason.
pub(crate) fn raise(text: &str) {
    let names = [c"my_printf_error", c"_Z15my_printf_errorjPKciz"];
    let found = names.into_iter().map(|name| {
        // SAFETY: a null handle means the program itself and its libraries.
        unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) }
    });
    let Some(function) = found.into_iter().find(|function| !function.is_null()) else { return };
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: the function has this signature in every server; the flags are an int or a long, zero in both.
    let print = unsafe { std::mem::transmute::<*mut c_void, PrintError>(function) };
    // SAFETY: the format takes one string, which outlives the call.
    unsafe { print(ER_UNKNOWN_ERROR, c"%s".as_ptr(), 0, text.as_ptr()) };
}

/// The file that this library was loaded from.
pub(crate) fn own_file() -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = DlInfo {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    // SAFETY: the address is of a function of ours, and `found` is written.
    let known = unsafe { dladdr(own_file as *const c_void, &raw mut found) };
    if known == 0 || found.file.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the zero-terminated name as long as the library is loaded.
    let name = unsafe { std::ffi::CStr::from_ptr(found.file) };
    Some(std::path::PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

/// Advises the kernel to use large pages for `memory`, which was not written yet. A refusal changes nothing.
pub(crate) fn ask_for_large_pages(memory: &mut [u8]) {
    let _refused = if cfg!(target_os = "linux") {
        // SAFETY: the memory is ours, and its contents stay as they are.
        unsafe { madvise(memory.as_mut_ptr().cast(), memory.len(), MADV_HUGEPAGE) }
    } else {
        0
    };
}
