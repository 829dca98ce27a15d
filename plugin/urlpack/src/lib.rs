//! The SQL functions `url_pack`, `url_unpack`, `url_prefix_min`, `url_prefix_max` and `url_pack_info`, and
//! the same with `text_`, for any MariaDB or MySQL, on top of the `urlpack` crate. `sql/urlpack.sql` installs
//! them, `docs/manual/url.md` explains them.
//!
//! Every exported function runs inside `guard`: a panic becomes an SQL error and never crosses into the
//! server.
#![expect(unsafe_code, reason = "the server calls C functions and passes pointers")]

mod abi;
mod call;
mod file;
mod registry;

use std::ffi::{c_char, c_uchar, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind};

use abi::{UdfArgs, UdfInit, raise, refuse};
use call::{Action, Call, Function};
use urlpack::{Family, STRING_MAX};

/// Runs `work`; a panic becomes an error like any other.
fn guard<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("internal error in urlpack; please report it".to_owned()))
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
            // SAFETY: the buffer is the server's.
            unsafe { refuse(message, &text) };
            1
        }
    }
}

/// # Safety
/// `args` are those that the server passed to the `_init` function.
unsafe fn prepare(function: Function, args: &mut UdfArgs) -> Result<(Call, usize), String> {
    if !function.arguments().contains(&args.count()) {
        return Err(format!("use {}", function.usage()));
    }
    let named = function.takes_model() && args.count() == 2;
    // SAFETY: there are two arguments, with the types that the statement gives them.
    let name = if named && unsafe { args.is_string(1) } {
        // SAFETY: the same, and it is a string.
        unsafe { args.value(1) }.map(<[u8]>::to_vec)
    } else {
        None
    };
    // SAFETY: the index is below the number of arguments.
    let length = if args.count() == 0 { 0 } else { unsafe { args.length(0) } };
    let mut result_max = function.result_max(length);
    if function.takes_length() && args.count() == 2 {
        // SAFETY: there are two arguments, and this is the `_init` function.
        let asked = unsafe { args.whole(1) }.and_then(|length| usize::try_from(length).ok());
        result_max = asked.filter(|length| (1..=STRING_MAX).contains(length)).ok_or_else(|| {
            format!("use {}, with a constant length from 1 to {STRING_MAX}", function.usage())
        })?;
    }
    // SAFETY: this is the `_init` function.
    unsafe { args.want_strings() };
    Ok((Call::new(function, name.as_deref(), named && name.is_none(), result_max)?, result_max))
}

/// # Safety
/// `init` was filled by an `_init` function of this library.
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

/// Where to write the result of a row.
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
        if args.count() == 0 {
            return call.row(None, None).map(|bytes| Some((bytes.as_ptr(), bytes.len())));
        }
        // SAFETY: there is an argument, and `_init` asked for strings.
        let Some(argument) = (unsafe { args.value(0) }) else { return Ok(None) };
        let name = if args.count() == 2 {
            // SAFETY: there are two arguments, and they are strings.
            let Some(name) = (unsafe { args.value(1) }) else { return Ok(None) };
            Some(name)
        } else {
            None
        };
        call.row(Some(argument), name).map(|bytes| Some((bytes.as_ptr(), bytes.len())))
    });
    match result {
        Ok(Some((bytes, len))) => {
            // SAFETY: the server reads the length there.
            unsafe { *outcome.length = len as c_ulong };
            // The bytes are kept in the call until the next row or `_deinit`.
            bytes.cast_mut().cast()
        }
        Ok(None) => {
            // SAFETY: the server reads the flag there.
            unsafe { *outcome.is_null = 1 };
            std::ptr::null_mut()
        }
        Err(text) => {
            raise(&text);
            // SAFETY: the server reads the flag there.
            unsafe { *outcome.is_null = 1 };
            // SAFETY: the same.
            unsafe { *outcome.error = 1 };
            std::ptr::null_mut()
        }
    }
}

/// The three C functions that the server looks up for an SQL function.
macro_rules! export {
    ($family:ident $action:ident, $init:ident, $deinit:ident, $row:ident) => {
        #[doc = concat!("Prepares a statement's calls of `", stringify!($row), "`.")]
        ///
        /// # Safety
        /// Called by the server, with its own structures.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(initid: *mut UdfInit, args: *mut UdfArgs, message: *mut c_char) -> u8 {
            // SAFETY: the pointers are the server's.
            unsafe {
                init(Function { family: Family::$family, action: Action::$action }, initid, args, message)
            }
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

export!(Url Pack, url_pack_init, url_pack_deinit, url_pack);
export!(Url Unpack, url_unpack_init, url_unpack_deinit, url_unpack);
export!(Url PrefixMin, url_prefix_min_init, url_prefix_min_deinit, url_prefix_min);
export!(Url PrefixMax, url_prefix_max_init, url_prefix_max_deinit, url_prefix_max);
export!(Url Info, url_pack_info_init, url_pack_info_deinit, url_pack_info);
export!(Text Pack, text_pack_init, text_pack_deinit, text_pack);
export!(Text Unpack, text_unpack_init, text_unpack_deinit, text_unpack);
export!(Text PrefixMin, text_prefix_min_init, text_prefix_min_deinit, text_prefix_min);
export!(Text PrefixMax, text_prefix_max_init, text_prefix_max_deinit, text_prefix_max);
export!(Text Info, text_pack_info_init, text_pack_info_deinit, text_pack_info);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let outcome: Result<(), String> = guard(|| panic!("made by a test"));
        assert!(outcome.is_err_and(|text| text.contains("internal error")));
    }
}
