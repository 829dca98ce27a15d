//! Masked columns: no byte of what is masked leaves the server, and masked values are the same on every way.

use std::path::Path;

use sandbox::Product;

use super::copy::{copy, halfway};
use super::{Gate, Pair, assert_equal};
use crate::support::{of_today, on_products, products};

/// Is in every value that is masked.
pub(super) const SECRET: &str = "Gehheim";
const MASKS: [&str; 12] = [
    "d.users.email=fake:email",
    "d.users.name=fake:name",
    "d.users.phone=fake:phone",
    "d.users.wide=hash",
    "d.users.bytes=hash",
    "d.users.fixed=hash",
    "d.users.padded=hash",
    "d.users.big=hash",
    "d.users.number=hash",
    "d.users.day=null",
    // Of tables whose names begin so, with different character sets.
    "d.key*.LOGIN=hash",
    "d.parts.login=hash",
];
const ROWS: u32 = 3000;

/// Tables with masked columns of each type, keys and partitions.
fn fill(pair: &Pair) {
    let mut source = pair.source();
    let secret = |id: u32| format!("{SECRET}\u{e9}{id}");
    for sql in [
        "CREATE DATABASE d".to_owned(),
        "CREATE TABLE d.users (id INT PRIMARY KEY, email VARCHAR(100) CHARACTER SET latin1, name VARCHAR(40), phone \
         CHAR(20), wide CHAR(40) CHARACTER SET ucs2, bytes VARBINARY(90), fixed BINARY(16), padded BINARY(40), big \
         LONGTEXT, number SMALLINT UNSIGNED, day DATE, kept VARCHAR(20), UNIQUE KEY (email)) DEFAULT CHARSET utf8"
            .to_owned(),
        "CREATE TABLE d.keyed (login VARCHAR(60) CHARACTER SET latin1 COLLATE latin1_bin PRIMARY KEY, v INT)"
            .to_owned(),
        "CREATE TABLE d.keys_too (id INT PRIMARY KEY, Login VARCHAR(60) CHARACTER SET utf8)".to_owned(),
        "CREATE TABLE d.parts (login VARCHAR(60), n INT) PARTITION BY KEY (login) PARTITIONS 4".to_owned(),
        "CREATE TABLE d.plain (id INT PRIMARY KEY, email VARCHAR(100))".to_owned(),
        "INSERT INTO d.plain VALUES (1, 'open')".to_owned(),
        "INSERT INTO d.users (id, kept) VALUES (0, 'nothing')".to_owned(),
    ] {
        source.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for from in (1..=ROWS).step_by(500) {
        let ids = || from..from + 500;
        let row = |id| {
            let v = secret(id);
            format!(
                "({id},'{v}@e.de','{v}','{v}','{v}','{v}','{v}','{v}',REPEAT('{v}',9),{id},'2020-01-01','row {id}')"
            )
        };
        let rows: Vec<_> = ids().map(row).collect();
        let tables = [
            ("users", rows),
            ("keyed", ids().map(|id| format!("('{}',{id})", secret(id))).collect()),
            ("keys_too", ids().map(|id| format!("({id},'{}')", secret(id))).collect()),
            ("parts", ids().map(|id| format!("('{}',{id})", secret(id))).collect()),
        ];
        for (table, rows) in tables {
            source.execute(&format!("INSERT INTO d.{table} VALUES {}", rows.join(","))).unwrap();
        }
    }
    source.strings("ANALYZE TABLE d.users, d.keyed, d.keys_too, d.parts").unwrap();
    std::fs::write(pair.folder.path().join("key"), "sixteen and more bytes").unwrap();
}

/// The options of all masks.
fn masks() -> Vec<&'static str> {
    MASKS.iter().flat_map(|mask| ["--mask", mask]).collect()
}

