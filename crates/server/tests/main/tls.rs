//! TLS in all its modes, with certificates made for the test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use server::binlog_dump::{BinlogDump, DumpRequest, Packet};
use server::text::{bytes, text};
use server::{Environment, Error, Overrides, SslMode, Target};

use crate::support::{Server, open, resolve, run, shared};

/// A CA, a server certificate for 127.0.0.1 only, a client certificate; and another CA.
pub(crate) struct Paper {
    dir: PathBuf,
}

impl Paper {
    fn new(dir: &Path) -> Paper {
        let paper = Paper { dir: dir.to_owned() };
        for ca in ["ca", "other"] {
            paper.openssl(&format!("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN={ca} -keyout {ca}.key -out {ca}.pem"));
        }
        paper.sign("server", "subjectAltName=IP:127.0.0.1");
        paper.sign("client", "basicConstraints=CA:FALSE");
        paper
    }

    fn sign(&self, name: &str, extension: &str) {
        self.openssl(&format!("req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr -addext {extension}"));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 30 -copy_extensions copy -out {name}.pem"
        ));
    }

    fn openssl(&self, arguments: &str) {
        run(Command::new("openssl").args(arguments.split(' ')).current_dir(&self.dir));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

pub(crate) fn tls() -> &'static (Server, Paper) {
    static SERVER: OnceLock<(Server, Paper)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let paper = Paper::new(dir.path());
        let file = |name| paper.file(name).display().to_string();
        let options = [
            format!("--ssl-ca={}", file("ca.pem")),
            format!("--ssl-cert={}", file("server.pem")),
            format!("--ssl-key={}", file("server.key")),
            "--log-bin=binlog".into(),
            "--server-id=7".into(),
        ];
        let server = Server::start(&options);
        // The server's folder is removed with the server; the certificates go there.
        run(Command::new("cp").arg("-a").arg(dir.path()).arg(server.dir.join("paper")));
        let paper = Paper { dir: server.dir.join("paper") };
        (server, paper)
    })
}

fn cipher(overrides: &Overrides) -> String {
    let mut session = open(overrides);
    session
        .value(
            "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'",
        )
        .unwrap()
        .unwrap()
}

fn with(mode: SslMode) -> Overrides {
    Overrides { ssl_mode: Some(mode), ..tls().0.by_tcp("root") }
}

