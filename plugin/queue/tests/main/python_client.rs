//! The package for Python in clients/python: its own tests, in which workers are killed, and what every
//! client relies on, step by step through two drivers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::client_package::{Killed, run, serve_restarts, until};
use crate::server::Server;

/// What the package and its tests are used with.
const PACKAGES: [&str; 11] = [
    "PyMySQL",
    "aiomysql",
    "mysqlclient",
    "mysql-connector-python",
    "SQLAlchemy",
    "celery",
    "Django>=4.2",
    "django-tasks>=0.12",
    "fastapi",
    "pytest",
    "uvicorn",
];

/// A Python with the packages, or why there is none.
static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Makes an environment with the packages. One that is there is taken, if it has them all.
fn prepare() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client");
    let python = folder.join("bin/python");
    let all = "import aiomysql, celery, django_tasks, fastapi, mysql.connector, MySQLdb, pymysql, pytest, \
               sqlalchemy, uvicorn";
    if run(Command::new(&python).args(["-c", all])).is_ok() {
        return Ok(python);
    }
    let new = "import sys; sys.exit('Python is older than 3.10' if sys.version_info < (3, 10) else 0)";
    run(Command::new("python3").args(["-c", new]))?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    Ok(python)
}

/// The Python for a test; `None`, and reported, if there is none.
fn python(test: &str) -> Option<&'static Path> {
    match PYTHON.get_or_init(prepare) {
        Ok(python) => Some(python),
        Err(why) => {
            let why = format!("no Python with {} could be made: {why}", PACKAGES.join(", "));
            assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "{why}");
            sandbox::skipped(test, &why, |name| std::env::var_os(name));
            None
        }
    }
}

/// Python in the folder of the package's tests, for a server.
fn command(python: &Path, server: &Server) -> Command {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let mut command = Command::new(python);
    command.current_dir(package.join("tests")).env("PYTHONPATH", package.join("src"));
    command.env("REMORA_QUEUE_SOCKET", server.0.socket()).args(["-B", "-W", "ignore"]);
    command
}

#[test]
fn the_package_for_python_passes_its_tests() {
    let Some(python) = python("the_package_for_python_passes_its_tests") else { return };
    let server = Server::start_with(&["--log-bin"]);
    let mut tests = command(python, &server);
    let output = tests.args(["-m", "unittest", "discover", "--verbose", "-s", "."]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn workers_in_python_pass_their_tests_over_other_drivers() {
    let Some(python) = python("workers_in_python_pass_their_tests_over_other_drivers") else { return };
    let server = Server::start_with(&["--log-bin"]);
    let mut drivers = vec!["mysqlclient", "connector-pure"];
    // Its extension in C does not load everywhere. Connector does without it then.
    if run(Command::new(python).args(["-c", "import mysql.connector.connection_cext"])).is_ok() {
        drivers.push("connector");
    }
    for driver in drivers {
        let mut tests = command(python, &server);
        tests.env("REMORA_QUEUE_DRIVER", driver).args([
            "-m",
            "unittest",
            "test_worker.Work",
            "test_worker.Programs",
        ]);
        let output = tests.output().unwrap();
        assert!(output.status.success(), "{driver}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_transport_for_kombu_passes_the_tests_that_kombu_has_for_transports() {
    let test = "the_transport_for_kombu_passes_the_tests_that_kombu_has_for_transports";
    let Some(python) = python(test) else { return };
    let server = Server::start_with(&["--log-bin"]);
    server.connect("kombu");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kombu");
    let output = command(python, &server).arg("kombu_suite.py").arg(folder).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains(" passed") && !told.contains("skipped"), "{told}");
}

#[test]
fn drivers_for_python_pass_the_steps_of_conformance() {
    let Some(python) = python("drivers_for_python_pass_the_steps_of_conformance") else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    for driver in ["pymysql", "aiomysql", "mysqlclient", "connector"] {
        let mut steps = command(python, &server);
        steps.args(["conformance.py", driver]).env("REMORA_QUEUE_RESTARTS", "1");
        let piped = steps.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = piped.spawn().unwrap();
        serve_restarts(&mut server, &mut program);
        let output = program.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !told.contains("left out"), "{driver}: {told}");
    }
}

#[test]
fn a_worker_in_python_does_each_job_once_though_the_server_is_killed() {
    let test = "a_worker_in_python_does_each_job_once_though_the_server_is_killed";
    let Some(python) = python(test) else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    let mut client = server.connect("shop");
    client.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
    client.run(
        "CREATE TABLE jobs (id CHAR(32) NOT NULL, payload LONGTEXT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1 \
         TRIES=50",
    );
    client.run("INSERT INTO jobs SELECT MD5(seq), seq FROM seq_1_to_300");
    let worker =
        command(python, &server).args(["work.py", "shop", "jobs", "transaction", "2"]).spawn().unwrap();
    let worker = Killed(worker);
    for least in [60, 150] {
        until(&mut client, &format!("SELECT COUNT(*) >= {least} FROM done"));
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        client = server.connect("shop");
    }
    until(&mut client, "SELECT COUNT(*) = 0 FROM jobs");
    drop(worker);
    assert_eq!(client.column("SELECT n FROM done ORDER BY n"), (1..=300).collect::<Vec<i64>>());
}
