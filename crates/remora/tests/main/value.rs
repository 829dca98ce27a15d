//! What the texts of a file mean: NULL, numbers, dates, times, and the types made of them.

use crate::support::{self, Place, on_every_server};

#[test]
fn null_is_what_one_says_it_is() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(10))"]);
        let file = place.file("p.csv", "id,n,v\n1,NA,NA\n2,3,\"NA\"\n3,,\n4,5,\"\"\n");
        let import = [file.as_str(), "--into", "t", "--replace"];
        place.import(&[import.as_slice(), &["--null", "NA", "--null", ""]].concat()).exits(0);
        assert_eq!(
            place.rows("SELECT * FROM t ORDER BY id"),
            ["1|NULL|NULL", "2|3|NA", "3|NULL|NULL", "4|5|"]
        );
        let file = place.file("q.csv", "id,n,v\n1,5,NULL\n2,6,\n3,7,\\N\n");
        place.import(&[&file, "--into", "t", "--replace", "--no-null", "--escape", "none"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|5|NULL", "2|6|", "3|7|\\N"]);
        assert_eq!(place.value("SELECT COUNT(v) FROM t"), "3");
        let file = place.file("q.csv", "id,n,v\n1,5,a\n2,,b\n");
        place.import(&[&file, "--into", "t", "--replace", "--no-null"]).exits(1).says(&["q.csv:3: column n"]);
    });
}

#[test]
fn times_in_utc_and_words_for_truth_are_understood() {
    on_every_server(|place| {
        let file = place.file("p.csv", "at,ok\n2024-01-02T03:04:05Z,true\n2024-01-02T03:04:06.5Z,FALSE\n");
        place.import(&[&file, "--into", "t", "--create", "--no-key"]).exits(0);
        assert_eq!(
            place.rows("SELECT * FROM t ORDER BY at"),
            ["2024-01-02 03:04:05.0|1", "2024-01-02 03:04:06.5|0"]
        );
        place.sql(&["CREATE TABLE u (at DATETIME(1), ok TINYINT)"]);
        place.import(&[&file, "--into", "u"]).exits(0).says(&["UTC", "true and false"]);
        assert_eq!(
            place.rows("SELECT * FROM u ORDER BY at"),
            ["2024-01-02 03:04:05.0|1", "2024-01-02 03:04:06.5|0"]
        );
    });
}

#[test]
fn types_are_roomy_tight_or_given() {
    on_every_server(|place| {
        let file = place.file("p.csv", "id,n,price,name\n1,5,1.25,ann\n2,6,2.5,bob\n");
        let types = || {
            place.value(&format!(
                "SELECT GROUP_CONCAT(CONCAT(REPLACE(REPLACE(column_type, '(11)', ''), '(3) unsigned', ' unsigned'), \
                 IF(is_nullable = 'YES', ' null', '')) ORDER BY ordinal_position SEPARATOR '; ') \
                 FROM information_schema.columns WHERE table_schema = '{}' AND table_name = 't'",
                place.schema
            ))
        };
        let import = [file.as_str(), "--into", "t", "--create", "--replace"];
        place.import(&import).exits(0);
        assert_eq!(types(), "int; int null; decimal(7,2) null; varchar(16) null");
        place.import(&[import.as_slice(), &["--tight"]].concat()).exits(0);
        assert_eq!(types(), "tinyint unsigned; tinyint unsigned; decimal(3,2); varchar(3)");
        let given =
            ["--type", "price=DECIMAL(12,4) NOT NULL", "--type", "name=CHAR(9)", "--type", "n=bit(4)"];
        place.import(&[import.as_slice(), &given].concat()).exits(0);
        assert_eq!(types(), "int; bit(4) null; decimal(12,4); char(9) null");
        assert_eq!(
            place.rows("SELECT id, n + 0, price, name FROM t ORDER BY id"),
            ["1|5|1.2500|ann", "2|6|2.5000|bob"]
        );
        place
            .import(&[import.as_slice(), &["--type", "name=INT"]].concat())
            .exits(1)
            .says(&["p.csv:2: column name"]);
        place.import(&[import.as_slice(), &["--type", "nope=INT"]].concat()).exits(1).says(&["nope"]);
        place.import(&[import.as_slice(), &["--type", "name"]].concat()).exits(2).says(&["column=type"]);
        place.import(&[&file, "--into", "t", "--append", "--tight"]).exits(2);
    });
}

