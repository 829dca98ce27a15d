//! The origin of the rows of the next publish, as a relay states it.

use std::ffi::c_int;

use queue::{Origin, SLOTS, Source};

use crate::abi::{RQ_END, RQ_OK, RqError, RqSlice};
use crate::guard::guard;
use crate::session::RqSession;

/// Sets the origin of the next publish. The slot is 0 to 63, otherwise `RQ_END`. Row 0: no origin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_set_origin(
    session: *mut RqSession,
    slot: u32,
    overwrite: c_int,
    row: u64,
) -> c_int {
    let Some(slot) = u8::try_from(slot).ok().filter(|slot| *slot < SLOTS) else { return RQ_END };
    // SAFETY: the caller's handle.
    let session = unsafe { &mut *session };
    let source = Source::Slot(slot);
    // Row id 0 stands for no origin.
    session.origin = (row != 0).then_some(Origin { source, row, floor: 0, overwrite: overwrite != 0 });
    RQ_OK
}

/// Whether the next publish has an origin: it is then one unit, however large.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_has_origin(session: *const RqSession) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*session }.origin.is_some())
}

/// The origin that a relay sends with the first owned row, as text; `RQ_END` when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_origin(
    session: *mut RqSession,
    text: *mut RqError,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let session = unsafe { &mut *session };
        let held = session.session.owned_rows();
        let Some((queue, row)) = held.and_then(|(queue, rows)| Some((queue, *rows.first()?))) else {
            return Ok(RQ_END);
        };
        let origin = queue.origin(row)?;
        // SAFETY: the caller's buffer.
        unsafe { &mut *text }.fill(&origin.to_string());
        Ok(RQ_OK)
    })
}

/// Sets the origin of the next publish from a text that `rq_origin` wrote; `RQ_END` when it is another text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_set_origin_text(session: *mut RqSession, text: RqSlice) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's string.
        let text = unsafe { text.get() };
        let Some(origin) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Origin>().ok()) else {
            return Ok(RQ_END);
        };
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.origin = Some(origin);
        Ok(RQ_OK)
    })
}

/// Drops the origin, because the statement that `rq_set_origin` was for has failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_forget_origin(session: *mut RqSession) {
    // SAFETY: the caller's handle.
    unsafe { &mut *session }.origin = None;
}
