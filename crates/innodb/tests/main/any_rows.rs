//! Random rows of random tables are read back out of the files that were made of them.

use innodb::table::Generated;
use innodb::write::{Record, RecordBuilder, Row};
use proptest::prelude::*;

use crate::written::{FULL, OLD, builders, check_lists, make, read, table};

/// Rows in the order of the clustered index, of equal ones the first.
fn sorted(builder: &RecordBuilder, rows: &[Row]) -> Vec<Row> {
    let mut record = Record::default();
    let mut keyed: Vec<(Vec<u8>, Row)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        builder.record(row, at as u64 + 1, &mut record).unwrap();
        keyed.push((record.key.clone(), row.clone()));
    }
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed.dedup_by(|a, b| a.0 == b.0);
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// Numbers by chance, always the same of one seed (SplitMix64).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// A type, and whether a key of it is in the order of bytes.
const TYPES: [(&str, bool); 18] = [
    ("int(11)", true),
    ("bigint(20) unsigned", true),
    ("tinyint(4)", true),
    ("decimal(9,2)", true),
    ("double", true),
    ("float", true),
    ("datetime(3)", true),
    ("date", true),
    ("enum('a','b','c')", true),
    ("char(5) CHARACTER SET latin1 COLLATE latin1_bin", true),
    ("char(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", true),
    ("varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", true),
    ("varchar(300) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", true),
    ("varbinary(20)", true),
    ("varbinary(3000)", false),
    ("longblob", false),
    ("text CHARACTER SET utf8mb4", false),
    ("uuid", true),
];

fn value(kind: &str, chance: &mut Chance, few: bool) -> Vec<u8> {
    let words = [
        "",
        "a",
        "a ",
        " ",
        "\u{e4}\u{1}b",
        "zebra zebra zebra",
        "a\u{0}",
        "\u{65e5}\u{672c}",
        "a        \u{1}",
        "a         b",
    ];
    let text = |chance: &mut Chance| {
        let word = words[chance.below(words.len())];
        if few { word.to_owned() } else { format!("{word}{}", chance.below(5000)) }
    };
    let mut fixed = |bytes: usize| -> Vec<u8> {
        let from = if few { bytes.saturating_sub(1) } else { 0 };
        (0..bytes).map(|at| if at < from { 0x80 } else { chance.next().to_be_bytes()[3] }).collect()
    };
    match kind.split(['(', ' ']).next().unwrap() {
        "int" => fixed(4),
        "bigint" => fixed(8),
        "tinyint" | "enum" => fixed(1),
        "decimal" | "datetime" => fixed(if kind.starts_with("dec") { 5 } else { 7 }),
        "date" => fixed(3),
        "uuid" => fixed(16),
        "double" => ((chance.below(999) as f64 - 500.0) / 8.0).to_le_bytes().to_vec(),
        "float" => ((chance.below(999) as f32 - 500.0) / 8.0).to_le_bytes().to_vec(),
        "char" if kind.contains("latin1") => {
            let mut text: Vec<u8> = text(chance).bytes().take(5).collect();
            text.resize(5, b' ');
            text
        }
        "char" => {
            let text: String = text(chance).chars().take(4).collect();
            format!("{text}{}", " ".repeat(4_usize.saturating_sub(text.len()))).into_bytes()
        }
        "varchar" => text(chance).chars().take(30).collect::<String>().into_bytes(),
        "varbinary" if kind.contains("20") => text(chance).bytes().take(20).collect(),
        "varbinary" => vec![b'v'; chance.below(3000)],
        "longblob" if chance.below(8) == 0 => vec![b'l'; chance.below(60_000)],
        "text" | "longblob" => text(chance).repeat(chance.below(40)).into_bytes(),
        other => unreachable!("{other}"),
    }
}

/// A table by chance: its statement, and the types of its columns with whether they can be NULL.
fn schema(chance: &mut Chance) -> (String, Vec<(&'static str, bool)>) {
    let columns: Vec<(&str, bool, bool)> = (0..1 + chance.below(9))
        .map(|_| {
            let (kind, ordered) = TYPES[chance.below(TYPES.len())];
            (kind, ordered, chance.below(2) == 0)
        })
        .collect();
    let mut lines: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(at, (kind, _, nullable))| format!("c{at} {kind}{}", if *nullable { "" } else { " NOT NULL" }))
        .collect();
    let mut key = |head: &str, nullable: bool, lines: &mut Vec<String>| {
        let mut parts = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            if (column.2 && !nullable) || !column.1 || chance.below(2) == 0 || parts.len() == 3 {
                continue;
            }
            let long = column.0.starts_with("varchar");
            let prefix = if long && chance.below(2) == 0 { "(3)" } else { "" };
            let order = if chance.below(4) == 0 { " DESC" } else { "" };
            parts.push(format!("c{at}{prefix}{order}"));
        }
        if !parts.is_empty() {
            lines.push(format!("{head} ({})", parts.join(",")));
        }
    };
    key("PRIMARY KEY", false, &mut lines);
    for number in 0..3 {
        key(&format!("KEY k{number}"), true, &mut lines);
    }
    let format = ["", " ROW_FORMAT=COMPACT"][chance.below(2)];
    let statement =
        format!("CREATE TABLE t ({}) ENGINE=InnoDB DEFAULT CHARSET=latin1{format}", lines.join(","));
    (statement, columns.iter().map(|column| (column.0, column.2)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    #[test]
    fn any_rows_are_read_back(seed: u64, count in 0_usize..900, piece in 1_usize..2000, old: bool, few: bool) {
        let mut chance = Chance(seed);
        let (statement, columns) = schema(&mut chance);
        let mut rows = vec![Row::default(); count];
        for row in &mut rows {
            for (kind, nullable) in &columns {
                let null = *nullable && chance.below(5) == 0;
                let value = value(kind, &mut chance, few);
                row.push((!null).then_some(value.as_slice()));
            }
        }
        let table = table(&statement);
        let rows = sorted(&builders(&table)[0], &rows);
        let flags = if old { OLD } else { FULL };
        // Rows without a key are in the order in which they came.
        let made = make(&statement, flags, &rows, piece);
        let made = made.unwrap_or_else(|error| panic!("{statement}: {error}"));
        prop_assert_eq!(made.verify(), Ok(()), "{}", statement);
        prop_assert!(read(&made) == rows, "{}", statement);
        prop_assert!(table.columns().iter().all(|column| column.generated == Generated::No));
        check_lists(&made.file);
    }
}
