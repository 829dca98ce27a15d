//! Rows and files that are large: memory stays small.

use std::io::Write as _;
use std::time::Duration;

use sandbox::Product;

use crate::support::{self, Place, Running, on_every_server};

/// The most memory the program may have, in KiB.
const MEMORY_KIB: u64 = 256 << 10;

/// How long to wait before the memory is looked at again: what is told is the most there was.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits for the end of a run and returns the most memory it used, in KiB.
fn peak(running: &mut Running) -> u64 {
    let mut peak = 0;
    // The line is gone when the process is.
    while let Some(now) = memory(running.pid()) {
        peak = peak.max(now);
        if running.has_ended() {
            break;
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
    peak
}

fn memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn rows_of_64_megabytes_go_in() {
    for product in support::of_today(support::products()) {
        support::tell(product);
        // MySQL 5.6 accepts no value longer than a tenth of its log.
        let log = match product {
            Product::MySql56 => "--innodb-log-file-size=400M",
            Product::MySql97 => "--innodb-redo-log-capacity=512M",
            _ => "--innodb-log-file-size=256M",
        };
        let server = support::start(product, &["--max-allowed-packet=256M", log]);
        let place = Place::new(&server);
        let long = 64 << 20;
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)"]);
        let both: &[&str] = if product == Product::MariaDb1011 { &["", "\""] } else { &["\""] };
        for quote in both {
            let path = place.path("long.csv");
            let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
            write!(file, "id,v\n0,short\n").unwrap();
            for id in 1..4 {
                write!(file, "{id},{quote}").unwrap();
                for _ in 0..long / 64 {
                    file.write_all(&[b'a' + id; 64]).unwrap();
                }
                writeln!(file, "{quote}").unwrap();
            }
            writeln!(file, "4,short").unwrap();
            file.into_inner().unwrap();
            let mut running = place.spawn(&["long.csv", "--into", "t", "--replace"]);
            let peak = peak(&mut running);
            running.end().exits(0);
            assert!(peak <= MEMORY_KIB, "{peak} KiB");
            let rows = place.rows(
                "SELECT id, LENGTH(v), v = REPEAT(CHAR(97 + id), LENGTH(v)) FROM t WHERE id BETWEEN 1 AND 3",
            );
            assert_eq!(rows, (1..4).map(|id| format!("{id}|{long}|1")).collect::<Vec<_>>());
            assert_eq!(place.count("t"), 5);
        }
    }
}

#[test]
fn a_record_that_is_longer_than_a_packet_is_named() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)"]);
        let packet: usize = place.value("SELECT @@max_allowed_packet").parse().unwrap();
        let file = place.file("p.csv", format!("id,v\n1,a\n2,b\n3,{}\n4,c\n", "x".repeat(packet + 1)));
        place.import(&[&file, "--into", "t"]).exits(1).says(&[
            "p.csv:4: ",
            "max_allowed_packet",
            &packet.to_string(),
        ]);
        place.untouched("t", 0);
    });
}

#[test]
fn a_large_pipe_takes_little_memory() {
    // The program's memory does not depend on the server.
    let server = support::start(Product::MariaDb1011, &["--innodb-flush-log-at-trx-commit=0"]);
    let place = Place::new(&server);
    place.sql(&["CREATE TABLE t (id INT, v VARCHAR(2000))"]);
    let mut running = place.spawn(&["-", "--into", "t", "--header", "--sessions", "8"]);
    let mut stdin = running.stdin();
    let rows = 200_000_u32;
    let writer = std::thread::spawn(move || {
        writeln!(stdin, "id,v").unwrap();
        let fill = "x \"\" ".repeat(300);
        for id in 0..rows {
            writeln!(stdin, "{id},\"{fill}\"").unwrap();
        }
    });
    let peak = peak(&mut running);
    running.end().exits(0);
    writer.join().unwrap();
    assert!(peak <= MEMORY_KIB, "{peak} KiB");
    assert_eq!(place.value("SELECT COUNT(*), SUM(id), MIN(LENGTH(v)) FROM t"), "200000|19999900000|1200");
}
