//! `remora binlog` asks a server with the statements that it knows.

use crate::binlog::{Play, TABLE};
use crate::binlog_wire::{Wire, archiver, column, packets};
use crate::extract::folder;
use crate::support::mariadbs;

/// What MySQL 8.4 and later answer. They log no changes of the database `mysql` here.
fn words_of_mysql(command: &[u8]) -> Option<Vec<u8>> {
    let gone: [&[u8]; 4] =
        [b"SHOW MASTER STATUS", b"SHOW SLAVE HOSTS", b"SHOW ALL SLAVES STATUS", b"SHOW SLAVE STATUS"];
    let sql = command.strip_prefix(b"\x03")?;
    if gone.contains(&sql) {
        return Some(packets(&[b"\xff\x28\x04#42000You have an error in your SQL syntax"]));
    }
    let end = b"\xfe\0\0\x02\0";
    let texts = |names: &[&str], row: &[u8]| {
        let columns: Vec<Vec<u8>> = names.iter().map(|name| column(name)).collect();
        let count = [u8::try_from(names.len()).unwrap()];
        let mut all: Vec<&[u8]> = vec![&count[..]];
        all.extend(columns.iter().map(Vec::as_slice));
        all.extend([&end[..], row, end]);
        packets(&all)
    };
    match sql {
        b"SHOW BINARY LOG STATUS" => {
            let names = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"];
            Some(texts(&names, b"\x0dbinlog.000001\x014\x00\x05mysql\x00"))
        }
        b"SHOW REPLICAS" => Some(texts(&["Server_Id", "Host", "Port"], b"\x0277\x04copy\x043306")),
        b"SHOW REPLICA STATUS" => Some(texts(&["Replica_IO_State"], b"\x00")),
        _ => None,
    }
}

#[test]
fn words_of_newer_mysql_are_used_where_the_others_are_unknown() {
    let mut play = Play::new(mariadbs()[0], &["--log-slave-updates=OFF"]);
    play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')"]);
    let folder = folder();
    let wire = Wire::open(folder.path(), play.server.socket(), words_of_mysql);
    let words = ["(binlog_ignore_db=mysql)", "the server is a replica and does not log"];
    archiver(folder.path(), &wire.socket, &["--once"]).end().exits(0).says(&words);
    let taken = archiver(folder.path(), &wire.socket, &["--once", "--server-id", "77"]).end();
    taken.exits(10).says(&["the replica copy:3306 has server_id 77"]);
}
