//! Connecting, and the messages when that fails.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use server::{Environment, Error, Overrides, Session, Target};

use crate::support::{Server, open, resolve, shared};

fn failure(overrides: &Overrides) -> Error {
    match resolve(overrides).connect() {
        Ok(_) => panic!("{overrides:?} connected"),
        Err(error) => error,
    }
}

fn by_url(url: String) -> Overrides {
    Overrides { url: Some(url), no_defaults: true, ..Overrides::default() }
}

fn unreachable(overrides: &Overrides, expected: &str) {
    match failure(overrides) {
        Error::Unreachable { target, why, hint } => {
            assert!(why.contains(expected), "{why}");
            assert_eq!(target, resolve(overrides).to_string());
            assert!(!hint.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

fn port_without_listener() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn every_way_in_works() {
    let server = shared();
    let socket = server.socket();
    let (socket, port) = (socket.to_str().unwrap(), server.port);
    let encoded = socket.replace('s', "%73");
    for url in [
        format!("mysql://root@127.0.0.1:{port}"),
        format!("mariadb://root@127.0.0.1:{port}/mysql"),
        format!("mysql://root@localhost:{port}/mysql"),
        format!("unix://root@{socket}"),
        format!("unix://root@{encoded}?db=mysql"),
        format!("mysql://root@localhost/mysql?socket={socket}"),
        format!("mysql://root@localhost/mysql?socket={socket}&protocol=socket"),
    ] {
        let mut session = open(&by_url(url.clone()));
        let socket_used =
            session.value("SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID()");
        assert_eq!(
            socket_used.unwrap().unwrap() == "localhost",
            url.contains(socket) || url.contains(&encoded),
            "{url}"
        );
        let db = session.value("SELECT DATABASE()").unwrap();
        assert_eq!(
            db.as_deref(),
            url.contains("mysql",)
                .then_some("mysql")
                .filter(|_| url.contains("/mysql?") || url.ends_with("/mysql") || url.contains("db=")),
            "{url}"
        );
        assert_eq!(session.value("SELECT @@character_set_connection").unwrap().as_deref(), Some("utf8mb4"));
    }
}

#[test]
fn sessions_run_on_other_threads() {
    let mut session = shared().root();
    let answer = std::thread::spawn(move || session.value("SELECT 7").unwrap()).join().unwrap();
    assert_eq!(answer.as_deref(), Some("7"));
}

#[test]
fn unreachable_servers_are_distinguished_by_their_cause() {
    let dir = tempfile::tempdir().unwrap();
    let socket = |path| Overrides { socket: Some(path), no_defaults: true, ..Overrides::default() };
    unreachable(&socket(dir.path().join("none")), "there is no such socket");
    let stale = dir.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    unreachable(&socket(stale), "no server listens on it");
    unreachable(&by_url(format!("mysql://u@127.0.0.1:{}", port_without_listener())), "connection refused");
    unreachable(
        &by_url("mysql://u@no-such-host.invalid".into()),
        "no address for the name \"no-such-host.invalid\"",
    );
}

#[test]
fn a_silent_server_times_out() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let limit = Some(Duration::from_millis(50));
    unreachable(
        &Overrides { connect_timeout: limit, ..by_url(format!("mysql://u@127.0.0.1:{port}")) },
        "timeout after 50ms",
    );
}

#[test]
fn something_else_listening_is_no_server() {
    for greeting in
        [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x05\0\0\0\x09old\0"]
    {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        let speaker = std::thread::spawn(move || other.accept().unwrap().0.write_all(greeting).unwrap());
        let error = failure(&by_url(format!("mysql://u@127.0.0.1:{port}")));
        speaker.join().unwrap();
        assert!(matches!(error, Error::Unreachable { .. } | Error::Protocol { .. }), "{error:?}");
    }
}

fn refusal(overrides: &Overrides) -> (u16, String, String, String) {
    match failure(overrides) {
        Error::Refused { code, account, why, hint, .. } => (code, account, why, hint),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_says_who_and_what_to_do() {
    let server = shared();
    let user = server.account();
    let (code, account, _, hint) = refusal(&server.by_socket(&user));
    assert_eq!((code, account), (1045, format!("{user}@localhost")));
    assert!(hint.contains("no password was given"), "{hint}");
    let wrong = Overrides { password: Some("wr0ng".into()), ..server.by_socket(&user) };
    let (code, _, _, hint) = refusal(&wrong);
    assert_eq!(code, 1045);
    assert!(hint.contains("check user and password"), "{hint}");
    let (code, _, why, _) =
        refusal(&Overrides { database: Some("nowhere".into()), ..server.by_socket("root") });
    assert_eq!(code, 1049, "{why}");
}

#[test]
fn a_refused_schema_names_its_grant() {
    let server = shared();
    let (user, db) = (server.account(), server.schema());
    let login = Overrides { database: Some(db.clone()), ..server.as_account(&user) };
    let (code, _, _, hint) = refusal(&login);
    assert_eq!(code, 1044);
    let grant = hint.split_once("run: ").unwrap().1;
    assert_eq!(grant, format!("GRANT SELECT ON `{db}`.* TO `{user}`@`localhost`"));
    server.root().execute(grant).unwrap();
    open(&login);
}

#[test]
fn an_account_of_the_system_and_a_foreign_host_are_explained() {
    let server = Server::start(&["--skip-name-resolve".into(), "--max-connections=10".into()]);
    let mut root = server.root();
    root.execute("CREATE USER nobody@localhost IDENTIFIED VIA unix_socket").unwrap();
    let (code, _, _, hint) = refusal(&server.by_socket("nobody"));
    assert_eq!(code, 1698);
    assert!(hint.contains("run as nobody"), "{hint}");
    root.execute("CREATE USER nobody@'127.0.0.1' IDENTIFIED VIA unix_socket").unwrap();
    let (code, _, _, hint) = refusal(&server.by_tcp("nobody"));
    assert_eq!(code, 1698);
    assert!(hint.contains("--socket"), "{hint}");
    root.execute("DELETE FROM mysql.global_priv WHERE host NOT IN ('localhost', ''); FLUSH PRIVILEGES")
        .unwrap();
    let (code, _, why, hint) = refusal(&server.by_tcp("root"));
    assert_eq!(code, 1130, "{why}");
    assert!(hint.contains("CREATE USER `root`@'...'"), "{hint}");
    // One connection above the limit is reserved for root.
    root.execute("CREATE USER guest@localhost").unwrap();
    let guests: Vec<Session> = (0..9).map(|_| open(&server.by_socket("guest"))).collect();
    let (code, _, _, hint) = refusal(&server.by_socket("guest"));
    assert_eq!(code, 1040);
    assert!(hint.contains("used up"), "{hint}");
    drop(guests);
}

#[test]
fn passwords_show_nowhere() {
    let server = shared();
    let secret = "s3cret%2Fs3cret";
    let env = Environment { mysql_pwd: Some("s3cret".into()), ..Environment::default() };
    let given = Overrides {
        url: Some(format!("unix://root:{secret}@{}", server.socket().display())),
        password: Some("s3cret".into()),
        no_defaults: true,
        ..Overrides::default()
    };
    let target = Target::resolve(&given, &env).unwrap();
    assert_eq!(target.password.as_ref().unwrap().expose(), "s3cret");
    let error = target.connect().unwrap_err();
    let mut shown = format!("{given:?} {env:?} {target:?} {target} {error:?} {error}");
    for url in [
        "mysql://u:s3cret",
        "mysql://u:s3cret@h:x",
        "bad://u:s3cret@h",
        "mysql://u:s3cret%@h",
        "u:s3cret@h",
        "mysql://h?s3cret=%zz",
        "mysql://h/?password=s3cret",
    ] {
        let error = Target::resolve(&by_url(url.into()), &env).unwrap_err();
        shown += &format!("{error:?} {error}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    // A session holds the driver's connection, which holds the password.
    let user = server.account();
    let session = open(&server.as_account(&user));
    server.root().execute(&format!("ALTER USER {user}@localhost IDENTIFIED BY 's3cret'")).unwrap();
    drop(session);
    let session = open(&Overrides { password: Some("s3cret".into()), ..server.by_socket(&user) });
    assert!(!format!("{session:?}").contains("s3cret"), "{session:?}");
}
