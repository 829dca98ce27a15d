//! A server, its backups and its archived log, and what was in the server at a point in time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use sandbox::{Product, Sandbox, Settings};
use server::Session;
use tempfile::TempDir;

use crate::extract::{execute, folder, run, session};
use crate::support::{Ended, Running, mariadbs, of_today, on_products, places, remora, start};

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
        let status = self.session.strings("SHOW MASTER STATUS").unwrap().remove(0);
        let gtid = self.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        let position = format!("{}:{}", status[0].as_ref().unwrap(), status[1].as_ref().unwrap());
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
        let installation = sandbox::find(&places(), self.product).unwrap();
        let options = vec!["--skip-grant-tables".to_owned()];
        let settings = Settings { data: Some(back.clone()), options, ..Settings::default() };
        let server = Sandbox::start(&installation, &places(), &settings).unwrap();
        let found = sums(&mut session(&server));
        drop(server);
        fs::remove_dir_all(back).unwrap();
        found
    }
}

pub(crate) fn on_mariadb(test: impl Fn(Product)) {
    let found: Vec<Product> = of_today(mariadbs());
    on_products(&found, test);
}
