//! What a server does not put into its binary log, and commits that did not wait for the archive.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use anyhow::Result;
use progress::{Progress, count};
use server::{Session, Target};

/// How often it is asked whether commits went on without us.
const ASK: Duration = Duration::from_secs(10);

/// Tells what the server's log does not have: no archive of it has that either.
pub(crate) fn tell(session: &mut Session, report: &dyn Progress) -> Result<()> {
    let state = session.binary_log_status()?.into_iter().next().unwrap_or_default();
    let settings = ["binlog_do_db", "binlog_ignore_db"].iter().zip(state.into_iter().skip(2));
    let filters: Vec<String> = settings
        .filter_map(|(name, value)| Some(format!("{name}={}", value.filter(|value| !value.is_empty())?)))
        .collect();
    if !filters.is_empty() {
        report.warn(&format!(
            "the server does not log every database ({}): what is changed in the others is not archived, and 'restore --until' \
             does not bring it back",
            filters.join(", ")
        ));
    }
    tell_of_rows(session, report)?;
    let updates = session.value("SELECT @@GLOBAL.log_slave_updates")?;
    if updates.is_some_and(|value| value == "0" || value == "OFF") {
        let who = match session.replica_status() {
            Ok(rows) if rows.is_empty() => return Ok(()),
            Ok(_) => "the server is a replica",
            // That takes a privilege that an archive does not need. Whoever has applied something says so.
            Err(error) if error.code().is_some() => match session.value("SELECT @@GLOBAL.gtid_slave_pos") {
                Ok(Some(applied)) if !applied.is_empty() => "the server seems to be a replica",
                Err(error) if error.code().is_none() => return Err(error.into()),
                _ => return Ok(()),
            },
            Err(error) => return Err(error.into()),
        };
        report.warn(&format!(
            "{who} and does not log what it gets from its master (log_slave_updates=OFF): that is not archived; archive the log \
             of the master, or write log_slave_updates=ON into the option file"
        ));
    }
    Ok(())
}

/// Tells what the log does not say of rows. It is best known before there is something to take back.
fn tell_of_rows(session: &mut Session, report: &dyn Progress) -> Result<()> {
    const WANTED: [(&str, &str, &str); 3] = [
        ("binlog_format", "ROW", "'remora reverse' refuses what is logged as a statement"),
        ("binlog_row_image", "FULL", "'remora reverse' refuses rows that are not logged whole"),
        ("binlog_row_metadata", "FULL", "'remora log' does not know the names of columns"),
    ];
    let names = WANTED.map(|(name, ..)| session.quote(name)).join(", ");
    let rows = session.strings(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))?;
    for row in rows {
        let [Some(name), Some(value)] = row.as_slice() else { continue };
        let wanted = WANTED.iter().find(|(own, ..)| own.eq_ignore_ascii_case(name));
        // FULL_NODUP is as good.
        let Some((name, wanted, why)) = wanted.filter(|(_, wanted, _)| !value.starts_with(wanted)) else {
            continue;
        };
        report.note(&format!("{name} is {value}: {why}; SET GLOBAL {name} = '{wanted}' changes that, and remora doctor says more"));
    }
    Ok(())
}

/// Counts the commits that the server did not let wait for us.
#[derive(Default)]
pub(crate) struct Unwaited {
    session: RefCell<Option<Session>>,
    /// How many there were, since the server was started.
    known: Cell<Option<u64>>,
    asked: Cell<Option<Instant>>,
}

impl Unwaited {
    /// Looks now and then, and tells new ones. A server that does not answer is told of elsewhere.
    pub(crate) fn look(&self, target: &Target, report: &dyn Progress) {
        if self.asked.get().is_some_and(|asked| asked.elapsed() < ASK) {
            return;
        }
        self.asked.set(Some(Instant::now()));
        let mut kept = self.session.borrow_mut();
        let mut session = match kept.take().map_or_else(|| target.connect(), Ok) {
            Ok(session) => session,
            Err(_) => return,
        };
        let Ok(now) = number(&mut session) else { return };
        *kept = Some(session);
        let before = self.known.replace(now);
        if let (Some(before), Some(now)) = (before, now)
            && now > before
        {
            let commits = usize::try_from(now - before).unwrap_or(usize::MAX);
            report.warn(&format!(
                "{} did not wait for us: we were away or took longer than the timeout of semi-synchronous replication; what the server lost \
                 since may be missing here",
                count(commits, "commit")
            ));
        }
    }
}

fn number(session: &mut Session) -> Result<Option<u64>, server::Error> {
    // The second name is that of MySQL 8.0.26 and later.
    let names = "('Rpl_semi_sync_master_no_tx', 'Rpl_semi_sync_source_no_tx')";
    let sql = format!("SHOW GLOBAL STATUS WHERE Variable_name IN {names}");
    let row = session.strings(&sql)?.into_iter().next();
    Ok(row.and_then(|row| row.into_iter().nth(1)).flatten().and_then(|value| value.parse().ok()))
}
