//! The data to dump and load: a long narrow table, the database of an application, and a wide table with
//! mixed columns.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::Bench;
use crate::bench::import::{TABLE, done, write_nodes};
use crate::root;

/// A set of data, always in the database `bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// The node table of a wiki: narrow rows.
    Nodes,
    /// The rental case of the tests, with its large tables multiplied.
    Rental,
    /// Twenty columns of all types.
    Mixed,
}

impl Data {
    pub(super) const ALL: [Data; 3] = [Data::Nodes, Data::Rental, Data::Mixed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Data::Nodes => "nodes",
            Data::Rental => "rental",
            Data::Mixed => "mixed",
        }
    }

    /// Rows of its largest table in the full benchmark.
    pub(super) fn rows(self) -> u64 {
        match self {
            Data::Nodes => 5_400_000,
            Data::Rental => 2_000_000,
            Data::Mixed => 1_000_000,
        }
    }

    /// Its largest table.
    pub(super) fn table(self) -> &'static str {
        match self {
            Data::Nodes => "nodes",
            Data::Rental => "payment",
            Data::Mixed => "mixed",
        }
    }

    /// The definition of a table that one LOAD DATA can fill; `None` for a whole database.
    pub(super) fn definition(self) -> Option<String> {
        match self {
            Data::Nodes => Some(format!("{TABLE} ENGINE=InnoDB")),
            Data::Rental => None,
            Data::Mixed => Some(MIXED.to_owned()),
        }
    }

    /// Fills the empty database.
    pub(super) fn make(self, bench: &Bench, rows: u64) -> Result<()> {
        let definition = self.definition();
        match self {
            Data::Nodes => {
                write_nodes(&bench.folder, rows)?;
                bench.query(&definition.unwrap_or_default())?;
                bench.query(&bench.load_data(self))?;
            }
            Data::Mixed => {
                bench.query(&definition.unwrap_or_default())?;
                numbers(bench)?;
                // No more combinations than necessary; the surplus in the last thousand is cut off.
                let (millions, thousands) = (rows.div_ceil(1_000_000), rows.div_ceil(1000));
                bench.query(&format!(
                    "INSERT INTO bench.mixed {MIXED_ROWS} WHERE c.n < {millions} AND b.n < {thousands} HAVING id <= {rows}"
                ))?;
                bench.query("DROP TABLE bench.numbers")?;
                let file = bench.text(self);
                bench.query(&format!(
                    "SELECT * INTO OUTFILE '{}' CHARACTER SET binary FROM bench.mixed",
                    file.display()
                ))?;
            }
            Data::Rental => {
                rental(bench)?;
                let times = (rows / 10_000).max(1);
                for (table, columns, values) in RENTAL {
                    // Tables of 10,000 rows; all but one consist of copies.
                    bench.query(&format!(
                        "SET unique_checks = 0; INSERT INTO bench.{table} ({columns}) SELECT {values} \
                         FROM bench.{table} t, bench.numbers k WHERE k.n BETWEEN 1 AND {}",
                        times - 1
                    ))?;
                }
            }
        }
        let tables = bench.query(
            "SELECT GROUP_CONCAT('bench.', TABLE_NAME) FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = 'bench' AND TABLE_TYPE = 'BASE TABLE'",
        )?;
        bench.query(&format!("ANALYZE TABLE {}", tables.trim())).map(drop)
    }
}

/// The tables of the rental case that grow, their columns, and the values of a copy.
const RENTAL: [(&str, &str, &str); 2] = [
    ("rental", "day, inventory, customer, back", "day + INTERVAL k.n * 400 DAY, inventory, customer, back"),
    ("payment", "rental, amount, at, note", "rental, amount, at + INTERVAL k.n MINUTE, note"),
];

/// Runs the statements of the tests' case.
fn rental(bench: &Bench) -> Result<()> {
    let case = root().join("crates/remora/tests/dump/rental/schema.sql");
    let file = std::fs::File::open(&case).with_context(|| case.display().to_string())?;
    let mut client = Command::new(sandbox::client().context("there is no SQL client")?);
    client.args(["--no-defaults", "--user=root", "--default-character-set=utf8"]);
    client.arg(format!("--socket={}", bench.server.socket().display()));
    done(client.arg("bench").stdin(file).stdout(Stdio::null()))?;
    // It would give every copy the same day.
    bench.query("DROP TRIGGER bench.rental_day").map(drop)
}

fn numbers(bench: &Bench) -> Result<()> {
    let digits: Vec<_> = (1..10).map(|digit| format!("UNION ALL SELECT {digit}")).collect();
    let digits = format!("(SELECT 0 n {})", digits.join(" "));
    bench
        .query(&format!(
            "CREATE TABLE bench.numbers (n INT PRIMARY KEY); \
             INSERT INTO bench.numbers SELECT a.n + b.n * 10 + c.n * 100 FROM {digits} a, {digits} b, {digits} c"
        ))
        .map(drop)
}

const MIXED: &str = "CREATE TABLE bench.mixed (
    id INT UNSIGNED NOT NULL PRIMARY KEY, big BIGINT, tiny TINYINT NOT NULL, money DECIMAL(12,2), ratio DOUBLE, short FLOAT,
    code CHAR(8) NOT NULL, name VARCHAR(60), mail VARCHAR(80), city VARCHAR(40) NOT NULL, body TEXT, hash BINARY(16),
    day DATE, at DATETIME(3), changed TIMESTAMP NOT NULL DEFAULT '2020-01-01', hour TIME, state ENUM('new','paid','sent','gone'),
    tags SET('a','b','c','d'), flag BIT(1), note VARCHAR(20), KEY city (city), KEY at (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8";

const MIXED_ROWS: &str = "SELECT a.n + b.n * 1000 + c.n * 1000000 + 1 AS id, a.n * 7919 * b.n * 104729, a.n % 100, b.n * a.n / 7, SQRT(a.n + b.n),
    b.n / 13, LPAD(a.n * 37 % 1000, 8, 'x'), CONCAT('Name ', MD5(a.n)), IF(a.n % 10, CONCAT(MD5(b.n), '@example.com'), NULL),
    CONCAT('City ', a.n % 500), REPEAT(CONCAT(MD5(a.n + b.n), '\\t\"words\"\\n'), a.n % 6), UNHEX(MD5(a.n * 1000 + b.n)),
    '2000-01-01' + INTERVAL a.n * b.n % 9000 DAY, '2010-01-01 00:00:00' + INTERVAL a.n * b.n SECOND, '2020-01-01 00:00:00' + INTERVAL a.n MINUTE,
    SEC_TO_TIME(a.n * 60), 1 + a.n % 4, a.n % 16, a.n % 2, IF(b.n % 3, NULL, '')
    FROM bench.numbers a, bench.numbers b, bench.numbers c";
