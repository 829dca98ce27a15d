//! `--partition`: rows in folders by the value of a column, and `--bloom`.

use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::Product;

use super::{Pair, assert_equal};
use crate::gate::{Gate, PARTS, Step, Victim, Way};
use crate::python::{ENGINES, LIBRARIES, Python};
use crate::support::{
    Ended, Running, of_today, on_products, part_of_today, products, remora, skipped, tell, until,
};

/// Settings under which a column takes every value that it can hold.
const SETTINGS: &str = "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00'";

/// Tables whose rows go into folders, by columns of all types that can name them.
const TABLES: [&str; 11] = [
    "CREATE DATABASE d CHARACTER SET utf8mb4",
    "CREATE TABLE d.days (id INT PRIMARY KEY, day DATE, born DATE, text VARCHAR(50))",
    // A collation takes the first two for equal, and the server mixes them in its order.
    "CREATE TABLE d.codes (id INT PRIMARY KEY, code VARCHAR(300) CHARACTER SET latin1, KEY (code))",
    "INSERT INTO d.codes VALUES (1, 'A'), (2, 'a'), (3, 'A'), (4, 'a'), (5, _latin1 x'fc3a2f'), (6, ''), (7, NULL), \
     (8, '__HIVE_DEFAULT_PARTITION__'), (9, REPEAT('x', 300)), (10, '007'), (11, 'tab\\there'), (12, '..')",
    "CREATE TABLE d.numbers (n BIGINT UNSIGNED, id INT, PRIMARY KEY (n, id))",
    "INSERT INTO d.numbers VALUES (18446744073709551615, 1), (18446744073709551615, 2), (0, 1)",
    "CREATE TABLE d.choices (id INT, choice ENUM('x','y') NOT NULL, KEY (id)) ENGINE=MyISAM",
    "INSERT INTO d.choices VALUES (1, 'y'), (2, 'x'), (3, 'y'), (1, 'y'), (4, 0)",
    "CREATE TABLE d.parts (id INT PRIMARY KEY, y YEAR) PARTITION BY HASH (id) PARTITIONS 3",
    "INSERT INTO d.parts VALUES (1, 1901), (2, 2155), (3, 0), (4, NULL), (5, 2155)",
    "CREATE TABLE d.none (id INT PRIMARY KEY, day DATE)",
];

/// The columns.
const PARTITION: [&str; 10] = [
    "--partition",
    "day",
    "--partition",
    "d.codes:code",
    "--partition",
    "d.num*:N",
    "--partition",
    "*.*:choice",
    "--partition",
    "y",
];

fn make(pair: &Pair) {
    let mut source = pair.source();
    for sql in [SETTINGS].iter().chain(&TABLES) {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let day = "ELT(id % 5 + 1, '2026-11-28', '2026-11-29', '0000-00-00', '2026-02-31', NULL)";
    source.execute("INSERT INTO d.days VALUES (1, NULL, '0000-00-00', 'x')").unwrap();
    for doubling in 0..11 {
        let sql = format!(
            "INSERT INTO d.days SELECT id + {0}, NULL, IF(id % 7 = 0, '0000-00-00', '1970-01-01'), \
             CONCAT('text ', id + {0}) FROM d.days",
            1 << doubling
        );
        source.execute(&sql).unwrap();
    }
    source.execute(&format!("UPDATE d.days SET day = {day}")).unwrap();
    source.strings("ANALYZE TABLE d.days").unwrap();
}

fn dump(pair: &Pair, name: &str, more: &[&str]) -> Ended {
    let arguments = ["d", "-o", name, "--format", "parquet", "--chunk", "64K"];
    pair.dump(&[&arguments[..], &PARTITION, more].concat())
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

#[test]
fn rows_in_folders_by_a_column_come_back() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &["--max-sort-length=64"]);
        make(&pair);
        let ended = dump(&pair, "d.dump", &["--bloom", "text", "--bloom", "d.codes:id"]).exits(3);
        ended.says(&[
            "column `code` of table `d`.`codes`: the name of a folder can't hold 3 values; they are in the folder of NULL",
            "column `born` of table `d`.`days`: Parquet can't hold",
        ]);
        let null = format!("day={NULL}");
        assert_eq!(names(&pair.path("d.dump/d.days")), ["day=2026-11-28", "day=2026-11-29", &null]);
        assert!(names(&pair.path("d.dump/d.days/day=2026-11-28")).len() > 1);
        let codes = ["code=..", "code=007", "code=A", &format!("code={NULL}"), "code=a", "code=tab%09here"];
        let last = "code=\u{fc}%3A%2F";
        assert_eq!(names(&pair.path("d.dump/d.codes")), [&codes[..], &[last]].concat());
        assert_eq!(names(&pair.path("d.dump/d.numbers")), ["n=0", "n=18446744073709551615"]);
        assert_eq!(names(&pair.path("d.dump/d.none")), [""; 0]);
        pair.run(&["dump", "--check", "d.dump"]).exits(0);
        pair.load(&["d.dump"]).exits(0).says(&["all rows read back and equal"]);
        assert_equal(&pair, "d");
        pair.diff("d.dump", &[]).exits(0);
        // The same by INSERT.
        pair.target().execute("DROP DATABASE d").unwrap();
        pair.target().execute("SET GLOBAL local_infile = 0").unwrap();
        pair.load(&["d.dump"]).exits(0).says(&["local_infile"]);
        assert_equal(&pair, "d");
        dump(&pair, "none", &["--odd", "fail"]).exits(1).says(&["without --odd fail"]);
    });
}

