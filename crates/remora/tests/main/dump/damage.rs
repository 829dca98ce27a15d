//! Dump folders that have changed, or that never held what they claim.

use sandbox::Product;

use super::{Pair, seal};

#[test]
fn damage_is_found_before_anything_is_loaded() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    source.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)").unwrap();
    source.execute("INSERT INTO d.t VALUES (1, 'one'), (2, 'two')").unwrap();
    pair.dump(&["d", "-o", "good"]).exits(0);
    let file = pair.path("good/d.t/00000.tsv.zst");
    let whole = std::fs::read(&file).unwrap();
    pair.load(&["gone"]).exits(1).says(&["gone: there is no such folder"]);
    std::fs::create_dir(pair.path("empty")).unwrap();
    pair.load(&["empty"]).exits(1).says(&["empty: no manifest.json in it"]);
    let manifest = std::fs::read_to_string(pair.path("good/manifest.json")).unwrap();
    let fresh = || {
        let mut target = pair.target();
        target.execute("DROP DATABASE IF EXISTS d").unwrap();
        target.execute("DROP DATABASE IF EXISTS _remora").unwrap();
    };
    for at in (0..whole.len()).step_by(6) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&file, bytes).unwrap();
        pair.load(&["good"]).exits(4).says(&["00000.tsv.zst"]);
        assert_eq!(
            pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().as_deref(),
            Some("0"),
            "byte {at}"
        );
        fresh();
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    pair.load(&["good"]).exits(4).says(&["00000.tsv.zst", "the manifest says"]);
    std::fs::remove_file(&file).unwrap();
    pair.load(&["good"]).exits(1).says(&["00000.tsv.zst"]);
    std::fs::write(&file, &whole).unwrap();
    for (from, to) in [
        ("\"folder\": \"d.t\"", "\"folder\": \"../../../../etc\""),
        ("\"data_extension\": \"tsv.zst\"", "\"data_extension\": \"/../../passwd\""),
        ("\"version\": 2", "\"version\": 3"),
        ("\"format\": \"remora dump\"", "\"format\": \"another\""),
        ("\"rows\": 2,\n        \"hash\": \"", "\"rows\": 2,\n        \"hash\": \"x"),
        ("\"text_bytes\": ", "\"text_bytes\": 99999999"),
        ("\"file_bytes\": ", "\"file_bytes\": 18446744073709500000, \"x\": "),
        ("\"data_extension\": \"tsv.zst\"", "\"data_extension\": \"tsv.xz\""),
        ("\"chunks\": [", "\"chunks\": [ {\"number\": 7},"),
    ] {
        assert!(manifest.contains(from), "{from}");
        let changed = manifest.replacen(from, to, 1);
        std::fs::write(pair.path("good/manifest.json"), &changed).unwrap();
        pair.load(&["good"]).exits(4).says(&["manifest.json", "BLAKE3"]);
        std::fs::write(pair.path("good/manifest.json"), seal(&changed)).unwrap();
        let ended = pair.load(&["good"]).exits(4).says(&["manifest.json"]);
        assert!(!ended.err.contains("BLAKE3"), "{}", ended.err);
    }
    // A manifest that says less about a type, and one without its hash.
    let unsealed = format!("{}\n}}", manifest.rsplit_once(",\n  \"blake3\"").unwrap().0);
    for changed in [manifest.replacen("int(11)", "int(10)", 1), unsealed] {
        std::fs::write(pair.path("good/manifest.json"), changed).unwrap();
        pair.load(&["good"]).exits(4).says(&["manifest.json", "hash at its end"]);
    }
    std::fs::write(pair.path("good/manifest.json"), &manifest[..manifest.len() / 2]).unwrap();
    pair.load(&["good"]).exits(4).says(&["manifest.json"]);
    std::fs::remove_file(pair.path("good/manifest.json")).unwrap();
    pair.load(&["good"]).exits(1).says(&["no manifest.json"]);
    // A different row, with the same count: only reading back can tell.
    std::fs::write(pair.path("good/manifest.json"), &manifest).unwrap();
    pair.load(&["good"]).exits(0);
    pair.diff("good", &[]).exits(0);
    pair.target().execute("UPDATE d.t SET v = 'too' WHERE id = 2").unwrap();
    assert!(pair.diff("good", &[]).exits(4).out.contains("`d`.`t`"));
}

/// LOAD DATA LOCAL skips rows whose unique key exists already, and reports success.
#[test]
fn rows_that_the_server_drops_are_noticed() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    source.execute("CREATE TABLE d.t (id INT, v VARCHAR(10))").unwrap();
    source.execute("INSERT INTO d.t VALUES (1, 'long word'), (2, 'b'), (2, 'c')").unwrap();
    pair.dump(&["d", "-o", "d.dump"]).exits(0);
    let path = pair.path("d.dump/manifest.json");
    let manifest = std::fs::read_to_string(&path).unwrap();
    for (from, to, words) in [
        ("\\n) ENGINE", ",\\n  UNIQUE KEY (`id`)\\n) ENGINE", "the server accepted 2 of 3 rows"),
        ("varchar(10)", "varchar(4)", "has other values"),
    ] {
        assert!(manifest.contains(from), "{from} in {manifest}");
        std::fs::write(&path, seal(&manifest.replacen(from, to, 1))).unwrap();
        pair.load(&["d.dump"]).exits(4).says(&["`d`.`t`", words]);
        for schema in ["d", "_remora"] {
            pair.target().execute(&format!("DROP DATABASE {schema}")).unwrap();
        }
    }
}
