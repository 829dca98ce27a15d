//! Random foreign keys between tables: `reverse --children` writes a script that restores the former state,
//! or refuses.
//!
//! `REMORA_CHILDREN=50` asks for so many servers, and `REMORA_CHILDREN_FROM` says with which chance to begin.

use sandbox::Product;

use crate::recovery_scene::Scene;
use crate::reverse_children::{Children, scene};
use crate::support::tell;
use crate::wrong_delete::Chance;

const TABLES: u64 = 5;
const ROWS: u64 = 12;
/// Scripts that are made on one server.
const SCRIPTS: u64 = 3;
/// What may be refused, because nobody knows it or there is no order.
const REFUSALS: [&str; 2] = ["in a circle", "changed the primary key"];

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// The tables, their rows, and then the foreign keys that these happen to obey.
fn tables(chance: &mut Chance) -> Vec<String> {
    let mut all = Vec::new();
    for table in 0..TABLES {
        all.push(format!("CREATE TABLE app.t{table} (id INT PRIMARY KEY, a INT, b INT, v INT)"));
        for id in 1..=ROWS {
            let mut some = || match chance.below(4) {
                0 => "NULL".to_owned(),
                _ => (1 + chance.below(ROWS)).to_string(),
            };
            all.push(format!("INSERT INTO app.t{table} VALUES ({id}, {}, {}, {id})", some(), some()));
        }
    }
    for table in 0..TABLES {
        for column in ["a", "b"] {
            let parent = chance.below(TABLES);
            let [delete, update] = [0; 2].map(|_| match chance.below(5) {
                0 => "RESTRICT",
                1 => "SET NULL",
                _ => "CASCADE",
            });
            all.push(format!(
                "ALTER TABLE app.t{table} ADD FOREIGN KEY ({column}) REFERENCES app.t{parent} (id) \
                 ON DELETE {delete} ON UPDATE {update}"
            ));
        }
    }
    all
}

/// Some transactions, as far as the server does not refuse a statement. Returns their GTIDs.
fn transactions(scene: &mut Scene, chance: &mut Chance) -> Vec<String> {
    let mut gtids = Vec::new();
    for _ in 0..1 + chance.below(2) {
        scene.does(&["BEGIN"]);
        let mut done = 0;
        for _ in 0..1 + chance.below(4) {
            let (table, id) = (chance.below(TABLES), 1 + chance.below(ROWS));
            let sql = match chance.below(8) {
                0 => format!("UPDATE app.t{table} SET id = id + 100 WHERE id = {id}"),
                1 => format!("UPDATE app.t{table} SET a = NULL, v = v + 1 WHERE id < {id} LIMIT 2"),
                2 => format!(
                    "INSERT INTO app.t{table} VALUES ({}, {id}, NULL, 0)",
                    1000 + chance.below(100_000)
                ),
                3 => format!("DELETE FROM app.t{table} WHERE id IN ({id}, {})", 1 + chance.below(ROWS)),
                _ => format!("DELETE FROM app.t{table} WHERE id = {id}"),
            };
            // Foreign keys and keys forbid some.
            done += u64::from(scene.session.execute(&sql).is_ok_and(|done| done.affected > 0));
        }
        scene.does(&["COMMIT"]);
        if done > 0 {
            gtids.push(scene.session.value("SELECT @@last_gtid").unwrap().unwrap());
        }
    }
    gtids
}

#[test]
fn random_foreign_keys_are_followed_or_refused() {
    let first = number("REMORA_CHILDREN_FROM", 1);
    let (mut back, mut refused) = (0, 0);
    for seed in first..first + number("REMORA_CHILDREN", 1) {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let statements = tables(&mut chance);
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        let mut scene = scene(Product::MariaDb1011, &statements);
        for script in 0..SCRIPTS {
            let before = scene.now();
            let gtids = transactions(&mut scene, &mut chance).join(",");
            tell(format!("seed {seed}, script {script}: {gtids}"));
            if gtids.is_empty() {
                continue;
            }
            let ended = scene.children(&["--gtid", &gtids]);
            if ended.code == 1 && REFUSALS.iter().any(|why| ended.err.contains(why)) {
                refused += 1;
                continue;
            }
            if ended.code == 1 && ended.err.contains("nothing to take back") {
                continue;
            }
            ended.exits(0);
            let text = scene.without_checks();
            let ended = scene.runs();
            assert_eq!(ended.code, 0, "{}{text}", ended.err);
            assert_eq!(scene.now(), before, "{text}");
            back += 1;
        }
    }
    tell(format!("{back} came back, {refused} refused"));
}
