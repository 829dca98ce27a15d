//! Dumps in an object store, which misbehaves, and files that are imported from there.

use std::process::{Command, Stdio};

use sandbox::Product;

use super::interrupt::many_chunks_of;
use super::{Pair, assert_equal};
use crate::store::Fake;
use crate::support::{Ended, Running, of_today, on_products, products, until};

fn in_background(mut command: Command) -> Running {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().unwrap())
}

/// A pair of servers, and a store.
struct Scene {
    pair: Pair,
    store: Fake,
}

impl Scene {
    fn new(product: Product) -> Scene {
        Scene { pair: Pair::new(product, product, &[]), store: Fake::start() }
    }

    /// A command that knows the store.
    fn with_store(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("AWS_ENDPOINT_URL", &self.store.endpoint);
        command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    }

    fn at_store(&self, command: Command) -> Ended {
        Ended::of(&self.with_store(command).output().unwrap())
    }

    fn dump(&self, arguments: &[&str]) -> Ended {
        self.at_store(self.pair.command(&self.pair.from, "dump", arguments))
    }

    fn load(&self, arguments: &[&str]) -> Ended {
        self.at_store(self.pair.command(&self.pair.to, "load", arguments))
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = crate::support::remora(self.pair.folder.path());
        command.args(arguments);
        self.at_store(command)
    }
}

#[test]
fn a_dump_in_a_store_is_loaded_and_compared() {
    on_products(&of_today(products()), |product| {
        let scene = Scene::new(product);
        many_chunks_of(&scene.pair, "keys");
        for format in ["tsv", "parquet"] {
            let place = format!("s3://b/p q/{format}");
            scene.store.set(|state| {
                (state.busy, state.torn, state.answers_lost, state.answers_lost_after) = (3, 2, 2, 5);
            });
            let arguments = ["keys", "-o", &*place, "--format", format, "--chunk", "256K", "-j", "2"];
            scene.dump(&arguments).exits(0).says(&[&format!("in {place}: ")]);
            scene.dump(&arguments).exits(1).says(&["it already exists; give a new folder"]);
            scene.store.set(|state| {
                let names = state.names(&format!("p q/{format}/"));
                assert!(names.contains(&"manifest.json"), "{names:?}");
                assert!(!names.iter().any(|name| name.starts_with("journal")), "{names:?}");
                assert_eq!(state.unfinished(), 0);
                // Who only reads needs no other right.
                (state.reads_cut, state.is_read_only) = (3, true);
            });
            let listed = scene.run(&["dump", "--list", &place]).exits(0).out;
            assert!(listed.contains("table `keys`."), "{listed}");
            scene.run(&["dump", "--check", &place]).exits(0);
            scene.load(&[&place]).exits(0).says(&["all rows read back and equal"]);
            assert_equal(&scene.pair, "keys");
            let url = format!("unix://{}", scene.pair.to.socket().display());
            let diff = ["diff", "--no-defaults", "-u", "root", "--no-users", &place, &url];
            scene.run(&diff).exits(0);
            scene.pair.target().execute("DROP DATABASE `keys`").unwrap();
            // A byte of a file differs.
            scene.store.set(|state| {
                state.is_read_only = false;
                let is_data = |(key, _): &(&String, &mut Vec<u8>)| key.contains(&format!("/{format}/keys."));
                let (_, file) = state.files.iter_mut().find(is_data).unwrap();
                let at = file.len() / 2;
                file[at] ^= 1;
            });
            let checked = scene.run(&["dump", "--check", &place]).exits(4).out;
            assert!(checked.contains(&format!("{place}/keys.")), "{checked}");
            scene.load(&[&place]).exits(4);
            scene.pair.target().execute("DROP DATABASE IF EXISTS `keys`").unwrap();
            scene.pair.target().execute("DROP DATABASE IF EXISTS _remora").unwrap();
        }
        let mut stranger = scene.pair.command(&scene.pair.from, "dump", &["-o", "s3://b/p q/x"]);
        stranger.env("HOME", scene.pair.folder.path()).env_remove("AWS_ACCESS_KEY_ID");
        Ended::of(&stranger.output().unwrap()).exits(2).says(&["set AWS_ACCESS_KEY_ID"]);
    });
}

