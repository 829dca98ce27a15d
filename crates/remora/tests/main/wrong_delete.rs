//! A wrong DELETE under load, while everything around it is killed: what was there before comes back exactly.
//!
//! `REMORA_STORIES=100` asks for so many rounds; without it there are two, and one on MySQL.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sandbox::{Family, Product, Sandbox, Settings};
use server::{Flavour, Session};

use crate::extract::run;
use crate::recovery_scene::{back_up_frozen, last_gtid};
use crate::reverse_children::run_script;
use crate::support::{
    Running, connect, newest, on_products, pause_writer, places, remora, start, tell, until,
};

/// Rounds on one server, with one repository.
const ROUNDS: u64 = 5;
const WRITERS: u64 = 3;

/// Numbers that look like chance, and are the same in every run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The tables, and a row that must never change.
const TABLES: [&str; 6] = [
    "CREATE TABLE app.p (id BIGINT PRIMARY KEY, name VARCHAR(40), at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))",
    "CREATE TABLE app.c (id BIGINT PRIMARY KEY AUTO_INCREMENT, p BIGINT, f FLOAT, d DOUBLE, t TEXT CHARACTER SET latin1, \
     FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE app.g (c BIGINT, no INT, b VARBINARY(50), PRIMARY KEY (c, no), FOREIGN KEY (c) REFERENCES app.c (id) ON DELETE CASCADE)",
    "CREATE TABLE app.n (id BIGINT PRIMARY KEY AUTO_INCREMENT, p BIGINT, c BIGINT, FOREIGN KEY (p) REFERENCES app.p (id) \
     ON DELETE SET NULL ON UPDATE CASCADE, FOREIGN KEY (c) REFERENCES app.c (id) ON DELETE SET NULL)",
    "CREATE TABLE app.tree (id BIGINT PRIMARY KEY AUTO_INCREMENT, p BIGINT, up BIGINT, FOREIGN KEY (p) REFERENCES app.p (id) \
     ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (up) REFERENCES app.tree (id) ON DELETE CASCADE)",
    "CREATE TABLE app.other (id BIGINT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))",
];

/// The server's sums of all tables.
fn sums(session: &mut Session) -> BTreeMap<String, String> {
    let of = |session: &mut Session, table: &str| {
        let row = session.strings(&format!("CHECKSUM TABLE app.{table} EXTENDED")).unwrap().remove(0);
        let count = session.value(&format!("SELECT COUNT(*) FROM app.{table}")).unwrap().unwrap();
        format!("{count} rows, {}", row[1].clone().unwrap_or_default())
    };
    ["p", "c", "g", "n", "tree", "other"].map(|table| (table.to_owned(), of(session, table))).into()
}

/// The rows that depend on some rows of `p`.
fn below(session: &mut Session, parents: &str) -> Vec<Vec<Option<String>>> {
    let mut all = Vec::new();
    for query in [
        format!("SELECT * FROM app.p WHERE id IN ({parents}) ORDER BY 1"),
        format!("SELECT * FROM app.c WHERE p IN ({parents}) ORDER BY 1"),
        format!("SELECT g.* FROM app.g JOIN app.c ON c.id = g.c WHERE c.p IN ({parents}) ORDER BY 1, 2"),
        format!("SELECT * FROM app.n WHERE p IN ({parents}) ORDER BY 1"),
        format!("SELECT * FROM app.tree WHERE p IN ({parents}) ORDER BY 1"),
    ] {
        all.extend(session.strings(&query).unwrap());
    }
    all
}

/// What one writer does at a time. The server may be killed meanwhile.
fn write(session: &mut Session, chance: &mut Chance, id: u64) -> Result<(), server::Error> {
    let some = chance.below(id.max(1));
    let mut run = |sql: &str| session.execute(sql).map(drop);
    match chance.below(10) {
        0 => run(&format!("DELETE FROM app.p WHERE id = {some}")),
        1 => run(&format!("UPDATE app.p SET id = id + 1000000000 WHERE id = {some}")),
        2 => run(&format!("UPDATE app.c SET f = f + 0.1, t = CONCAT(t, '\u{fc}') WHERE p = {some} LIMIT 2")),
        3 => run(&format!("DELETE FROM app.c WHERE p = {some} LIMIT 1")),
        4 => run("INSERT INTO app.other (v) VALUES ('more')"),
        _ => {
            run("BEGIN")?;
            run(&format!("INSERT INTO app.p (id, name) VALUES ({id}, 'number {id}')"))?;
            run(&format!(
                "INSERT INTO app.c (p, f, d, t) VALUES ({id}, {id} / 3, {id} / 7, 'gr\u{fc}n'), ({id}, 0.1, NULL, NULL)"
            ))?;
            run(&format!(
                "INSERT INTO app.g SELECT id, seq, RANDOM_BYTES(20) FROM app.c, (SELECT 1 AS seq UNION SELECT 2 UNION SELECT 3) s WHERE p = {id}"
            ))?;
            run(&format!("INSERT INTO app.n (p, c) SELECT p, id FROM app.c WHERE p = {id}"))?;
            run(&format!("INSERT INTO app.tree (p) VALUES ({id})"))?;
            run("INSERT INTO app.tree (up) VALUES (LAST_INSERT_ID()), (LAST_INSERT_ID())")?;
            run("COMMIT")
        }
    }
}

