//! A sandbox is the same place for every command, and the server that is installed is the first choice.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use sandbox::Product;
use tempfile::TempDir;

use crate::schema;
use crate::support::{Ended, places, skipped};

const PROGRAM: &str = env!("CARGO_BIN_EXE_remora");

/// A sandbox with a table, which ends with the test, and a folder with what the commands read.
struct Scene {
    name: String,
    folder: TempDir,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let name = format!("{name}-test-{}", std::process::id());
        let scene = Scene { name, folder: tempfile::tempdir().unwrap() };
        let log = ["--option", "log-bin=log", "--option", "server-id=7"];
        scene.run(&[&["sandbox", "start", &scene.name], log.as_slice()].concat()).exits(0);
        std::fs::write(scene.folder.path().join("rows.csv"), "a,b\n1,x\n2,y\n").unwrap();
        std::fs::write(scene.folder.path().join("my.cnf"), "[mysqld]\nmax_connections=20\n").unwrap();
        scene
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        // Both are for other servers: a sandbox has no password and is where its name says.
        command.env("MYSQL_PWD", "of another server").env("MYSQL_HOST", "192.0.2.1");
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.run(&["sandbox", "stop", &self.name, "--remove"]);
    }
}

fn read(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/places");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// The command of a line: its words before what is no action.
fn name_of(words: &[&str]) -> String {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let names = (1..=words.len().min(3)).rev().map(|count| words[..count].join(" "));
    let known = |name: &String| schemas.join(format!("{}.json", name.replace(' ', "-"))).is_file();
    names.into_iter().find(known).unwrap_or_else(|| "any-command".to_owned())
}

#[test]
fn every_command_that_takes_a_server_takes_a_sandbox() {
    let scene = Scene::new("places");
    let url = format!("sandbox:{}", scene.name);
    let create = ["--into", "web.hits", "--create", "--create-database", "--url", &url];
    scene.run(&[&["import", "rows.csv"], create.as_slice()].concat()).exits(0);
    scene.run(&["dump", "-o", "whole.dump", "--url", &url]).exits(0);
    let text = read("commands.txt");
    let mut wrong: Vec<String> = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let words = |name: &str| {
            let address = format!("sandbox:{name}");
            line.split(' ').map(|word| word.replace("SANDBOX", &address)).collect::<Vec<_>>()
        };
        let run = |words: &[String]| scene.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let ended = run(&words(&scene.name));
        // Whatever the command finds there: it has understood where, and has reached the server.
        assert!(![2, 10].contains(&ended.code), "{line}: {ended:?}");
        let mut json = words(&scene.name);
        let end = json.iter().position(|word| word == "--").unwrap_or(json.len());
        json.insert(end, "--json".to_owned());
        let command = json.iter().map(String::as_str).collect::<Vec<_>>();
        wrong.extend(schema::check(&name_of(&command), &run(&json).out).err());
        run(&words("nobody")).exits(2).says(&["no sandbox is called nobody", &scene.name]);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The commands that need no server, and those whose lines are others than above, one after another.
#[test]
fn json_is_as_the_schemas_say() {
    let scene = Scene::new("schema");
    let url = format!("sandbox:{}", scene.name);
    let bad = "a,b\n1,x\nthree,y\n";
    std::fs::write(scene.folder.path().join("bad.csv"), bad).unwrap();
    let many: String = (0..3000).map(|number| format!("https://example.org/page/{number}\n")).collect();
    std::fs::write(scene.folder.path().join("urls"), many).unwrap();
    let mut wrong: Vec<String> = Vec::new();
    for line in read("json.txt").lines().filter(|line| !line.starts_with('#')) {
        let (code, line) = line.split_once(' ').unwrap();
        let words: Vec<String> = line.split(' ').map(|word| word.replace("SANDBOX", &url)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = scene.run(&[words.as_slice(), &["--json"]].concat());
        if ended.code.to_string() != code || ended.out.is_empty() {
            wrong.push(format!("{line}: {ended:?}"));
        }
        wrong.extend(schema::check(&name_of(&words), &ended.out).err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_address_has_the_name_and_may_have_a_database_and_an_account() {
    let scene = Scene::new("address");
    let name = &scene.name;
    let shell = |sql: &str| scene.run(&["sandbox", "shell", name, "--", "-BNe", sql]).exits(0);
    shell("CREATE DATABASE web; CREATE TABLE web.hits (a INT, b TEXT); CREATE USER ann@localhost");
    for address in [format!("sandbox:{name}/web"), format!("sandbox://{name}/web")] {
        scene.run(&["import", "rows.csv", "--into", "hits", "--append", "--url", &address]).exits(0);
    }
    assert_eq!(shell("SELECT COUNT(*) FROM web.hits").out, "4\n");
    let url = format!("sandbox:{name}");
    let append = ["import", "rows.csv", "--into", "web.hits", "--append", "--url", &url];
    scene.run(&[append.as_slice(), &["-u", "ann"]].concat()).exits(1).says(&["can't see it"]);
    scene.run(&["sandbox", "stop", name]).exits(0);
    scene.run(&append).exits(2).says(&[&format!("{name} is stopped; remora sandbox start {name}")]);
}

#[test]
fn a_database_is_made_only_on_request_and_before_its_table() {
    let scene = Scene::new("database");
    let url = format!("sandbox:{}", scene.name);
    let exists = || {
        let sql = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'new'";
        scene.run(&["sandbox", "shell", &scene.name, "--", "-BNe", sql]).exits(0).out == "1\n"
    };
    let import = |file, more: &[&str]| {
        scene.run(&[&["import", file, "--into", "new.hits", "--url", &url], more].concat())
    };
    import("rows.csv", &["--create"]).exits(1).says(&["no database `new`", "--create-database makes it"]);
    import("rows.csv", &["--append"]).exits(1).says(&["--create --create-database"]);
    import("rows.csv", &["--create", "--create-database", "--dry-run"]).exits(0);
    import("none.csv", &["--create", "--create-database"]).exits(1);
    assert!(!exists());
    // With the database as the default one, too, in which no session can begin.
    let whole = ["import", "rows.csv", "--into", "hits", "-D", "new", "--create", "--create-database"];
    scene.run(&[whole.as_slice(), &["--url", &url]].concat()).exits(0);
    assert!(exists());
    import("rows.csv", &["--create", "--create-database", "--replace"]).exits(0);
}

/// The programs of a release whose packages have another server: a folder that is first on the search path.
fn release(version: Product) -> Option<TempDir> {
    let Ok(fetched) = sandbox::find(&places(), version) else {
        skipped("places", "MariaDB 11.8 is not here");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let (base, loader) = (&fetched.base, fetched.loader.as_ref().unwrap().display());
    let libraries = fetched.libraries.as_ref().unwrap().display();
    for (name, place) in [("mariadbd", "sbin"), ("mariadb", "bin")] {
        let program = base.join(place).join(name);
        let text =
            format!("#!/bin/sh\nexec {loader} --library-path {libraries} {} \"$@\"\n", program.display());
        let script = folder.path().join(place).join(name);
        std::fs::create_dir_all(script.parent().unwrap()).unwrap();
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    symlink(base.join("share"), folder.path().join("share")).unwrap();
    symlink(base.join("lib"), folder.path().join("lib")).unwrap();
    Some(folder)
}

#[test]
fn the_server_that_is_installed_is_the_default_and_its_client_reaches_it() {
    let Some(installed) = release(Product::MariaDb118) else { return };
    let home = tempfile::tempdir().unwrap();
    let folder = |name: &str| installed.path().join(name).display().to_string();
    let path = format!("{}:{}:{}", folder("sbin"), folder("bin"), std::env::var("PATH").unwrap());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.env("PATH", &path).env("XDG_CACHE_HOME", home.path()).arg("sandbox").args(arguments);
        Ended::of(&command.output().unwrap())
    };
    // Nothing is fetched: the cache is empty, and stays without servers.
    for (name, server) in [("first", &[][..]), ("second", &["--server", "mariadb-11.8"])] {
        let started = run(&[&["start", name], server].concat()).exits(0);
        assert!(started.out.starts_with("MariaDB 11.8"), "{}", started.out);
        let version = run(&["shell", name, "--", "-BNe", "SELECT VERSION()"]).exits(0);
        assert!(version.out.starts_with("11.8."), "{}", version.out);
        let printed = started.out.lines().find(|line| line.starts_with("  mariadb ")).unwrap();
        let mut shell = Command::new("sh");
        shell.env("PATH", &path).args(["-c", &format!("{printed} -BNe 'SELECT 1'")]);
        let shown = Ended::of(&shell.output().unwrap()).exits(0);
        assert_eq!(shown.out, "1\n");
    }
    assert!(!home.path().join("remora/servers").exists());
    run(&["start", "old", "--server", "mariadb-10.11"]).exits(1).says(&["11.8", "--server mariadb-11.8"]);
    let program = Path::new(&folder("sbin")).join("mariadbd");
    let own = run(&["start", "own", "--server", program.to_str().unwrap()]).exits(0);
    assert!(own.out.starts_with("MariaDB 11.8"), "{}", own.out);
    run(&["stop", "--all", "--remove"]).exits(0);
}
