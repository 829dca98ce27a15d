//! The functions in a real server: MariaDB from the path, in a folder of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]
#![expect(clippy::disallowed_methods, reason = "the test makes the server's folders")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use urlpack::{Options, train};

/// A server that ends with the test.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// The library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("liburlpack_udf.so")
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("plugin/urlpack")).unwrap();
        std::fs::copy(library(), at("plugin/liburlpack_udf.so")).unwrap();
        let made = Command::new("mariadb-install-db")
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--user=root",
            ])
            .arg(format!("--datadir={}", at("data").display()))
            .stdout(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        let child = Command::new("mariadbd")
            .args(["--no-defaults", "--skip-networking", "--plugin-maturity=unknown", "--user=root"])
            .arg(format!("--datadir={}", at("data").display()))
            .arg(format!("--socket={}", at("socket").display()))
            .arg(format!("--plugin-dir={}", at("plugin").display()))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { folder, child };
        let up = server.client("mariadb-admin").args(["--wait=60", "ping"]).stdout(Stdio::null()).status();
        assert!(up.unwrap().success());
        let install = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/urlpack.sql");
        server.do_it(&format!("CREATE DATABASE t;\nSOURCE {install}"));
        server
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--no-defaults").arg(format!("--socket={}", self.folder.path().join("socket").display()));
        command
    }

    fn sql(&self, sql: &str) -> Command {
        let mut command = self.client("mariadb");
        command.args(["--batch", "--skip-column-names", "--user=root", "--execute", sql]);
        command
    }

    /// What a statement prints, or its error.
    fn run(&self, sql: &str) -> String {
        let output = self.sql(sql).output().unwrap();
        let text = if output.status.success() { output.stdout } else { output.stderr };
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }

    /// A statement that prints nothing.
    fn do_it(&self, sql: &str) {
        assert_eq!(self.run(sql), "", "{sql}");
    }

    fn add_model(&self, name: &str, file: &[u8]) {
        let folder = self.folder.path().join("plugin/urlpack");
        std::fs::write(folder.join("new"), file).unwrap();
        std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }
}

fn values(server: &Server) {
    assert_eq!(
        server.run("SELECT url_unpack(url_pack('http://a.example/')), url_pack(NULL), url_unpack(NULL)"),
        "http://a.example/\tNULL\tNULL"
    );
    assert_eq!(server.run("SELECT HEX(url_unpack(url_pack(x'00ff00')))"), "00FF00");
    assert_eq!(server.run("SELECT LENGTH(url_unpack(url_pack(REPEAT('http://x/', 7281))))"), "65529");
    assert_eq!(server.run("SELECT CONCAT('<', url_pack(''), url_prefix_min(''), '>')"), "<>");
    assert_eq!(server.run("SELECT url_unpack(url_pack(123)), COLLATION(url_pack('x'))"), "123\tbinary");
    assert!(
        server
            .run("SELECT url_pack_info(url_pack('http://a.example/'))")
            .starts_with("{\"model\": \"small\", \"number\": 0,")
    );
    assert!(server.run("SELECT url_pack_info(x'ff')").contains("\"error\""));
}

fn errors(server: &Server) {
    assert!(server.run("SELECT url_unpack(x'ff')").starts_with("ERROR 1105"));
    assert!(server.run("SELECT url_unpack(x'f0')").contains("no model has number 1"));
    assert!(server.run("SELECT url_pack('a', 'none')").contains("there is no model none; there are small"));
    assert!(
        server
            .run("SELECT url_pack('a', m) FROM (SELECT 'none' m UNION SELECT 'no') x")
            .contains("no model none")
    );
    assert!(server.run("SELECT url_pack()").contains("use url_pack(string [, model])"));
    assert!(server.run("SELECT url_unpack('a', 'b')").contains("use url_unpack(packed)"));
}