/// Fails if a file has the word in it: as it is, in two bytes for each character, or in hexadecimal digits.
pub(super) fn search(folder: &Path) {
    let wide: Vec<u8> = SECRET.bytes().flat_map(|byte| [0, byte]).collect();
    let digits: String = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
    let words = [SECRET.as_bytes(), &wide, digits.as_bytes(), &digits.to_lowercase().into_bytes()];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path);
        }
        // Sockets of servers are there, too.
        if !path.is_file() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for word in words {
            let found = memchr::memmem::find(&bytes, word);
            assert!(found.is_none(), "{} has {SECRET} in it", path.display());
        }
    }
}

/// All rows of the masked tables on the target.
fn rows(pair: &Pair) -> Vec<Vec<Option<String>>> {
    let mut target = pair.target();
    ["users", "keyed", "keys_too", "parts"]
        .iter()
        .flat_map(|table| target.strings(&format!("SELECT * FROM d.{table} ORDER BY 1, 2")).unwrap())
        .collect()
}

#[test]
fn what_is_masked_is_in_no_file_and_the_same_after_dump_and_copy() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(product, product, &[]);
        fill(&pair);
        let masks = masks();
        let by_key = [&masks[..], &["--mask-key", "key"]].concat();
        for format in ["tsv", "csv", "sql", "parquet"] {
            let to = ["d", "-o", format, "--format", format, "--compress", "none", "--chunk", "32K"];
            pair.dump(&[&to[..], &by_key].concat()).exits(0);
            search(&pair.folder.path().join(format));
        }
        pair.load(&["tsv"]).exits(0);
        pair.diff("tsv", &[]).exits(0);
        let loaded = rows(&pair);
        // A dump does not differ from what was masked by mistake.
        let diff = pair.diff_with(&pair.from, "tsv", &[]).exits(4).out;
        assert!(diff.contains("; masked in the dump: big, bytes, day, email, fixed"), "{diff}");
        let mut target = pair.target();
        let mut count = |sql: &str| target.value(sql).unwrap().unwrap().parse::<u32>().unwrap();
        for (sql, expected) in [
            ("SELECT COUNT(*) FROM d.users WHERE email LIKE 'u________________@example.com'", ROWS),
            ("SELECT COUNT(*) FROM d.users WHERE name REGEXP '^[A-Z][a-z]+ [A-Z][a-z]+$'", ROWS),
            ("SELECT COUNT(DISTINCT phone) FROM d.users WHERE phone REGEXP '^[+]999[0-9]{10}$'", ROWS),
            ("SELECT COUNT(DISTINCT wide) FROM d.users WHERE wide REGEXP '^[0-9a-f]{32}$'", ROWS),
            ("SELECT COUNT(DISTINCT bytes) FROM d.users WHERE LENGTH(bytes) = 16", ROWS),
            ("SELECT COUNT(DISTINCT fixed) FROM d.users", ROWS),
            ("SELECT COUNT(*) FROM d.users WHERE HEX(padded) LIKE '%0000000000000000'", ROWS),
            ("SELECT COUNT(DISTINCT LEFT(padded, 32)) FROM d.users", ROWS),
            ("SELECT COUNT(*) FROM d.users WHERE day IS NULL", ROWS + 1),
            ("SELECT COUNT(*) FROM d.users WHERE kept = CONCAT('row ', id)", ROWS),
            ("SELECT COUNT(*) FROM d.users WHERE number = id", 0),
            // NULL stays NULL.
            (
                "SELECT COUNT(*) FROM d.users WHERE COALESCE(HEX(email), HEX(name), HEX(phone), HEX(wide), HEX(bytes), \
                 HEX(fixed), HEX(padded), HEX(big), number) IS NULL",
                1,
            ),
            ("SELECT COUNT(*) FROM d.plain WHERE email = 'open'", 1),
            // What was equal is equal, whatever character set it has.
            ("SELECT COUNT(*) FROM d.keyed k JOIN d.keys_too t ON k.login = t.login AND t.id = k.v", ROWS),
            ("SELECT COUNT(*) FROM d.keyed k JOIN d.parts p ON k.login = p.login AND p.n = k.v", ROWS),
        ] {
            let found = count(sql);
            // Some numbers stay what they were by chance.
            assert!(found == expected || expected == 0 && found < 5, "{sql}: {found}");
        }
        drop(target);
        pair.turn_to(product);
        // A copy that is stopped continues with the same key only.
        halfway(&pair, &[&["d"][..], &by_key].concat(), 2).kill();
        let again = [&["d", "--resume"][..], &masks].concat();
        copy(&pair, &again).exits(1).says(&["no stopped copy"]);
        copy(&pair, &[&["d", "--resume"][..], &by_key].concat()).exits(0);
        assert_eq!(rows(&pair), loaded);
        // Only hashes and invented values have one.
        let nulls = ["d", "--mask", "d.users.day=null"];
        pair.turn_to(product);
        halfway(&pair, &nulls, 2).kill();
        copy(&pair, &[&nulls[..], &["--resume"]].concat()).exits(0);
        // Before anything is copied, it is said what would be masked.
        let plan = copy(&pair, &["d.plain", "--mask", "d.plain.email=hash", "--dry-run"]).out;
        assert!(plan.contains("rewritten: column `email` of table `d`.`plain`: masked by hash"), "{plan}");
        // Without one, each run has its own.
        pair.turn_to(product);
        copy(&pair, &[&["d"][..], &masks].concat()).exits(0);
        assert!(rows(&pair) != loaded);
        // Nothing is changed on the source.
        let kept = format!("SELECT COUNT(*) FROM d.users WHERE email LIKE '{SECRET}%' AND number = id");
        assert_eq!(pair.source().value(&kept).unwrap().as_deref(), Some(ROWS.to_string().as_str()));
        pair.turn_to(product);
        copy(&pair, &["d"]).exits(0);
        assert_equal(&pair, "d");
    });
}

