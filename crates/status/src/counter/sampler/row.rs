//! Rows of text as parts of a sample.

use super::super::gtid;
use super::super::overhead::Answer;
use super::super::part::{Digest, Process, Queue, Replica};

/// A row of any of the ways to show the sources of a replica: column and text.
pub(super) fn replica(row: &[(String, String)]) -> Replica {
    let cell = |names: &[&str]| {
        let found = row.iter().find(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let (host, port) = (cell(&["Master_Host", "Source_Host"]), cell(&["Master_Port", "Source_Port"]));
    let errors = [cell(&["Last_IO_Error"]), cell(&["Last_SQL_Error"])];
    let numbers = [cell(&["Last_SQL_Errno"]), cell(&["Last_IO_Errno"])];
    let place = |file: String, position: String| match file.as_str() {
        "" => file,
        _ => format!("{file}:{position}"),
    };
    let received = cell(&["Gtid_IO_Pos", "Retrieved_Gtid_Set"]);
    Replica {
        channel: cell(&["Connection_name", "Channel_Name"]),
        source: format!("{host}:{port}"),
        io: cell(&["Slave_IO_Running", "Replica_IO_Running"]),
        sql: cell(&["Slave_SQL_Running", "Replica_SQL_Running"]),
        delay_s: cell(&["Seconds_Behind_Master", "Seconds_Behind_Source"]).parse().ok(),
        error: errors.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
        errno: numbers.iter().filter_map(|number| number.parse().ok()).find(|number| *number != 0),
        io_state: cell(&["Slave_IO_State", "Replica_IO_State"]),
        sql_state: cell(&["Slave_SQL_Running_State", "Replica_SQL_Running_State"]),
        wanted_delay_s: cell(&["SQL_Delay"]).parse().ok().filter(|seconds| *seconds > 0),
        read_to: place(
            cell(&["Master_Log_File", "Source_Log_File"]),
            cell(&["Read_Master_Log_Pos", "Read_Source_Log_Pos"]),
        ),
        applied_to: place(
            cell(&["Relay_Master_Log_File", "Relay_Source_Log_File"]),
            cell(&["Exec_Master_Log_Pos", "Exec_Source_Log_Pos"]),
        ),
        unapplied: gtid::missing(&received, &cell(&["Gtid_Slave_Pos", "Executed_Gtid_Set"])),
        applied_ms: None,
    }
}

/// Adds when the source committed what was applied last. The answer has pairs of channel and milliseconds
/// since 1970; 0 stands for never.
pub(super) fn add_applied_time(replica: &mut Replica, answer: &Answer) {
    let time = answer.pairs().find(|(channel, _)| *channel == replica.channel);
    replica.applied_ms = time.and_then(|(_, time)| time.parse().ok()).filter(|time| *time > 0);
}

/// Replaces the coordinator's error by that of the thread that failed. The answer has pairs of channel and
/// message.
pub(super) fn add_worker_error(replica: &mut Replica, answer: &Answer) {
    let mut errors = answer.pairs().filter(|(channel, _)| *channel == replica.channel);
    if let Some((_, error)) = errors.next().filter(|_| replica.error.starts_with("Coordinator stopped")) {
        error.clone_into(&mut replica.error);
    }
}

fn cell<'a>(row: &[Option<&'a str>], at: usize) -> Option<&'a str> {
    row.get(at).copied().flatten()
}

fn text(row: &[Option<&str>], at: usize) -> String {
    cell(row, at).unwrap_or_default().to_owned()
}

fn number(row: &[Option<&str>], at: usize) -> Option<u64> {
    cell(row, at)?.parse().ok()
}

/// A row of `information_schema.queues`.
pub(super) fn queue(row: &[Option<&str>]) -> Option<Queue> {
    Some(Queue {
        name: cell(row, 0)?.to_owned(),
        waiting: number(row, 1)?,
        owned: number(row, 2)?,
        written: number(row, 3)?,
        removed: number(row, 4)?,
    })
}

/// Characters of a statement that are kept.
const STATEMENT_MAX: usize = 4096;

/// A row of `SHOW FULL PROCESSLIST`.
pub(super) fn process(row: &[Option<&str>]) -> Option<Process> {
    let host = cell(row, 2).and_then(|host| host.split(':').next()).unwrap_or_default();
    Some(Process {
        id: number(row, 0)?,
        account: format!("{}@{host}", text(row, 1)),
        schema: text(row, 3),
        command: text(row, 4),
        // A clock that was set back makes it negative.
        seconds: number(row, 5).unwrap_or(0),
        state: text(row, 6),
        statement: cell(row, 7).unwrap_or_default().chars().take(STATEMENT_MAX).collect(),
    })
}

