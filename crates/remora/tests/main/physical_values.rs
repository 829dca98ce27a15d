//! Imports that write the table's file: values mean what they would mean to the server.

use crate::support::{Ended, connect, on_mariadb, on_one_mariadb, on_own_mariadb, remora};

/// What an account finds when it connects may give values another meaning. init_connect is such a thing.
#[test]
fn written_values_are_compared_with_those_that_the_server_reads() {
    on_own_mariadb(|place| {
        let account = place.account("plain");
        place.sql(&[
            &format!("GRANT ALL ON {}.* TO {account}", place.schema),
            &format!("GRANT RELOAD ON *.* TO {account}"),
            "CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
            "CREATE TABLE unkeyed (v INT AUTO_INCREMENT, w INT, KEY v (v), KEY w (w, v))",
            "CREATE TABLE zoned (id INT PRIMARY KEY, at TIMESTAMP NULL)",
        ]);
        if place.value("SELECT VERSION() LIKE '10.%'") == "1" {
            // To set a checkpoint takes SUPER there, and init_connect is not for such accounts.
            return;
        }
        let values: String = (0..5000).map(|value| format!("{}\n", value % 71)).collect();
        let numbers = place.file("numbers.csv", format!("v\n{values}"));
        let unkeyed = place.file("unkeyed.csv", format!("w\n{values}"));
        let zoned = place.file("zoned.csv", "id,at\n1,2021-01-01 00:00:00\n");
        let import = |file: &str, table: &str, more: &str| {
            place.import_as(&account, &[file, "--into", table, more, "--replace"])
        };
        for (file, table) in [(&numbers, "numbered"), (&unkeyed, "unkeyed"), (&zoned, "zoned")] {
            import(file, table, "--physical").exits(0).says(&["written directly"]);
        }
        place.sql(&["SET GLOBAL auto_increment_increment = 2"]);
        import(&numbers, "numbered", "--physical").exits(1).says(&["does not number rows one by one"]);
        place.sql(&["SET GLOBAL auto_increment_increment = 1"]);
        place.sql(&["SET GLOBAL init_connect = 'SET insert_id = 77'"]);
        let why = "1000 sampled rows";
        import(&numbers, "numbered", "--physical").exits(1).says(&[why]);
        let column = "the server reads values other than those in the file: `v` in 1000";
        import(&unkeyed, "unkeyed", "--physical").exits(1).says(&[why, column]);
        assert_eq!(place.value("SELECT COUNT(*), MIN(id) FROM numbered"), "5000|1", "it is the old one");
        import(&numbers, "numbered", "--physical=auto")
            .exits(0)
            .says(&["the rows are sent to the server", why]);
        place.sql(&["SET GLOBAL init_connect = 'SET time_zone = \"+05:00\"'"]);
        import(&zoned, "zoned", "--physical").exits(1).says(&["the times are not in UTC"]);
        import(&zoned, "zoned", "--physical=auto").exits(0);
        assert_eq!(place.value("SELECT UNIX_TIMESTAMP(at) FROM zoned"), "1609441200");
    });
}

/// What a server calls its zone is what it was called when the server started.
#[test]
fn a_zone_that_is_utc_for_a_part_of_the_year_is_not_utc() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("zone-test-{}", std::process::id());
    let data = folder.path().join("server");
    let mut start = remora(folder.path());
    start.args(["sandbox", "start", &name, "--server", "mariadb-10.11", "--folder"]).arg(&data);
    // Only January has other hours, so the server is likely to call it UTC.
    Ended::of(&start.env("TZ", "UTC0SUM,0,31").output().unwrap()).exits(0);
    let mut session = connect(&data.join("server.sock"));
    session.execute("CREATE DATABASE z").unwrap();
    session.execute("CREATE TABLE z.t (id INT PRIMARY KEY, at TIMESTAMP NULL)").unwrap();
    let file = folder.path().join("t.csv");
    std::fs::write(&file, "id,at\n1,2024-01-15 12:00:00\n").unwrap();
    let import = |more: &[&str]| {
        let mut import = remora(folder.path());
        import.args(["import", "t.csv", "--into", "z.t", "--replace", "--no-defaults", "-uroot", "-S"]);
        Ended::of(&import.arg(data.join("server.sock")).args(more).output().unwrap())
    };
    let refused = import(&["--physical"]);
    let utc = import(&["--physical", "--time-zone", "+00:00"]);
    let at = session.value("SELECT UNIX_TIMESTAMP(at) FROM z.t").unwrap();
    drop(session);
    let mut stop = remora(folder.path());
    Ended::of(&stop.args(["sandbox", "stop", &name, "--remove"]).output().unwrap()).exits(0);
    refused.exits(1).says(&["the times are not in UTC"]);
    utc.exits(0);
    assert_eq!(at.as_deref(), Some("1705320000"));
}

