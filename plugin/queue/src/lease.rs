//! Leases: taking rows for whoever has their tokens, showing the rows, and what is done with tokens.

use std::ffi::{c_int, c_void};
use std::str::FromStr;
use std::time::Duration;

use queue::{Error, Queue, Token, WaitOptions, WaitOutcome};

use crate::abi::{RQ_END, RQ_OK, RQ_TAKEN, RqAlive, RqError, RqSlice, RqTarget, array, shared};
use crate::collation::Server;
use crate::guard::{Fault, guard};
use crate::session::RqSession;
use crate::statement_leases::StatementLeases;
use crate::wait::{ALIVE_EVERY, ended, target};

/// What to do with tokens: end their rows.
pub const RQ_ACK: c_int = 0;
/// Make their leases longer.
pub const RQ_EXTEND: c_int = 1;
/// Give their rows back because the work failed.
pub const RQ_NACK: c_int = 2;
/// Give their rows back as if they had not been leased.
pub const RQ_RELEASE: c_int = 3;
/// For how long: as the table's policy says.
pub const RQ_BACKOFF: u64 = u64::MAX;

/// Like `rq_wait`, but the rows are leased for this time, and what the connection owns stays as it is. The
/// next walks over the queue, until `rq_leased_end`, show what was leased and nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_lease(
    session: *mut RqSession,
    targets: *const RqTarget,
    count: usize,
    rows_max: usize,
    lease_ms: u64,
    timeout_ms: i64,
    alive: RqAlive,
    context: *mut c_void,
    outcome: *mut c_int,
    taken: *mut usize,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, leases, .. } = unsafe { &mut *session };
        // SAFETY: the caller's array.
        let given = unsafe { array(targets, count) };
        // SAFETY: the caller's array.
        let targets = given.iter().map(|one| unsafe { target(one) }).collect::<Result<Vec<_>, _>>()?;
        let mut alive = || alive(context) != 0;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let (alive, alive_every) = (Some(&mut alive as &mut dyn FnMut() -> bool), Some(ALIVE_EVERY));
        let mut patience = WaitOptions { rows_max, timeout, alive, alive_every };
        let (waited, leased) = session.lease(&targets, &mut patience, Duration::from_millis(lease_ms))?;
        // A queue that was emptied just then has taken its rows with it.
        let waited = if leased.is_none() && matches!(waited, WaitOutcome::Taken(_)) {
            WaitOutcome::TimedOut
        } else {
            waited
        };
        leases.all.extend(leased);
        let (code, at) = ended(waited);
        debug_assert!(code != RQ_TAKEN || at < count);
        // SAFETY: the caller's variable.
        unsafe { *outcome = code };
        // SAFETY: the caller's variable.
        unsafe { *taken = at };
        Ok(RQ_OK)
    })
}

/// The tokens of the rows that the statement leased last, with a comma between them, each after `table` and a
/// colon. The text belongs to the session until its next use. `RQ_END` when it has leased nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_leased_tokens(
    session: *mut RqSession,
    table: RqSlice,
    text: *mut RqSlice,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let StatementLeases { all, text: out } = unsafe { &mut (*session).leases };
        let Some(leased) = all.last() else { return Ok(RQ_END) };
        // SAFETY: the caller's string.
        let table = String::from_utf8_lossy(unsafe { table.get() });
        let tokens = leased.rows().iter().map(|row| format!("{table}:{}", row.token));
        *out = tokens.collect::<Vec<_>>().join(",");
        // SAFETY: the caller's variable.
        unsafe { *text = RqSlice::new(out.as_bytes()) };
        Ok(RQ_OK)
    })
}

