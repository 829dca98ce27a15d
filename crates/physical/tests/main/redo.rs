//! The redo log of a server that was killed.

use innodb::redo::{Log, LogCopier, START_OFFSET};

use crate::support::{connect, execute, of_today, sound, start};

/// Copies a log as far as it is sound.
fn copied(file: &[u8]) -> (Vec<u8>, u64) {
    let mut copy = LogCopier::new(Log::parse(&file[..START_OFFSET], file.len() as u64).unwrap());
    let mut out = copy.head();
    loop {
        let (at, until_end) = copy.place();
        let (at, len) = (usize::try_from(at).unwrap(), usize::try_from(until_end.min(4096)).unwrap());
        // Behind its end there is what was written a round ago.
        if copy.take(&file[at..at + len], &mut out).is_err() {
            return (out, copy.lsn());
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the log is replaced before the server starts")]
fn a_server_recovers_by_the_copy_of_its_log() {
    for product in of_today() {
        let mut server = start(product, &["--innodb-flush-log-at-trx-commit=1"]);
        let mut session = connect(&server);
        execute(
            &mut session,
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a CHAR(200)) ENGINE=InnoDB",
        );
        // More than the log has room for.
        for _ in 0..60 {
            execute(&mut session, "INSERT INTO t (a) SELECT REPEAT('x', 200) FROM seq_1_to_2000");
        }
        server.kill().unwrap();
        let path = server.data().join("ib_logfile0");
        let file = std::fs::read(&path).unwrap();
        let (mut copy, end) = copied(&file);
        assert!(copy.len() > START_OFFSET + 10_000, "{product}: the log had to be recovered from");
        // One bit in the middle.
        let log = Log::parse(&file[..START_OFFSET], file.len() as u64).unwrap();
        let place = usize::try_from(LogCopier::new(log).place().0).unwrap() - START_OFFSET;
        let ring = file.len() - START_OFFSET;
        let mut damaged = file.clone();
        damaged[START_OFFSET + (place + (copy.len() - START_OFFSET) / 2) % ring] ^= 4;
        assert!(copied(&damaged).1 < end);
        // It is straight, and as long as the log was.
        copy.resize(file.len(), 0);
        std::fs::write(&path, copy).unwrap();
        let before = std::fs::metadata(server.error_log()).unwrap().len();
        server.restart().unwrap();
        let said = std::fs::read_to_string(server.error_log()).unwrap();
        let said = &said[usize::try_from(before).unwrap()..];
        assert!(said.contains(&format!("End of log at LSN={end}")) && !said.contains("[ERROR]"), "{said}");
        let mut session = connect(&server);
        let count = session.value("SELECT COUNT(*) FROM t WHERE a = REPEAT('x', 200)").unwrap();
        assert_eq!(count.as_deref(), Some("120000"));
        sound(&mut session, "t");
    }
}
