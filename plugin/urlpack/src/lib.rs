//! The SQL functions `url_pack`, `url_unpack`, `url_prefix_min`, `url_prefix_max` and `url_pack_info` for any
//! MariaDB or MySQL, over the `urlpack` crate. `sql/urlpack.sql` installs them, `docs/manual/url.md` shows them.
//!
//! Every exported function runs inside `guard`: a panic becomes an SQL error and never crosses into the server.
#![expect(unsafe_code, reason = "the server calls C functions and passes pointers")]

mod abi;
mod call;
mod registry;

use std::ffi::{c_char, c_uchar, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind};

use abi::{UdfArgs, UdfInit, raise, refuse};
use call::{Call, Function};

/// Runs `work`; a panic is an error like any other.
fn guard<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("urlpack failed inside; please report it".to_owned()))
}

/// # Safety
/// The pointers are those that the server passed to the `_init` function.
unsafe fn init(function: Function, init: *mut UdfInit, args: *mut UdfArgs, message: *mut c_char) -> u8 {
    let prepared = guard(|| {
        // SAFETY: the server passes a structure of its own that nobody else uses meanwhile.
        let args = unsafe { &mut *args };
        // SAFETY: they are the server's arguments.
        unsafe { prepare(function, args) }
    });
    match prepared {
        Ok((call, result_max)) => {
            // SAFETY: as for `args`.
            let init = unsafe { &mut *init };
            init.maybe_null = 1;
            init.max_length = result_max as c_ulong;
            init.ptr = Box::into_raw(Box::new(call)).cast();
            0
        }
        Err(text) => {
            // SAFETY: it is the server's buffer.
            unsafe { refuse(message, &text) };
            1
        }
    }
}

/// # Safety
/// `args` are those that the server passed to the `_init` function.
unsafe fn prepare(function: Function, args: &mut UdfArgs) -> Result<(Call, usize), String> {
    let most = if function.takes_model() { 2 } else { 1 };
    if args.count() == 0 || args.count() > most {
        return Err(format!("use {}", function.usage()));
    }
    let named = args.count() == 2;
    // SAFETY: there are two arguments, of the type that the statement gives them.
    let name = if named && unsafe { args.is_string(1) } {
        // SAFETY: the same, and it is a string.
        unsafe { args.value(1) }.map(<[u8]>::to_vec)
    } else {
        None
    };
    // SAFETY: there is at least one argument.
    let result_max = function.result_max(unsafe { args.length(0) });
    // SAFETY: this is the `_init` function.
    unsafe { args.want_strings() };
    Ok((Call::new(function, name.as_deref(), named && name.is_none(), result_max)?, result_max))
}

/// # Safety
/// `init` is the one that an `_init` function of ours filled.
unsafe fn deinit(init: *mut UdfInit) {
    // SAFETY: the server passes its structure.
    let init = unsafe { &mut *init };
    if !init.ptr.is_null() {
        // SAFETY: `_init` made it from a box, and `_deinit` is called once.
        let call = unsafe { Box::from_raw(init.ptr.cast::<Call>()) };
        init.ptr = std::ptr::null_mut();
        drop(guard(|| {
            drop(call);
            Ok(())
        }));
    }
}

/// Where a row's outcome goes.
struct Outcome {
    length: *mut c_ulong,
    is_null: *mut c_uchar,
    error: *mut c_uchar,
}

/// # Safety
/// The pointers are those that the server passed to the function, `init` filled by `_init`.
unsafe fn row(init: *mut UdfInit, args: *mut UdfArgs, outcome: Outcome) -> *mut c_char {
    let result = guard(|| {
        // SAFETY: the server passes its structures, and uses them for nothing else during the call.
        let (init, args) = (unsafe { &*init }, unsafe { &*args });
        // SAFETY: `_init` made the call, and one thread at a time uses it.
        let call = unsafe { &mut *init.ptr.cast::<Call>() };
        // SAFETY: `_init` made sure that there is an argument, and asked for strings.
        let Some(argument) = (unsafe { args.value(0) }) else { return Ok(None) };
        let name = if args.count() == 2 {
            // SAFETY: there are two arguments, and they are strings.
            let Some(name) = (unsafe { args.value(1) }) else { return Ok(None) };
            Some(name)
        } else {
            None
        };
        call.row(argument, name).map(|bytes| Some((bytes.as_ptr(), bytes.len())))
    });
    match result {
        Ok(Some((bytes, len))) => {
            // SAFETY: the server waits for the length there.
            unsafe { *outcome.length = len as c_ulong };
            // The bytes live in the call, until the next row or `_deinit`.
            bytes.cast_mut().cast()
        }
        Ok(None) => {
            // SAFETY: the server waits for the flag there.
            unsafe { *outcome.is_null = 1 };
            std::ptr::null_mut()
        }
        Err(text) => {
            raise(&text);
            // SAFETY: the server waits for the flag there.
            unsafe { *outcome.is_null = 1 };
            // SAFETY: the same.
            unsafe { *outcome.error = 1 };
            std::ptr::null_mut()
        }
    }
}

/// The three C functions that the server looks up for an SQL function.
macro_rules! export {
    ($function:expr, $init:ident, $deinit:ident, $row:ident) => {
        #[doc = concat!("Prepares a statement's calls of `", stringify!($row), "`.")]
        ///
        /// # Safety
        /// Called by the server, with its own structures.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(initid: *mut UdfInit, args: *mut UdfArgs, message: *mut c_char) -> u8 {
            // SAFETY: the pointers are the server's.
            unsafe { init($function, initid, args, message) }
        }

        #[doc = concat!("Ends a statement's calls of `", stringify!($row), "`.")]
        ///
        /// # Safety
        /// Called by the server, once after a successful `_init`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $deinit(initid: *mut UdfInit) {
            // SAFETY: the pointer is the server's.
            unsafe { deinit(initid) }
        }

        #[doc = concat!("The SQL function `", stringify!($row), "`, for one row.")]
        ///
        /// # Safety
        /// Called by the server between `_init` and `_deinit`, with its own structures.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $row(
            initid: *mut UdfInit,
            args: *mut UdfArgs,
            _buffer: *mut c_char,
            length: *mut c_ulong,
            is_null: *mut c_uchar,
            error: *mut c_uchar,
        ) -> *mut c_char {
            // SAFETY: the pointers are the server's.
            unsafe { row(initid, args, Outcome { length, is_null, error }) }
        }
    };
}

export!(Function::Pack, url_pack_init, url_pack_deinit, url_pack);
export!(Function::Unpack, url_unpack_init, url_unpack_deinit, url_unpack);
export!(Function::PrefixMin, url_prefix_min_init, url_prefix_min_deinit, url_prefix_min);
export!(Function::PrefixMax, url_prefix_max_init, url_prefix_max_deinit, url_prefix_max);
export!(Function::Info, url_pack_info_init, url_pack_info_deinit, url_pack_info);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let outcome: Result<(), String> = guard(|| panic!("made by a test"));
        assert!(outcome.is_err_and(|text| text.contains("failed inside")));
    }
}