/// A round.
struct Story<'a> {
    folder: &'a Path,
    server: Sandbox,
    chance: Chance,
    next: AtomicU64,
}

impl Story<'_> {
    fn with_server(&self, arguments: &[&str]) {
        let socket = self.server.socket().to_str().unwrap();
        run(self.folder, &[arguments, &["--no-defaults", "-u", "root", "-S", socket]].concat()).exits(0);
    }

    fn back_up(&self) {
        match self.server.product().family() {
            Family::MariaDb => {
                self.with_server(&["backup", "mysql:", "--way", "copy", "--name", "db", "--to", "repo"]);
            }
            Family::MySql => back_up_frozen(&self.server, self.folder),
        }
    }

    fn archiver(&self) -> Running {
        let mut command = remora(self.folder);
        command.args(["binlog", "repo/db", "--sync", "100ms", "--no-defaults", "-u", "root", "-S"]);
        command.arg(self.server.socket());
        Running::new(
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
        )
    }

    fn back(&self, data: &str) -> Sandbox {
        let installation = sandbox::find(&places(), self.server.product()).unwrap();
        let options = vec!["--skip-grant-tables".to_owned()];
        let data = Some(self.folder.join(data));
        Sandbox::start(&installation, &places(), &Settings { data, options, ..Settings::default() }).unwrap()
    }

    /// Load, an increment, the wrong DELETE, more load, and an end of everything.
    fn happens(&mut self) -> Wrong {
        let (over, gate, writes) = (AtomicBool::new(false), RwLock::new(()), AtomicU64::new(0));
        let seeds: Vec<u64> = (0..WRITERS).map(|_| self.chance.below(u64::MAX - 1) + 1).collect();
        let [early, late, more] = [60, 60, 40].map(|most| self.chance.below(most));
        let [kills_archiver, backs_up_late] = [2, 2].map(|most| self.chance.below(most) == 0);
        let pick = self.chance.below(5) + 2;
        let archiver = self.archiver();
        let (this, socket) = (&*self, self.server.socket());
        let wrong = std::thread::scope(|scope| {
            for seed in seeds {
                let (over, gate, writes) = (&over, &gate, &writes);
                scope.spawn(move || {
                    let (mut session, mut chance, _stops) = (connect(socket), Chance(seed), Stops(over));
                    while !over.load(Ordering::Relaxed) {
                        pause_writer();
                        let id = this.next.fetch_add(1, Ordering::Relaxed);
                        let _between = gate.read().unwrap();
                        match write(&mut session, &mut chance, id) {
                            Ok(()) => writes.fetch_add(1, Ordering::Relaxed),
                            // The kill.
                            Err(error) if error.is_connection_lost() => return,
                            Err(error) => {
                                assert!(error.is_retryable(), "{error}");
                                session.execute("ROLLBACK").unwrap();
                                0
                            }
                        };
                    }
                });
            }
            let wait = |count: u64| {
                let from = writes.load(Ordering::Relaxed);
                until("the load continues", || {
                    assert!(!over.load(Ordering::Relaxed), "a writer has ended");
                    writes.load(Ordering::Relaxed) >= from + count
                });
            };
            wait(20 + early);
            this.back_up();
            wait(late);
            let wrong = {
                let _alone = gate.write().unwrap();
                Wrong::do_it(&mut connect(socket), pick)
            };
            wait(more);
            if backs_up_late {
                this.back_up();
            }
            if kills_archiver {
                archiver.kill();
                wait(more);
            }
            over.store(true, Ordering::Relaxed);
            let pid = rustix::process::Pid::from_raw(i32::try_from(this.server.pid()).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            wrong
        });
        self.server.kill().unwrap();
        self.server.restart().unwrap();
        self.with_server(&["binlog", "repo/db", "--once"]);
        wrong
    }
}

