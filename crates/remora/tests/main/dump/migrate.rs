//! From MySQL 9.7 to MariaDB 11.8 and back: everything arrives or is named. The manual's page on this,
//! docs/manual/migrate.md, says the same.

use std::path::Path;

use sandbox::Product;

use super::copy::copy;
use super::{Pair, case, run_sql};
use crate::support::{places, skipped};

/// Cases that both servers take whole.
const BOTH: [&str; 7] = ["rental", "programs", "names", "indexes", "partitions", "events", "words"];

/// A move in one direction.
struct Move<'a> {
    from: Product,
    to: Product,
    file: &'a str,
    /// Objects that the target refuses, each in a round of its own until they are left out.
    refused: &'a [&'a str],
    /// What is said of those that it takes.
    said: &'a [&'a str],
    /// All lines of the comparison after that, without the objects that were left out.
    differs: &'a [&'a str],
}

fn is_moved(test: &str, moved: &Move<'_>) {
    for product in [moved.from, moved.to] {
        if let Err(error) = sandbox::find(&places(), product) {
            return skipped(test, &error.to_string());
        }
    }
    let pair = Pair::new(moved.from, moved.to, &[]);
    for name in BOTH {
        run_sql(&pair.from, name, &case(name));
        pair.dump(&[name, "-o", name]).exits(0);
        pair.load(&[name, "-j", "4"]).exits(0);
        pair.diff(name, &[]).exits(0);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migrate");
    run_sql(&pair.from, "own", &folder.join(moved.file));
    pair.dump(&["own", "-o", "own.dump"]).exits(0);
    let mut left_out: Vec<String> = Vec::new();
    // A copy's dry run names all of it at once, and makes nothing.
    let plan = copy(&pair, &["own", "--dry-run"]).exits(1).out;
    for object in moved.refused {
        assert!(plan.contains(&format!("`own`.`{object}`")), "{object}: {plan}");
    }
    let left = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('own', '_remora') OR \
                SCHEMA_NAME LIKE '%trial%'";
    assert_eq!(pair.target().value(left).unwrap().as_deref(), Some("0"));
    // What the target lacks as a whole is named first, and then what it does not understand.
    let ended = loop {
        let exclude = left_out.iter().flat_map(|name| ["--exclude", name]);
        let ended = pair.load(&["own.dump"].into_iter().chain(exclude).collect::<Vec<_>>());
        if ended.code != 1 {
            break ended;
        }
        let named = moved.refused.iter().filter(|object| ended.err.contains(&format!("`own`.`{object}`")));
        let named = named.map(|object| format!("own.{object}")).filter(|name| !left_out.contains(name));
        let named: Vec<String> = named.collect();
        assert!(!named.is_empty(), "{}", ended.err);
        left_out.extend(named);
    };
    assert!([0, 3].contains(&ended.code), "{}", ended.err);
    assert_eq!(left_out.len(), moved.refused.len(), "{left_out:?}");
    ended.says(moved.said).says(&["all rows read back and equal"]);
    let told = pair.diff("own.dump", &[]).exits(4).out;
    let is_here = |line: &&str| !line.ends_with(": only in own.dump");
    assert_eq!(told.lines().filter(is_here).collect::<Vec<_>>(), moved.differs);
    assert_eq!(told.lines().count() - moved.differs.len(), moved.refused.len(), "{told}");
}

#[test]
fn mysql_moves_to_mariadb() {
    is_moved(
        "mysql_moves_to_mariadb",
        &Move {
            from: Product::MySql97,
            to: Product::MariaDb118,
            file: "mysql.sql",
            refused: &["functional", "multi", "lat", "member"],
            said: &[
                "rewritten: `h` is INVISIBLE, in table `own`.`hidden`",
                "rewritten: `k` is IGNORED, in table `own`.`hidden`",
                "rewritten: `my_row_id` is INVISIBLE, in table `own`.`gipk`",
                "utf8mb4_ja_0900_as_cs becomes utf8mb4_uca1400_nopad_as_cs",
                "not loaded: table `own`.`hidden`: the check `off`, which is not enforced",
                "not loaded: table `own`.`places`: SRID 4326 of `p`",
            ],
            differs: &[
                "table `own`.`hidden`: defined otherwise: - check `off` NOT ENFORCED",
                "table `own`.`places`: defined otherwise: - column `p` SRID 4326; + column `p`",
            ],
        },
    );
}

#[test]
fn mariadb_moves_to_mysql() {
    is_moved(
        "mariadb_moves_to_mysql",
        &Move {
            from: Product::MariaDb118,
            to: Product::MySql97,
            file: "mariadb.sql",
            refused: &["aria", "uuids", "versioned", "s", "uses", "periods", "packed", "vectors"],
            said: &[
                "rewritten: `k` is INVISIBLE, in table `own`.`hidden`",
                "utf8mb3_uca1400_ai_ci becomes utf8mb3_unicode_520_ci",
                "utf8mb4_uca1400_ai_ci becomes utf8mb4_0900_ai_ci",
            ],
            differs: &[],
        },
    );
}