fn failure(overrides: &Overrides) -> String {
    match resolve(overrides).connect() {
        Err(error @ Error::Tls { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn modes_without_a_check_take_any_certificate() {
    assert_eq!(cipher(&with(SslMode::Disabled)), "");
    assert!(!cipher(&with(SslMode::Preferred)).is_empty());
    assert!(!cipher(&with(SslMode::Required)).is_empty());
    assert!(!cipher(&Overrides { ssl_mode: None, ..with(SslMode::Required) }).is_empty());
    // A CA demands no check when the mode says that there is none.
    let other = Overrides { ssl_ca: Some(tls().1.file("other.pem")), ..with(SslMode::Required) };
    assert!(!cipher(&other).is_empty());
}

/// Only the driver can encrypt, and it takes only UTF-8.
#[test]
fn a_statement_with_other_bytes_is_made_with_tls_and_without() {
    let mut session = open(&with(SslMode::Disabled));
    session.execute("CREATE DATABASE IF NOT EXISTS bytes").unwrap();
    for mode in [SslMode::Disabled, SslMode::Required] {
        let mut session = open(&with(mode));
        for statement in [
            &b"CREATE OR REPLACE TABLE bytes.t (a VARBINARY(9) DEFAULT '\xfe\xe9')"[..],
            b"SET NAMES latin1, character_set_results = NULL",
            b"CREATE OR REPLACE PROCEDURE bytes.p() SELECT '\xe9' /* \xff */",
        ] {
            session.execute(&text(statement.to_vec())).unwrap();
        }
        let shown = session.strings("SHOW CREATE PROCEDURE bytes.p").unwrap()[0][2].clone().unwrap();
        assert!(bytes(&shown).ends_with(b"SELECT '\xe9' /* \xff */"), "{mode:?}: {shown}");
        let shown = session.definition(&"bytes.t".parse().unwrap()).unwrap();
        assert!(shown.contains("DEFAULT '\u{10fffe}\u{10ffe9}'"), "{mode:?}: {shown}");
        // An error leaves the session in step.
        let error = session
            .execute(&text(b"CREATE TABLE nowhere.t (a VARBINARY(9) DEFAULT '\xfe')".to_vec()))
            .unwrap_err();
        assert_eq!(error.code(), Some(1049), "{error}");
        assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
    }
}

#[test]
fn the_ca_is_checked() {
    let paper = &tls().1;
    for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
        let ours = Overrides { ssl_ca: Some(paper.file("ca.pem")), ..with(mode) };
        assert!(!cipher(&ours).is_empty());
        let other = Overrides { ssl_ca: Some(paper.file("other.pem")), ..with(mode) };
        let error = failure(&other);
        assert!(error.contains("UnknownIssuer"), "{error}");
        assert!(error.contains("check ssl-ca"), "{error}");
    }
    // Without a CA of our own, the public ones are used.
    assert!(failure(&with(SslMode::VerifyIdentity)).contains("UnknownIssuer"));
}

#[test]
fn the_name_is_checked_when_asked() {
    let ca = Some(tls().1.file("ca.pem"));
    let by_name = |mode| Overrides { host: Some("localhost".into()), ssl_ca: ca.clone(), ..with(mode) };
    assert!(!cipher(&by_name(SslMode::VerifyCa)).is_empty());
    let error = failure(&by_name(SslMode::VerifyIdentity));
    assert!(error.contains("not valid for name"), "{error}");
}

#[test]
fn a_server_without_tls_is_plain_or_an_error() {
    let plain = |mode| Overrides { ssl_mode: Some(mode), ..shared().by_tcp("root") };
    let target = resolve(&plain(SslMode::Preferred));
    // The second connection of a target no longer asks for TLS; both must work.
    for _ in 0..2 {
        assert_eq!(target.connect().unwrap().value("SELECT 7").unwrap().as_deref(), Some("7"));
    }
    let aborted = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Aborted_connects'";
    let before = shared().root().value(aborted).unwrap();
    target.clone().connect().unwrap();
    assert_eq!(shared().root().value(aborted).unwrap(), before);
    let error = failure(&plain(SslMode::Required));
    assert!(error.contains("the server offers none"), "{error}");
}

#[test]
fn an_account_that_demands_a_certificate_gets_it() {
    let (server, paper) = tls();
    let mut root = server.root();
    root.execute("CREATE USER IF NOT EXISTS x@'%' REQUIRE X509").unwrap();
    let without = Overrides { user: Some("x".into()), ..with(SslMode::Required) };
    assert!(matches!(resolve(&without).connect(), Err(Error::Refused { code: 1045, .. })));
    let with_identity = Overrides {
        ssl_cert: Some(paper.file("client.pem")),
        ssl_key: Some(paper.file("client.key")),
        ..without
    };
    assert!(!cipher(&with_identity).is_empty());
    // As with MariaDB's clients, a certificate alone demands TLS.
    assert_eq!(resolve(&Overrides { ssl_mode: None, ..with_identity }).tls.mode, SslMode::Required);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let missing = Overrides { ssl_ca: Some("/nowhere/ca.pem".into()), ..with(SslMode::VerifyCa) };
    assert!(failure(&missing).contains("/nowhere/ca.pem: No such file"));
    let (_, paper) = tls();
    let broken = Overrides {
        ssl_cert: Some(paper.file("ca.pem")),
        ssl_key: Some(paper.file("client.csr")),
        ..with(SslMode::Required)
    };
    failure(&broken);
}

#[test]
fn a_socket_needs_no_tls() {
    let by_socket = Overrides { ssl_mode: Some(SslMode::Required), ..tls().0.by_socket("root") };
    assert_eq!(cipher(&by_socket), "");
}

#[test]
fn large_packets_pass_through_tls() {
    let mut session = open(&with(SslMode::Required));
    let text = "0123456789abcdef".repeat(20 << 16);
    assert!(session.value(&format!("SELECT '{text}'")).unwrap().unwrap() == text);
    session.execute("CREATE TEMPORARY TABLE mysql.tmp (a INT)").unwrap();
    let load = "LOAD DATA LOCAL INFILE 'remora-stream' INTO TABLE mysql.tmp";
    let report = session.load(load, crate::support::all_of("1\n".repeat(100_000))).unwrap();
    assert_eq!(report.records, 100_000);
}

#[test]
fn a_url_carries_the_mode() {
    let port = tls().0.port;
    let url = format!(
        "mysql://root@127.0.0.1:{port}/?ssl-mode=verify_identity&ssl_ca={}",
        tls().1.file("ca.pem").display()
    );
    let given = Overrides { url: Some(url), no_defaults: true, ..Overrides::default() };
    let target = Target::resolve(&given, &Environment::default()).unwrap();
    assert_eq!(target.tls.mode, SslMode::VerifyIdentity);
    target.connect().unwrap();
}

/// How long the server may be silent, and how long we wait for it.
const SOON: Duration = Duration::from_secs(30);

fn from(ends: bool) -> DumpRequest {
    // A server ends what was sent to another one of the same number.
    static NUMBER: AtomicU32 = AtomicU32::new(100);
    let (file, server_id) = ("binlog.000001".into(), NUMBER.fetch_add(1, Ordering::Relaxed));
    DumpRequest { file, at: 4, server_id, ends, acknowledges: false, heartbeat: SOON }
}

/// The next event's bytes; `None` at the end.
fn event(dump: &mut BinlogDump) -> Option<Vec<u8>> {
    match dump.next(SOON).unwrap() {
        Packet::Event { bytes, .. } => Some(bytes.to_vec()),
        Packet::End => None,
        Packet::Nothing => panic!("nothing came"),
    }
}

#[test]
fn the_binary_log_comes_through_tls() {
    let (server, paper) = tls();
    let mut root = server.root();
    for statement in [
        "CREATE DATABASE log",
        "CREATE TABLE log.t (a LONGTEXT)",
        "SET SESSION binlog_format = ROW",
        // An event of several packets.
        "INSERT INTO log.t VALUES (REPEAT('x', 12000000)), ('y')",
        "CREATE USER reader@'%' IDENTIFIED BY 'secret'",
        "CREATE USER owner@'%' REQUIRE X509",
        "GRANT REPLICATION SLAVE ON *.* TO reader@'%', owner@'%'",
    ] {
        root.execute(statement).unwrap();
    }
    let all = |target: &Target| {
        let mut dump = target.dump(&from(true)).unwrap();
        std::iter::from_fn(|| event(&mut dump)).collect::<Vec<_>>()
    };
    let plain = all(&resolve(&with(SslMode::Disabled)));
    assert!(plain.iter().any(|event| event.len() > 12_000_000));
    // Another test writes to the same log.
    let all = |overrides: &Overrides| all(&resolve(overrides)).starts_with(&plain);
    let ours = Some(paper.file("ca.pem"));
    for mode in [SslMode::Preferred, SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity] {
        let secure = Overrides { ssl_ca: ours.clone(), ..with(mode) };
        assert!(all(&secure), "{mode:?}");
    }
    let by = |user: &str, password: Option<&str>| Overrides {
        user: Some(user.into()),
        password: password.map(Into::into),
        ..with(SslMode::Required)
    };
    assert!(all(&by("reader", Some("secret"))));
    let identity = Overrides {
        ssl_cert: Some(paper.file("client.pem")),
        ssl_key: Some(paper.file("client.key")),
        ..by("owner", None)
    };
    assert!(all(&identity));
}

#[test]
fn a_growing_log_comes_through_tls() {
    let mut root = tls().0.root();
    let target = resolve(&with(SslMode::Required));
    let mut dump = target.dump(&from(false)).unwrap();
    root.execute("CREATE DATABASE later").unwrap();
    while !event(&mut dump).unwrap().windows(5).any(|part| part == b"later") {}
    // Nothing is left, and that is no error.
    let mut is_silent = false;
    for _ in 0..1000 {
        is_silent |= matches!(dump.next(Duration::from_millis(10)).unwrap(), Packet::Nothing);
    }
    assert!(is_silent);
    root.execute("DROP DATABASE later").unwrap();
    while !event(&mut dump).unwrap().windows(10).any(|part| part == b"DROP DATAB") {}
}

#[test]
fn a_connection_for_the_log_checks_certificates() {
    let refused = |mode, ca: &str, host: &str| {
        let ca = Some(tls().1.file(ca));
        let target = resolve(&Overrides { host: Some(host.into()), ssl_ca: ca, ..with(mode) });
        match target.dump(&from(true)) {
            Err(error @ Error::Tls { .. }) => error.to_string(),
            other => panic!("{:?}", other.err()),
        }
    };
    for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
        let error = refused(mode, "other.pem", "127.0.0.1");
        assert!(error.contains("UnknownIssuer"), "{error}");
    }
    let error = refused(SslMode::VerifyIdentity, "ca.pem", "localhost");
    assert!(error.contains("not valid for name"), "{error}");
    let error = refused(SslMode::VerifyCa, "nowhere.pem", "127.0.0.1");
    assert!(error.contains("nowhere.pem"), "{error}");
    // A server without TLS.
    let plain = |mode| resolve(&Overrides { ssl_mode: Some(mode), ..shared().by_tcp("root") });
    assert!(matches!(plain(SslMode::Required).dump(&from(true)), Err(Error::Tls { .. })));
    // There is no log to send, but there was a connection.
    assert!(matches!(
        plain(SslMode::Preferred).dump(&from(true)).unwrap().next(SOON),
        Err(Error::Sql { .. })
    ));
    let wrong = Overrides { user: Some("x".into()), password: Some("no".into()), ..with(SslMode::Required) };
    assert!(matches!(resolve(&wrong).dump(&from(true)), Err(Error::Refused { code: 1045, .. })));
}