#[test]
fn a_mask_that_a_table_does_not_allow_is_refused_before_anything_is_read() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        for sql in [
            "CREATE DATABASE d",
            "CREATE TABLE d.p (id INT PRIMARY KEY, code CHAR(20) CHARACTER SET latin1 COLLATE latin1_bin, loose \
             VARCHAR(60) CHARACTER SET latin1, UNIQUE KEY (code), UNIQUE KEY (loose(10)), UNIQUE KEY whole (loose))",
            "CREATE TABLE d.c (id INT PRIMARY KEY, code CHAR(20) CHARACTER SET latin1 COLLATE latin1_bin, loose \
             VARCHAR(60) CHARACTER SET latin1, FOREIGN KEY to_code (code) REFERENCES d.p (code))",
            "CREATE TABLE d.v (id INT PRIMARY KEY, a VARCHAR(30) NOT NULL, d DATE)",
            "INSERT INTO d.p VALUES (1, 'a', 'b')",
            "INSERT INTO d.c VALUES (1, 'a', 'b')",
            "INSERT INTO d.v VALUES (1, 'a', NULL)",
        ] {
            source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let refused = |masks: &[&str], words: &[&str]| {
            let masks: Vec<&str> = masks.iter().flat_map(|mask| ["--mask", mask]).collect();
            let ended = pair.dump(&[&["d", "-o", "bad"][..], &masks].concat()).exits(1);
            ended.says(words);
            assert!(!pair.folder.path().join("bad").exists(), "{masks:?}");
            copy(&pair, &[&["d"][..], &masks].concat()).exits(1).says(words);
        };
        refused(&["d.v.none=hash"], &["none of the tables that are read has such a column"]);
        refused(&["d.v.a=null"], &["`a`=null", "NOT NULL"]);
        refused(&["d.v.d=hash"], &["hash is for texts, bytes and integers, and this is date"]);
        refused(&["d.p.id=hash"], &["unique key PRIMARY", "values could collide"]);
        refused(&["d.p.loose=hash"], &["unique key loose", "values could collide"]);
        refused(&["d.p.code=hash"], &["foreign key", "`c`.code is not masked by the same"]);
        refused(&["d.c.code=hash"], &["foreign key", "`p`.code is not masked by the same"]);
        // Where a key refers to nothing, there is nothing to refuse.
        let both = ["--mask", "d.*.code=hash", "--mask", "d.v.a=hash"];
        copy(&pair, &[&["d"][..], &both].concat()).exits(0);
        let joined = "SELECT COUNT(*) FROM d.p JOIN d.c USING (code) WHERE LENGTH(code) = 20";
        assert_eq!(pair.target().value(joined).unwrap().as_deref(), Some("1"));
        pair.target().execute("DROP DATABASE d").unwrap();
        copy(&pair, &["d", "--mask", "d.c.code=null"]).exits(0);
        // A collation that takes A and a for equal is not what a hash does.
        source.execute("ALTER TABLE d.c ADD FOREIGN KEY (loose) REFERENCES d.p (loose)").unwrap();
        source.execute("ALTER TABLE d.p DROP KEY loose").unwrap();
        refused(&["d.*.loose=hash"], &["its collation treats different texts as equal"]);
        // JSON, and what a constraint says of a column, is not known to hold.
        if source.execute("CREATE TABLE d.j (id INT PRIMARY KEY, v JSON)").is_ok() {
            refused(&["d.j.v=hash"], &["`d`.`j`"]);
        }
        if source.execute("CREATE TABLE d.k (id INT, a CHAR(40), CONSTRAINT c CHECK (a LIKE 'a%'))").is_ok()
            && pair.is_mariadb()
        {
            refused(&["d.k.a=hash"], &["may not meet CHECK"]);
        }
        std::fs::write(pair.folder.path().join("short"), "short").unwrap();
        let short = ["d", "-o", "bad", "--mask", "d.v.a=hash", "--mask-key", "short"];
        pair.dump(&short).exits(2).says(&["short has 5 bytes", "/dev/urandom"]);
        pair.dump(&["d", "-o", "bad", "--mask", "d.v=hash"]).exits(2).says(&["is not db.table.column=MASK"]);
    });
}

