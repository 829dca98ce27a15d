//! The functions in real servers: every MariaDB and MySQL that is on this machine.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]
#![expect(clippy::disallowed_methods, reason = "the test lays out the server's folders")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sandbox::{Places, Product, Sandbox, Settings};
use urlpack::{Family, Key, Model, Options, Pin, Registry, train};

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
        let options = vec!["--log-bin=binlog".to_owned(), "--server-id=1".to_owned()];
        let settings = Settings { plugins: vec![library()], options, ..Settings::default() };
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

    /// Moves a file into the folder of models.
    fn place(&self, name: &str, file: &[u8]) {
        let new = self.models().join("new");
        std::fs::write(&new, file).unwrap();
        std::fs::rename(new, self.models().join(name)).unwrap();
    }

    /// What `remora url model add` does.
    fn register(&self, name: &str, key: Key, file: &[u8]) {
        let model = Model::from_bytes(file).unwrap();
        let info = model.info();
        self.place(&format!("{name}.urlmodel"), file);
        let pin =
            Pin { key, size: info.size as u64, checksum: info.checksum, name: name.into(), retired: false };
        self.change(|registry| registry.set(pin));
    }

    fn change(&self, change: impl FnOnce(&mut Registry)) {
        let file = std::fs::read(self.models().join(Registry::FILE));
        let mut registry = file.map_or_else(|_| Registry::default(), |file| Registry::parse(&file).unwrap());
        change(&mut registry);
        self.place(Registry::FILE, &registry.to_bytes());
    }

    fn retire(&self, key: Key) {
        self.change(|registry| {
            let pin = registry.pin(key).unwrap().clone();
            registry.set(Pin { retired: true, ..pin });
        });
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
            .starts_with("{\"model\": \"small\", \"number\": 0, \"check_bytes\": 0,")
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
    assert!(server.run("SELECT url_unpack('a', 'b', 1)").contains("use url_unpack(packed [, length])"));
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
    let explain = "EXPLAIN FORMAT=TRADITIONAL SELECT id FROM t.p WHERE u BETWEEN url_prefix_min('http://c.example/44') AND url_prefix_max('http://c.example/44')";
    assert!(server.run(explain).contains("\trange\t"));
    assert!(
        server.run("INSERT INTO t.p (u) VALUES (url_pack('http://c.example/9'))").contains("Duplicate entry")
    );
}

fn trained(number: u8, check_bytes: u8, rows: usize) -> Vec<u8> {
    let mut options = Options::new(40_000);
    (options.number, options.check_bytes) = (number, check_bytes);
    train(urls().iter().take(rows), &options, &mut |_| {}).unwrap()
}

/// A table moves to a new model row by row, readable all the time.
fn move_to_another_model(server: &Server) {
    let model = trained(1, 0, ROWS);
    server.register("site", Key::Own(1), &model);
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
    // The text functions read it as well: a number of the user's own means the same model to all functions.
    assert_eq!(server.run("SELECT SUM(text_unpack(u) = s) FROM t.p"), "5000");
}