#[test]
fn text_that_readers_take_for_numbers_is_told() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, code VARCHAR(9), name VARCHAR(9), plain VARCHAR(9))",
        "INSERT INTO d.t VALUES (1, '007', '007', '7'), (2, NULL, 'x', '8')",
    ] {
        source.execute(sql).unwrap();
    }
    for (column, is_told) in [("code", true), ("name", false), ("plain", false)] {
        let ended = pair.dump(&["d", "-o", column, "--format", "parquet", "--partition", column]).exits(0);
        assert_eq!(
            ended.err.contains("take the text '007' in the name of a folder"),
            is_told,
            "{column}: {}",
            ended.err
        );
    }
}

#[test]
fn columns_that_name_no_folders_and_have_no_filters_are_refused() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, filled INT(5) ZEROFILL, at DATETIME, bytes BLOB, price DECIMAL(9,2), \
         sum INT AS (id + 1), a INT, b INT, flag BIT(1), shape POINT)",
        "CREATE TABLE d.one (only INT PRIMARY KEY)",
    ] {
        source.execute(sql).unwrap();
    }
    let run =
        |arguments: &[&str]| pair.dump(&[&["d", "-o", "d.dump", "--format", "parquet"], arguments].concat());
    for column in ["filled", "at", "bytes", "price", "flag"] {
        run(&["--partition", column])
            .exits(1)
            .says(&[&format!("column `{column}` of table `d`.`t`"), "a whole number"]);
    }
    run(&["--partition", "sum"]).exits(1).says(&["it is computed"]);
    run(&["--partition", "only"]).exits(1).says(&["no other column"]);
    run(&["--partition", "a", "--partition", "d.t:b"]).exits(1).says(&["one column of a table"]);
    run(&["--partition", "d.t:only"])
        .exits(1)
        .says(&["--partition d.t:only: no table of the dump has this column"]);
    run(&["--bloom", "none"]).exits(1).says(&["--bloom none: no table of the dump has this column"]);
    run(&["--bloom", "shape"]).exits(1).says(&["a Bloom filter is for"]);
    run(&["--bloom", "a", "--partition", "a"]).exits(1).says(&["names of folders"]);
    let wrong = pair.dump(&["d", "-o", "d.dump", "--format", "parquet", "--encodings", "old"]).exits(2);
    wrong.says(&["known or new"]);
    for option in ["--partition", "--bloom"] {
        let tsv = pair.dump(&["d", "-o", "d.dump", option, "a"]).exits(2);
        tsv.says(&[&format!("{option} goes with --format parquet")]);
    }
}