#[test]
fn a_column_that_gets_another_name_meanwhile_is_not_read_unmasked() {
    // MySQL reads no table by a snapshot from before its ALTER.
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut gate = Gate::close(&pair);
    let secret = format!("INSERT INTO d.b VALUES (1, '{SECRET}')");
    gate.run(&["CREATE TABLE d.b (id INT PRIMARY KEY, v VARCHAR(40)) DEFAULT CHARSET latin1", &secret]);
    std::fs::write(pair.folder.path().join("key"), "sixteen and more bytes").unwrap();
    let masks = ["--mask", "d.b.v=hash", "--mask-key", "key"];
    let plain = ["--compress", "none"];
    let mut dump = gate.dump(&pair, "masked", &[&masks[..], &plain].concat());
    gate.until_reached(&mut dump);
    gate.run(&["ALTER TABLE d.b CHANGE v w VARCHAR(40)"]);
    gate.open();
    let ended = dump.end().exits(1).says(&["table `d`.`b` was changed by DDL", "--resume"]);
    // The statement is in the message, and the key is not.
    assert!(ended.err.contains("SHA2(") && !ended.err.contains("X'"), "{}", ended.err);
    search(&pair.folder.path().join("masked"));
    let condition = Gate::condition();
    let resume = |masks: &[&str]| {
        let again = ["d", "-o", "masked", "--resume", "--where", &condition];
        pair.dump(&[&again[..], &plain, masks].concat())
    };
    resume(&masks).exits(1).says(&["none of the tables that are read has such a column"]);
    resume(&["--mask", "d.b.w=hash"]).exits(1).says(&["masks by another key"]);
    resume(&["--mask", "d.b.w=hash", "--mask-key", "key"]).exits(0);
    search(&pair.folder.path().join("masked"));
}
