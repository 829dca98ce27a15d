//! Rows and tables of any size in little memory, and the code paths that only large tables take.

use std::process::Command;

use sandbox::Product;

use super::ddl::until_settled;
use super::{Pair, assert_equal};
use crate::support::{Ended, remora};

/// No run of the program may take more memory than this.
const MEMORY_KIB: u32 = 512 << 10;

/// Runs the program with bounded memory.
fn bounded(pair: &Pair, arguments: &[&str]) -> Ended {
    let program = remora(pair.folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB} && exec \"$0\" \"$@\"")]);
    command.arg(program.get_program()).args(arguments).current_dir(pair.folder.path());
    // Only address space is limited, and the C library reserves 64 MiB of it for each thread's heap.
    command.env("MALLOC_ARENA_MAX", "2").env_remove("MYSQL_PWD").env_remove("MYSQL_HOST");
    Ended::of(&command.output().unwrap())
}

#[test]
fn rows_and_tables_of_any_size_go_through_little_memory() {
    let options = ["--max-allowed-packet=1G", "--innodb-log-file-size=1G", "--innodb-buffer-pool-size=256M"];
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &options);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        // Escaping doubles its length: 160 MiB for a row.
        "CREATE TABLE d.large (id INT PRIMARY KEY, a LONGBLOB, b LONGTEXT) CHARACTER SET latin1",
        "INSERT INTO d.large VALUES (1, REPEAT(0x5c00, 40 << 20), 'x'), (2, NULL, REPEAT('\\n', 4 << 20)), (3, '', '')",
        "CREATE TABLE d.many (id INT PRIMARY KEY, a INT, b CHAR(60) CHARACTER SET latin1, c VARCHAR(100) COMMENT 'it''s  KEY `b` (`b`),', \
         KEY a (a) COMMENT 'with ) and ,', UNIQUE KEY u (id, a), KEY `b``2` (b(10), a), KEY c (c))",
        "INSERT INTO d.many SELECT seq, seq % 1000, MD5(seq), IF(seq % 7, NULL, 'c') FROM d.seq_1_to_200000",
        "CREATE TABLE d.keyless (a INT, b CHAR(60) CHARACTER SET latin1, KEY a (a))",
        "INSERT INTO d.keyless SELECT a, b FROM d.many",
        "ANALYZE TABLE d.many, d.large, d.keyless",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let socket = |server: &sandbox::Sandbox| server.socket().to_str().unwrap().to_owned();
    let (from, to) = (socket(&pair.from), socket(&pair.to));
    let own = ["--no-defaults", "-u", "root", "-j", "2", "-S"];
    bounded(&pair, &[&["dump", "d", "-o", "d.dump", "--chunk", "2M"][..], &own, &[&from]].concat()).exits(0);
    let bulk = |pair: &Pair| {
        let row =
            pair.target().strings("SHOW GLOBAL STATUS LIKE 'Innodb_bulk_operations'").unwrap().remove(0);
        row[1].clone().unwrap().parse::<u64>().unwrap()
    };
    let before = bulk(&pair);
    bounded(&pair, &[&["load", "d.dump"][..], &own, &[&to]].concat()).exits(0);
    // The server's bulk insert into empty tables costs more than it saves, and works for a single session
    // only.
    assert_eq!(bulk(&pair), before);
    assert_equal(&pair, "d");
}

/// With tens of thousands of small tables, statements take most of the time of a dump.
#[test]
fn a_small_table_costs_three_statements() {
    const TABLES: u64 = 200;
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    for at in 0..TABLES {
        let table =
            format!("CREATE TABLE d.t{at} (id INT PRIMARY KEY AUTO_INCREMENT, v INT, UNIQUE KEY (v))");
        source.execute(&table).unwrap();
    }
    until_settled(&pair);
    let names = ["Com_show_create_table", "Com_select", "Com_rollback_to_savepoint", "Questions"];
    let mut counts = || {
        names.map(|name| -> u64 {
            let rows = source.strings(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
            rows[0][1].clone().unwrap().parse().unwrap()
        })
    };
    let before = counts();
    pair.dump(&["d", "-o", "d.dump"]).exits(0);
    let after = counts();
    let asked: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    // The dump itself needs some, whatever is dumped.
    for (name, asked, each) in [(names[0], asked[0], 1), (names[1], asked[1], 1), (names[2], asked[2], 1)] {
        assert!(asked <= each * TABLES + 60, "{name}: {asked}");
    }
    assert!(asked[3] <= 3 * TABLES + 160, "{}: {}", names[3], asked[3]);
}