/// The rows that the statement leased last, as a JSON array of objects with `token`, `try`, `row`, and
/// `why` its last try failed if somebody said so and `with_why`;
/// otherwise like `rq_leased_tokens`. With `strings` numbers in rows are text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_leased_json(
    session: *mut RqSession,
    table: RqSlice,
    with_why: c_int,
    strings: c_int,
    text: *mut RqSlice,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let StatementLeases { all, text: out } = unsafe { &mut (*session).leases };
        let Some(leased) = all.last_mut() else { return Ok(RQ_END) };
        // SAFETY: the caller's string.
        let table = String::from_utf8_lossy(unsafe { table.get() });
        let mut cursor = leased.cursor();
        let schema = leased.queue().schema();
        let mut before = String::from("{\"token\":");
        condition::quote_json(&format!("{table}:"), &mut before);
        // The token follows; it needs no quoting.
        before.pop();
        out.clear();
        for row in leased.rows() {
            out.push(if out.is_empty() { '[' } else { ',' });
            out.push_str(&before);
            row.token.put(out);
            out.push_str("\",\"try\":");
            out.push_str(&row.tries.to_string());
            out.push_str(",\"row\":");
            match cursor.advance()? {
                Some((_, bytes)) => schema.json(bytes, strings != 0, &Server, out),
                None => out.push_str("null"),
            }
            if with_why != 0 && !cursor.delivery_info().why.is_empty() {
                out.push_str(",\"why\":");
                condition::quote_json(&cursor.delivery_info().why, out);
            }
            out.push('}');
        }
        out.push(']');
        // SAFETY: the caller's variable.
        unsafe { *text = RqSlice::new(out.as_bytes()) };
        Ok(RQ_OK)
    })
}

/// How many rows the statement leased last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_leased_rows(session: *const RqSession) -> u64 {
    // SAFETY: the caller's handle.
    let all = unsafe { &(*session).leases.all };
    all.last().map_or(0, |leased| leased.rows().len() as u64)
}

/// Whether rows of the queue can be shown as JSON; otherwise the error is the column that can't.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_has_json(queue: *const Queue, column: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let opaque = unsafe { &*queue }.schema().not_json();
    if let Some(name) = opaque {
        // SAFETY: the caller's buffer.
        unsafe { &mut *column }.fill(name);
    }
    c_int::from(opaque.is_none())
}

/// Forgets what the statement has leased; without `keep`, because it has failed, the rows go back. With
/// `died`, because its client could not be told, that is a failed try.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_leased_end(
    session: *mut RqSession,
    keep: c_int,
    died: c_int,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let all = std::mem::take(&mut unsafe { &mut *session }.leases.all);
        let mut result = Ok(());
        for leased in all.into_iter().filter(|_| keep == 0) {
            result = result.and(if died != 0 { leased.fail() } else { leased.give_back() });
        }
        result?;
        Ok(RQ_OK)
    })
}

/// Does something (`RQ_ACK` and so on) with tokens of a queue, which have a comma between them. `ms` is the
/// new length of the leases, or the delay of what is given back (`RQ_BACKOFF` for that of the policy), and
/// `why` is why its try failed. With `within`, rows are ended by the transaction. `stale` receives the tokens
/// that were not good, with a comma between them; it belongs to the session until its next use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_use_tokens(
    session: *mut RqSession,
    queue: *const Queue,
    what: c_int,
    tokens: RqSlice,
    ms: u64,
    why: RqSlice,
    within: c_int,
    stale: *mut RqSlice,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { shared(queue) };
    guard(error, Some(&queue), || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, leases, .. } = unsafe { &mut *session };
        // SAFETY: the caller's string.
        let given = String::from_utf8_lossy(unsafe { tokens.get() });
        let given = || given.split(',').map(str::trim).filter(|token| !token.is_empty());
        let tokens: Vec<Token> = given().filter_map(|token| Token::from_str(token).ok()).collect();
        let length = Duration::from_millis(ms);
        let done = match what {
            RQ_ACK if within != 0 => {
                let branch = transactions.branch(session, &queue)?;
                session.try_ack_within(branch, &tokens)
            }
            RQ_ACK => Queue::try_ack(&queue, &tokens),
            RQ_EXTEND => queue.try_extend(&tokens, length),
            RQ_NACK => {
                // SAFETY: the caller's string.
                let why = String::from_utf8_lossy(unsafe { why.get() });
                queue.try_nack(&tokens, (ms != RQ_BACKOFF).then_some(length), &why)
            }
            _ => queue.try_release(&tokens),
        };
        let refused = match done {
            // The rows went with the table.
            Err(Error::Dropped) => tokens,
            other => other.map_err(Fault::Queue)?,
        };
        // What is no token is refused as a stale one is.
        let strange = given().filter(|token| Token::from_str(token).is_err()).map(str::to_owned);
        leases.text = strange.chain(refused.iter().map(Token::to_string)).collect::<Vec<_>>().join(",");
        // SAFETY: the caller's variable.
        unsafe { *stale = RqSlice::new(leases.text.as_bytes()) };
        Ok(RQ_OK)
    })
}
