//! Servers that the user has.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandbox::{Error, Installation, Product, ServerChoice, Settings};

use crate::{places, sql, start};

fn find(program: &Path) -> Result<Installation, Error> {
    ServerChoice::Program(program.to_owned()).find(&places())
}

/// A program in another place that runs a server.
fn elsewhere(folder: &Path, daemon: &Path) -> PathBuf {
    let program = folder.join("bin").join(daemon.file_name().unwrap());
    std::fs::create_dir(folder.join("bin")).unwrap();
    let mut script = File::create_new(&program).unwrap();
    write!(script, "#!/bin/sh\nexec {} \"$@\"\n", daemon.display()).unwrap();
    drop(script);
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_program_says_where_its_files_are() {
    for product in [Product::MariaDb1011, Product::MySql97] {
        let environment = |name: &str| std::env::var_os(name);
        let test = "a_program_says_where_its_files_are";
        let Some(known) = sandbox::named_test_server(test, product, &places(), environment).unwrap() else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let own = find(&elsewhere(folder.path(), &known.daemon)).unwrap();
        assert!(own.is_own && own.product == product && own.version == known.version, "{own:?}");
        assert_eq!(
            (own.title(), &own.share, &own.plugin_dir),
            (known.title(), &known.share, &known.plugin_dir)
        );
        assert!(!own.can(sandbox::Ability::Queue));
        let server = start(&own, &Settings::default());
        assert!(sql(&server, "SELECT VERSION()").starts_with(known.version.split('-').next().unwrap()));
        assert_eq!(ServerChoice::from(server.installation()).to_string(), own.daemon.display().to_string());
    }
}

/// With its loader and libraries, which the program does not know.
#[test]
fn the_program_of_a_known_server_is_that_server() {
    for known in crate::installations() {
        assert_eq!(find(&known.daemon).unwrap(), known);
    }
}

#[test]
fn what_is_no_server_is_said() {
    let client = sandbox::client().unwrap();
    for (program, why) in [
        ("/no/such/mysqld", "No such file"),
        ("/etc/passwd", "can't be run"),
        ("/bin/true", "does not tell its version"),
        (client.to_str().unwrap(), "no option --basedir"),
    ] {
        let error = find(Path::new(program)).unwrap_err();
        assert!(matches!(error, Error::NoServer { .. }) && error.to_string().contains(why), "{error}");
    }
    let error = "mysqld".parse::<ServerChoice>().unwrap_err().to_string();
    assert!(error.contains("mysql-9.7, or the path of a program"), "{error}");
}