/// Whatever lies in the folder, a value is read by its own model or refused; a damaged file affects only its
/// own values.
fn a_value_is_read_by_its_own_model_alone(server: &Server) {
    let (model, other) = (trained(1, 0, ROWS), trained(1, 0, ROWS / 2));
    let packed = server.run("SELECT HEX(url_pack('http://a.example/7', 'site'))");
    let built_in = server.run("SELECT HEX(url_pack('http://a.example/7'))");
    let unpack = |packed: &str| server.run(&format!("SELECT url_unpack(x'{packed}')"));
    let sound = || {
        assert_eq!(unpack(&built_in), "http://a.example/7");
        assert_eq!(server.run("SELECT text_unpack(text_pack('x'))"), "x");
    };
    let well = || {
        sound();
        assert_eq!(unpack(&packed), "http://a.example/7");
    };
    well();
    // Unregistered files: with the same number, with number 0, damaged, empty, and entries that are no files.
    let strangers = ["a.urlmodel", "small.urlmodel", "z.urlmodel"];
    for name in strangers {
        for file in [&other[..], &trained(0, 0, 9), &other[..1000], &[]] {
            server.place(name, file);
            well();
        }
        std::fs::remove_file(server.models().join(name)).unwrap();
    }
    odd_files(server, "stranger", &well);
    server.place("stranger.urlmodel", &other);
    assert!(server.run("SELECT url_pack('a', 'stranger')").contains("not registered: remora url model add"));
    std::fs::remove_file(server.models().join("stranger.urlmodel")).unwrap();
    // The registered file is replaced, damaged, gone or no file: values of its number are refused with the
    // reason, and nothing else is affected.
    let refused = |why: &str| {
        sound();
        let said = unpack(&packed);
        assert!(said.contains("model site, number 1") && said.contains(why), "{why}: {said}");
        assert!(said.contains("ERROR 1105") && said.contains("remora url model add"), "{said}");
        assert!(server.run("SELECT url_pack('a', 'site')").contains("model site, number 1"));
        assert!(server.run("SELECT url_pack_info()").contains("\"number\": 1, \"error\": \"model site"));
    };
    for (file, why) in
        [(&other[..], "is not the registered model"), (&model[..1000], "cut short"), (&[], "model file")]
    {
        server.place("site.urlmodel", file);
        refused(why);
    }
    // In place, as cp does it: the same length at every moment that matters.
    std::fs::write(server.models().join("site.urlmodel"), &model).unwrap();
    well();
    // A change in place that leaves the length and the modification time as they were.
    let path = server.models().join("site.urlmodel");
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut changed = model.clone();
    changed[1_000] ^= 1;
    for (file, why) in [(&changed, Some("checksum differs")), (&model, None)] {
        std::fs::write(&path, file).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        why.map_or_else(well, refused);
    }
    std::fs::remove_file(&path).unwrap();
    refused("No such file");
    odd_files(server, "site", &|| refused(""));
    server.place("site.urlmodel", &model);
    well();
    // A retired number stays taken.
    server.retire(Key::Own(1));
    assert!(unpack(&packed).contains("number 1 was model site, which was removed"));
    server.register("site", Key::Own(1), &model);
    well();
}

