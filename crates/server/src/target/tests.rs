//! Which source overrides which, and what a host, port and socket mean together.

use std::fs;
use std::path::Path;

use super::*;

/// Overrides that read exactly one option file with this content.
struct File {
    dir: tempfile::TempDir,
}

impl File {
    #[expect(clippy::disallowed_methods, reason = "a test's own throw-away file")]
    fn new(content: &str) -> File {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("my.cnf"), content).unwrap();
        File { dir }
    }

    fn given(&self) -> Overrides {
        Overrides { defaults_file: Some(self.dir.path().join("my.cnf")), ..Overrides::default() }
    }
}

fn bare() -> Overrides {
    Overrides { no_defaults: true, ..Overrides::default() }
}

fn url(text: &str) -> Overrides {
    Overrides { url: Some(text.into()), ..bare() }
}

fn resolve(given: &Overrides) -> Target {
    Target::resolve(given, &Environment::default()).unwrap()
}

fn shown(given: &Overrides) -> String {
    resolve(given).to_string()
}

fn why_not(given: &Overrides) -> String {
    Target::resolve(given, &Environment::default()).unwrap_err().to_string()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn the_command_line_wins_over_files_and_these_over_the_environment() {
    let env = Environment {
        user: text("env"),
        mysql_host: text("env"),
        mysql_pwd: text("env"),
        mysql_tcp_port: text("1"),
        mysql_unix_port: Some("/env".into()),
        ..Environment::default()
    };
    let seen = |given: &Overrides| {
        let target = Target::resolve(given, &env).unwrap();
        let password = target.password.as_ref().map(|p| p.expose().to_owned()).unwrap_or_default();
        (target.host, target.port, target.user, password)
    };
    let all = |word: &str, port| (word.to_owned(), port, word.to_owned(), word.to_owned());
    assert_eq!(seen(&bare()), all("env", 1));
    let file = File::new("[client]\nhost=old\n[client]\nhost=file\nport=2\nuser=file\npassword=file\n");
    assert_eq!(seen(&file.given()), all("file", 2));
    let with_url = Overrides { url: text("mysql://url:url@url:3"), ..file.given() };
    assert_eq!(seen(&with_url), all("url", 3));
    let typed =
        Overrides { host: text("cli"), port: Some(4), user: text("cli"), password: text("cli"), ..with_url };
    assert_eq!(seen(&typed), all("cli", 4));
    let local = Overrides { host: text("localhost"), ..bare() };
    assert_eq!(Target::resolve(&local, &env).unwrap().to_string(), "env@localhost via /env");
}

#[test]
fn nothing_at_all_means_the_local_socket() {
    let target = resolve(&bare());
    assert!(SOCKETS.iter().any(|path| target.socket.as_deref() == Some(Path::new(path))));
    assert_eq!((target.user.as_str(), target.password, target.database), ("", None, None));
    assert_eq!(target.tls, Tls::default());
}

#[test]
fn localhost_is_the_socket_unless_tcp_is_asked_for() {
    let file = File::new("[client]\nsocket=/s\nport=3307\n");
    let with = |change: &dyn Fn(&mut Overrides)| {
        let mut given = Overrides { user: text("u"), ..file.given() };
        change(&mut given);
        shown(&given)
    };
    assert_eq!(with(&|_| ()), "u@localhost via /s");
    assert_eq!(with(&|o| o.host = text("localhost")), "u@localhost via /s");
    assert_eq!(with(&|o| o.host = text("LOCALHOST")), "u@localhost via /s");
    assert_eq!(with(&|o| o.port = Some(3308)), "u@localhost:3308");
    assert_eq!(with(&|o| o.host = text("127.0.0.1")), "u@127.0.0.1:3307");
    assert_eq!(with(&|o| o.host = text("db1")), "u@db1:3307");
    assert_eq!(with(&|o| o.host = text("::1")), "u@[::1]:3307");
    assert_eq!(with(&|o| o.socket = Some("/t".into())), "u@localhost via /t");
    assert_eq!(with(&|o| o.url = text("mysql://db1")), "u@db1:3306");
    assert_eq!(with(&|o| o.url = text("mysql:///shop")), "u@localhost via /s");
    assert_eq!(with(&|o| o.url = text("mysql://localhost:3306")), "u@localhost:3306");
    assert_eq!(with(&|o| o.url = text("unix:///x.sock")), "u@localhost via /x.sock");
    let tcp = File::new("[client]\nprotocol=TCP\n");
    assert_eq!(shown(&Overrides { user: text("u"), ..tcp.given() }), "u@localhost:3306");
    assert_eq!(
        shown(&Overrides { user: text("u"), socket: Some("/t".into()), ..tcp.given() }),
        "u@localhost via /t"
    );
}

#[test]
fn a_host_on_the_command_line_is_not_reached_by_the_files_socket() {
    let file = File::new("[client]\nhost=db1\nprotocol=tcp\n");
    let typed = Overrides { user: text("u"), host: text("localhost"), ..file.given() };
    assert!(shown(&typed).starts_with("u@localhost via "));
    let typed = Overrides { user: text("u"), socket: Some("/s".into()), ..file.given() };
    assert_eq!(shown(&typed), "u@localhost via /s");
}

#[test]
fn urls_are_decoded() {
    let target = resolve(&url("mysql://a%40b:p%3Aw%2F@h:1/d%2Fb?ssl-mode=required&connect_timeout=7"));
    assert_eq!(target.to_string(), "a@b@h:1");
    assert_eq!(target.password.unwrap().expose(), "p:w/");
    assert_eq!(target.database.as_deref(), Some("d/b"));
    assert_eq!(target.tls.mode, SslMode::Required);
    assert_eq!(target.connect_timeout, Duration::from_secs(7));
    let target = resolve(&url("mariadb://u:@[fe80::1]:3307/"));
    assert_eq!((target.to_string().as_str(), target.database), ("u@[fe80::1]:3307", None));
    assert_eq!(target.password.unwrap().expose(), "");
    let target = resolve(&url("unix://u:p@/a%20b.sock?db=shop"));
    assert_eq!(target.to_string(), "u@localhost via /a b.sock");
    assert_eq!(target.database.as_deref(), Some("shop"));
    assert_eq!(resolve(&url("mysql://u:p@w@h")).password.unwrap().expose(), "p@w");
}

#[test]
fn bad_urls_say_what_is_expected() {
    for (text, why) in [
        ("db1", "no ://"),
        ("http://db1", "must start with mysql://"),
        ("mysql://db1:x", "port is not a number"),
        ("mysql://db1:0", "port is not a number"),
        ("mysql://db1:70000", "port is not a number"),
        ("mysql://::1", "write an IPv6 address as [::1]"),
        ("mysql://[::1", "ends with ]"),
        ("mysql://[::1]x", "only :port"),
        ("mysql://a%4", "two hexadecimal digits"),
        ("mysql://a%+1", "two hexadecimal digits"),
        ("mysql://%ff", "not UTF-8"),
        ("mysql://h?colour=red", "unknown parameter colour"),
        ("mysql://h?password=x", "unknown parameter password"),
        ("mysql://h?ssl-mode=maybe", "none of DISABLED"),
        ("mysql://h?connect-timeout=soon", "not a number"),
        ("unix://run/mysqld.sock", "three slashes"),
        ("unix://", "no path"),
    ] {
        let said = why_not(&url(text));
        assert!(said.contains(why) && said.starts_with("connection URL: "), "{text}: {said}");
    }
}

#[test]
fn option_files_are_ours_to_judge_in_our_own_group() {
    let wrong = |content: &str| {
        let said = why_not(&File::new(content).given());
        said.split_once("my.cnf").unwrap().1.to_owned()
    };
    assert!(wrong("[remora]\nhots=x\n").contains(":2: unknown option hots in [remora]; write loose-hots"));
    assert!(wrong("[client]\nport=x\n").contains(":2: port: \"x\" is not a number"));
    assert!(wrong("[client]\nport=70000\n").contains("not a number that fits"));
    assert!(wrong("[client]\n\npassword\n").contains(":3: password: has no value; this program never asks"));
    assert!(wrong("[client]\nhost\n").contains("host: needs a value"));
    assert!(wrong("[client]\nprotocol=pipe\n").contains("neither tcp nor socket"));
    assert!(wrong("[client]\nssl=maybe\n").contains("neither 1 nor 0"));
    let fine = "[client]\nhots=x\ndefault-character-set=utf8\n[client-server]\nloose-x=1\n[remora]\nloose-hots\n\
                loose-port=3307\n[client-mariadb]\nuser=u\n[mysql]\nhost=h\npager=less\n[mysqldump]\nport=x\n";
    assert_eq!(shown(&File::new(fine).given()), "u@h:3307");
}

#[test]
fn a_suffix_adds_groups_and_our_own_stays_strict() {
    let file = File::new("[client_s]\nuser=s\n[remora_s]\nhots=1\n[client]\nhost=h\n");
    assert_eq!(shown(&file.given()), "@h:3306");
    let said = why_not(&Overrides { defaults_group_suffix: text("_s"), ..file.given() });
    assert!(said.contains("unknown option hots in [remora_s]"), "{said}");
    let file = File::new("[client_s]\nuser=s\n[client_t]\nuser=t\n[client_u]\nuser=u\n[client]\nhost=h\n");
    let env = Environment {
        mysql_group_suffix: text("_s"),
        mariadb_group_suffix: text("_t"),
        ..Environment::default()
    };
    assert_eq!(Target::resolve(&file.given(), &env).unwrap().user, "t");
    let given = Overrides { defaults_group_suffix: text("_u"), ..file.given() };
    assert_eq!(Target::resolve(&given, &env).unwrap().user, "u");
}

#[test]
fn tls_options_of_both_families_are_understood() {
    let mode = |lines: &str| {
        let file = File::new(&format!("[client]\n{lines}\n"));
        resolve(&file.given()).tls.mode
    };
    for (lines, expected) in [
        ("", SslMode::Preferred),
        ("ssl", SslMode::Required),
        ("ssl=1", SslMode::Required),
        ("ssl=OFF", SslMode::Disabled),
        ("skip-ssl", SslMode::Disabled),
        ("disable_ssl", SslMode::Disabled),
        ("skip-ssl\nenable-ssl", SslMode::Required),
        ("ssl_ca=/ca", SslMode::VerifyCa),
        ("ssl-ca=/ca\nskip-ssl-verify-server-cert", SslMode::Required),
        ("ssl-verify-server-cert", SslMode::VerifyIdentity),
        ("ssl-verify-server-cert=on\nssl-ca=/ca", SslMode::VerifyIdentity),
        ("ssl-cert=/c\nssl-key=/k", SslMode::Required),
        ("ssl-ca=/ca\nskip-ssl", SslMode::Disabled),
        ("ssl-mode=Verify_Ca\nssl-ca=/ca", SslMode::VerifyCa),
        ("ssl-mode=DISABLED\nssl-ca=/ca", SslMode::Disabled),
        ("ssl-mode=verify-identity", SslMode::VerifyIdentity),
    ] {
        assert_eq!(mode(lines), expected, "{lines}");
    }
    let file = File::new("[client]\nssl\n");
    let typed = Overrides { ssl_mode: Some(SslMode::Disabled), ..file.given() };
    assert_eq!(resolve(&typed).tls.mode, SslMode::Disabled);
}

#[test]
fn contradictions_are_refused() {
    let said = why_not(&Overrides { host: text("db1"), socket: Some("/s".into()), ..bare() });
    assert!(said.contains("give one of the two"), "{said}");
    let said = why_not(&File::new("[client]\nhost=db1\nprotocol=socket\n").given());
    assert!(said.contains("give protocol=tcp"), "{said}");
    let said = why_not(&Overrides { ssl_cert: Some("/c".into()), ..bare() });
    assert!(said.contains("option ssl-cert: needs ssl-key"), "{said}");
    let said = why_not(&Overrides { ssl_key: Some("/c".into()), ..bare() });
    assert!(said.contains("option ssl-key: needs ssl-cert"), "{said}");
    let said = why_not(&Overrides { ssl_mode: Some(SslMode::VerifyCa), ..bare() });
    assert!(said.contains("VERIFY_CA needs ssl-ca"), "{said}");
    let env = Environment { mysql_tcp_port: text("x"), ..Environment::default() };
    let said = Target::resolve(&bare(), &env).unwrap_err().to_string();
    assert!(said.contains("option MYSQL_TCP_PORT: \"x\" is not a port"), "{said}");
}

#[test]
fn zero_means_the_default() {
    let target = resolve(&File::new("[client]\nhost=h\nport=0\nconnect-timeout=0\n").given());
    assert_eq!((target.port, target.connect_timeout), (PORT_DEFAULT, CONNECT_TIMEOUT_DEFAULT));
}

#[test]
fn a_file_named_twice_counts_at_its_last_place() {
    let paths = |given: &Overrides, env: &Environment| -> Vec<String> {
        option_files(given, env).files.iter().map(|file| file.path.display().to_string()).collect()
    };
    let env = Environment {
        mysql_home: Some("/etc/mysql/".into()),
        home: Some("/home/u".into()),
        ..Environment::default()
    };
    let extra = Overrides { defaults_extra_file: Some("/etc/my.cnf".into()), ..Overrides::default() };
    assert_eq!(paths(&extra, &env), ["/etc/mysql/my.cnf", "/etc/my.cnf", "/home/u/.my.cnf"]);
    let env = Environment { mariadb_home: Some("/m".into()), ..env };
    assert_eq!(
        paths(&Overrides::default(), &env),
        ["/etc/my.cnf", "/etc/mysql/my.cnf", "/m/my.cnf", "/home/u/.my.cnf"]
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own throw-away file")]
fn the_login_file_of_mysql_wins_over_option_files() {
    use std::os::unix::fs::PermissionsExt;

    let option_file = File::new("[client]\nuser=option\nhost=option.example\npassword=1");
    let login_file = option_file.dir.path().join(".mylogin.cnf");
    let lines =
        ["[client]\n", "user = \"login\"\n", "[other]\n", "user = \"named\"\n", "password = \"it's\"\n"];
    fs::write(&login_file, crate::login_path::tests::file(&lines)).unwrap();
    let mode = |mode| fs::set_permissions(&login_file, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    let env = Environment { home: Some(option_file.dir.path().to_owned()), ..Environment::default() };
    let shown = |given: &Overrides| Target::resolve(given, &env).unwrap().to_string();
    assert_eq!(shown(&option_file.given()), "login@option.example:3306");
    let named = Overrides { login_path: text("other"), ..option_file.given() };
    assert_eq!(shown(&named), "named@option.example:3306");
    // The command line wins over it.
    assert_eq!(shown(&Overrides { user: text("given"), ..named.clone() }), "given@option.example:3306");
    let alone = Overrides { login_path: text("other"), ..bare() };
    assert!(shown(&alone).starts_with("named@localhost"), "{}", shown(&alone));
    assert!(!shown(&bare()).contains("login"), "{}", shown(&bare()));
    let nobody = Overrides { login_path: text("nobody"), ..bare() };
    let why = Target::resolve(&nobody, &env).unwrap_err().to_string();
    assert!(why.contains("has no login path nobody"), "{why}");
    // Others may read it.
    mode(0o644);
    assert_eq!(shown(&option_file.given()), "option@option.example:3306");
}

#[test]
fn an_address_of_this_machine_is_known() {
    let is_here = |url: &str| {
        let given = Overrides { url: text(url), ..bare() };
        Target::resolve(&given, &Environment::default()).unwrap().is_on_this_machine()
    };
    for here in
        ["unix:///tmp/x.sock", "mysql://u@127.0.0.1:3307", "mysql://u@127.8.0.1", "mysql://u@[::1]:3306"]
    {
        assert!(is_here(here), "{here}");
    }
    for elsewhere in
        ["mysql://u@db1", "mysql://u@192.0.2.1", "mysql://u@[2001:db8::1]", "mysql://u@localhost.example"]
    {
        assert!(!is_here(elsewhere), "{elsewhere}");
    }
}
