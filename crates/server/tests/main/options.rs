//! Option files, compared with `my_print_defaults`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use server::{Environment, OptionFile, OptionFiles, OptionLine, Overrides, Target, read_option_files};

struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn new(files: &[(&str, &[u8])]) -> Tree {
        let tree = Tree { dir: tempfile::tempdir().unwrap() };
        for (name, content) in files {
            let path = tree.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let dir = tree.dir.path().to_str().unwrap();
            let content = replace(content, b"@", dir.as_bytes());
            write(&path, &content);
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own throw-away file")]
fn write(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
}

fn replace(content: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut new = Vec::new();
    for &byte in content {
        if [byte] == *what { new.extend_from_slice(with) } else { new.push(byte) }
    }
    new
}

fn oracle(tree: &Tree, suffix: Option<&str>) -> Output {
    let mut command = Command::new("my_print_defaults");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", tree.path("home"));
    command.arg(format!("--defaults-file={}", tree.path("main.cnf").display()));
    if let Some(suffix) = suffix {
        command.arg(format!("--defaults-group-suffix={suffix}"));
    }
    command.args(["client", "remora"]).output().expect("my_print_defaults is not installed")
}

fn ours(tree: &Tree, suffix: Option<&str>) -> Result<Vec<OptionLine>, server::Error> {
    let files = OptionFiles {
        files: vec![OptionFile { path: tree.path("main.cnf"), required: true }],
        home: Some(tree.path("home")),
    };
    read_option_files(&files, &["client".into(), "remora".into()], suffix)
}

fn printed(lines: &[OptionLine]) -> String {
    let mut text = String::new();
    for line in lines {
        match &line.value {
            Some(value) => writeln!(text, "--{}={value}", line.name).unwrap(),
            None => writeln!(text, "--{}", line.name).unwrap(),
        }
    }
    text
}

/// Both readers must agree on the options, or on giving up. Underscores are compared as dashes: we normalise
/// names when reading, the client does that later.
fn assert_same(tree: &Tree, suffix: Option<&str>) {
    let theirs = oracle(tree, suffix);
    match ours(tree, suffix) {
        Ok(lines) => {
            assert!(theirs.status.success(), "only the client gave up: {theirs:?}");
            let theirs = String::from_utf8_lossy(&theirs.stdout).replace('_', "-");
            assert_eq!(printed(&lines).replace('_', "-"), theirs);
        }
        // The only file that we refuse and the client does not.
        Err(error) if error.to_string().contains("not UTF-8") => {
            assert!(std::str::from_utf8(&theirs.stdout).is_err(), "{error}");
        }
        Err(error) => assert!(!theirs.status.success(), "only we gave up: {error}\n{theirs:?}"),
    }
}

const LINES: &[u8] = b"# comment
; comment
  [client]
a=1
 b = 2\x20\x20
c = \"x # y\"  # end
d = 'x # y' # end
e = x # y
f = x\\#y
g = \"a\\\"b # c\" # d
h = a'b # c' d # e
i
j-k_l=4
k = \"abc
l = abc\"
m = \"a\" \"b\"
n = \\s\\t\\n\\b\\r\\\\\\x\\'\\\"
o = \"  spaces  \"
p =
q = \"\"
r = \"
s ='
t=#comment
u=a;b
v ; no comment
w # comment
x==y
y = a = b
\"quoted\" = 8
tab\t=\t1\t
crlf=1\r
esc = \"a\\\\\" # foo
esc2 = \"a\\\\\\\" # foo\" # bar
--dash=1
nul=1\0 2
\0 nothing
end = voil\xC3\xA0!
[ client ]
no=1
[client ]
yes=1
[CLIENT] behind
yes=2
[client # x]
no=2
[]
no=3
[cli]
no=4
[remora]
back = slash\\
last=1";

#[test]
fn lines_are_read_as_the_client_reads_them() {
    let tree = Tree::new(&[("main.cnf", LINES)]);
    assert_same(&tree, None);
    let names: Vec<String> = ours(&tree, None).unwrap().into_iter().map(|line| line.name).collect();
    assert!(names.contains(&"j-k-l".to_owned()), "{names:?}");
    assert_eq!(names.len(), 37);
}

#[test]
fn a_long_line_continues_as_another() {
    let long =
        [b"[client]\na=".as_slice(), &b"x".repeat(9000), b"\n# ", &b"c".repeat(5000), b"\nz=1\n"].concat();
    let tree = Tree::new(&[("main.cnf", &long)]);
    assert_same(&tree, None);
    assert_eq!(ours(&tree, None).unwrap().len(), 5);
}

#[test]
fn groups_with_a_suffix_are_read_too() {
    let content = b"[client]\na=1\n[client_s]\nb=1\n[remora_s]\nc=1\n[other_s]\nd=1\n[client]\ne=1\n";
    let tree = Tree::new(&[("main.cnf", content)]);
    assert_same(&tree, Some("_s"));
    assert_eq!(printed(&ours(&tree, Some("_s")).unwrap()), "--a=1\n--b=1\n--c=1\n--e=1\n");
    assert_eq!(printed(&ours(&tree, None).unwrap()), "--a=1\n--e=1\n");
}

#[test]
fn includes_are_followed_as_the_client_follows_them() {
    let option: &[u8] = b"[client]\nfrom-other=1\n";
    let tree = Tree::new(&[
        (
            "main.cnf",
            b"[client]\nstart=1\n!includedir @/d\nafter=1\n!include ~/.my.cnf\n ! include @/one.cnf\n\
              !include \"@/one.cnf\"\n!include @/missing.cnf\n!includefoo x\n!bar\n!include @/bad.cnf\n\
              !include @/other.cnf\nstill=1\n!include @/d\n!include\t@/one.cnf \n!include @/one.cnfX",
        ),
        ("d/b.cnf", b"[client]\nb=1\n"),
        ("d/a.cnf", b"[client]\na=1\n"),
        ("d/.hidden.cnf", b"[client]\nhidden=1\n"),
        ("d/.cnf", b"[client]\nbare=1\n"),
        ("d/x.y.cnf", b"[client]\nxy=1\n"),
        ("d/Z.cnf", b"[client]\nZ=1\n"),
        ("d/10.cnf", b"[client]\nten=1\n"),
        ("d/9.cnf", b"[client]\nnine=1\n"),
        ("d/c.CNF", b"[client]\nupper=1\n"),
        ("d/c.ini", b"[client]\nini=1\n"),
        ("d/cnf", b"[client]\ncnf=1\n"),
        ("d/sub.cnf/x.cnf", b"[client]\nsub=1\n"),
        ("home/.my.cnf", b"[client]\nhome=1\n"),
        ("one.cnf", b"[client]\none=1\n"),
        ("bad.cnf", b"[client]\nbefore=1\n[client\nbehind=1\n"),
        ("other.cnf", option),
    ]);
    assert_same(&tree, None);
    assert_eq!(ours(&tree, None).unwrap().len(), 17);
}

#[test]
fn includes_in_a_circle_end() {
    let tree = Tree::new(&[("main.cnf", b"[client]\na=1\n!include @/main.cnf\nb=1\n")]);
    assert_same(&tree, None);
    assert_eq!(ours(&tree, None).unwrap().len(), 22);
}

#[test]
fn a_file_that_the_client_refuses_is_an_error_with_its_line() {
    for (content, place) in [
        ("a=1\n[client]\n", ":1: "),
        ("[client]\na=1\n[client\n", ":3: "),
        ("[client]\n!include\n", ":2: "),
        ("[client]\n!include  \n", ":2: "),
        ("[client]\n\n!includedir /does/not/exist\n", ":3: "),
    ] {
        let tree = Tree::new(&[("main.cnf", content.as_bytes())]);
        assert_same(&tree, None);
        let error = ours(&tree, None).unwrap_err().to_string();
        assert!(error.contains(&format!("main.cnf{place}")), "{error}");
    }
    let tree = Tree::new(&[]);
    assert_same(&tree, None);
    assert!(ours(&tree, None).unwrap_err().to_string().contains("main.cnf: cannot be read"));
}

#[test]
fn a_world_writable_file_is_ignored() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new(&[
        ("main.cnf", b"[client]\na=1\n!include @/open.cnf\nb=1\n"),
        ("open.cnf", b"[client]\nc=1\n"),
    ]);
    fs::set_permissions(tree.path("open.cnf"), fs::Permissions::from_mode(0o666)).unwrap();
    assert_same(&tree, None);
    assert_eq!(printed(&ours(&tree, None).unwrap()), "--a=1\n--b=1\n");
    fs::set_permissions(tree.path("main.cnf"), fs::Permissions::from_mode(0o602)).unwrap();
    assert_same(&tree, None);
    assert!(ours(&tree, None).unwrap().is_empty());
}

/// Text rich in characters that the reader treats specially. No line starts with `=`: for a nameless option
/// the client reads memory in front of its buffer.
fn line() -> impl Strategy<Value = String> {
    let rich = "[ \t\"'\\\\#;=abns_!\\[\\]\u{e0}\r\u{b}-]{0,16}";
    let group = prop::sample::select(vec![
        "client", "client ", " client", "CLIENT", "Remora", "client_s", "remora_S", "clien", "clients",
        "client,", "client=", "1", "#1", "", "other",
    ]);
    prop_oneof![
        4 => group.prop_map(|name| format!("[{name}]")),
        8 => ("[a-c]{1,2}[-_ ]?", rich).prop_map(|(name, value)| format!("{name}={value}")),
        4 => ("[a-c]{1,2}", "['\"]", rich, "['\"]", " ?(#x)?")
            .prop_map(|(name, q, value, r, rest)| format!("{name} = {q}{value}{r}{rest}")),
        4 => rich.prop_map(String::from),
        1 => prop::sample::select(vec!["!include @/a.cnf", "!include @/b.cnf ", "! include ~/c.cnf",
            "!includedir @/d", "!includedir\t@/d/", "!include @/none", "!include", "!includedirx"])
            .prop_map(String::from),
    ]
    .prop_filter("a nameless option", |line| !line.trim_start().starts_with('='))
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let ends = prop::sample::select(vec!["\n", "\n", "\n", "\r\n", "\n\n", "\0\n"]);
    let lines = prop::collection::vec((line(), ends), 0..12);
    (any::<bool>(), lines, any::<bool>()).prop_map(|(with_group, lines, cut)| {
        let mut text = String::from(if with_group { "[client]\n" } else { "" });
        for (line, end) in lines {
            text += &line;
            text += end;
        }
        if cut {
            text.pop();
        }
        text.into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_file_is_read_as_the_client_reads_it(
        main in file(), a in file(), b in file(), c in file(), d in file(), e in file(),
    ) {
        let tree = Tree::new(&[
            ("main.cnf", &main), ("a.cnf", &a), ("b.cnf", &b), ("home/c.cnf", &c), ("d/2.cnf", &d), ("d/10.cnf", &e),
        ]);
        assert_same(&tree, Some("_s"));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(main in prop::collection::vec(any::<u8>(), 0..300)) {
        let tree = Tree::new(&[("main.cnf", &main)]);
        drop(ours(&tree, None));
    }
}

/// The same files, in the same order, as the client's own search for them.
#[test]
fn files_are_searched_in_the_clients_order() {
    let tree = Tree::new(&[
        ("mysql/my.cnf", b"[client]\nhost=mysql\nuser=mysql\ndatabase=mysql\nport=1\n"),
        ("maria/my.cnf", b"[client]\nhost=maria\nuser=maria\ndatabase=maria\nport=2\n"),
        ("extra.cnf", b"[client]\nhost=extra\nuser=extra\n"),
        ("home/.my.cnf", b"[client]\nhost=home\n"),
    ]);
    let mut command = Command::new("my_print_defaults");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", tree.path("home"));
    command.env("MYSQL_HOME", tree.path("mysql")).env("MARIADB_HOME", tree.path("maria"));
    command.arg(format!("--defaults-extra-file={}", tree.path("extra.cnf").display())).arg("client");
    let theirs = command.output().expect("my_print_defaults is not installed");
    let mut last = std::collections::BTreeMap::new();
    for line in String::from_utf8(theirs.stdout).unwrap().lines() {
        if let Some((name, value)) = line.split_once('=') {
            last.insert(name.to_owned(), value.to_owned());
        }
    }
    let env = Environment {
        home: Some(tree.path("home")),
        mysql_home: Some(tree.path("mysql")),
        mariadb_home: Some(tree.path("maria")),
        ..Environment::default()
    };
    let extra = Overrides { defaults_extra_file: Some(tree.path("extra.cnf")), ..Overrides::default() };
    let target = Target::resolve(&extra, &env).unwrap();
    assert_eq!(target.host, last["--host"]);
    assert_eq!(target.user, last["--user"]);
    assert_eq!(target.database.as_deref(), Some(last["--database"].as_str()));
    assert_eq!(target.port.to_string(), last["--port"]);
    assert_eq!((target.host.as_str(), target.user.as_str(), target.port), ("home", "extra", 2));
}

#[test]
fn every_group_can_be_read_at_once() {
    let tree = Tree::new(&[
        ("my.cnf", b"[mysqld]\na=1\n!include @/more.cnf\n[client]\nb\n[mysqld]\nc=3\n"),
        ("more.cnf", b"[mariadb-11.8]\nd=4\n"),
    ]);
    let files =
        OptionFiles { files: vec![OptionFile { path: tree.path("my.cnf"), required: true }], home: None };
    let read = server::read_all_options(&files).unwrap();
    let seen: Vec<_> = read.iter().map(|line| (line.group.as_str(), line.name.as_str(), line.line)).collect();
    assert_eq!(seen, [("mysqld", "a", 2), ("mariadb-11.8", "d", 2), ("client", "b", 5), ("mysqld", "c", 7)]);
}
