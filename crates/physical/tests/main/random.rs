//! Tables of random columns, keys and rows. `REMORA_TEST_TABLES` says how many, `REMORA_TEST_SEED` where they
//! begin.

use physical::Error;
use server::Session;

use crate::support::{Copy, connect, definition, execute, of_today, rows, start};
use crate::write::same;

/// The number of tables for each server, if nobody says another.
const TABLES: u64 = 8;

/// A row of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// A type, and an expression for its values: `#` is a number that differs from row to row, `$` a text of 32
/// letters. A length stands for keys of a part of the value.
struct Column {
    kind: String,
    value: String,
    part: Option<u64>,
    may_be_key: bool,
}

fn column(random: &mut Random) -> Column {
    let fraction = random.below(7);
    let fraction = if fraction == 0 { String::new() } else { format!("({fraction})") };
    let length = *random.one(&[1, 7, 40, 63, 64, 120, 255, 256, 300]);
    let sign = *random.one(&["", " UNSIGNED"]);
    let shift = if sign.is_empty() { "2147483648" } else { "0" };
    let charset = *random.one(&[
        "utf8mb4 COLLATE utf8mb4_bin",
        "utf8mb4 COLLATE utf8mb4_general_ci",
        "utf8mb4 COLLATE utf8mb4_nopad_bin",
        "latin1",
        "latin1 COLLATE latin1_bin",
        "ascii COLLATE ascii_bin",
        "binary",
        "utf16",
    ]);
    let letters = if charset.starts_with("utf") {
        "CONCAT(ELT(1 + # % 4, '', '\u{e9}', '\u{20ac}\u{20ac}', 'z  '), $)"
    } else {
        "CONCAT(ELT(1 + # % 3, '', ' ', 'z  '), $)"
    };
    let text = format!("LEFT(REPEAT({letters}, 12), # % {})", length + 1);
    let plain = |kind: String, value: String| Column { kind, value, part: None, may_be_key: true };
    match random.below(18) {
        0 => plain(format!("TINYINT{sign}"), "# % 100".to_owned()),
        1 => plain(format!("SMALLINT{sign}"), "# % 30000".to_owned()),
        2 => plain(format!("MEDIUMINT{sign}"), "# % 8000000".to_owned()),
        3 => plain(format!("INT{sign}"), format!("CAST(# AS SIGNED) - {shift}")),
        4 => plain(format!("BIGINT{sign}"), format!("(CAST(# AS SIGNED) - {shift}) * 1000003")),
        5 => plain("DECIMAL(17,5)".to_owned(), "(CAST(# AS SIGNED) - 2147483648) / 977".to_owned()),
        6 => plain("DOUBLE".to_owned(), "(CAST(# AS SIGNED) - 2147483648) / 7e3".to_owned()),
        7 => plain("FLOAT".to_owned(), "(CAST(# AS SIGNED) - 2147483648) / 7e3".to_owned()),
        8 => plain("DATE".to_owned(), "DATE('1990-01-01') + INTERVAL # % 20000 DAY".to_owned()),
        9 => plain(
            format!("DATETIME{fraction}"),
            "TIMESTAMP('1990-01-01') + INTERVAL # MICROSECOND + INTERVAL # % 20000 DAY".to_owned(),
        ),
        10 => plain(
            format!("TIME{fraction}"),
            "SEC_TO_TIME((CAST(# AS SIGNED) - 2147483648) / 1000.0)".to_owned(),
        ),
        11 => plain(
            format!("TIMESTAMP{fraction}"),
            "FROM_UNIXTIME(1 + # % 2000000000 + # / 4294967296)".to_owned(),
        ),
        12 => plain("ENUM('a','b','c\u{e9}')".to_owned(), "1 + # % 3".to_owned()),
        13 => plain("SET('x','y','z','w','v','u','t','s','r')".to_owned(), "# % 512".to_owned()),
        14 => plain(format!("BIT({})", 1 + length % 64), "# % 2".to_owned()),
        15 => {
            let (kind, value) = *random.one(&[
                ("INET6", "CONCAT('::', HEX(# % 65536))"),
                ("UUID", "INSERT(INSERT($, 13, 1, ELT(1 + # % 2, '1', '4')), 17, 1, 'a')"),
            ]);
            plain(kind.to_owned(), value.to_owned())
        }
        16 => Column {
            kind: format!(
                "{}({length}) CHARACTER SET {charset}",
                random.one(&["VARCHAR", "VARCHAR", "CHAR"])
            ),
            value: text,
            part: Some(1 + length / 2),
            may_be_key: length <= 120,
        },
        _ => Column {
            kind: format!("{} CHARACTER SET {charset}", random.one(&["TEXT", "MEDIUMTEXT", "LONGTEXT"])),
            value: format!("IF(# % 20, {text}, REPEAT({letters}, # % 900))"),
            part: Some(12),
            may_be_key: false,
        },
    }
}