fn tables(server: &Server) {
    server.do_it("CREATE TABLE t.p (id INT PRIMARY KEY AUTO_INCREMENT, s VARBINARY(200), u VARBINARY(400), UNIQUE (u))");
    server.do_it(
        "INSERT INTO t.p (s, u) SELECT s, url_pack(s) FROM
         (SELECT CONCAT('http://', CHAR(97 + seq % 7), '.example/', seq) s FROM t.seq_1_to_5000) x",
    );
    assert_eq!(server.run("SELECT COUNT(*), SUM(url_unpack(u) = s) FROM t.p"), "5000\t5000");
    let places = "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY u) a, ROW_NUMBER() OVER (ORDER BY s) b FROM t.p) x WHERE a <> b";
    assert_eq!(server.run(places), "0");
    for prefix in
        ["", "http://c.example/", "http://c.example/4", "http://c.exampl", "h", "i", "http://g.example/4999"]
    {
        let expected =
            server.run(&format!("SELECT COUNT(*) FROM t.p WHERE LEFT(s, LENGTH('{prefix}')) = '{prefix}'"));
        let (min, max) = (format!("url_prefix_min('{prefix}')"), format!("url_prefix_max('{prefix}')"));
        assert_eq!(
            server.run(&format!("SELECT COUNT(*) FROM t.p WHERE u BETWEEN {min} AND {max}")),
            expected
        );
        assert_eq!(server.run(&format!("SELECT COUNT(*) FROM t.p WHERE u >= {min} AND u < {max}")), expected);
    }
    let explain = "EXPLAIN SELECT id FROM t.p WHERE u BETWEEN url_prefix_min('http://c.example/44') AND url_prefix_max('http://c.example/44')";
    assert!(server.run(explain).contains("\trange\t"));
    assert!(
        server.run("INSERT INTO t.p (u) VALUES (url_pack('http://c.example/9'))").contains("Duplicate entry")
    );
}

/// A table moves to a new model row by row, readable all the time.
fn move_to_another_model(server: &Server) {
    let urls: Vec<String> = (0..5000).map(|n| format!("http://{}.example/{n}", n % 7)).collect();
    let mut options = Options::new(40_000);
    options.number = 1;
    let model = train(&urls, &options, &mut |_| {}).unwrap();
    server.add_model("site.urlmodel", &model);
    server.do_it("UPDATE t.p SET u = url_pack(url_unpack(u), 'site') WHERE id % 2");
    assert_eq!(server.run("SELECT COUNT(*), SUM(url_unpack(u) = s) FROM t.p"), "5000\t5000");
    assert_eq!(
        server.run("SELECT DISTINCT JSON_VALUE(url_pack_info(u), '$.model') m FROM t.p ORDER BY m"),
        "site\nsmall"
    );
    server.do_it("UPDATE t.p SET u = url_pack(url_unpack(u), IF(id, 'site', 'small'))");
    assert_eq!(
        server.run("SELECT COUNT(*), SUM(url_unpack(u) = s), SUM(ASCII(u) = 0xf0) FROM t.p"),
        "5000\t5000\t5000"
    );
    server.add_model("twin.urlmodel", &model);
    assert!(
        server
            .run("SELECT url_unpack(u) FROM t.p LIMIT 1")
            .contains("models site and twin both have number 1")
    );
    std::fs::remove_file(server.folder.path().join("plugin/urlpack/twin.urlmodel")).unwrap();
    server.add_model("broken.urlmodel", &model[..1000]);
    assert!(server.run("SELECT url_pack('a', 'broken')").contains("cut short"));
    assert_eq!(server.run("SELECT SUM(url_unpack(u) = s) FROM t.p"), "5000");
}

fn sixteen_at_once(server: &Server) {
    let sql = "SELECT SUM(url_unpack(url_pack(s)) = s), SUM(url_unpack(url_pack(s, 'site')) = s) FROM t.p";
    let running: Vec<Child> =
        (0..16).map(|_| server.sql(sql).stdout(Stdio::piped()).spawn().unwrap()).collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), "5000\t5000");
    }
}

#[test]
fn functions_in_mariadb() {
    assert!(Path::new(&library()).exists(), "cargo builds the library before its tests");
    let server = Server::start();
    values(&server);
    errors(&server);
    tables(&server);
    move_to_another_model(&server);
    sixteen_at_once(&server);
}
