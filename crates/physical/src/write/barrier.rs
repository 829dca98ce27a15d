//! A checkpoint after an import.
//!
//! DISCARD logs that the file of a tablespace is deleted, and IMPORT uses the tablespace's number again. If
//! the server dies before a checkpoint, recovery takes the new file for the deleted one, and silently drops
//! all that was committed to it since. After the checkpoint, recovery does not read that log record any more.

use server::Session;

use crate::Error;
use crate::position::Position;

/// Whether the server makes a checkpoint when it is told to.
pub(super) fn is_there(session: &mut Session) -> Result<bool, Error> {
    Ok(session.value("SHOW GLOBAL VARIABLES LIKE 'innodb_log_checkpoint_now'")?.is_some())
}

/// Makes a checkpoint, and proves that it covers everything up to now.
pub(super) fn pass(session: &mut Session) -> Result<(), Error> {
    let now = Position::read(session)?.current;
    session.execute("SET GLOBAL innodb_log_checkpoint_now = 1")?;
    let last = Position::read(session)?.checkpoint;
    if last >= now {
        return Ok(());
    }
    Err(Error::Rejected(format!(
        "the server's last checkpoint is at {last}, before {now}, after it was told to make one"
    )))
}
