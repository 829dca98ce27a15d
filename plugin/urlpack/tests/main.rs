//! The functions in real servers: every MariaDB and MySQL that is on this machine.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]
#![expect(clippy::disallowed_methods, reason = "the test lays out the server's folders")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sandbox::{Places, Product, Sandbox, Settings};
use urlpack::{Options, train};

/// URLs in the test's table.
const ROWS: usize = 5_000;

/// A server that ends with the test.
struct Server(Sandbox);

/// The library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("liburlpack_udf.so")
}

impl Server {
    fn start(places: &Places, product: Product) -> Self {
        let settings = Settings { plugins: vec![library()], ..Settings::default() };
        let installation = sandbox::find(places, product).unwrap();
        let server = Self(Sandbox::start(&installation, places, &settings).unwrap());
        std::fs::create_dir(server.models()).unwrap();
        let install = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/urlpack.sql");
        server.do_it(&format!("CREATE DATABASE t;\nSOURCE {install}"));
        server
    }

    fn models(&self) -> PathBuf {
        self.0.plugin_dir().join("urlpack")
    }

    fn sql(&self, sql: &str) -> Command {
        let mut command = Command::new(sandbox::client().unwrap());
        command.arg("--no-defaults").arg(format!("--socket={}", self.0.socket().display()));
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
        let new = self.models().join("new");
        std::fs::write(&new, file).unwrap();
        std::fs::rename(new, self.models().join(name)).unwrap();
    }
}

fn urls() -> Vec<String> {
    (0..ROWS)
        .map(|row| format!("http://{}.example/{row}", ["a", "b", "c", "d", "e", "f", "g"][row % 7]))
        .collect()
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
    // What could not be unpacked again is not packed.
    assert_eq!(server.run("SELECT LENGTH(url_unpack(url_pack(REPEAT('a', 1048576))))"), "1048576");
    assert!(server.run("SELECT url_pack(REPEAT('a', 1048577))").contains("at most 1048576 are packed"));
    server.do_it("CREATE TABLE t.e (u VARBINARY(100) NOT NULL)");
    assert!(server.run("INSERT INTO t.e SELECT url_unpack(x'ff')").contains("ERROR 1105"));
    assert_eq!(server.run("SELECT COUNT(*) FROM t.e"), "0");
}

fn tables(server: &Server) {
    server.do_it(
        "CREATE TABLE t.p (id INT PRIMARY KEY AUTO_INCREMENT, s VARBINARY(200), u VARBINARY(400), UNIQUE (u))",
    );
    let values: Vec<String> = urls().iter().map(|url| format!("('{url}')")).collect();
    server.do_it(&format!("INSERT INTO t.p (s) VALUES {}", values.join(",")));
    server.do_it("UPDATE t.p SET u = url_pack(s)");
    assert_eq!(server.run("SELECT COUNT(*), SUM(url_unpack(u) = s) FROM t.p"), "5000\t5000");
    let mut sorted = urls();
    sorted.sort();
    assert_eq!(server.run("SELECT s FROM t.p ORDER BY u"), sorted.join("\n"));
    for prefix in
        ["", "http://c.example/", "http://c.example/4", "http://c.exampl", "h", "i", "http://g.example/4999"]
    {
        let expected = urls().iter().filter(|url| url.starts_with(prefix)).count().to_string();
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
    let mut options = Options::new(40_000);
    options.number = 1;
    let model = train(urls(), &options, &mut |_| {}).unwrap();
    server.add_model("site.urlmodel", &model);
    let all = "SELECT COUNT(*), SUM(url_unpack(u) = s) FROM t.p";
    server.do_it("UPDATE t.p SET u = url_pack(url_unpack(u), 'site') WHERE id % 2");
    assert_eq!(server.run(all), "5000\t5000");
    let with = |name: &str| {
        server.run(&format!("SELECT COUNT(*) FROM t.p WHERE url_pack_info(u) LIKE '%\"model\": \"{name}\"%'"))
    };
    assert_eq!((with("site"), with("small")), ("2500".to_owned(), "2500".to_owned()));
    server.do_it("UPDATE t.p SET u = url_pack(url_unpack(u), IF(id, 'site', 'small'))");
    assert_eq!(server.run(all), "5000\t5000");
    assert_eq!(server.run("SELECT SUM(ASCII(u) = 0xf0) FROM t.p"), "5000");
    server.add_model("twin.urlmodel", &model);
    assert!(
        server
            .run("SELECT url_unpack(u) FROM t.p LIMIT 1")
            .contains("models site and twin both have number 1")
    );
    std::fs::remove_file(server.models().join("twin.urlmodel")).unwrap();
    server.add_model("broken.urlmodel", &model[..1000]);
    assert!(server.run("SELECT url_pack('a', 'broken')").contains("cut short"));
    assert_eq!(server.run(all), "5000\t5000");
}

/// A file that could have number 0 and can't be read: the built-in model must not unpack what another packed.
fn damaged_model_of_number_0(server: &Server) {
    let model = train(urls(), &Options::new(40_000), &mut |_| {}).unwrap();
    let own = server.models().join("own.urlmodel");
    server.add_model("own.urlmodel", &model);
    let packed = server.run("SELECT HEX(url_pack('http://a.example/7'))");
    let unpack = format!("SELECT url_unpack(x'{packed}')");
    assert_eq!(server.run(&unpack), "http://a.example/7");
    // Written in place, as cp does: first a part, then the rest.
    for part in [0, 5, model.len() - 1] {
        std::fs::write(&own, &model[..part]).unwrap();
        assert!(server.run(&unpack).contains("model own"), "{}", server.run(&unpack));
        assert!(server.run("SELECT url_pack('x')").contains("model own"));
        assert_eq!(server.run("SELECT LENGTH(url_pack('x', 'site')) > 0"), "1");
    }
    std::fs::write(&own, &model).unwrap();
    assert_eq!(server.run(&unpack), "http://a.example/7");
    // A damaged file is not in the way of a sound one, whichever name comes first.
    for name in ["a.urlmodel", "z.urlmodel"] {
        for part in [0, 1000] {
            server.add_model(name, &model[..part]);
            assert_eq!(server.run(&unpack), "http://a.example/7");
        }
        std::fs::remove_file(server.models().join(name)).unwrap();
    }
    // A damaged file of another number is not in the way of number 0.
    std::fs::remove_file(&own).unwrap();
    let mut options = Options::new(40_000);
    options.number = 5;
    let other = train(urls(), &options, &mut |_| {}).unwrap();
    server.add_model("other.urlmodel", &other[..1000]);
    assert_eq!(server.run("SELECT url_unpack(url_pack('x'))"), "x");
    // A name says nothing about a number.
    server.add_model("small.urlmodel", &other);
    assert_eq!(server.run("SELECT url_unpack(url_pack('x')), HEX(LEFT(url_pack('x', 'small'), 1))"), "x\tF4");
    for name in ["other.urlmodel", "small.urlmodel"] {
        std::fs::remove_file(server.models().join(name)).unwrap();
    }
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
fn functions_in_every_server() {
    assert!(library().exists(), "cargo builds the library before its tests");
    let places = Places::customary(|name| std::env::var_os(name)).unwrap();
    let here =
        sandbox::covered(&places, |name| std::env::var_os(name)).unwrap_or_else(|error| panic!("{error}"));
    for product in here.into_iter().map(|installation| installation.product) {
        eprintln!("== {product}");
        let server = Server::start(&places, product);
        values(&server);
        errors(&server);
        tables(&server);
        move_to_another_model(&server);
        damaged_model_of_number_0(&server);
        sixteen_at_once(&server);
    }
}
