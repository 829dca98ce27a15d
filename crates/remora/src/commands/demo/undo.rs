//! The third part: a wrong DELETE, taken back.

use anyhow::{Result, ensure};

use super::stage::Stage;
use super::{Shown, backup, import};
use crate::exit::Exit;

/// What somebody forgot is the time.
const WRONG: &str = "DELETE FROM web.hits WHERE status = 404";

/// What tells whether the rows are those that were there.
const SUM: &str =
    "SELECT CONCAT(COUNT(*), ' rows, ', SUM(CRC32(CONCAT_WS(',', id, time, url, bytes)))) FROM web.hits";

pub(super) fn show(stage: &mut Stage) -> Result<Shown> {
    if !stage.is_mariadb() && stage.server.installation().product.series() < (8, 0) {
        stage.title("A wrong DELETE, taken back")?;
        return Ok(Shown::Not("before MySQL 8 the binary log has no names of columns".to_owned()));
    }
    import::table(stage)?;
    if stage.is_mariadb() && !stage.is_backed_up {
        backup::make(stage)?;
    }
    stage.title("A wrong DELETE, taken back")?;
    stage.say("The server works on after its backup.")?;
    stage.sql("UPDATE web.hits SET bytes = bytes + 1 WHERE id <= 100")?;
    let before = stage.value(SUM)?;
    let second = next_second(stage)?;
    stage.say("Somebody forgets half of a WHERE:")?;
    stage.sql(WRONG)?;
    stage.sql("SELECT COUNT(*) AS rows_left FROM web.hits")?;
    stage.say("The server's log is archived, usually all the time; the transaction is found in it.")?;
    stage.ends(Exit::Done, &["binlog", "repo/web", "--once", "--url", stage.address.as_str()])?;
    let statement = ["--statement", "delete from hits"];
    stage.ends(Exit::Done, &[&["log", "repo/web"][..], &statement].concat())?;
    stage.say("The first way back is SQL that takes back this transaction and nothing else.")?;
    stage.ends(Exit::Done, &[&["reverse", "repo/web"][..], &statement, &["--to", "undo.sql"]].concat())?;
    if sandbox::client().is_none() {
        return Ok(Shown::Not(
            "there is no SQL client to run undo.sql: apt-get install mariadb-client".to_owned(),
        ));
    }
    stage.shell(&format!("remora sandbox shell {} -- --binary-mode < undo.sql", stage.name()))?;
    ensure!(stage.value(SUM)? == before, "the rows are not those that were there");
    stage.sql("SELECT COUNT(*) AS rows_again FROM web.hits")?;
    if stage.is_mariadb() {
        restored(stage, &second)?;
    }
    Ok(Shown::Whole)
}

/// The server's data as they were at a second, beside the server.
fn restored(stage: &Stage, second: &str) -> Result<()> {
    stage.say(
        "The second way back needs no server that still works: the backup and the archived log, up to \
         the second before.",
    )?;
    stage.ends(Exit::Done, &["restore", "repo/web", "--until", second, "--to", "restored"])?;
    stage.say("Its tables can be read without a server.")?;
    stage.ends(Exit::Done, &["extract", "restored", "web.hits", "-o", "hits.csv"])
}

/// Waits for the next second of the server and returns the one that has ended, so that what follows is later.
fn next_second(stage: &Stage) -> Result<String> {
    let second = stage.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ')")?;
    stage.value("SELECT SLEEP(1.05 - MICROSECOND(UTC_TIMESTAMP(6)) / 1e6)")?;
    Ok(second)
}