/// A row of statements by digest.
pub(super) fn digest(row: &[Option<&str>]) -> Option<Digest> {
    Some(Digest {
        schema: text(row, 0),
        digest: text(row, 1),
        text: text(row, 2),
        count: number(row, 3)?,
        time_us: number(row, 4)?,
        examined: number(row, 5)?,
        sent: number(row, 6)?,
        errors: number(row, 7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_read_in_the_words_of_any_server() {
        let row = |cells: &[(&str, &str)]| -> Vec<(String, String)> {
            cells.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mariadb = row(&[
            ("Connection_name", "b"),
            ("Master_Host", "db1"),
            ("Master_Port", "3306"),
            ("Slave_IO_Running", "Yes"),
            ("Slave_SQL_Running", "No"),
            ("Seconds_Behind_Master", ""),
            ("Last_IO_Errno", "0"),
            ("Last_IO_Error", ""),
            ("Last_SQL_Errno", "1062"),
            ("Last_SQL_Error", "duplicate"),
            ("SQL_Delay", "3600"),
            ("Master_Log_File", "log.000002"),
            ("Read_Master_Log_Pos", "900"),
            ("Relay_Master_Log_File", "log.000001"),
            ("Exec_Master_Log_Pos", "330"),
            ("Gtid_IO_Pos", "0-1-7"),
            ("Gtid_Slave_Pos", "0-1-4"),
            ("Slave_SQL_Running_State", "Slave has read all relay log"),
        ]);
        let expected = Replica {
            channel: "b".into(),
            source: "db1:3306".into(),
            io: "Yes".into(),
            sql: "No".into(),
            delay_s: None,
            error: "duplicate".into(),
            errno: Some(1062),
            wanted_delay_s: Some(3600),
            read_to: "log.000002:900".into(),
            applied_to: "log.000001:330".into(),
            unapplied: Some(3),
            sql_state: "Slave has read all relay log".into(),
            ..Replica::default()
        };
        assert_eq!(replica(&mariadb), expected);
        let mysql = row(&[
            ("Source_Host", "db2"),
            ("Source_Port", "3307"),
            ("Replica_IO_Running", "Connecting"),
            ("Replica_SQL_Running", "Yes"),
            ("Seconds_Behind_Source", "7"),
            ("Last_IO_Error", "gone"),
            ("Last_SQL_Error", "away"),
            ("SQL_Delay", "0"),
            ("Retrieved_Gtid_Set", "a-b:1-9"),
            ("Executed_Gtid_Set", "a-b:1-8"),
            ("Replica_IO_State", "Connecting to source"),
        ]);
        let expected = Replica {
            channel: String::new(),
            source: "db2:3307".into(),
            io: "Connecting".into(),
            sql: "Yes".into(),
            delay_s: Some(7),
            error: "gone; away".into(),
            unapplied: Some(1),
            io_state: "Connecting to source".into(),
            ..Replica::default()
        };
        let mut found = replica(&mysql);
        assert_eq!(found, expected);
        let answer = |time| Answer::of(&[&[Some("b"), Some("5")], &[Some(""), Some(time)]]);
        add_applied_time(&mut found, &answer("1700000000123"));
        assert_eq!(found.applied_ms, Some(1_700_000_000_123));
        add_applied_time(&mut found, &answer("0"));
        assert_eq!(found.applied_ms, None);
    }

    #[test]
    fn rows_of_text_become_typed_values() {
        let some = |cells: &[&'static str]| cells.iter().copied().map(Some).collect::<Vec<_>>();
        let expected = Queue { name: "app.jobs".into(), waiting: 1, owned: 2, written: 3, removed: 4 };
        assert_eq!(queue(&some(&["app.jobs", "1", "2", "3", "4"])), Some(expected));
        assert_eq!((queue(&some(&["app.jobs", "1", "2", "3"])), queue(&[None])), (None, None));

        let mut cells: Vec<Option<&str>> =
            some(&["7", "app", "db1:4711", "shop", "Query", "-3", "Sending data", "SELECT 1"]);
        let expected = Process {
            id: 7,
            account: "app@db1".into(),
            schema: "shop".into(),
            command: "Query".into(),
            seconds: 0,
            state: "Sending data".into(),
            statement: "SELECT 1".into(),
        };
        assert_eq!(process(&cells), Some(expected.clone()));
        (cells[3], cells[5]) = (None, Some("12"));
        assert_eq!(process(&cells), Some(Process { schema: String::new(), seconds: 12, ..expected }));
        let long = "\u{e4}".repeat(5000);
        cells[7] = Some(&long);
        assert_eq!(process(&cells).unwrap().statement.chars().count(), 4096);

        let expected = Digest {
            schema: String::new(),
            digest: "abc".into(),
            text: "SELECT ?".into(),
            count: 1,
            time_us: 2,
            examined: 3,
            sent: 4,
            errors: 5,
        };
        let cells =
            [None, Some("abc"), Some("SELECT ?"), Some("1"), Some("2"), Some("3"), Some("4"), Some("5")];
        assert_eq!((digest(&cells), digest(&cells[..7])), (Some(expected), None));
    }
}
