//! `remora log --to`: changes of rows as files. What is in them is tested in the crate `changes`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::Family;
use serde_json::Value;

use crate::binlog::Play;
use crate::extract::{data, execute, folder, run, session};
use crate::reverse::VALUES;
use crate::store::Fake;
use crate::support::{
    Ended, Running, connect, mariadbs, of_today, on_products, products, remora, start, tell, until,
};

/// The log says what columns are.
const FULL: &str = "--binlog-row-metadata=FULL";

/// Values of each type but times that are none, which are in no column, and shapes, which import as bytes.
fn values() -> Vec<(&'static str, [&'static str; 2])> {
    let is_plain = |(kind, first, second): &&(&str, &str, &str)| {
        *kind != "POINT"
            && ![first, second].iter().any(|value| value.contains("0000-00") || value.contains("02-31"))
    };
    VALUES.iter().filter(is_plain).map(|(kind, first, second)| (*kind, [*first, *second])).collect()
}

/// The last change of each row is the row, whatever its type: what an engine that merges changes relies on.
#[test]
fn the_last_changes_of_all_rows_are_the_table() {
    on_products(&of_today(products()), |product| {
        tell(product);
        // MySQL 5.6 can't say more; with it, the definition does.
        let is_mysql = product.family() == Family::MySql;
        let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW"];
        let server = start(product, &[&own[..], if is_mysql { &[] } else { &[FULL] }].concat());
        let mut session = session(&server);
        let values = values();
        let columns: Vec<String> =
            values.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}")).collect();
        let row = |which: usize| values.iter().map(|(_, both)| both[which]).collect::<Vec<_>>();
        let to = |which: usize| {
            let set = row(which).into_iter().enumerate().map(|(at, value)| format!("c{at} = {value}"));
            set.collect::<Vec<_>>().join(", ")
        };
        execute(
            &mut session,
            &[
                "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = ''",
                &format!("CREATE TABLE v (id INT PRIMARY KEY, {})", columns.join(", ")),
                &format!("INSERT INTO v VALUES (1, {})", row(0).join(", ")),
                &format!("INSERT INTO v VALUES (2, {})", row(1).join(", ")),
                &format!("UPDATE v SET {} WHERE id = 1", to(1)),
                &format!("UPDATE v SET {} WHERE id = 2", to(0)),
                "BEGIN",
                "UPDATE v SET id = 3 WHERE id = 1",
                "INSERT INTO v (id) VALUES (4)",
                "DELETE FROM v WHERE id = 4",
                "COMMIT",
            ],
        );
        let folder = folder();
        let table = session.strings("SHOW CREATE TABLE v").unwrap().remove(0)[1].clone().unwrap();
        std::fs::write(folder.path().join("v.sql"), format!("USE app;\n{table};\n")).unwrap();
        let (data, socket) = (data(&server), server.socket().to_str().unwrap());
        let schema: &[&str] = if is_mysql { &["--schema", "v.sql"] } else { &[] };
        let arguments = ["log", &data, "--table", "app.v", "--format", "parquet", "--to", "lake"];
        run(folder.path(), &[&arguments[..], schema].concat()).exits(0).says(&["7 changes in "]);
        let import = ["import", "--no-defaults", "-u", "root", "-S", socket, "lake/app.v/*.parquet"];
        run(folder.path(), &[&import[..], &["--into", "app.changes", "--create"]].concat()).exits(0);
        let names: Vec<String> = (0..values.len()).map(|at| format!("c{at}")).collect();
        execute(
            &mut session,
            &[
                "CREATE TABLE merged LIKE v",
                &format!(
                    "INSERT INTO merged SELECT id, {} FROM changes c \
                     WHERE _change_type IN ('insert', 'update_postimage') AND NOT EXISTS (SELECT 1 FROM changes later \
                     WHERE later.id = c.id AND (later._log_file, later._log_position, later._row) \
                     > (c._log_file, c._log_position, c._row))",
                    names.join(", ")
                ),
            ],
        );
        assert_eq!(session.value("SELECT COUNT(*) FROM merged").unwrap().as_deref(), Some("2"));
        let sums = session.strings("CHECKSUM TABLE v, merged EXTENDED").unwrap();
        let shown = || session_rows(&server);
        assert_eq!(sums[0][1], sums[1][1], "{:?}", shown());
    });
}

/// Both tables as text.
fn session_rows(server: &sandbox::Sandbox) -> Vec<Vec<Option<String>>> {
    let mut session = connect(server.socket());
    session.execute("SET NAMES utf8mb4, time_zone = '+00:00'").unwrap();
    session.strings("SELECT * FROM app.v UNION ALL SELECT * FROM app.merged ORDER BY id").unwrap()
}

/// A run that follows, into a folder or a store.
struct Lake<'a> {
    play: &'a Play,
    store: &'a Fake,
    to: &'a str,
}

