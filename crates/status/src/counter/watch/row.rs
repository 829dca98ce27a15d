//! Rows of text as parts of a sample.

use super::super::part::{Digest, Process, Queue, Replica};

/// A row of any of the ways to show the sources of a replica: column and text.
pub(super) fn replica(row: &[(String, String)]) -> Replica {
    let cell = |names: &[&str]| {
        let found = row.iter().find(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let (host, port) = (cell(&["Master_Host", "Source_Host"]), cell(&["Master_Port", "Source_Port"]));
    let errors = [cell(&["Last_IO_Error"]), cell(&["Last_SQL_Error"])];
    Replica {
        channel: cell(&["Connection_name", "Channel_Name"]),
        source: format!("{host}:{port}"),
        io: cell(&["Slave_IO_Running", "Replica_IO_Running"]),
        sql: cell(&["Slave_SQL_Running", "Replica_SQL_Running"]),
        delay_s: cell(&["Seconds_Behind_Master", "Seconds_Behind_Source"]).parse().ok(),
        error: errors.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
    }
}

/// A row of `information_schema.queues`.
pub(super) fn queue(row: &[Option<&str>]) -> Option<Queue> {
    let number = |at: usize| row.get(at).copied().flatten().and_then(|text| text.parse().ok());
    Some(Queue {
        name: row.first().copied().flatten()?.to_owned(),
        waiting: number(1)?,
        owned: number(2)?,
        written: number(3)?,
        removed: number(4)?,
    })
}

/// A row of the list of processes.
pub(super) fn process(row: &[Option<&str>]) -> Option<Process> {
    let text = |at: usize| row.get(at).copied().flatten().unwrap_or_default().to_owned();
    let host = text(2);
    let host = host.split(':').next().unwrap_or_default();
    Some(Process {
        id: text(0).parse().ok()?,
        account: format!("{}@{host}", text(1)),
        schema: text(3),
        command: text(4),
        // A clock that was set back makes it negative.
        seconds: text(5).parse().unwrap_or(0),
        state: text(6),
        statement: text(7),
    })
}

/// A row of statements by digest.
pub(super) fn digest(row: &[Option<&str>]) -> Option<Digest> {
    let text = |at: usize| row.get(at).copied().flatten().unwrap_or_default().to_owned();
    let number = |at: usize| row.get(at).copied().flatten().and_then(|text| text.parse().ok());
    Some(Digest {
        schema: text(0),
        digest: text(1),
        text: text(2),
        count: number(3)?,
        time_us: number(4)?,
        examined: number(5)?,
        sent: number(6)?,
        errors: number(7)?,
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
            ("Last_IO_Error", ""),
            ("Last_SQL_Error", "duplicate"),
        ]);
        let expected = Replica {
            channel: "b".into(),
            source: "db1:3306".into(),
            io: "Yes".into(),
            sql: "No".into(),
            delay_s: None,
            error: "duplicate".into(),
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
        };
        assert_eq!(replica(&mysql), expected);
    }

    #[test]
    fn rows_of_text_become_what_they_are() {
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