#[test]
fn numbers_and_dates_as_people_write_them() {
    on_every_server(|place| {
        let file = place.file(
            "p.csv",
            "id;price;born;sold\n1;1.234,50;31.12.1999;12/31/1999 8:05\n2;2,5;1.2.2000;1/2/2000 10:00\n",
        );
        let expected = ["1|1234.50|1999-12-31|1999-12-31 08:05:00", "2|2.50|2000-02-01|2000-01-02 10:00:00"];
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(9,2), born DATE, sold DATETIME)"]);
        for (table, create) in [("t", &[][..]), ("u", &["--create"])] {
            place.import(&[&[file.as_str(), "--into", table], create].concat()).exits(0).says(&[
                "price: numbers have a decimal comma",
                "born: dates are day, month, year",
                "sold: dates are month",
            ]);
            assert_eq!(place.rows(&format!("SELECT * FROM {table} ORDER BY id")), expected);
        }
        // A value that contradicts the others is a bad row, and an ambiguous one stays text.
        let late = format!(
            "id;price;born\n{}9;1.5;1.2.2000\n10;1,5;12/31/1999\n",
            "1;2,5;31.12.1999\n".repeat(11_000)
        );
        let late = place.file("q.csv", late);
        place.sql(&["CREATE TABLE w (id INT, price DOUBLE, born DATE)"]);
        place.import(&[&late, "--into", "w", "--max-rejects", "2"]).exits(3).says(&[
            "q.csv:11002: field 2, value '1.5': not a number with a decimal comma",
            "q.csv:11003: field 3",
        ]);
        let open = place.file("r.csv", "id;n;d\n1;1,234;1/2/1999\n2;2,345;3/4/1999\n");
        let columns = "SELECT GROUP_CONCAT(data_type ORDER BY ordinal_position) FROM information_schema.columns \
                       WHERE table_schema = DATABASE() AND table_name = 'x'";
        let import = [open.as_str(), "--into", "x", "--create", "--replace"];
        place.import(&import).exits(0).says(&["d: these may be dates", "--date-order"]);
        assert_eq!(place.value(columns), "int,varchar,varchar");
        place.import(&[import.as_slice(), &["--date-order", "mdy", "--decimal-comma"]].concat()).exits(0);
        assert_eq!(place.value(columns), "int,decimal,date");
        assert_eq!(place.rows("SELECT * FROM x ORDER BY id"), ["1|1.234|1999-01-02", "2|2.345|1999-03-04"]);
    });
}

#[test]
fn a_moment_stays_the_moment_whatever_the_servers_zone() {
    for product in support::products() {
        support::tell(product);
        let server = support::start(product, &["--default-time-zone=+05:00"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, told DATETIME)"]);
        let file = place.file(
            "p.csv",
            "id,at,told\n1,2024-01-01T00:30:00+01:00,2024-01-01T00:30:00+01:00\n2,2024-01-01T12:00:00Z,\n",
        );
        place.import(&[&file, "--into", "t"]).exits(0).says(&["stored as UTC", "time zone is UTC"]);
        let moments = "SELECT id, UNIX_TIMESTAMP(at), told FROM t ORDER BY id";
        assert_eq!(place.rows(moments), ["1|1704065400|2023-12-31 23:30:00", "2|1704110400|NULL"]);
        place
            .import(&[&file, "--into", "t", "--replace", "--time-zone", "+02:00"])
            .exits(1)
            .says(&["--time-zone"]);
        place.import(&[&file, "--into", "t", "--replace", "--time-zone", "+00:00"]).exits(0);
        assert_eq!(place.rows(moments).len(), 2);
        place.import(&[&file, "--into", "u", "--create"]).exits(0);
        assert_eq!(
            place.rows("SELECT at FROM u ORDER BY id"),
            ["2023-12-31 23:30:00", "2024-01-01 12:00:00"]
        );
        place.sql(&["ALTER TABLE t MODIFY told TIMESTAMP NULL"]);
        let mixed = place.file("q.csv", "id,at,told\n1,2024-01-01T00:30:00Z,2024-01-01 00:30:00\n");
        place.import(&[&mixed, "--into", "t", "--replace"]).exits(1).says(&["told", "--time-zone +00:00"]);
    }
}

#[test]
fn a_server_for_which_an_empty_string_is_null_keeps_them_apart() {
    for product in support::products().into_iter().filter(|product| product.id() != "mysql-5.6") {
        support::tell(product);
        for local_infile in ["--local-infile=1", "--local-infile=0"] {
            let server = support::start(product, &["--sql-mode=EMPTY_STRING_IS_NULL", local_infile]);
            let place = Place::new(&server);
            place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"]);
            let file = place.file("p.csv", "id,v\n1,\"\"\n2,\n3,x\n");
            place.import(&[&file, "--into", "t"]).exits(0);
            assert_eq!(place.rows("SELECT id, v IS NULL FROM t ORDER BY id"), ["1|0", "2|1", "3|0"]);
        }
    }
}
