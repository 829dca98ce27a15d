//! Rows of text as parts of a sample.

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
    Replica {
        channel: cell(&["Connection_name", "Channel_Name"]),
        source: format!("{host}:{port}"),
        io: cell(&["Slave_IO_Running", "Replica_IO_Running"]),
        sql: cell(&["Slave_SQL_Running", "Replica_SQL_Running"]),
        delay_s: cell(&["Seconds_Behind_Master", "Seconds_Behind_Source"]).parse().ok(),
        error: errors.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
        errno: numbers.iter().filter_map(|number| number.parse().ok()).find(|number| *number != 0),
    }
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

/// A row of the list of processes.
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
        statement: text(row, 7),
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
        ]);
        let expected = Replica {
            channel: "b".into(),
            source: "db1:3306".into(),
            io: "Yes".into(),
            sql: "No".into(),
            delay_s: None,
            error: "duplicate".into(),
            errno: Some(1062),
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
        ]);
        let expected = Replica {
            channel: String::new(),
            source: "db2:3307".into(),
            io: "Connecting".into(),
            sql: "Yes".into(),
            delay_s: Some(7),
            error: "gone; away".into(),
            errno: None,
        };
        assert_eq!(replica(&mysql), expected);
    }

    #[test]
    fn rows_of_text_become_typed_values() {
        let some = |cells: &[&'static str]| cells.iter().copied().map(Some).collect::<Vec<_>>();
        let expected = Queue { name: "app.jobs".into(), waiting: 1, owned: 2, written: 3, removed: 4 };
        assert_eq!(queue(&some(&["app.jobs", "1", "2", "3", "4"])), Some(expected));
        assert_eq!((queue(&some(&["app.jobs", "1", "2", "3"])), queue(&[None])), (None, None));

        let mut cells = some(&["7", "app", "db1:4711", "shop", "Query", "-3", "Sending data", "SELECT 1"]);
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
