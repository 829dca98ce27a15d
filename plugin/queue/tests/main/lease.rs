//! Leases: rows for workers that keep no connection.

use std::thread::scope;

use crate::server::{Client, Server};

/// The one text of a statement, none when it is NULL.
pub(crate) fn text(client: &mut Client, sql: &str) -> Option<String> {
    let mut rows: Vec<Option<String>> = client.rows(sql);
    assert_eq!(rows.len(), 1, "{sql}");
    rows.remove(0)
}

/// A token in a JSON array: the first, or a later one.
pub(crate) fn token(json: &str, nth: usize) -> String {
    json.split("\"token\":\"").nth(nth + 1).unwrap().split('"').next().unwrap().to_owned()
}

pub(crate) fn lease(client: &mut Client, arguments: &str) -> String {
    text(client, &format!("SELECT queue_lease_json({arguments})")).unwrap()
}

pub(crate) fn ack(client: &mut Client, tokens: &str) -> Option<i64> {
    client.value(&format!("SELECT queue_ack('{tokens}')"))
}

#[test]
fn leases() {
    let server = Server::start();
    shown_as_rows(&server);
    shown_as_json(&server);
    every_type(&server);
    stale_token(&server);
    a_failed_statement_leases_nothing(&server);
    refused(&server);
    truncate_rename_drop(&server);
    alter_with_leases(&server);
    names(&server);
    fractions(&server);
    column_grants(&server);
    snapshots(&server);
    waits(&server);
    seen(&server);
}

fn shown_as_rows(server: &Server) {
    let (mut one, mut two) = server.queue("shown");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4)");
    let rows: Vec<(String, i64)> =
        one.rows("SELECT queue_token(), v FROM t WHERE queue_lease(30, 2, 't', 0) ORDER BY v DESC");
    assert_eq!(rows.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(rows[0].0, rows[1].0, "one text for all rows");
    assert!(rows[0].0.starts_with("shown.t:"), "{}", rows[0].0);
    assert_eq!(one.column("SELECT v FROM t"), [3, 4], "it owns nothing, and sees what nobody owns");
    assert_eq!(text(&mut one, "SELECT queue_token()"), None, "nothing was leased by this statement");
    drop(one);
    assert_eq!(ack(&mut two, &rows[0].0), Some(2));
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(2));
    // A table that is read several times shows the same rows each time.
    two.run("CREATE TABLE i (v INT) ENGINE=MEMORY");
    two.run("INSERT INTO i VALUES (1), (2), (3)");
    let sql = "SELECT COUNT(*) FROM i STRAIGHT_JOIN t WHERE queue_lease(30, 1, 't', 0) AND i.v + t.v > 0";
    assert_eq!(two.value(&format!("{sql} AND @@join_buffer_size > 0")), Some(3));
    assert_eq!(two.value("SELECT COUNT(*) FROM t WHERE queue_lease(30, 5, 't:v > 4', 0)"), Some(0));
    assert_eq!(two.value("SELECT queue_lease(30, 1, 't:v > 4', 't:v = 4', 0)"), Some(2));
}

