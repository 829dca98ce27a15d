//! What a server lets an import do, and what it keeps of the data.

use crate::characters;
use crate::support::{self, Ended, Place, on_every_server};

#[test]
fn a_server_without_load_data_local_is_served_by_insert() {
    for product in support::of_today(support::products()) {
        support::tell(product);
        // A statement that is too long is quick then.
        let server = support::start(product, &["--local-infile=0", "--max-allowed-packet=4M"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n TINYINT, b BIT(4), born DATE)"]);
        let file =
            place.file("p.csv", "id,n,b,born\n1,5,9,01.02.2003\n2,300,1,\n3,7,,31.12.1999\n1,8,2,\n4,x,0,\n");
        let set =
            ["--into", "t", "--columns", "id,n,b,@born", "--set", "born=STR_TO_DATE(@born, '%d.%m.%Y')"];
        let import = [[file.as_str()].as_slice(), &set].concat();
        place.import(&import).exits(1).says(&["local_infile=OFF", "p.csv:"]);
        place.untouched("t", 0);
        place.import(&[import.as_slice(), &["--max-rejects", "3"]].concat()).exits(3);
        assert_eq!(
            place.rows("SELECT id, n, b+0, born FROM t ORDER BY id"),
            ["1|5|9|2003-02-01", "3|7|NULL|1999-12-31"]
        );
        assert_eq!(place.read("p.csv.rejects"), "id,n,b,born\n2,300,1,\n1,8,2,\n4,x,0,\n");
        let why = place.read("p.csv.rejects.why");
        assert!(
            why.contains("p.csv:3: column n, value '300'") && why.contains("p.csv:5: Duplicate entry '1'"),
            "{why}"
        );

        let values = characters::bytes();
        characters::both_ways(&place, "BLOB", "binary", &values, &values);
        a_server_warning_of_a_later_statement_is_assigned_to_its_row(&place);
        a_statement_longer_than_a_packet_is_a_bad_row(&place);
    }
}

fn a_server_warning_of_a_later_statement_is_assigned_to_its_row(place: &Place) {
    // A server cuts digits of DECIMAL with only a note, and rows go in by several statements.
    place.sql(&["CREATE TABLE d (id INT PRIMARY KEY, price DECIMAL(9,2), name VARCHAR(2000))"]);
    let fill = "x".repeat(1000);
    let rows: String =
        (0..2000).map(|id| format!("{id},{},{fill}\n", if id == 1500 { "0.123" } else { "0.12" })).collect();
    let file = place.file("d.csv", format!("id,price,name\n{rows}"));
    let import = [file.as_str(), "--into", "d", "--chunk", "4M", "--max-rejects", "5"];
    place.import(&import).exits(3).says(&["d.csv:1502: column price, value '0.123'"]);
    assert_eq!(place.value("SELECT COUNT(*), SUM(id) FROM d"), format!("1999|{}", 1999 * 1000 - 1500));
}

fn a_statement_longer_than_a_packet_is_a_bad_row(place: &Place) {
    // The quotes of a literal make it longer than the record was.
    place.sql(&["CREATE TABLE l (id INT PRIMARY KEY, v LONGTEXT)"]);
    let packet: usize = place.value("SELECT @@max_allowed_packet").parse().unwrap();
    let file = place.file("l.csv", format!("id,v\n1,a\n2,{}\n3,b\n", "'".repeat(packet / 4 * 3)));
    place.import(&[&file, "--into", "l"]).exits(1).says(&["l.csv:3: ", "max_allowed_packet"]);
    place.untouched("l", 0);
    place.import(&[&file, "--into", "l", "--max-rejects", "1"]).exits(3);
    assert_eq!(place.rows("SELECT id FROM l ORDER BY id"), ["1", "3"]);
}

#[test]
fn all_missing_privileges_are_named_at_once() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)", "INSERT INTO u VALUES (7)"]);
        let schema = place.schema.as_str();
        let file = place.file("p.csv", "1\n");
        let grants = |ended: &Ended| -> Vec<String> {
            let told = ended.err.split("an administrator run: ").nth(1).unwrap_or_default();
            told.trim().split("; ").map(str::to_owned).collect()
        };
        for (table, mode) in
            [("t", vec![]), ("u", vec!["--append"]), ("u", vec!["--replace"]), ("v", vec!["--create"])]
        {
            let account = place.account(&format!("poor{}{}", table, mode.len() + mode.concat().len()));
            let import = [vec![file.as_str(), "--into", table], mode].concat();
            let mut said = Vec::new();
            // For a table that the account may not see, the message says only that.
            for _ in 0..2 {
                let ended = place.import_as(&account, &import);
                if ended.code == 0 {
                    break;
                }
                let all = grants(&ended.exits(10));
                assert!(
                    all.iter().all(|grant| grant.starts_with("GRANT ") && !grant.contains("_remora")),
                    "{all:?}"
                );
                place.sql(&all.iter().map(String::as_str).collect::<Vec<_>>());
                said.push(all);
            }
            place
                .import_as(&account, &[import.as_slice(), &["--resume"]].concat())
                .exits(1)
                .says(&["nothing to resume"]);
            assert!(!said.is_empty());
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
        // Rights on the table are enough, with a separate database for the rest.
        let (account, work) = (place.account("narrow"), format!("{schema}_work"));
        place.sql(&[
            &format!("CREATE DATABASE {work}"),
            &format!("GRANT SELECT, INSERT, CREATE, ALTER, DROP, TRIGGER ON {schema}.u TO {account}"),
            &format!("GRANT ALL ON {work}.* TO {account}"),
        ]);
        let import = [file.as_str(), "--into", "u", "--replace"];
        place.import_as(&account, &import).exits(10).says(&["--work-database"]);
        place.import_as(&account, &[import.as_slice(), &["--work-database", &work]].concat()).exits(0);
        place.untouched("u", 1);
        place.import_as(&account, &[&file, "--into", "u", "--append", "--work-database", &work]).exits(0);
        place.untouched("u", 2);
        assert_eq!(place.rows(&format!("SHOW TABLES FROM {work}")), Vec::<String>::new());
        // A stopped import is found wherever its ledger lies.
        let bad = place.file("q.csv", "1\nx\n");
        let by_chunk = [bad.as_str(), "--into", "u", "--append", "--by-chunk", "--no-header"];
        place
            .import(&[by_chunk.as_slice(), &["--work-database", &work]].concat())
            .exits(1)
            .says(&["--resume"]);
        place.import(&by_chunk).exits(1).says(&["--work-database"]);
        place.sql(&[&format!("DROP DATABASE {work}")]);
    });
}