#[test]
fn written_values_follow_the_servers_sql_mode() {
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, d DATE)"]);
        let file = place.file("d.csv", "id,d\n1,0000-00-00\n2,2020-00-07\n");
        let import = [file.as_str(), "--into", "t", "--physical"];
        place.import(&import).exits(0);
        assert_eq!(place.value("SELECT GROUP_CONCAT(d ORDER BY id) FROM t"), "0000-00-00,2020-00-07");
        place.sql(&["DELETE FROM t"]);
        place.sql(&["SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE'"]);
        let ended = place.import(&import);
        place.sql(&["SET GLOBAL sql_mode = DEFAULT"]);
        ended.exits(1).says(&["d.csv:2: column d, value '0000-00-00'", "sql_mode"]);
        place.untouched("t", 0);
        // Defaults may be bytes and no text, and there may be none.
        place.sql(&[
            "CREATE TABLE given (id INT PRIMARY KEY, b VARBINARY(9) DEFAULT 'a\\0b', c CHAR(3) DEFAULT 'a''b', \
             n DECIMAL(5,2) DEFAULT -1.5, d DATE DEFAULT '2001-02-03', e ENUM('x','y') NOT NULL DEFAULT 'y')",
            "CREATE TABLE sent LIKE given",
            "CREATE TABLE raw (id INT PRIMARY KEY, b VARBINARY(9) DEFAULT x'ff0041')",
            "CREATE TABLE none (id INT PRIMARY KEY, n INT NOT NULL)",
            "CREATE TABLE now (id INT PRIMARY KEY, at DATETIME DEFAULT CURRENT_TIMESTAMP)",
        ]);
        let file = place.file("ids.csv", "id\n1\n2\n");
        for (table, more) in [("sent", None), ("given", Some("--physical"))] {
            let arguments: Vec<&str> = [file.as_str(), "--into", table].into_iter().chain(more).collect();
            place.import(&arguments).exits(0);
        }
        let all = |table: &str| place.value(&format!("SELECT id, HEX(b), c, n, d, e FROM {table}"));
        assert_eq!(all("given"), all("sent"));
        assert!(all("given").starts_with("1|610062|a'b|-1.50|2001-02-03|y"), "{}", all("given"));
        // Not every server says which bytes these are.
        place.import(&[&file, "--into", "raw", "--physical=auto"]).exits(0);
        assert_eq!(place.value("SELECT DISTINCT HEX(b) FROM raw"), "FF0041");
        for table in ["none", "now"] {
            let why = "is not in the files, and has no constant default";
            place.import(&[&file, "--into", table, "--physical"]).exits(1).says(&[why]);
        }
        // Numbers of which servers do not all make the same.
        place.sql(&["CREATE TABLE f (id INT PRIMARY KEY, f FLOAT, d DOUBLE)"]);
        let digits = "1.00000000000000000000000000001";
        let file = place.file("f.csv", format!("id,f,d\n1,-0.5,{digits}\n2,0,-1e-5\n3,0.000,-{digits}1\n"));
        let import = [file.as_str(), "--into", "f", "--physical", "--round"];
        place.import(&import).exits(1).says(&["f.csv:4: column d", "digits"]);
        let file = place.file("f.csv", format!("id,f,d\n1,-0.5,{digits}\n2,0,-1e-5\n3,0.000,2\n"));
        place.import(&[&file, "--into", "f", "--physical"]).exits(1).says(&["f.csv:2: ", "--round"]);
        place.import(&[&file, "--into", "f", "--physical", "--round"]).exits(0);
        for zero in ["-0", "-0.0", "-.0e5", " -0"] {
            let file = place.file("f.csv", format!("id,f,d\n1,{zero},1\n"));
            let import = [file.as_str(), "--into", "f", "--replace", "--physical"];
            place.import(&import).exits(1).says(&["a signed zero"]);
        }
        // A BINARY is filled up with zeros.
        place.sql(&["CREATE TABLE b (id INT PRIMARY KEY, code BINARY(4))"]);
        let file = place.file("b.csv", "id,code\n1,ab\n2,abcd\n");
        place.import(&[&file, "--into", "b", "--physical"]).exits(0);
        assert_eq!(place.value("SELECT GROUP_CONCAT(HEX(code) ORDER BY id) FROM b"), "61620000,61626364");
    });
}

