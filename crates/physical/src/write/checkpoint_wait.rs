//! Makes the server take a checkpoint after an import.
//!
//! DISCARD logs that the file of a tablespace is deleted, and IMPORT uses the tablespace's number again. If
//! the server dies before a checkpoint, recovery takes the new file for the deleted one, and silently drops
//! all that was committed to it since. After the checkpoint, recovery does not read that log record any more.

use server::Session;

use crate::Error;
use crate::redo_position::RedoPosition;

/// Whether the server can be told to take a checkpoint.
pub(super) fn is_there(session: &mut Session) -> Result<bool, Error> {
    Ok(session.value("SHOW GLOBAL VARIABLES LIKE 'innodb_log_checkpoint_now'")?.is_some())
}

/// The length in bytes of the record with which the server logs each checkpoint (`FILE_CHECKPOINT`). While
/// nothing follows it, the server makes no other one, also when it is told to.
const MARK: u64 = 16;

/// Makes the server take a checkpoint, and checks that it covers everything up to now.
pub(super) fn pass(session: &mut Session) -> Result<(), Error> {
    let now = RedoPosition::read(session)?.current;
    session.execute("SET GLOBAL innodb_log_checkpoint_now = 1")?;
    let last = RedoPosition::read(session)?.checkpoint;
    if covers(last, now) {
        return Ok(());
    }
    Err(Error::Rejected(format!(
        "the server's last checkpoint is at {last}, before {now}, after it was told to make one"
    )))
}

/// Whether the checkpoint `last` covers all changes before `now`.
fn covers(last: u64, now: u64) -> bool {
    now <= last + MARK
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn the_record_of_a_checkpoint_is_no_change() {
        // As servers without other work tell it.
        assert!(covers(452_771_599, 452_771_615));
        assert!(!covers(452_771_599, 452_771_616));
    }
}