#[test]
fn damage_of_a_file_in_a_folder_is_named_and_other_files_there_are_too() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    make(&pair);
    dump(&pair, "d.dump", &[]).exits(3);
    for name in [
        "d.codes/code=A/00000.parquet".to_owned(),
        format!("d.codes/code={NULL}/00000.parquet"),
        format!("odd/d.codes/code={NULL}/00000.tsv.zst"),
    ] {
        let path = pair.path(&format!("d.dump/{name}"));
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let checked = pair.run(&["dump", "--check", "d.dump"]).exits(4);
        assert!(checked.out.contains(&name), "{}", checked.out);
        pair.load(&["d.dump"]).exits(4).says(&[&name]);
        ["d", "_remora"].iter().for_each(|name| {
            pair.target().execute(&format!("DROP DATABASE IF EXISTS {name}")).unwrap();
        });
        std::fs::write(&path, &whole[1..]).unwrap();
        pair.load(&["d.dump"]).exits(4).says(&[&name, "the manifest says"]);
        std::fs::write(&path, &whole).unwrap();
    }
    std::fs::write(pair.path("d.dump/d.codes/code=A/00001.parquet"), "").unwrap();
    std::fs::create_dir(pair.path("d.dump/d.codes/code=B")).unwrap();
    std::fs::write(pair.path("d.dump/d.codes/code=B/00000.parquet"), "").unwrap();
    let strays = ["code=A/00001.parquet", "code=B/00000.parquet"];
    pair.run(&["dump", "--check", "d.dump"]).exits(0).says(&strays);
    // A value in the manifest names a folder, and nothing else.
    let path = pair.path("d.dump/manifest.json");
    let manifest = std::fs::read_to_string(&path).unwrap();
    for (value, other) in
        [("\"value\": \"2026-11-28\"", "\"value\": \"../../x\""), ("\"value\": \"A\"", "\"value\": \"a\"")]
    {
        assert!(manifest.contains(value));
        // Without its hash, as one of an earlier version.
        let text = manifest.replacen(value, other, 1);
        let text = text[..text.rfind(",\n  \"blake3\"").unwrap()].to_owned() + "\n}\n";
        std::fs::write(&path, text).unwrap();
        pair.run(&["dump", "--list", "d.dump"]).exits(4).says(&["is no value of a folder of its own"]);
    }
}

#[test]
fn files_of_many_values_are_open_one_after_the_other() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, k INT)",
        "INSERT INTO d.t SELECT seq, seq * 7919 % 500 FROM d.seq_1_to_3000",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let program = env!("CARGO_BIN_EXE_remora");
    let mut command = Command::new("sh");
    command.current_dir(pair.folder.path()).arg("-c").arg(format!(
        "ulimit -n 40; exec '{program}' dump --no-defaults -u root -S '{}' d -o d.dump --format parquet --partition k -j 1",
        pair.from.socket().display()
    ));
    Ended::of(&command.output().unwrap()).exits(0);
    assert_eq!(names(&pair.path("d.dump/d.t")).len(), 500);
    pair.load(&["d.dump"]).exits(0);
    assert_equal(&pair, "d");
}

