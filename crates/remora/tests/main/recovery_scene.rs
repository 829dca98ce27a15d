//! A server, its backups and its archived log, and what was in the server at a point in time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sandbox::{Family, Product, Sandbox, Settings};
use serde_json::json;
use server::Session;
use tempfile::TempDir;

use crate::extract::{execute, folder, run, session};
use crate::mount::generation_as;
use crate::support::{
    Ended, Running, connect, mariadbs, of_today, on_products, places, remora, start, until,
};

/// A server with a log, a repository with its generations and the archive.
pub(crate) struct Scene {
    product: Product,
    pub(crate) folder: TempDir,
    pub(crate) server: Sandbox,
    pub(crate) session: Session,
}

/// A point in time of the original server.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) gtid: String,
    pub(crate) position: String,
    pub(crate) sums: BTreeMap<String, String>,
}

/// The sums of all tables of the user.
pub(crate) fn sums(session: &mut Session) -> BTreeMap<String, String> {
    let found = session
        .strings(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema LIKE 'app%' \
             AND table_type = 'BASE TABLE'",
        )
        .unwrap();
    let mut sums = BTreeMap::new();
    for table in found.into_iter().flatten().flatten() {
        let row = session.strings(&format!("CHECKSUM TABLE {table} EXTENDED")).unwrap().remove(0);
        let shown = session.strings(&format!("SHOW CREATE TABLE {table}")).unwrap().remove(0);
        sums.insert(table, format!("{:?} {:?}", row[1], shown[1]));
    }
    let accounts = session.strings("SELECT user, host FROM mysql.user ORDER BY 1, 2").unwrap();
    sums.insert("accounts".to_owned(), format!("{accounts:?}"));
    sums
}

/// The last transaction of a set of GTIDs of one MySQL server.
pub(crate) fn last_gtid(set: &str) -> String {
    let (source, numbers) = set.rsplit_once(':').unwrap_or_default();
    format!("{source}:{}", numbers.rsplit('-').next().unwrap_or_default())
}

/// A generation of a running server's data, as `repo/db`, as a snapshot under the server's lock has them: of
/// one point in time, which it notes, and not shut down.
pub(crate) fn back_up_frozen(server: &Sandbox, folder: &Path) {
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    let mut session = connect(server.socket());
    session.execute("FLUSH TABLES WITH READ LOCK").unwrap();
    let note = json!({
        "tree": true,
        "position": session.position().unwrap(),
        "server": instance::settings::note(&mut session).unwrap(),
    });
    signal(rustix::process::Signal::STOP);
    until("it is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        stat.rsplit(')').next().unwrap().trim().starts_with('T')
    });
    generation_as("db", &note.to_string(), folder, server.data());
    signal(rustix::process::Signal::CONT);
}

impl Scene {
    pub(crate) fn new(product: Product, options: &[&str]) -> Scene {
        let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=MIXED", "--local-infile=1"];
        Scene::of(start(product, &[&own[..], options].concat()))
    }

    /// The same with a server that has a log.
    pub(crate) fn of(server: Sandbox) -> Scene {
        let session = session(&server);
        let mut scene = Scene { product: server.product(), folder: folder(), server, session };
        scene.does(&["CREATE TABLE app.t (id INT PRIMARY KEY, text VARCHAR(50))"]);
        scene.does(&["INSERT INTO app.t VALUES (1, 'one'), (2, 'two')"]);
        scene
    }

    pub(crate) fn does(&mut self, statements: &[&str]) {
        execute(&mut self.session, statements);
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        run(self.folder.path(), arguments)
    }

    pub(crate) fn with_server(&self, arguments: &[&str]) -> Ended {
        let socket = self.server.socket().to_str().unwrap();
        let ended = self.run(&[arguments, &["--no-defaults", "-u", "root", "-S", socket]].concat());
        assert!(ended.code == 0 || ended.code == 12, "{}", ended.err);
        ended
    }

    pub(crate) fn backup(&self) {
        if self.product.family() == Family::MySql {
            return back_up_frozen(&self.server, self.folder.path());
        }
        self.with_server(&["backup", "mysql:", "--way", "copy", "--name", "db", "--to", "repo"]);
    }

    pub(crate) fn archive(&self) {
        self.with_server(&["binlog", "repo/db", "--once"]);
    }

    /// Archives until it is ended.
    pub(crate) fn archiver(&self) -> Running {
        let mut command = remora(self.folder.path());
        command.args(["binlog", "repo/db", "--no-defaults", "-u", "root", "-S"]).arg(self.server.socket());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    /// Replaces the notes of when the bytes of the first file arrived; `None` removes them.
    pub(crate) fn came(&self, notes: Option<&str>) {
        let path = self.folder.path().join("repo/db/log/000001/binlog.000001.arrived");
        match notes {
            Some(notes) => fs::write(path, notes).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }

    pub(crate) fn moment(&mut self) -> Moment {
        let status = self.session.binary_log_status().unwrap().remove(0);
        let position = format!("{}:{}", status[0].as_ref().unwrap(), status[1].as_ref().unwrap());
        let gtid = match self.product.family() {
            Family::MariaDb => self.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap(),
            Family::MySql => last_gtid(status[4].as_deref().unwrap_or_default()),
        };
        Moment { gtid, position, sums: sums(&mut self.session) }
    }

    pub(crate) fn restore(&self, more: &[&str]) -> Ended {
        self.run(&[&["restore", "repo/db", "--to", "back"], more].concat())
    }

    /// A restore that fails, and leaves nothing.
    pub(crate) fn does_not_restore(&self, more: &[&str], code: i32, why: &str) {
        let ended = self.restore(more);
        assert_eq!(ended.code, code, "{}", ended.err);
        assert!(ended.err.contains(why), "{}", ended.err);
        let left: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().contains("back")), "{left:?}");
        assert!(left.iter().all(|name| !name.to_string_lossy().contains("remora-boot")), "{left:?}");
    }

    /// Restores, and gives what a server finds in the folder, which is removed.
    pub(crate) fn restored(&self, more: &[&str]) -> (BTreeMap<String, String>, Ended) {
        let ended = self.restore(more);
        assert_eq!(ended.code, 0, "{}", ended.err);
        (self.found(), ended)
    }

    /// What a server finds in the restored folder, which is removed.
    pub(crate) fn found(&self) -> BTreeMap<String, String> {
        let back = self.folder.path().join("back");
        let logs: Vec<PathBuf> = fs::read_dir(&back).unwrap().map(|entry| entry.unwrap().path()).collect();
        let left = logs.iter().find(|path| {
            ["binlog", "relay", "master.info"].iter().any(|part| {
                let name = path.file_name().unwrap().to_string_lossy();
                name.contains(part) && name != "multi-master.info"
            })
        });
        assert_eq!(left, None, "a log would be a false history");
        let server = self.served("back");
        let found = sums(&mut session(&server));
        drop(server);
        fs::remove_dir_all(back).unwrap();
        found
    }

    /// A server on restored data, without accounts.
    pub(crate) fn served(&self, folder: &str) -> Sandbox {
        let installation = sandbox::find(&places(), self.product).unwrap();
        let options = vec!["--skip-grant-tables".to_owned()];
        let data = Some(self.folder.path().join(folder));
        Sandbox::start(&installation, &places(), &Settings { data, options, ..Settings::default() }).unwrap()
    }
}

pub(crate) fn on_mariadb(test: impl Fn(Product)) {
    let found: Vec<Product> = of_today(mariadbs());
    on_products(&found, test);
}
