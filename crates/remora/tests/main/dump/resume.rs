//! Dumps that are interrupted and resumed.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use sandbox::Product;

use super::interrupt::many_chunks_of;
use super::{Gate, Pair, assert_equal};
use crate::support::{of_today, on_products, products, until};

/// Data files of a dump under their final names.
fn data_files(dump: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(dump).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = folders.filter(|path| path.is_dir() && !path.ends_with("schema")).flat_map(|folder| {
        let names = std::fs::read_dir(folder).into_iter().flatten();
        names.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    });
    files.filter(|path| path.extension().is_some_and(|end| end == "zst")).collect()
}

/// Wherever the dump is killed, the folder is no dump and holds no partial file. Then the dump is resumed and
/// killed again, until it is complete.
#[test]
fn a_killed_dump_is_no_dump_and_is_resumed() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        many_chunks_of(&pair, "keys");
        let arguments = ["keys", "-o", "keys.dump", "--chunk", "32K", "-j", "2"];
        // The kill comes at these numbers of files, from a generator with a seed.
        let mut seed = 7_u32;
        let (mut resume, mut killed_late) = (false, false);
        for _ in 0..6 {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let more = usize::try_from(seed >> 16).unwrap() % 60;
            let wanted = data_files(&pair.path("keys.dump")).len() + more;
            let flag: &[&str] = if resume { &["--resume"] } else { &[] };
            let mut dump = pair.spawn(&pair.from, "dump", &[&arguments[..], flag].concat());
            until("files", || {
                dump.has_ended()
                    || (data_files(&pair.path("keys.dump")).len() >= wanted
                        && pair.path("keys.dump").exists())
            });
            if pair.path("keys.dump/manifest.json").exists() {
                dump.end().exits(0);
                break;
            }
            dump.kill();
            if pair.path("keys.dump/manifest.json").exists() {
                killed_late = true;
                break;
            }
            for file in data_files(&pair.path("keys.dump")) {
                let content = Cursor::new(std::fs::read(&file).unwrap());
                let mut text = Vec::new();
                codec::decoder(Box::new(content)).unwrap().1.read_to_end(&mut text).unwrap();
                assert!(text.is_empty() || text.ends_with(b"\n"), "{}", file.display());
            }
            pair.load(&["keys.dump"]).exits(1).says(&["no manifest.json"]);
            resume = true;
        }
        if !pair.path("keys.dump/manifest.json").exists() {
            pair.dump(&arguments).exits(1).says(&["already exists", "--resume"]);
            pair.dump(&[&arguments[..], &["--resume"]].concat()).exits(0);
        }
        pair.dump(&[&arguments[..], &["--resume"]].concat()).exits(1).says(&["complete"]);
        pair.dump(&["keys", "-o", "none.dump", "--resume"]).exits(1).says(&["no such folder"]);
        let strays = std::fs::read_dir(pair.path("keys.dump")).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            ["journal.", "dump.lock", ".partial"].iter().any(|word| name.to_string_lossy().contains(word))
        });
        // A dump that was killed between the manifest and the end may leave its journal.
        assert!(strays.count() == 0 || killed_late);
        pair.load(&["keys.dump"]).exits(0);
        assert_equal(&pair, "keys");
    });
}

#[test]
fn a_resumed_dump_names_the_tables_of_an_earlier_snapshot() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &["--log-bin=log", "--server-id=1"]);
    let mut gate = Gate::close(&pair);
    for table in ["same", "altered", "gone"] {
        gate.holder.execute(&format!("CREATE TABLE d.{table} (id INT PRIMARY KEY) ENGINE=MyISAM")).unwrap();
        gate.holder.execute(&format!("INSERT INTO d.{table} VALUES (1), (2)")).unwrap();
    }
    let mut dump = gate.dump(&pair, "d.dump", &[]);
    // Tables without a snapshot come first.
    gate.until_reached(&mut dump);
    pair.dump(&["d", "-o", "d.dump", "--resume"]).exits(11).says(&["another dump into d.dump"]);
    dump.kill();
    let journal = std::fs::read_to_string(pair.path("d.dump/journal.jsonl")).unwrap();
    assert_eq!(journal.matches("{\"table\":").count(), 3, "{journal}");
    gate.open();
    for sql in [
        "INSERT INTO d.same VALUES (3)",
        "ALTER TABLE d.altered ADD COLUMN v INT",
        "DROP TABLE d.gone",
        "UPDATE d.t SET v = 'later' WHERE id = 4000",
        "CREATE TABLE d.new (id INT PRIMARY KEY)",
    ] {
        gate.holder.execute(sql).unwrap();
    }
    // A power failure leaves the last line like this.
    std::fs::write(pair.path("d.dump/journal.jsonl"), format!("{journal}{{\"chunk\":[3,{{")).unwrap();
    pair.dump(&["d", "-o", "d.dump", "--resume"]).exits(1).says(&["--where"]);
    let condition = journal.split("\"condition\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let again = ["d", "-o", "d.dump", "--resume", "--where", condition];
    pair.dump(&[&again[..], &["--compress", "none"]].concat()).exits(1).says(&["--compress"]);
    let elsewhere =
        [&["dump", "--no-defaults", "-u", "root", "-S"][..], &[pair.to.socket().to_str().unwrap()]].concat();
    pair.target().execute("CREATE DATABASE d").unwrap();
    pair.target().execute("SET GLOBAL server_id = 2").unwrap();
    let ended = pair.run(&[&elsewhere[..], &again].concat());
    ended.exits(1).says(&["another server"]);
    pair.target().execute("DROP DATABASE d").unwrap();

    pair.dump(&again).exits(0).says(&["1 of 4 tables kept", "earlier state", "`d`.`same`"]);
    let manifest = std::fs::read_to_string(pair.path("d.dump/manifest.json")).unwrap();
    assert_eq!(manifest.matches("\"earlier\": 0").count(), 1);
    assert!(!pair.path("d.dump/d.gone").exists());
    pair.load(&["d.dump"]).exits(0).says(&["earlier state", "`d`.`same`"]);
    let found = "SELECT (SELECT COUNT(*) FROM d.same), (SELECT v FROM d.t WHERE id = 4000), (SELECT COUNT(*) FROM d.t)";
    let row: Vec<_> = pair.target().strings(found).unwrap().remove(0).into_iter().flatten().collect();
    assert_eq!(row, ["2", "later", "4096"]);
    let ended = pair.diff_with(&pair.from, "d.dump", &[]).exits(4).says(&["earlier state"]);
    assert!(ended.out.contains("`d`.`same`") && !ended.out.contains("`d`.`t`"), "{}", ended.out);
}

#[test]
fn a_dump_ends_with_its_server() {
    on_products(&of_today(products()), |product| {
        for how in ["kill", "stop"] {
            let mut pair = Pair::new(product, product, &[]);
            let mut gate = Gate::close(&pair);
            let mut dump = gate.dump(&pair, "d.dump", &[]);
            gate.until_reached(&mut dump);
            drop(gate);
            if how == "kill" {
                pair.from.kill().unwrap()
            } else {
                pair.from.stop().unwrap()
            }
            let ended = dump.end();
            assert!(ended.code == 1 || ended.code == 10, "{how}: {}", ended.err);
            assert!(!pair.path("d.dump/manifest.json").exists());
        }
    });
}