#[test]
fn a_written_table_without_a_key_equals_one_that_the_server_filled() {
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE sent (v INT, w VARCHAR(20))", "CREATE TABLE made LIKE sent"]);
        let values: String = (0..3000).map(|value| format!("{},w{value}\n", value % 71)).collect();
        let file = place.file("rows.csv", format!("v,w\n{values}"));
        place.import(&[&file, "--into", "sent"]).exits(0);
        place.import(&[&file, "--into", "made", "--physical"]).exits(0).says(&["written directly"]);
        let all = |table: &str| place.rows(&format!("SELECT v, w FROM {table} ORDER BY w"));
        assert_eq!(place.count("made"), 3000);
        assert!(all("made") == all("sent"), "other rows");
        place
            .import(&[&file, "--into", "made", "--physical=auto", "--replace"])
            .exits(0)
            .says(&["written directly"]);
    });
}

/// A constraint or a key may have an error where an INSERT has one, and no value where a SELECT has none.
#[test]
fn rows_that_break_a_constraint_are_sent_to_the_server_to_be_named() {
    on_mariadb(|place| {
        place.sql(&[
            "CREATE TABLE ratio (id INT PRIMARY KEY, total INT, qty INT, CHECK (total / qty < 100))",
            "CREATE TABLE mail (id INT PRIMARY KEY, email VARCHAR(100) COLLATE utf8mb4_general_ci UNIQUE)",
        ]);
        let ratio = place.file("ratio.csv", "id,total,qty\n1,100,2\n2,5,0\n");
        let import = |more: &[&str]| place.import(&[&[ratio.as_str(), "--into", "ratio"], more].concat());
        import(&["--physical"]).exits(1).says(&["can't tell of all rows whether they keep the constraint"]);
        place.untouched("ratio", 0);
        import(&["--physical=auto"]).exits(1).says(&["the rows are sent to the server", "ratio.csv:3"]);
        place.untouched("ratio", 0);
        let good = place.file("good.csv", "id,total,qty\n1,100,2\n2,5,1\n3,,\n");
        place.import(&[&good, "--into", "ratio", "--physical"]).exits(0);
        place.sql(&[
            "CREATE TABLE twice (id INT PRIMARY KEY, a TINYINT, v TINYINT AS (a * 2) VIRTUAL, KEY (v))",
        ]);
        let twice = place.file("twice.csv", "id,a\n1,1\n2,100\n");
        let import = |more: &[&str]| place.import(&[&[twice.as_str(), "--into", "twice"], more].concat());
        import(&["--physical"]).exits(1).says(&["the server can't build its keys"]);
        import(&["--physical=auto"]).exits(1).says(&["the rows are sent to the server", "twice.csv:3"]);
        place.untouched("twice", 0);
        let mail = place.file("mail.csv", "id,email\n1,a@x\n2,A@x\n");
        let import = |more: &[&str]| place.import(&[&[mail.as_str(), "--into", "mail"], more].concat());
        import(&["--physical"]).exits(1).says(&["the server can't build its keys", "'a@x'"]);
        place.untouched("mail", 0);
        import(&["--physical=auto", "--max-rejects", "10"])
            .exits(3)
            .says(&["the rows are sent to the server"]);
        assert_eq!((place.count("mail"), place.read("mail.csv.rejects").lines().count()), (1, 2));
    });
}

/// The server writes a line to its log for each row that is not in its place.
#[test]
fn rows_in_any_order_of_a_collation_leave_no_error_in_the_servers_log() {
    on_one_mariadb(|place, server| {
        place.sql(&[
            "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
            "CREATE TABLE sent LIKE t",
            "CREATE TABLE long_texts (t MEDIUMTEXT, n INT)",
        ]);
        let letters = ["a", "B", "\u{e4}", "Z", "_", "0"];
        let row = |at: u32| format!("{}{},{at}\n", letters[at as usize % letters.len()], at * 1009 % 3001);
        let file = place.file("p.csv", (1..3000).map(row).collect::<String>());
        let began = std::fs::read(server.error_log()).unwrap().len();
        place.import(&[&file, "--into", "t", "--physical"]).exits(0).says(&["written directly"]);
        place.import(&[&file, "--into", "sent"]).exits(0);
        let all =
            |table: &str| place.value(&format!("SELECT COUNT(*), SUM(CRC32(CONCAT(k, v))) FROM {table}"));
        assert_eq!(all("t"), all("sent"));
        assert_eq!(place.rows("SELECT v FROM t ORDER BY k"), place.rows("SELECT v FROM sent ORDER BY k"));
        // A table without a key, whose long texts the server sorts in another order than that of its storage.
        for seed in 1..4_u32 {
            let text = |at: u32| "x".repeat((at * 7919 * seed % 30_000 + 3) as usize);
            let rows: String = (0..40).map(|at| format!("{},{at}\n", text(at))).collect();
            let file = place.file("long.csv", rows);
            place.import(&[&file, "--into", "long_texts", "--replace", "--physical"]).exits(0);
        }
        let log = String::from_utf8_lossy(&std::fs::read(server.error_log()).unwrap()[began..]).into_owned();
        assert!(!log.contains("[ERROR]"), "{log}");
    });
}