#[test]
fn a_server_that_is_read_only_says_so_before_the_work() {
    for product in support::of_today(support::products()) {
        support::tell(product);
        let server = support::start(product, &[]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT)"]);
        let account = place.account("reader");
        place.sql(&[&format!("GRANT ALL ON {}.* TO {account}", place.schema), "SET GLOBAL read_only = 1"]);
        let file = place.file("p.csv", "1\n");
        for import in [vec!["--into", "t"], vec!["--into", "u", "--create"]] {
            let ended = place.import_as(&account, &[vec![file.as_str()], import].concat()).exits(1);
            assert!(ended.err.contains("read-only") && !ended.err.contains("CREATE TABLE"), "{}", ended.err);
        }
        place.sql(&["SET GLOBAL read_only = 0"]);
        place.import_as(&account, &[&file, "--into", "t"]).exits(0);
    }
}

#[test]
fn an_import_is_in_the_binary_log_as_a_whole_or_not_at_all() {
    for product in support::of_today(support::products()) {
        support::tell(product);
        let server = support::start(product, &["--log-bin=log", "--server-id=1", "--binlog-format=ROW"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"]);
        let file = place.file("p.csv", "5\n6\n7\n");
        let position = || place.session().binary_log_status().unwrap();
        let before = position();
        for (table, mode) in [
            ("t", ["--replace", "--relax-durability"].as_slice()),
            ("u", &["--create"]),
            ("t", &["--append", "--on-duplicate", "ignore"]),
            ("t", &["--replace", "--restart"]),
        ] {
            let import = [&[file.as_str(), "--into", table, "--no-binlog"], mode].concat();
            place.import(&import).exits(0).says(&["nothing of this import is written to the binary log"]);
            assert_eq!(position(), before, "{mode:?}");
            place.untouched(table, 3);
        }
        place.import(&[&file, "--into", "t", "--replace"]).exits(0);
        assert_ne!(position(), before);
        // A stopped import continues as it began.
        place.sql(&["ALTER TABLE t ADD n TINYINT"]);
        let bad = place.file("q.csv", "8,1\n9,1\n");
        let stopped = [bad.as_str(), "--into", "t", "--append", "--by-chunk", "--no-header"];
        let folder = place.path("q.csv.rejects");
        std::fs::create_dir(&folder).unwrap();
        place.file("q.csv", "8,1\n9,900\n");
        let before = position();
        let once = [stopped.as_slice(), &["--max-rejects", "1"]].concat();
        place.import(&[once.as_slice(), &["--no-binlog"]].concat()).exits(1).says(&["--resume"]);
        std::fs::remove_dir(&folder).unwrap();
        place.import(&[once.as_slice(), &["--resume"]].concat()).exits(3);
        assert_eq!(position(), before);
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        place.sql(&["DELETE FROM t WHERE id = 8"]);
        place.import(&once).exits(1).says(&["--resume"]);
        place
            .import(&[once.as_slice(), &["--resume", "--no-binlog"]].concat())
            .exits(1)
            .says(&["without --no-binlog"]);
    }
}

#[test]
fn a_missing_file_or_database_is_reported_at_once() {
    on_every_server(|place| {
        // No server is asked for a file that is not there.
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_remora"));
        command.args(["import", "--no-defaults", "-S", "/no/such.sock", "no.csv", "--into", "d.t"]);
        Ended::of(&command.output().unwrap()).exits(1).says(&["no.csv: "]);
        let file = place.file("p.csv", "id\n1\n");
        for create in [&[][..], &["--create"]] {
            let import = [&[file.as_str(), "--into", "nowhere_at_all.t"], create].concat();
            place
                .import(&import)
                .exits(1)
                .says(&["there is no database `nowhere_at_all`", "--create-database"]);
        }
    });
}