impl Lake<'_> {
    fn command(&self, more: &[&str]) -> Command {
        // A run that was killed has not given back its lock in a store, which is free after two minutes.
        self.store.set(|state| state.now += 1000);
        let mut command = remora(self.play.folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("AWS_ENDPOINT_URL", &self.store.endpoint);
        command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.args(["log", "repo/db", "--table", "app.t", "--format", "jsonl", "--to", self.to]).args(more);
        command
    }

    fn follow(&self) -> Running {
        let mut command = self.command(&["--follow", "--every", "1s"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    /// The files of the table, as readers find them.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        if let Some(folder) = self.to.strip_prefix("s3://b/") {
            let begin = format!("{folder}/app.t/");
            self.store.set(|state| {
                let own = state.files.iter().filter(|(name, _)| name.starts_with(&begin));
                files.extend(own.map(|(name, bytes)| (name.clone(), bytes.clone())));
            });
            return files;
        }
        let folder = self.play.folder.path().join(self.to).join("app.t");
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                files.insert(path.display().to_string(), std::fs::read(&path).unwrap());
            }
        }
        files
    }

    /// The ids that were inserted, in the order of the log.
    fn ids(&self) -> Vec<u64> {
        let text: Vec<u8> = self.files().into_values().flatten().collect();
        let lines = std::str::from_utf8(&text).unwrap().lines();
        lines
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["after"]["id"].as_u64().unwrap())
            .collect()
    }
}

/// Tells a writer to stop, also if the test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Inserts rows until it is told to stop. Returns how many.
fn inserted_until(play: &Play, stop: &AtomicBool) -> u64 {
    let mut session = connect(play.server.socket());
    let mut id = 0;
    while !stop.load(Ordering::Relaxed) {
        id += 1;
        session.execute(&format!("INSERT INTO app.t VALUES ({id})")).unwrap();
        if id % 500 == 0 {
            session.execute("FLUSH BINARY LOGS").unwrap();
        }
    }
    id
}

/// The log is archived while a client writes. Runs that write its changes into a folder and into a store are
/// killed again and again, as soon as they have written something.
#[test]
fn each_change_is_written_once_though_runs_are_killed() {
    on_products(&of_today(mariadbs())[..1], |product| {
        let mut play = Play::new(product, &[FULL]);
        play.does(&["CREATE TABLE t (id INT PRIMARY KEY)"]);
        let mut archiver = play.follow(&[]);
        archiver.until_says("caught up");
        let (stop, store) = (AtomicBool::new(false), Fake::start());
        let last = std::thread::scope(|scope| {
            let writer = scope.spawn(|| inserted_until(&play, &stop));
            let stopping = Stopping(&stop);
            for to in ["lake", "s3://b/lake"] {
                let lake = Lake { play: &play, store: &store, to };
                for _ in 0..4 {
                    let before = lake.files().len();
                    let mut run = lake.follow();
                    until("a file has its name", || {
                        run.must_run();
                        lake.files().len() > before
                    });
                    run.kill();
                }
            }
            drop(stopping);
            writer.join().unwrap()
        });
        play.until_archived(1);
        archiver.signal("TERM");
        archiver.end().exits(143);
        for to in ["lake", "s3://b/lake"] {
            let lake = Lake { play: &play, store: &store, to };
            Ended::of(&lake.command(&[]).output().unwrap()).exits(0);
            assert_eq!(lake.ids(), (1..=last).collect::<Vec<u64>>(), "{to}");
            Ended::of(&lake.command(&[]).output().unwrap()).exits(0).says(&["0 changes in 0 files"]);
        }
    });
}

#[test]
fn a_log_that_says_too_little_of_columns_is_refused_with_the_way_out() {
    on_products(&of_today(mariadbs())[..1], |product| {
        let mut play = Play::new(product, &[]);
        play.does(&["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
        let data = data(&play.server);
        let to = |more: &[&str]| {
            let arguments = ["log", &data, "--format", "jsonl", "--to", "lake"];
            run(play.folder.path(), &[&arguments[..], more].concat())
        };
        to(&[])
            .exits(1)
            .says(&["app.t: the log does not say the name of column 1", "binlog_row_metadata = FULL"]);
        let table = play.session.strings("SHOW CREATE TABLE t").unwrap().remove(0)[1].clone().unwrap();
        std::fs::write(play.folder.path().join("t.sql"), format!("USE app;\n{table};\n")).unwrap();
        to(&["--schema", "t.sql"]).exits(0).says(&["1 change in "]);
        // The next run says where it continues, and finds nothing.
        to(&[]).exits(0).says(&["lake continues at binlog.", "0 changes in 0 files of lake"]);
        let told = to(&["--json"]).exits(0).out;
        let summary: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        assert_eq!((&summary["changes"], &summary["next"]["timeline"]), (&0.into(), &0.into()), "{summary}");
        assert!(Path::new(&play.folder.path().join("lake/app.t")).is_dir());
    });
}
