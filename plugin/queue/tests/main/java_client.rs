//! The package for Java in clients/java: its own tests, in which workers are killed, and what every client
//! relies on, step by step through its drivers.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::client_package::{Killed, run, serve_restarts, until};
use crate::server::Server;

/// MariaDB's and MySQL's Connector/J.
const DRIVERS: [&str; 2] = ["mariadb", "mysql"];

/// A folder for the copy of the package and for what Maven builds, or why there is none.
static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// A program of Java in a folder.
fn java(program: &str, folder: &Path) -> Command {
    // Java reserves much more address space than it uses.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v unlimited && exec \"$@\"", "java", program]).current_dir(folder);
    command
}

/// Builds the package. Maven fetches the drivers if they are not here. An error if Java is older than 17.
fn prepare() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-client");
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let package = folder.join("java");
    std::fs::remove_dir_all(&package).ok();
    run(Command::new("cp").arg("-r").args([clients.join("java"), clients.join("conformance")]).arg(&folder))?;
    run(java("mvn", &package).args([
        "-q",
        "-B",
        "test-compile",
        "dependency:build-classpath",
        "-Dmdep.outputFile=target/classpath",
    ]))?;
    Ok(package)
}

/// The package, built. `None`, and reported, if that can't be done here.
fn package(test: &str) -> Option<&'static Path> {
    match FOLDER.get_or_init(prepare) {
        Ok(folder) => Some(folder),
        Err(why) => {
            let why = format!("no Java 17 with Maven and drivers: {why}");
            assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "{why}");
            sandbox::skipped(test, &why, |name| std::env::var_os(name));
            None
        }
    }
}

/// One of the programs in the package's tests, for a driver and a server.
fn program(package: &Path, name: &str, driver: &str, server: &Server) -> Command {
    let libraries = std::fs::read_to_string(package.join("target/classpath")).unwrap();
    let mut command = java("java", package);
    command.arg(format!("-Ddriver={driver}")).arg("-cp");
    command.arg(format!("target/classes:target/test-classes:{libraries}"));
    command.arg(format!("io.remora.queue.{name}")).env("REMORA_QUEUE_SOCKET", server.0.socket());
    command
}

#[test]
fn the_package_for_java_passes_its_tests() {
    let Some(package) = package("the_package_for_java_passes_its_tests") else { return };
    let server = Server::start_with(&["--log-bin"]);
    let mut tests = java("mvn", package);
    let output = tests.args(["-B", "test"]).env("REMORA_QUEUE_SOCKET", server.0.socket()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("Failures: 0"), "{told}");
}

#[test]
fn drivers_for_java_pass_the_steps_of_conformance() {
    let Some(package) = package("drivers_for_java_pass_the_steps_of_conformance") else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    for driver in DRIVERS {
        let mut steps = program(package, "Conformance", driver, &server);
        steps.arg("../conformance/steps.tsv").env("REMORA_QUEUE_RESTARTS", "1");
        let piped = steps.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = piped.spawn().unwrap();
        serve_restarts(&mut server, &mut program);
        let output = program.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !told.contains("left out"), "{driver}: {told}");
    }
}

/// A local repository of Maven with what the user's has, for what a test installs.
fn make_repository(own: &Path) {
    let users = Path::new(&std::env::var_os("HOME").unwrap()).join(".m2/repository");
    for (from, to) in [(&*users, own), (&users.join("io"), &own.join("io"))] {
        std::fs::create_dir_all(to).unwrap();
        for entry in from.read_dir().into_iter().flatten() {
            let entry = entry.unwrap();
            if !["io", "remora"].iter().any(|name| entry.file_name() == *name) {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

/// Runs commands in a folder until they print a text, and ends them as Ctrl-C does: what they have printed.
fn told_until(text: &str, commands: &str, folder: &Path) -> String {
    // Longer than it takes where Maven fetches all of Spring.
    let mut bash = java("timeout", folder);
    bash.args(["--foreground", "1200", "bash", "-e", "-c", &format!("exec 2>&1; {commands}")]);
    bash.env("MAVEN_OPTS", format!("-Dmaven.repo.local={}", folder.join("repository").display()));
    let piped = bash.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut program = piped.spawn().unwrap();
    let mut told = String::new();
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        told += &format!("{line}\n");
        if line.contains(text) {
            let group = Pid::from_raw(i32::try_from(program.id()).unwrap()).unwrap();
            kill_process_group(group, Signal::INT).ok();
            break;
        }
    }
    program.wait().unwrap();
    told
}

#[test]
fn the_commands_of_the_readme_lead_from_nothing_to_a_job_that_is_tried_again() {
    let test = "the_commands_of_the_readme_lead_from_nothing_to_a_job_that_is_tried_again";
    let Some(package) = package(test) else { return };
    let server = Server::start_source(&["--log-bin"]);
    server.connect("shop");
    let readme = std::fs::read_to_string(package.join("README.md")).unwrap();
    let section = readme.split("\n## ").find(|section| section.starts_with("From nothing")).unwrap();
    let blocks: Vec<&str> =
        section.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0).collect();
    let [plain, spring] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let (begins, plain) = plain.split_once("mvn ").unwrap();
    assert!(begins.lines().all(|line| line.starts_with("remora sandbox ")), "{begins}");
    let folder = package.with_file_name("nothing");
    std::fs::remove_dir_all(&folder).ok();
    make_repository(&folder.join("repository"));
    let port = server.0.port().unwrap().to_string();
    let meant = |commands: &str| {
        let commands = commands.replace("PATH/clients/java", &package.display().to_string());
        commands.replace(":3307/", &format!(":{port}/"))
    };
    let plain = format!("mvn {plain}");
    for (commands, first, second) in [
        (&*plain, "try 1 after null", "try 2 after no such host"),
        (spring, "try 1 for ann@example.org", "try 2 for ann@example.org"),
    ] {
        let told = told_until(second, &meant(commands), &folder);
        let at = |text: &str| told.find(text).unwrap_or_else(|| panic!("{text} is not in: {told}"));
        assert!(at(first) < at("no such host") && at(first) < at(second), "{told}");
    }
}

#[test]
fn a_worker_in_java_does_each_job_once_though_the_server_is_killed() {
    let test = "a_worker_in_java_does_each_job_once_though_the_server_is_killed";
    let Some(package) = package(test) else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    for driver in DRIVERS {
        let database = format!("java_killed_{driver}");
        let mut client = server.connect(&database);
        client.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
        client.run(
            "CREATE TABLE jobs (id CHAR(32) NOT NULL, payload LONGTEXT NOT NULL) ENGINE=QUEUE \
             TRANSACTIONAL=1 TRIES=50",
        );
        client.run("INSERT INTO jobs SELECT MD5(seq), seq FROM seq_1_to_300");
        let mut worker = program(package, "Work", driver, &server);
        worker.args([database.as_str(), "jobs", "transaction", "2"]);
        let worker = Killed(worker.spawn().unwrap());
        for least in [60, 150] {
            until(&mut client, &format!("SELECT COUNT(*) >= {least} FROM done"));
            server.0.kill().unwrap();
            server.0.restart().unwrap();
            client = server.connect(&database);
        }
        until(&mut client, "SELECT COUNT(*) = 0 FROM jobs");
        drop(worker);
        assert_eq!(client.column("SELECT n FROM done ORDER BY n"), (1..=300).collect::<Vec<i64>>());
    }
}