/// Makes a random table `t` and fills it by INSERT; returns whether the server takes such a table.
fn make(session: &mut Session, random: &mut Random) -> bool {
    let count = 1 + random.below(9);
    let columns: Vec<Column> = (0..count).map(|_| column(random)).collect();
    let mut lines = vec!["id INT UNSIGNED NOT NULL".to_owned()];
    let mut values = vec!["seq".to_owned()];
    let mut keys = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let is_null = random.below(3) > 0;
        lines.push(format!("c{at} {} {}", column.kind, if is_null { "NULL" } else { "NOT NULL" }));
        let mut value = String::new();
        for letter in column.value.chars() {
            let salt = random.below(1 << 20);
            match letter {
                '#' => value += &format!("CRC32(CONCAT(seq, 'n{salt}'))"),
                '$' => value += &format!("MD5(CONCAT(seq, 't{salt}'))"),
                other => value.push(other),
            }
        }
        values.push(if is_null { format!("IF(CRC32(seq + {at}) % 4, {value}, NULL)") } else { value });
        if !is_null && column.may_be_key && random.below(3) == 0 {
            keys.push(format!("c{at}"));
        }
    }
    // A primary key that begins with other columns, the number alone, or none at all.
    match random.below(5) {
        0 => {}
        1 | 2 if !keys.is_empty() => lines.push(format!("PRIMARY KEY ({}, id)", keys.join(", "))),
        _ => lines.push("PRIMARY KEY (id)".to_owned()),
    }
    for key in 0..random.below(4) {
        let mut parts: Vec<String> = Vec::new();
        for _ in 0..=random.below(2) {
            let at = usize::try_from(random.below(count)).unwrap();
            let direction = *random.one(&["", "", " DESC"]);
            let part = match columns[at].part {
                Some(length) if !columns[at].may_be_key || random.below(2) == 0 => format!("c{at}({length})"),
                _ => format!("c{at}"),
            };
            if parts.iter().all(|other| !other.starts_with(&format!("c{at}"))) {
                parts.push(part + direction);
            }
        }
        let kind = if random.below(3) == 0 {
            parts.push("id".to_owned());
            "UNIQUE KEY"
        } else {
            "KEY"
        };
        lines.push(format!("{kind} k{key} ({})", parts.join(", ")));
    }
    let format = random.one(&["", " ROW_FORMAT=DYNAMIC", " ROW_FORMAT=COMPACT"]);
    execute(session, "DROP TABLE IF EXISTS t");
    let create = format!("CREATE TABLE t ({}) ENGINE=InnoDB{format}", lines.join(", "));
    let count = *random.one(&[0, 1, 3, 200, 1500, 4000]);
    let insert = format!("INSERT INTO t SELECT {} FROM seq_1_to_{count}", values.join(", "));
    // Lengths and keys may be too long, and a value may be one that its type has not.
    session.execute(&create).is_ok() && (count == 0 || session.execute(&insert).is_ok())
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn written_random_tables_equal_inserted_ones() {
    let (tables, first) = (number("REMORA_TEST_TABLES", TABLES), number("REMORA_TEST_SEED", 1));
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        let mut made = 0;
        for seed in first.. {
            if made == tables {
                break;
            }
            if !make(&mut session, &mut Random(seed)) {
                continue;
            }
            made += 1;
            eprintln!("== {product}, REMORA_TEST_SEED={seed}");
            let mut stored = rows(&mut session, &server, "t");
            let definition = definition(&mut session, "t");
            let copy = Copy { piece: 70, ..Copy::new("copy of t", &definition) };
            assert_eq!(copy.make(&mut session, &stored).unwrap().rows, stored.len() as u64);
            same(&mut session, "t", "copy of t");
            execute(&mut session, "DROP TABLE `copy of t`");
            // The same rows in another order, where that does not change what they are.
            stored.sort_by_key(innodb::write::Row::hash);
            let mixed = Copy { sorted: false, memory: 100_000, ..copy };
            match mixed.make(&mut session, &stored) {
                Ok(_) if definition.contains("PRIMARY KEY") => {
                    same(&mut session, "t", "copy of t");
                    execute(&mut session, "DROP TABLE `copy of t`");
                }
                Ok(_) => execute(&mut session, "DROP TABLE `copy of t`"),
                Err(Error::Refused(why)) => assert!(why.contains("collation"), "{why}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
