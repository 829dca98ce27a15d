//! Installs what the build and the tests need and Rust does not provide.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use sandbox::Product;

use crate::places;

/// A required program or file, and the Debian package that contains it.
const NEEDED: [(&str, &str); 9] = [
    ("c++", "g++"),
    ("mariadbd", "mariadb-server-core"),
    ("mariadb", "mariadb-client"),
    ("my_print_defaults", "mariadb-client"),
    ("openssl", "openssl"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
];

/// Required for tests that are left out without them: Galera clusters, and examples in Python.
const FOR_ALL: [(&str, &str); 3] = [
    ("/usr/lib/galera/libgalera_smm.so", "galera-4"),
    ("/usr/lib/python3/dist-packages/pymysql/__init__.py", "python3-pymysql"),
    ("/usr/lib/python3/dist-packages/sqlalchemy/__init__.py", "python3-sqlalchemy"),
];

/// Required to build the queue engine.
const ENGINE: [(&str, &str); 3] =
    [("mariadbd", "mariadb-server-core"), ("c++", "g++"), ("readelf", "binutils")];

pub(crate) fn run_for_plugin() -> Result<()> {
    install(&ENGINE)
}

pub(crate) fn run_quietly() -> Result<()> {
    install(&NEEDED)
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    install(&NEEDED)?;
    if arguments.iter().any(|argument| argument == "--all-servers") {
        install(&FOR_ALL)?;
        let places = places()?;
        let missing = |product: &Product| sandbox::find(&places, *product).is_err();
        for product in Product::ALL.into_iter().filter(missing) {
            install(product.fetchers())?;
            sandbox::fetch(&places, product, &mut |line| println!("{line}"))?;
        }
    }
    Ok(())
}

/// Installs the packages of missing programs.
pub(crate) fn install(needed: &[(&str, &str)]) -> Result<()> {
    let mut packages: Vec<&str> =
        needed.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root() || !is_there("apt-get") {
        bail!("{} missing; as root: {line}", packages.join(", "));
    }
    crate::run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args([
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
    ]);
    crate::run(install.args(packages))
}

pub(crate) fn is_there(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin"]).any(|folder| Path::new(folder).join(program).is_file())
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