/// Ends the load however a part of it ends.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The DELETE, and what was there before.
struct Wrong {
    gtid: String,
    sums: BTreeMap<String, String>,
    parents: String,
    rows: Vec<Vec<Option<String>>>,
}

impl Wrong {
    fn do_it(session: &mut Session, pick: u64) -> Wrong {
        let sums = sums(session);
        let rows = session.strings(&format!("SELECT id FROM app.p WHERE id % {pick} = 0")).unwrap();
        let parents: Vec<String> = rows.into_iter().flatten().flatten().collect();
        let parents = if parents.is_empty() { "-1".to_owned() } else { parents.join(", ") };
        let rows = below(session, &parents);
        session.execute(&format!("DELETE FROM app.p WHERE id % {pick} = 0 OR id = 0")).unwrap();
        let gtid = match session.about.flavour {
            Flavour::MariaDb => session.value("SELECT @@last_gtid").unwrap().unwrap(),
            Flavour::MySql => last_gtid(&session.position().unwrap().unwrap().gtid),
        };
        Wrong { gtid, sums, parents, rows }
    }
}

#[test]
fn a_wrong_delete_is_undone_after_any_kill() {
    stories(Product::MariaDb1011);
}

#[test]
fn a_wrong_delete_is_undone_after_any_kill_on_mysql() {
    on_products(&newest("a_wrong_delete_is_undone_after_any_kill_on_mysql"), stories);
}

fn stories(product: Product) {
    // A round on MySQL starts seven servers, which take seconds each.
    let few = if product.family() == Family::MySql { 1 } else { 2 };
    let rounds: u64 = std::env::var("REMORA_STORIES").map_or(few, |text| text.parse().unwrap());
    let first: u64 = std::env::var("REMORA_STORIES_FROM").map_or(1, |text| text.parse().unwrap());
    for number in 0..rounds.div_ceil(ROUNDS) {
        let folder = crate::extract::folder();
        let server = start(
            product,
            &["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--binlog-row-metadata=FULL"],
        );
        let mut session = crate::extract::session(&server);
        crate::extract::execute(&mut session, &TABLES);
        if product.family() == Family::MySql {
            // Else the definitions may be in the redo log alone when the first copy is made.
            let flush = "FLUSH TABLES app.p, app.c, app.g, app.n, app.tree, app.other FOR EXPORT";
            crate::extract::execute(&mut session, &[flush, "UNLOCK TABLES"]);
        }
        let mut story = Story {
            folder: folder.path(),
            server,
            chance: Chance(0x9E37_79B9_7F4A_7C15 ^ ((number + first) << 8)),
            next: AtomicU64::new(1),
        };
        for round in number * ROUNDS..rounds.min((number + 1) * ROUNDS) {
            tell(format!("round {round}, seed {}", number + first));
            is_undone(&mut story);
        }
    }
}

fn is_undone(story: &mut Story<'_>) {
    let wrong = story.happens();
    let folder = story.folder;
    let gtid = wrong.gtid.as_str();
    // MySQL 9.6 and later log what foreign keys changed along.
    let is_mysql = story.server.product().family() == Family::MySql;
    let children: &[&str] = if is_mysql { &[] } else { &["--children"] };
    let reverse = [&["reverse", "repo/db", "--gtid", gtid, "--to", "undo.sql"], children].concat();
    if !is_mysql && story.chance.below(3) == 0 {
        let pipes = remora(folder).args(&reverse).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let running = Running::new(pipes.unwrap());
        until("it has a copy", || {
            let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.any(|name| name.to_string_lossy().contains("remora-boot-"))
        });
        running.kill();
        assert!(!folder.join("undo.sql").exists());
    }
    run(folder, &reverse).exits(0);
    run(folder, &["restore", "repo/db", "--before", gtid, "--to", "before"]).exits(0);
    let before = story.back("before");
    assert_eq!(sums(&mut connect(before.socket())), wrong.sums);
    drop(before);
    run(folder, &["restore", "repo/db", "--until", gtid, "--to", "after"]).exits(0);
    let after = story.back("after");
    let script = folder.join("undo.sql");
    run_script(&after, &script).exits(0);
    assert_eq!(sums(&mut connect(after.socket())), wrong.sums);
    drop(after);
    // On the server that continued, the rows come back beside the rows that were added since.
    run_script(&story.server, &script).exits(0);
    let mut session = connect(story.server.socket());
    assert_eq!(below(&mut session, &wrong.parents), wrong.rows);
    for name in ["before", "after"] {
        std::fs::remove_dir_all(folder.join(name)).unwrap();
    }
    std::fs::remove_file(script).unwrap();
}
