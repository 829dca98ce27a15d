//! What the texts of a file mean: NULL, numbers, dates, times, and the types made of them.

use crate::support::{self, Place, on_every_server};

#[test]
fn null_is_recognised_as_the_options_say() {
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
            "q.csv:11002: column price, value '1.5': not a number with a decimal comma",
            "q.csv:11003: column born",
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
fn a_time_in_utc_is_stored_exactly_in_any_server_time_zone() {
    for product in support::of_today(support::products()) {
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
    for product in support::of_today(support::mariadbs()) {
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

/// What a column holds, for comparing a stored value with its text.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Number,
    Real,
    Time,
    Text,
}

/// Sign, digits without zeros at their ends, and where the point is: an independent reading of a number.
fn number(text: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole.trim_start_matches(['-', '+']), part].concat();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let kept = digits.trim_start_matches('0');
    let point = exponent.parse::<i64>().ok()?
        + i64::try_from(whole.trim_start_matches(['-', '+']).len()).ok()?
        - i64::try_from(digits.len() - kept.len()).ok()?;
    let kept = kept.trim_end_matches('0');
    let zero = kept.is_empty();
    is_number.then(|| (text.starts_with('-') && !zero, kept.to_owned(), if zero { 0 } else { point }))
}

/// Whether a stored value is the one in the file.
fn is_same(holds: Holds, text: &str, stored: &str) -> bool {
    let text = text.trim();
    match holds {
        Holds::Number => number(text) == number(stored),
        Holds::Real => {
            let Some(wanted) = number(text) else { return false };
            let stored = format!("{:.*e}", wanted.1.len().max(1) - 1, stored.parse::<f64>().unwrap());
            number(&stored) == Some(wanted)
        }
        Holds::Time => {
            let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
            let all = [text, stored]
                .map(|text| (text.starts_with('-'), digits(text).trim_end_matches('0').to_owned()));
            all[0] == all[1]
        }
        Holds::Text => text == stored.trim(),
    }
}

const TYPES: [(&str, Holds); 27] = [
    ("TINYINT", Holds::Number),
    ("SMALLINT UNSIGNED", Holds::Number),
    ("MEDIUMINT", Holds::Number),
    ("INT", Holds::Number),
    ("INT UNSIGNED ZEROFILL", Holds::Number),
    ("BIGINT", Holds::Number),
    ("BIGINT UNSIGNED", Holds::Number),
    ("BOOLEAN", Holds::Number),
    ("DECIMAL(20,2)", Holds::Number),
    ("BIT(20)", Holds::Number),
    ("FLOAT", Holds::Real),
    ("DOUBLE", Holds::Real),
    ("FLOAT(9,2)", Holds::Real),
    ("DOUBLE(9,1)", Holds::Real),
    ("YEAR", Holds::Time),
    ("DATE", Holds::Time),
    ("TIME", Holds::Time),
    ("TIME(3)", Holds::Time),
    ("DATETIME", Holds::Time),
    ("DATETIME(3)", Holds::Time),
    ("TIMESTAMP", Holds::Time),
    ("TIMESTAMP(3)", Holds::Time),
    ("ENUM('a','b','7')", Holds::Text),
    ("SET('a','b','7')", Holds::Text),
    ("CHAR(30)", Holds::Text),
    ("VARCHAR(30)", Holds::Text),
    ("TEXT", Holds::Text),
];

const TEXTS: [&str; 53] = [
    "0",
    "1",
    "2",
    "5",
    "7",
    "-1",
    "+5",
    " 5 ",
    "5.0",
    "5.4",
    "0.4",
    "-0.5",
    "1e2",
    "15e-1",
    "1e-1",
    "007",
    "70",
    "99",
    "1970",
    "1234",
    "123456",
    "101112.5",
    "16777217",
    "9007199254740993",
    "9007199254740993.1",
    "0.1",
    "0.10000000000000001",
    "3.1415927",
    "3.14159265358979",
    "1.005",
    "1.255",
    "12345678.91",
    "12:34",
    "12:34:56",
    "12:34:56.5",
    "12:34:56.1234567",
    "-12:34:56",
    "2024-01-31",
    "24-1-31",
    "70-01-01",
    "20240131",
    "240131",
    "20240131101112",
    "2024-01-31 10:11:12",
    "2024-01-31T10:11:12",
    "2024-01-31 10:11:12.5",
    "2024-01-31 10:11:12.500",
    "2024-01-31 10:11:12.1239",
    "2024-01-31 10:11",
    "a",
    "b",
    "a,b",
    "x",
];

/// Servers silently round, cut and complete some values. Every type meets every kind of text.
#[test]
fn stored_values_equal_the_file_or_the_row_is_rejected() {
    support::on_one_mariadb(|place, _| {
        let columns: Vec<String> =
            TYPES.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind} NULL")).collect();
        place.sql(&[&format!("CREATE TABLE t (id INT PRIMARY KEY, {})", columns.join(", "))]);
        let names: Vec<String> = (0..TYPES.len()).map(|at| format!("c{at}")).collect();
        let mut rows = format!("id;{}\n", names.join(";"));
        for column in 0..TYPES.len() {
            for (at, text) in TEXTS.iter().enumerate() {
                let (before, behind) = (";".repeat(column + 1), ";".repeat(TYPES.len() - 1 - column));
                rows += &format!("{}{before}{text}{behind}\n", column * 100 + at);
            }
        }
        let file = place.file("p.csv", rows);
        place.import(&[&file, "--into", "t", "--max-rejects", "5000", "--time-zone", "+00:00"]).exits(3);
        let rejects = place.read("p.csv.rejects.why").lines().count() as u64;
        assert_eq!(place.count("t") + rejects, (TYPES.len() * TEXTS.len()) as u64);
        let (mut wrong, mut kept) = (Vec::new(), Vec::new());
        for (column, (kind, holds)) in TYPES.iter().enumerate() {
            let value = match (*holds, *kind) {
                (Holds::Real, _) => format!("c{column} + 0e0"),
                (_, "BIT(20)") => format!("c{column} + 0"),
                _ => format!("CAST(c{column} AS CHAR)"),
            };
            for row in place.rows(&format!("SELECT id % 100, {value} FROM t WHERE c{column} IS NOT NULL")) {
                let (at, stored) = row.split_once('|').unwrap();
                let text = TEXTS[at.parse::<usize>().unwrap()];
                kept.push((*kind, text));
                if !is_same(*holds, text, stored) {
                    wrong.push(format!("{kind}: {text:?} is {stored:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        for good in [
            ("INT", "5.0"),
            ("INT", "1e2"),
            ("INT", "+5"),
            ("BIGINT", "9007199254740993"),
            ("FLOAT", "0.1"),
            ("FLOAT", "3.1415927"),
            ("DOUBLE", "0.10000000000000001"),
            ("YEAR", "1970"),
            ("DATE", "20240131"),
            ("TIME", "12:34"),
            ("DATETIME", "2024-01-31"),
            ("DATETIME", "2024-01-31T10:11:12"),
            ("DATETIME(3)", "2024-01-31 10:11:12.5"),
            ("ENUM('a','b','7')", "7"),
            ("SET('a','b','7')", "a,b"),
        ] {
            assert!(kept.contains(&good), "{good:?} was refused");
        }
        // Without room for bad rows the first is named; and the server may round, if one wants that.
        place.sql(&["CREATE TABLE u (n INT, at DATETIME, e ENUM('a','b'))"]);
        let file = place.file("q.csv", "n,at,e\n1,2024-01-31 10:11:12,a\n5.4,2024-01-31 10:11:12.5,2\n");
        let told = ["q.csv:3: ", "column n, value '5.4': an integer column can't store", "--round"];
        place.import(&[&file, "--into", "u"]).exits(1).says(&told);
        place.untouched("u", 0);
        place.import(&[&file, "--into", "u", "--round"]).exits(0);
        assert_eq!(
            place.rows("SELECT * FROM u ORDER BY n"),
            ["1|2024-01-31 10:11:12|a", "5|2024-01-31 10:11:12|b"]
        );
    });
}

/// Text becomes a value of these types by a function, which has another name in each family.
#[test]
fn vectors_and_points_are_given_as_text() {
    on_every_server(|place| {
        let has_vectors = place.session().execute("CREATE TABLE v (id INT PRIMARY KEY, v VECTOR(3))").is_ok();
        let file = place.file("v.csv", "id,v\n1,\"[1,2.5,-3]\"\n2,\\N\n");
        if has_vectors {
            place.import(&[&file, "--into", "v"]).exits(0);
            let wanted = ["1|0000803F00002040000040C0", "2|NULL"];
            assert_eq!(place.rows("SELECT id, HEX(v) FROM v ORDER BY id"), wanted);
            let create = [&file, "--into", "new", "--create", "--type", "v=VECTOR(3)"];
            place.import(&create).exits(0);
            assert_eq!(place.rows("SELECT id, HEX(v) FROM new ORDER BY id"), wanted);
            let long = place.file("long.csv", "id,v\n3,\"[1,2,3,4]\"\n");
            assert_ne!(place.import(&[&long, "--into", "v", "--append"]).code, 0);
            assert_eq!(place.count("v"), 2);
        }
        let file = place.file("g.csv", "id;g\n1;POINT(48.1 11.5)\n");
        let has_systems = place
            .session()
            .execute("CREATE TABLE g (id INT PRIMARY KEY, g POINT NOT NULL SRID 4326)")
            .is_ok();
        if !has_systems {
            place.sql(&["CREATE TABLE g (id INT PRIMARY KEY, g POINT NOT NULL)"]);
        }
        place.import(&[&file, "--into", "g"]).exits(0);
        let text = if has_systems { "ST_AsText(g), ST_SRID(g)" } else { "AsText(g), 4326" };
        assert_eq!(place.rows(&format!("SELECT {text} FROM g")), ["POINT(48.1 11.5)|4326"]);
    });
}