/// What can stand where a model file should: each is refused at once, without waiting for anything.
fn odd_files(server: &Server, name: &str, check: &dyn Fn()) {
    let path = server.models().join(format!("{name}.urlmodel"));
    std::os::unix::fs::symlink("/nowhere", &path).unwrap();
    check();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check();
    std::fs::remove_dir(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    check();
    std::fs::remove_file(&path).unwrap();
}

/// A registry that can't be read, or is gone while a file claims number 0: then even number 0 has no sure
/// meaning.
fn without_a_sound_registry(server: &Server) {
    let registry = server.models().join(Registry::FILE);
    let file = std::fs::read(&registry).unwrap();
    server.place(Registry::FILE, &file[..file.len() - 1]);
    for sql in ["SELECT url_unpack(x'f001')", "SELECT url_pack('x')", "SELECT text_pack('x')"] {
        assert!(server.run(sql).contains("model registry"), "{}", server.run(sql));
    }
    std::fs::remove_file(&registry).unwrap();
    assert_eq!(server.run("SELECT url_unpack(url_pack('x'))"), "x");
    assert!(server.run("SELECT url_unpack(x'f001')").contains("no model has number 1"));
    server.place("own.urlmodel", &trained(0, 0, ROWS));
    assert!(server.run("SELECT url_pack('x')").contains("own.urlmodel has number 0"));
    server.place(Registry::FILE, &file);
    assert_eq!(server.run("SELECT url_unpack(url_pack('x'))"), "x");
    std::fs::remove_file(server.models().join("own.urlmodel")).unwrap();
}

/// Once the registry says so, number 0 is another model, for these functions alone.
fn a_model_in_the_place_of_the_built_in_one(server: &Server) {
    let before = server.run("SELECT HEX(url_pack('http://a.example/7')), HEX(text_pack('abc'))");
    let own = trained(0, 0, ROWS);
    server.register("own", Key::Zero(Family::Url), &own);
    let now = server.run("SELECT HEX(url_pack('http://a.example/7')), HEX(text_pack('abc'))");
    assert_ne!(before.split('\t').next(), now.split('\t').next());
    assert_eq!(before.split('\t').nth(1), now.split('\t').nth(1));
    assert!(server.run("SELECT url_pack('a', 'small')").contains("there is no model small"));
    std::fs::write(server.models().join("own.urlmodel"), b"").unwrap();
    assert!(server.run("SELECT url_pack('x')").contains("model own, number 0 of url_pack"));
    assert_eq!(server.run("SELECT text_unpack(text_pack('x'))"), "x");
    server.retire(Key::Zero(Family::Url));
    assert!(server.run("SELECT url_unpack('')").contains("number 0 of url_pack was model own"));
    server.register("small", Key::Zero(Family::Url), &Family::Url.built_in());
    assert_eq!(server.run("SELECT HEX(url_pack('http://a.example/7')), HEX(text_pack('abc'))"), before);
}

/// A check in each value: a value that was cut, or packed by another model with the same number, is refused.
fn checked_values(server: &Server) {
    server.register("checked", Key::Own(2), &trained(2, 2, ROWS));
    let cut = "SELECT HEX(SUBSTR(u, 1, LENGTH(u) - 1)) FROM (SELECT url_pack(s, 'checked') u FROM t.p WHERE id < 50) x";
    for packed in server.run(cut).lines() {
        assert!(server.run(&format!("SELECT url_unpack(x'{packed}')")).contains("ERROR 1105"), "{packed}");
    }
    assert_eq!(server.run("SELECT SUM(url_unpack(url_pack(s, 'checked')) = s) FROM t.p"), "5000");
    let sorted = "SELECT SUM(a.u < b.u) FROM (SELECT s, url_pack(s, 'checked') u FROM t.p WHERE id < 50) a \
                  JOIN (SELECT s, url_pack(s, 'checked') u FROM t.p WHERE id < 50) b ON a.s < b.s";
    assert_eq!(server.run(sorted), (49 * 48 / 2).to_string());
}

/// A result fits its declared length, or is an error: a temporary table would cut it silently.
fn lengths_of_results(server: &Server) {
    let column = |sql: &str| {
        server.do_it(&format!("CREATE TABLE t.l AS {sql} LIMIT 0"));
        let kind = server.run("SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 't' AND TABLE_NAME = 'l'");
        server.do_it("DROP TABLE t.l");
        kind
    };
    assert_eq!(column("SELECT url_unpack(u) FROM t.p"), "blob");
    assert_eq!(column("SELECT url_unpack(u, 500) FROM t.p"), "varbinary(500)");
    assert_eq!(server.run("SELECT url_unpack(url_pack('abcd'), 4)"), "abcd");
    let long = server.run("SELECT url_unpack(url_pack('abcd'), 3)");
    assert!(long.contains("more than the 3 bytes") && long.contains("url_unpack(..., LENGTH)"), "{long}");
    for wrong in ["0", "-1", "1048577", "'a'", "LENGTH(u)", "NULL"] {
        let said = server.run(&format!("SELECT url_unpack(u, {wrong}) FROM t.p"));
        assert!(said.contains("a constant length from 1 to 1048576"), "{wrong}: {said}");
    }
    let disk = "SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'";
    let grouped = |call: &str| {
        let sql = format!(
            "SELECT COUNT(*) FROM (SELECT {call} plain, COUNT(*) FROM t.p GROUP BY plain ORDER BY NULL) x; {disk}"
        );
        server.run(&sql).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let version = server.run("SELECT VERSION()");
    if !version.starts_with("5.6") {
        let none = ["5000", "Created_tmp_disk_tables\t0"];
        assert_eq!(grouped("url_unpack(u, 500)"), none);
        let blob = grouped("url_unpack(u)");
        assert_eq!(blob[0], "5000");
        // MySQL from 8.0.13 on keeps also BLOBs of temporary tables in memory.
        assert_eq!(blob[1] == none[1], !version.contains("MariaDB"), "{blob:?}");
    }
}

fn text(server: &Server) {
    assert_eq!(
        server.run("SELECT text_unpack(text_pack('Mary Smith')), text_pack(NULL)"),
        "Mary Smith\tNULL"
    );
    assert!(
        server
            .run("SELECT text_pack_info(text_pack('x'))")
            .starts_with("{\"model\": \"text\", \"number\": 0,")
    );
    assert_eq!(server.run("SELECT LENGTH(text_pack('mary.smith@example.com')) < 11"), "1");
    assert!(
        server.run("SELECT url_pack('a', 'text')").contains("model text is for text_pack, not for url_pack")
    );
    assert!(server.run("SELECT text_pack()").contains("use text_pack(string [, model])"));
    server.do_it("CREATE TABLE t.n (s VARCHAR(50) CHARACTER SET utf8mb4, u VARBINARY(200), UNIQUE (u))");
    server.do_it("INSERT INTO t.n (s) SELECT CONCAT(CHAR(65 + id % 26), CHAR(97 + id % 7), id) FROM t.p");
    server.do_it("UPDATE t.n SET u = text_pack(s)");
    let between = "u BETWEEN text_prefix_min('B') AND text_prefix_max('B')";
    assert_eq!(
        server.run(&format!(
            "SELECT COUNT(*), SUM(text_unpack(u) = s), SUM(s LIKE BINARY 'B%') FROM t.n WHERE {between}"
        )),
        server.run("SELECT COUNT(*), COUNT(*), COUNT(*) FROM t.n WHERE s LIKE BINARY 'B%'")
    );
}

/// The installation stays out of the binary log, and restores the session's setting.
fn installed_beside_the_binary_log(server: &Server) {
    let install = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/urlpack.sql");
    assert_eq!(server.run("SELECT @@log_bin"), "1");
    let version = server.run("SELECT VERSION()");
    let has_master = version.contains("MariaDB") || version.starts_with("5.6");
    server.do_it(if has_master { "RESET MASTER" } else { "RESET BINARY LOGS AND GTIDS" });
    assert_eq!(server.run(&format!("SOURCE {install}; SELECT @@SESSION.sql_log_bin")), "1");
    assert!(!server.run("SHOW BINLOG EVENTS").contains("url_pack"), "{}", server.run("SHOW BINLOG EVENTS"));
    // What the manual says of MIXED: a replica gets rows, not calls.
    server.do_it("SET binlog_format = 'MIXED'; INSERT INTO t.e VALUES (url_pack('http://a.example/'))");
    let events = server.run("SHOW BINLOG EVENTS");
    let calls = events.lines().any(|event| event.contains("\tQuery\t") && event.contains("url_pack"));
    assert!(events.contains("Write_rows") && !calls, "{events}");
}

/// The SQL of the manual's chapters on moving a column and on other strings, as it stands there.
fn manual(server: &Server) {
    let text = include_str!("../../../docs/manual/url.md");
    let text = text.split("## Move a column").nth(1).unwrap();
    let blocks: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3);
    let run = |sql: &str| server.run(&format!("SET NAMES utf8mb4; USE m; {sql}"));
    server.do_it("CREATE DATABASE m");
    run(
        "CREATE TABLE page (id INT AUTO_INCREMENT PRIMARY KEY, url VARCHAR(500) CHARACTER SET latin1 NOT NULL); \
         INSERT INTO page (url) SELECT CONCAT(CONVERT(s USING utf8mb4), '/\u{e9}') FROM t.p",
    );
    let urls = run("SELECT url FROM page ORDER BY id");
    assert!(urls.ends_with("/\u{e9}"), "{urls}");
    assert_eq!(run(blocks[0]), "0");
    assert_eq!(
        run(
            "INSERT INTO page (url) VALUES ('http://new.example/'); UPDATE page SET url = 'http://x/' WHERE id = 1; \
             SELECT SUM(url_unpack(u) = CONVERT(url USING utf8mb4)) FROM page"
        ),
        "5001"
    );
    run("DELETE FROM page WHERE url = 'http://new.example/'");
    let first = urls.lines().next().unwrap();
    let packed = run(&format!("UPDATE page SET url = '{first}' WHERE id = 1; {}", blocks[1]));
    assert_eq!(packed.lines().count(), 2, "{packed}");
    assert!(packed.lines().all(|line| line.ends_with("\thttps://example.com/new")), "{packed}");
    assert_eq!(run("SELECT url FROM page ORDER BY id"), urls);
    assert_eq!(run(blocks[2]), "mary.smith@example.com\nmax@example.org");
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
    let here = sandbox::test_servers(&places, |name| std::env::var_os(name))
        .unwrap_or_else(|error| panic!("{error}"));
    for installation in sandbox::of_today(here, |name| std::env::var_os(name)) {
        let product = installation.product;
        eprintln!("== {product}");
        let server = Server::start(&places, product);
        values(&server);
        errors(&server);
        tables(&server);
        move_to_another_model(&server);
        sixteen_at_once(&server);
        a_value_is_read_by_its_own_model_alone(&server);
        without_a_sound_registry(&server);
        checked_values(&server);
        a_model_in_the_place_of_the_built_in_one(&server);
        lengths_of_results(&server);
        text(&server);
        manual(&server);
        installed_beside_the_binary_log(&server);
    }
}