fn shown_as_json(server: &Server) {
    let mut one = server.connect("json");
    one.run("CREATE TABLE t (id BIGINT, body TEXT CHARACTER SET latin1) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1, 'caf\u{e9} \"x\"'), (2, NULL)");
    assert_eq!(lease(&mut one, "30, 1, 't:id > 2', 0"), "[]");
    let json = lease(&mut one, "30, 5, 'json.t', 0");
    let (a, b) = (token(&json, 0), token(&json, 1));
    assert_eq!(
        json,
        format!(
            r#"[{{"token":"{a}","try":1,"row":{{"id":1,"body":"caf\u00e9 \"x\""}}}},{{"token":"{b}","try":1,"row":{{"id":2,"body":null}}}}]"#
        )
    );
    assert_eq!(text(&mut one, &format!("SELECT JSON_VALID('{}')", json.replace('\\', "\\\\"))).unwrap(), "1");
    assert_eq!(one.value(&format!("SELECT queue_nack('{a}')")), Some(1));
    let again = lease(&mut one, "30, 5, 't', 0");
    assert!(again.contains(r#""try":2,"row":{"id":1"#), "{again}");
    assert_eq!(one.value(&format!("SELECT queue_release(' {}')", token(&again, 0))), Some(1));
    assert!(lease(&mut one, "30, 5, 't', 0").contains("\"try\":2"), "released is not failed");
    assert_eq!(one.value(&format!("SELECT queue_extend('{b}', 0.5)")), Some(1));
}

fn every_type(server: &Server) {
    let mut one = server.connect("types");
    one.run("SET time_zone = '+05:00'");
    one.run(
        "CREATE TABLE t (i TINYINT UNSIGNED, d DECIMAL(10, 3), y YEAR, a DATE, h TIME(2), w DATETIME(6), \
         s TIMESTAMP(3) NULL, c CHAR(5), v VARCHAR(9) CHARACTER SET utf8mb4, b VARBINARY(9), e ENUM('x', 'y'), j JSON) \
         ENGINE=QUEUE",
    );
    one.run(
        "INSERT INTO t VALUES (200, -1.5, 2026, '2026-02-03', '-12:03:04.05', '2026-02-03 04:05:06.000007', \
         '2026-02-03 04:05:06.789', 'ab', '\u{1f600}', x'00ff', 'y', '{\"k\": 1}')",
    );
    let json = lease(&mut one, "30, 1, 't', 0");
    let row = concat!(
        r#""row":{"i":200,"d":-1.500,"y":2026,"a":"2026-02-03","h":"-12:03:04.05","#,
        r#""w":"2026-02-03 04:05:06.000007","s":"2026-02-02 23:05:06.789","c":"ab","v":"\ud83d\ude00","#,
        r#""b":"AP8=","e":"y","j":"{\"k\": 1}"}"#
    );
    assert!(json.contains(row), "{json}");
    one.run("CREATE TABLE f (id INT, x DOUBLE) ENGINE=QUEUE");
    one.run("INSERT INTO f VALUES (1, 2)");
    let error = one.error("SELECT queue_lease_json(30, 1, 'f', 0)");
    assert!(error.contains("51003") && error.contains("types.f: column x has a type"), "{error}");
    one.run("CREATE TABLE big (v BIGINT, d DECIMAL(10, 3), y YEAR, w DATE) ENGINE=QUEUE");
    one.run("INSERT INTO big VALUES (9007199254740993, 1.5, 2026, '2026-01-02')");
    let sql = "SET STATEMENT queue_json_strings = 1 FOR SELECT queue_lease_json(30, 1, 'big', 0)";
    let json = text(&mut one, sql).unwrap();
    let row = r#""row":{"v":"9007199254740993","d":"1.500","y":"2026","w":"2026-01-02"}"#;
    assert!(json.contains(row), "{json}");
    // Drivers make text of it, not bytes.
    one.run("CREATE TABLE types.made AS SELECT queue_lease_json(30, 1, 'big', 0) j, queue_stale() s, queue_token() k");
    let columns = "SELECT COUNT(*) FROM information_schema.columns WHERE table_name = 'made' AND \
                   character_set_name = 'utf8mb4' AND data_type = 'longtext'";
    assert_eq!(one.value(columns), Some(3));
    assert_eq!(one.column("SELECT id FROM f WHERE queue_lease(30, 1, 'f', 0)"), [1]);
}

fn stale_token(server: &Server) {
    let (mut one, mut two) = server.queue("stale");
    one.run("INSERT INTO t VALUES (1)");
    let old = token(&lease(&mut one, "0.001, 1, 't', 0"), 0);
    let new = token(&lease(&mut two, "30, 1, 't', 60"), 0);
    for sql in ["ack('TOKEN')", "extend('TOKEN', 5)", "nack('TOKEN', 5)", "release('TOKEN')"] {
        assert_eq!(one.value(&format!("SELECT queue_{}", sql.replace("TOKEN", &old))), Some(0));
        let warning = one.warning();
        assert!(warning.contains("1 of 1 tokens are stale"), "{warning}");
    }
    let number = |token: &str| -> u64 {
        token.rsplit(':').next().unwrap().split('-').next().unwrap().parse().unwrap()
    };
    assert!(number(&new) > number(&old), "for fencing");
    assert_eq!(one.value(&format!("SELECT queue_extend('{new}', '{old}', 30)")), Some(1));
    let sql = format!("SELECT queue_ack('{old},{new}', 'x'), queue_stale()");
    assert_eq!(one.rows::<(i64, String)>(&sql), [(1, format!("{old},x"))]);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
    one.run("INSERT INTO t VALUES (1), (2)");
    let json = lease(&mut one, "30, 2, 't', 0");
    let (a, b) = (token(&json, 0), token(&json, 1));
    assert_eq!(one.value(&format!("SELECT queue_nack('{a}', '{old}', '{b}', 0, 'why')")), Some(2));
    let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
    assert!(warnings[0].1 == 51015 || warnings[0].1 == 51011, "{warnings:?}");
    assert_eq!(text(&mut one, "SELECT queue_stale()"), Some(old));
    let last = token(&lease(&mut one, "30, 1, 't', 0"), 0);
    assert_eq!(ack(&mut one, &last), Some(1));
    assert_eq!(text(&mut one, "SELECT queue_stale()"), None, "the last ones were good");
}

/// Names that have signs of the functions' own in them, wherever a table is named.
fn names(server: &Server) {
    let mut one = server.connect("na.me");
    for table in ["a.b", "a:b", "a@b", "a,b", "a`b", "a b"] {
        let quoted = format!("`{}`", table.replace('`', "``"));
        one.run(&format!("CREATE TABLE {quoted} (v INT) ENGINE=QUEUE TRIES=1 DEAD='dead'"));
        one.run("CREATE OR REPLACE TABLE dead (v INT, t TEXT NULL) ENGINE=QUEUE TOKEN=t");
        one.run(&format!("INSERT INTO {quoted} VALUES (1), (2), (3), (4)"));
        let named = format!("`na.me`.{quoted}");
        assert_eq!(one.value(&format!("SELECT queue_wait('{named}:v = 2', 0)")), Some(1), "{table}");
        assert_eq!(one.value("SELECT queue_end()"), Some(1));
        let json = lease(&mut one, &format!("30, 2, '{quoted}:v > 1', 0"));
        let (a, b) = (token(&json, 0), token(&json, 1));
        assert_eq!(one.value(&format!("SELECT queue_nack('{a},{b}')")), Some(2), "{table}: {a}");
        let sql = "SELECT t FROM dead WHERE queue_lease(30, 1, '`na.me`.dead', 0)";
        let noted = text(&mut one, sql).unwrap();
        assert_eq!(ack(&mut one, &noted), Some(1), "{table}: {noted}");
        assert_eq!(one.value(&format!("SELECT queue_peek('{named}', 0)")), Some(5), "{table}");
    }
    // In backticks an @ does not begin a reader, also if there is a table of the name before it.
    one.run("CREATE TABLE a (v INT) ENGINE=QUEUE KEEP=60 READERS='b,c'");
    one.run("INSERT INTO a VALUES (7)");
    one.run("INSERT INTO `a@b` VALUES (9)");
    assert_eq!(one.column("SELECT v FROM `a@b` WHERE queue_wait('`a@b`:v = 9', 0)"), [9]);
    for named in ["a@b", "`a`@c"] {
        assert_eq!(one.column(&format!("SELECT v FROM a WHERE queue_wait('{named}', 0)")), [7], "{named}");
    }
    one.value("SELECT queue_end()");
}

/// A wait may be a fraction of a second.
fn fractions(server: &Server) {
    let (mut one, _) = server.queue("fractions");
    for wait in
        ["queue_wait('t', 0.4)", "queue_lease(30, 1, 't', 0.4)", "queue_lease_json(30, 1, 't', '0.4')"]
    {
        let sql = format!("SELECT {wait}, SYSDATE(6) - INTERVAL 400000 MICROSECOND >= NOW(6)");
        let waited: Vec<(mysql::Value, i64)> = one.rows(&sql);
        assert_eq!(waited[0].1, 1, "{wait}");
        one.value("SELECT queue_end()");
    }
}

/// What is shown needs the privilege SELECT on its columns.
fn column_grants(server: &Server) {
    let mut one = server.connect("granted");
    one.run("CREATE TABLE t (id INT, body TEXT, why TEXT NULL) ENGINE=QUEUE TRIES=9 WHY=why");
    one.run("INSERT INTO t (id, body) VALUES (1, 'secret')");
    let nacked = token(&lease(&mut one, "30, 1, 't', 0"), 0);
    one.value(&format!("SELECT queue_nack('{nacked}', 0, 'secret')"));
    one.run("CREATE USER some");
    one.run("GRANT SELECT (id), DELETE ON granted.t TO some");
    let mut some = server.connect_as("some");
    some.run("USE granted");
    some.error("SELECT body FROM t");
    for (asked, column) in [
        ("queue_lease_json(30, 1, 't', 0)", "body"),
        ("queue_lease(30, 1, 't:body = ''secret''', 0)", "body"),
        ("queue_lease(30, 1, 't:id = 1 and body is null', 0)", "body"),
        ("queue_lease(30, 1, 't', 't:why() = ''secret''', 0)", "why()"),
        ("queue_lease(30, 1, 't:failed() = 1', 0)", "failed()"),
    ] {
        let error = some.error(&format!("SELECT {asked}"));
        assert!(error.contains("ERROR 1143 ") && error.contains(column), "{asked}: {error}");
    }
    for condition in ["body = ''secret''", "why() = ''secret''"] {
        assert_eq!(some.value(&format!("SELECT queue_wait('t:{condition}', 0)")), None);
        assert!(some.warning().contains("no privilege"), "{condition}");
        assert_eq!(some.value(&format!("SELECT queue_wait_n(1, 't:{condition}', 0)")), None);
    }
    assert_eq!(some.column("SELECT id FROM t WHERE queue_wait('t:id = 1', 0)"), [1], "that one is granted");
    some.value("SELECT queue_abort()");
    one.run("GRANT SELECT (body) ON granted.t TO some");
    let json = lease(&mut some, "30, 1, 't', 0");
    assert!(json.contains("\"body\":\"secret\"") && !json.contains("why"), "{json}");
    some.value(&format!("SELECT queue_release('{}')", token(&json, 0)));
    one.run("GRANT SELECT ON granted.t TO some");
    let json = lease(&mut some, "30, 1, 't:failed() = 1', 0");
    assert!(json.contains("\"why\":\"secret\""), "{json}");
    // A view's definer may see more.
    some.value(&format!("SELECT queue_release('{}')", token(&json, 0)));
    one.run("REVOKE SELECT ON granted.t FROM some");
    one.run("CREATE VIEW w AS SELECT id FROM t WHERE queue_wait('t:body = ''secret''', 0)");
    one.run("GRANT SELECT ON granted.w TO some");
    assert_eq!(some.column("SELECT id FROM w"), [1]);
}

/// A row that InnoDB does not show in this transaction's snapshot.
fn snapshots(server: &Server) {
    let (mut one, mut two) = server.queue("snapshots");
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    let told = |client: &mut Client| -> Vec<u32> {
        let warnings: Vec<(String, u32, String)> = client.rows("SHOW WARNINGS");
        warnings.into_iter().map(|warning| warning.1).collect()
    };
    for (level, reads, warns) in [
        ("REPEATABLE READ", true, true),
        ("REPEATABLE READ", false, false),
        ("READ COMMITTED", true, false),
        ("SERIALIZABLE", true, true),
    ] {
        for wait in ["queue_wait('t', 0)", "queue_lease(30, 1, 't', 0)"] {
            two.run("INSERT INTO t VALUES (1)");
            one.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"));
            // Warnings stay until a statement that uses a table.
            one.run("DELETE FROM i");
            one.run("BEGIN");
            if reads {
                one.value("SELECT COUNT(*) FROM i");
            }
            assert_eq!(one.value(&format!("SELECT {wait}")), Some(1));
            assert_eq!(told(&mut one), if warns { vec![51014] } else { vec![] }, "{level} {reads} {wait}");
            one.run("COMMIT");
            one.value("SELECT queue_end()");
        }
    }
}

fn a_failed_statement_leases_nothing(server: &Server) {
    let (mut one, _) = server.queue("failed");
    one.run("INSERT INTO t VALUES (1), (2)");
    one.error("SELECT queue_lease_json(30, 1, 't', 0), (SELECT 1 UNION SELECT 2)");
    assert_eq!(one.column("SELECT v FROM t"), [1, 2]);
    one.run("CREATE FUNCTION f() RETURNS TEXT RETURN queue_lease_json(30, 1, 't', 0)");
    one.error("SELECT f(), (SELECT 1 UNION SELECT 2)");
    assert_eq!(one.column("SELECT v FROM t"), [1, 2]);
    assert!(lease(&mut one, "30, 9, 't', 0").contains("\"try\":1"), "that was no try");
    one.run("INSERT INTO t VALUES (3)");
    let shown = one.column("SELECT v FROM t WHERE v > 5 AND queue_lease(30, 1, 't', 0)");
    assert!(shown.is_empty());
    assert!(one.warning().contains("condition in WHERE hides"));
}

fn refused(server: &Server) {
    let (mut one, _) = server.queue("refused");
    one.run("INSERT INTO t VALUES (1)");
    for wrong in [
        "0, 1, 't', 0",
        "-1, 1, 't', 0",
        "1e9, 1, 't', 0",
        "NULL, 1, 't', 0",
        "'x', 1, 't', 0",
        "5, 0, 't', 0",
        "5, 'x', 't', 0",
        "5, 1.5, 't', 0",
        "5, 1, 't', NULL",
        "5, 1, 't', 'abc'",
        "5, 1, 't', '1 s'",
        "5, 1, 't', ''",
    ] {
        let error = one.error(&format!("SELECT queue_lease({wrong})"));
        assert!(error.contains("1210") && error.contains("queue_lease"), "{wrong}: {error}");
    }
    // Each refusal has its own number.
    for (asked, number) in [
        ("queue_lease(5, 1, 'nothing', 0)", 1146),
        ("queue_lease(5, 1, 't:nothing = 1', 0)", 51001),
        ("queue_lease(5, 1, 'a`b`', 0)", 1146),
        ("queue_lease(5, 1, '`a`b', 0)", 1103),
        ("queue_lease_json(5, 1, '', 0)", 1103),
        ("queue_lease(5, 1, 't', 0) FROM t WHERE v + 1", 51002),
        ("queue_peek('nothing', 0)", 1146),
        ("queue_peek('t', 'x')", 1210),
        ("queue_replay('nothing', 1, 2)", 1146),
        ("queue_extend('refused.t:1-0000000000000000', 'x')", 1210),
        ("queue_nack('refused.t:1-0000000000000000', 1, 'why', 'more')", 1210),
        ("queue_wait('t', 'abc')", 1210),
        ("queue_wait_n('x', 't', 0)", 1210),
    ] {
        let error = one.error(&format!("SELECT {asked}"));
        assert!(error.contains(&format!("ERROR {number} ")), "{asked}: {error}");
    }
    assert!(one.error("DELETE FROM t WHERE queue_lease(30, 1, 't', 0)").contains("51004"));
    assert!(server.connect_as("root").error("SELECT queue_peek('t', 0)").contains("1046"));
    // Q4M's own functions say it in a warning.
    for (asked, number) in [("queue_wait('nothing', 0)", 1146), ("queue_wait('t:x = 1', 0)", 51001)] {
        assert_eq!(one.value(&format!("SELECT {asked}")), None);
        let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
        assert_eq!(warnings[0].1, number, "{asked}");
    }
    assert!(one.error(&format!("SELECT queue_ack('a'{})", ", 'a'".repeat(64))).contains("it takes 1 to 64"));
    one.value("SELECT queue_end()");
    for wrong in ["", "x", "refused.t", "refused.t:x", "nothing:1-0000000000000000"] {
        assert_eq!(ack(&mut one, wrong), Some(0), "{wrong}");
    }
    let token = token(&lease(&mut one, "30, 1, 't', 0"), 0);
    one.run("CREATE USER reader");
    one.run("GRANT SELECT ON refused.* TO reader");
    let mut reader = server.connect_as("reader");
    assert!(reader.error("SELECT queue_lease(5, 1, 'refused.t', 0)").contains("1142"));
    assert_eq!(ack(&mut reader, &token), Some(0), "no privilege");
    one.run("SET GLOBAL read_only = 1");
    one.run("CREATE USER writer");
    one.run("GRANT SELECT, DELETE ON refused.* TO writer");
    let mut writer = server.connect_as("writer");
    assert!(writer.error(&format!("SELECT queue_ack('{token}')")).contains("read-only"));
    one.run("SET GLOBAL read_only = 0");
    assert_eq!(ack(&mut writer, &token), Some(1));
}

fn truncate_rename_drop(server: &Server) {
    let (mut one, _) = server.queue("moved");
    one.run("INSERT INTO t VALUES (1), (2)");
    let json = lease(&mut one, "30, 2, 't', 0");
    one.run("RENAME TABLE t TO u");
    assert_eq!(ack(&mut one, &token(&json, 0)), Some(0), "a token names its table");
    assert_eq!(ack(&mut one, &token(&json, 0).replace(".t:", ".u:")), Some(1));
    one.run("TRUNCATE TABLE u");
    assert_eq!(ack(&mut one, &token(&json, 1).replace(".t:", ".u:")), Some(0));
    one.run("INSERT INTO u VALUES (3)");
    let token = token(&lease(&mut one, "30, 2, 'u', 0"), 0);
    one.run("DROP TABLE u");
    assert_eq!(ack(&mut one, &token), Some(0));
}

fn alter_with_leases(server: &Server) {
    let (mut one, mut two) = server.queue("altered");
    one.run("INSERT INTO t VALUES (0), (1), (2), (3), (4)");
    one.run("DELETE FROM t WHERE v = 0");
    let json = lease(&mut one, "30, 3, 't', 0");
    one.value(&format!("SELECT queue_nack('{}', 3600)", token(&json, 0)));
    one.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7");
    assert_eq!(two.column("SELECT v FROM t"), [4]);
    assert_eq!(ack(&mut two, &token(&json, 1)), Some(1));
    assert_eq!(two.value(&format!("SELECT queue_nack('{}')", token(&json, 2))), Some(1));
    assert!(lease(&mut two, "30, 1, 't', 0").contains(r#""try":2,"row":{"v":3,"w":7}"#));
    let sql = "SELECT due_later FROM information_schema.queues WHERE table_schema = 'altered'";
    assert_eq!(two.value(sql), Some(1));
}

/// A lease that ends, and a delay that is over, wake who waits.
fn waits(server: &Server) {
    let (mut one, _) = server.queue("waits");
    one.run("INSERT INTO t VALUES (1)");
    let json = lease(&mut one, "0.3, 1, 't', 0");
    scope(|scope| {
        scope.spawn(|| {
            assert_eq!(server.connect("waits").column("SELECT v FROM t WHERE queue_wait('t', 60)"), [1])
        });
    });
    while one.column("SELECT v FROM t").is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(
        ack(&mut one, &token(&json, 0)),
        Some(1),
        "it came back with the connection, and nobody has it"
    );
    one.run("INSERT INTO t VALUES (2)");
    let json = lease(&mut one, "30, 1, 't', 0");
    one.value(&format!("SELECT queue_nack('{}', 0.3)", token(&json, 0)));
    let json = lease(&mut one, "30, 1, 't', 60");
    assert!(json.contains("\"try\":2"), "{json}");
    // A new row is handed over, and a wait can be killed.
    scope(|scope| {
        let waiter = scope.spawn(|| lease(&mut server.connect("waits"), "30, 1, 't', 60"));
        while server
            .connect("")
            .value("SELECT waiters FROM information_schema.queues WHERE table_schema = 'waits'")
            != Some(1)
        {}
        one.run("INSERT INTO t VALUES (3)");
        assert!(waiter.join().unwrap().contains("\"v\":3"));
        let mut killed = server.connect("waits");
        let id = killed.connection_id();
        let waiter = scope.spawn(move || killed.error("SELECT queue_lease_json(30, 1, 't', 60)"));
        while server
            .connect("")
            .value("SELECT waiters FROM information_schema.queues WHERE table_schema = 'waits'")
            != Some(1)
        {}
        one.run(&format!("KILL QUERY {id}"));
        assert!(waiter.join().unwrap().contains("interrupted"));
    });
}

fn seen(server: &Server) {
    let (mut one, _) = server.queue("seen");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    let json = lease(&mut one, "3600, 2, 't', 0");
    one.value(&format!("SELECT queue_nack('{}', 7200)", token(&json, 1)));
    let counts: Vec<(i64, i64, i64, i64, i64)> = one.rows(
        "SELECT waiting, owned, leased, due_later, leases_failed FROM information_schema.queues \
         WHERE table_schema = 'seen'",
    );
    assert_eq!(counts, [(1, 2, 1, 1, 1)]);
    let owned: Vec<(i64, i64, i64, i64)> = one.rows(
        "SELECT row_id, connection_id, failed, ROUND(TIMESTAMPDIFF(SECOND, since, until) / 3600) \
         FROM information_schema.queue_owned WHERE table_schema = 'seen'",
    );
    assert_eq!(owned, [(1, 0, 0, 1), (2, 0, 1, 2)]);
    let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
    assert!(status[0].2.contains("leases_refused"), "{}", status[0].2);
}