#[test]
fn a_stopped_dump_to_folders_is_resumed_with_the_same_folders_only() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    make(&pair);
    dump(&pair, "d.dump", &["--bloom", "text"]).exits(3);
    // As one that was killed between its last table and its manifest.
    let manifest = std::fs::read_to_string(pair.path("d.dump/manifest.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    manifest.as_object_mut().unwrap().remove("blake3");
    let mut journal = String::new();
    let mut steps = Vec::new();
    for (at, table) in manifest["tables"].as_array_mut().unwrap().iter_mut().enumerate() {
        let chunks = std::mem::replace(&mut table["chunks"], serde_json::json!([]));
        steps.extend(
            chunks.as_array().unwrap().iter().map(|chunk| serde_json::json!({ "chunk": [at, chunk] })),
        );
        steps.push(serde_json::json!({ "table": at }));
        table["sum"] = serde_json::json!({ "rows": 0, "hash": "0000000000000000" });
    }
    for step in [serde_json::json!({ "begin": manifest })].iter().chain(&steps) {
        journal.push_str(&format!("{step}\n"));
    }
    let stopped = |name: &str| {
        Command::new("cp").current_dir(pair.folder.path()).args(["-r", "d.dump", name]).status().unwrap();
        std::fs::remove_file(pair.path(&format!("{name}/manifest.json"))).unwrap();
        std::fs::write(pair.path(&format!("{name}/journal.jsonl")), &journal).unwrap();
    };
    stopped("same");
    dump(&pair, "same", &["--bloom", "text", "--resume"]).exits(3).says(&["6 of 6 tables kept"]);
    stopped("bloom");
    dump(&pair, "bloom", &["--resume"]).exits(3).says(&["5 of 6 tables kept"]);
    stopped("folders");
    let plain = ["d", "-o", "folders", "--format", "parquet", "--resume", "--chunk", "64K"];
    pair.dump(&plain).exits(3).says(&["0 of 6 tables kept"]);
    assert!(names(&pair.path("folders/d.codes")).iter().all(|name| name.ends_with(".parquet")));
    for name in ["same", "bloom", "folders"] {
        let checked = pair.run(&["dump", "--check", name]).exits(0);
        assert!(!checked.err.contains("does not list"), "{}", checked.err);
    }
    pair.load(&["same"]).exits(0);
    assert_equal(&pair, "d");
}

/// What other programs see of folders.
fn are_read_by(python: &Python, test: &str, script: &str) {
    let Some(python) = python.program(test) else { return };
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, day DATE, code VARCHAR(9), n INT, name VARCHAR(20))",
        "INSERT INTO d.t SELECT seq, ELT(seq % 3 + 1, '2026-11-28', '2026-11-29', NULL), \
         ELT(seq % 3 + 1, '007', '008', '009'), CAST(seq % 3 AS SIGNED) - 1, CONCAT('name ', seq) FROM d.seq_0_to_2999",
        "CREATE TABLE d.texts (id INT PRIMARY KEY, code VARCHAR(9))",
        "INSERT INTO d.texts VALUES (0, 'a/b'), (1, '%'), (2, '\u{fc} :')",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for sql in [
        "CREATE TABLE d.measured (id INT PRIMARY KEY, f FLOAT, x DOUBLE)",
        "INSERT INTO d.measured SELECT seq, 20 + SIN(seq / 9000), 20 + SIN(seq / 9000) FROM d.seq_1_to_20000",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    pair.dump(&["d", "-o", "new", "--format", "parquet", "--encodings", "new"]).exits(0);
    for column in ["day", "code", "n"] {
        let arguments = ["d", "-o", column, "--format", "parquet", "--bloom", "name", "--partition", column];
        pair.dump(&arguments).exits(0);
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump");
    let mut reader = Command::new(python);
    reader.arg("-B").arg(here.join(script)).current_dir(pair.folder.path()).env("TZ", "UTC");
    let output = reader.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn other_programs_read_folders() {
    are_read_by(&LIBRARIES, "dump::parquet_folders::other_programs_read_folders", "read_folders.py");
}

#[test]
fn engines_read_folders() {
    let test = "dump::parquet_folders::engines_read_folders";
    if !sandbox::is_everywhere() {
        return skipped(test, "it fetches Spark: ci --full");
    }
    are_read_by(&ENGINES, test, "read_folders_engines.py");
}

/// Starts a load of folders behind a gate.
fn begin(pair: &Pair, stop: Option<Step>) -> (Gate, Running) {
    let socket = pair.path("gate.sock");
    let gate = Gate::open(&socket, pair.to.socket(), stop);
    let mut command = remora(pair.folder.path());
    command.args(["load", "--no-defaults", "-u", "root", "-S"]).arg(&socket).args(["d.dump", "-j", "2"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (gate, Running::new(command.spawn().unwrap()))
}

#[test]
fn a_load_of_parquet_that_is_killed_at_any_step_is_ended_by_the_next_run() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        make(&pair);
        dump(&pair, "d.dump", &["--no-users"]).exits(3);
        let (gate, running) = begin(&pair, None);
        running.end().exits(0);
        let is_quiet =
            |text: &str| ["SELECT", "SHOW", "SET", "USE"].iter().any(|word| text.starts_with(word));
        let mut steps: Vec<Step> = gate.steps.lock().unwrap().clone();
        steps.retain(|(text, _)| !is_quiet(text));
        for word in ["CREATE TABLE", "LOAD DATA", "COMMIT", "DROP"] {
            assert!(steps.iter().any(|step| step.0.contains(word)), "no {word} in {steps:?}");
        }
        let cases = steps
            .iter()
            .enumerate()
            .flat_map(|(number, step)| [(step, Victim::of_servers(number, true)), (step, Victim::Remora)]);
        for (step, victim) in part_of_today(cases.collect(), PARTS * 4) {
            tell(format!("{product}: {victim:?} at {step:?}"));
            drop(pair.target().execute("DROP DATABASE d"));
            let (gate, mut running) = begin(&pair, Some(step.clone()));
            let way = gate.wait(&mut running);
            match victim {
                Victim::Remora => {
                    running.kill();
                    way.send(Way::Cut).unwrap();
                }
                Victim::Server | Victim::ServerAtWork => {
                    way.send(if matches!(victim, Victim::ServerAtWork) { Way::On } else { Way::Cut })
                        .unwrap();
                    pair.to.kill().unwrap();
                    running.end();
                    pair.to.restart().unwrap();
                }
            }
            let resume: &[&str] = if pair.chunks().is_some() { &["d.dump", "--resume"] } else { &["d.dump"] };
            if resume.len() == 1 {
                // There is nothing yet, or it was over but for its last word.
                drop(pair.target().execute("DROP DATABASE d"));
            }
            let mut ended = None;
            until("a load that nobody else holds up", || {
                ended = Some(pair.load(resume));
                ended.as_ref().is_some_and(|ended| ended.code != 11)
            });
            ended.unwrap().exits(0);
            assert_equal(&pair, "d");
        }
    });
}