/// Whatever request was the last one, there is no half dump, and another run completes it.
#[test]
fn a_dump_that_a_store_has_cut_off_is_resumed() {
    on_products(&of_today(products()), |product| {
        let scene = Scene::new(product);
        many_chunks_of(&scene.pair, "keys");
        let arguments = ["keys", "-o", "s3://b/p q/d", "--chunk", "128K", "-j", "2"];
        let mut was_resumed = 0;
        for left in (2..).step_by(37) {
            let is_begun = scene.store.state.lock().unwrap().names("p q/d/").iter().any(|_| true);
            scene.store.set(|state| (state.left, state.now) = (Some(left), state.now + 1000));
            let flag: &[&str] = if is_begun { &["--resume"] } else { &[] };
            let ended = scene.dump(&[&arguments[..], flag].concat());
            let is_whole = scene.store.state.lock().unwrap().files.contains_key("p q/d/manifest.json");
            scene.store.set(|state| state.left = None);
            if is_whole {
                break;
            }
            ended.exits(1);
            let refused = scene.load(&["s3://b/p q/d"]).exits(1);
            let why = ["no manifest.json", "no such folder"];
            assert!(why.iter().any(|why| refused.err.contains(why)), "{}", refused.err);
            was_resumed += usize::from(is_begun);
        }
        assert!(was_resumed > 2, "{was_resumed}");
        scene.run(&["dump", "--check", "s3://b/p q/d"]).exits(0);
        scene.load(&["s3://b/p q/d"]).exits(0).says(&["all rows read back and equal"]);
        assert_equal(&scene.pair, "keys");
    });
}

#[test]
fn a_load_follows_a_dump_in_a_store() {
    on_products(&of_today(products()), |product| {
        let scene = Scene::new(product);
        many_chunks_of(&scene.pair, "keys");
        let arguments = ["keys", "-o", "s3://b/p q/d", "--chunk", "32K", "--max-rate", "2M"];
        let dump = scene.with_store(scene.pair.command(&scene.pair.from, "dump", &arguments));
        let dump = in_background(dump);
        let loading = ["s3://b/p q/d", "--follow"];
        let load = scene.with_store(scene.pair.command(&scene.pair.to, "load", &loading));
        let load = in_background(load);
        until("rows of the running dump are loaded", || scene.pair.chunks().is_some_and(|count| count > 2));
        assert!(!scene.store.state.lock().unwrap().files.contains_key("p q/d/manifest.json"));
        dump.end().exits(0);
        load.end().exits(0).says(&["all rows read back and equal"]);
        assert_equal(&scene.pair, "keys");
    });
}

#[test]
fn files_of_a_store_are_imported() {
    on_products(&of_today(products()), |product| {
        let scene = Scene::new(product);
        let mut source = scene.pair.source();
        source.execute("CREATE DATABASE d").unwrap();
        source.execute("CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(20))").unwrap();
        source.execute("INSERT INTO d.t VALUES (1, 'one'), (2, NULL), (3, 'three')").unwrap();
        scene.store.set(|state| {
            for (name, text) in [("1.csv", "id,name\n1,one\n2,\\N\n"), ("2.csv", "id,name\n3,three\n")] {
                state.files.insert(format!("p q/in/{name}"), text.as_bytes().to_vec());
            }
            state.files.insert("p q/in/deep/3.csv".to_owned(), b"id,name\n4,four\n".to_vec());
        });
        let import = |files: &str, table: &str| {
            scene.at_store(scene.pair.command(
                &scene.pair.from,
                "import",
                &[files, "--into", table, "--create", "--key", "id"],
            ))
        };
        import("s3://b/p q/in/*.csv", "d.csv").exits(0);
        scene.dump(&["d.t", "-o", "s3://b/p q/d", "--format", "parquet"]).exits(0);
        import("s3://b/p q/d/d.t/*.parquet", "d.parquet").exits(0);
        for table in ["csv", "parquet"] {
            let sql = format!("SELECT GROUP_CONCAT(id, IFNULL(name, '-') ORDER BY id) FROM d.{table}");
            assert_eq!(source.value(&sql).unwrap().unwrap(), "1one,2-,3three", "{table}");
        }
        let folders = ["d.t", "-o", "s3://b/p q/h", "--format", "parquet", "--partition", "name"];
        scene.dump(&folders).exits(0);
        scene.store.set(|state| {
            let names = state.names("p q/h/d.t/");
            assert!(names.contains(&"name=three/00000.parquet") && names.len() == 3, "{names:?}");
        });
        scene.run(&["dump", "--check", "s3://b/p q/h"]).exits(0);
        scene.load(&["s3://b/p q/h"]).exits(0).says(&["all rows read back and equal"]);
        let hive =
            ["s3://b/p q/h/d.t/*/*.parquet", "--hive", "--into", "d.folders", "--create", "--key", "id"];
        scene.at_store(scene.pair.command(&scene.pair.from, "import", &hive)).exits(0);
        let sql = "SELECT GROUP_CONCAT(id, IFNULL(name, '-') ORDER BY id) FROM d.folders";
        assert_eq!(source.value(sql).unwrap().unwrap(), "1one,2-,3three");
        import("s3://b/p q/in/*.tsv", "d.none").exits(2).says(&["no file matches"]);
        import("s3://b/p q/in/9.csv", "d.none").exits(1).says(&["s3://b/p q/in/9.csv"]);
    });
}
