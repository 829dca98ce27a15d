//! Tests that need a whole machine: logical volumes, an sshd, servers under load. They run in a small
//! emulated virtual machine, so that they need nothing from this machine but a processor.

pub(crate) mod image;
mod load;
mod machine;
mod scenario;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::guest::image::Image;
use crate::guest::machine::Guest;
use crate::guest::scenario::Test;
use crate::{cargo, run, setup};

/// The required programs and files, and the Debian packages that contain them.
const NEEDED: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("ssh", "openssh-client"),
    ("mariadbd", "mariadb-server-core"),
];

/// `cargo xtask guest [--install] [TEST...]`
pub(crate) fn run_tests(arguments: &[String]) -> Result<()> {
    let (install, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| *argument == "--install");
    if !install.is_empty() {
        prepare()?;
    } else if let Some(why) = missing() {
        bail!("{why}; 'cargo xtask guest --install' installs it");
    }
    if let Some(name) = names.iter().find(|name| !scenario::ALL.iter().any(|(known, _)| known == **name)) {
        let known: Vec<&str> = scenario::ALL.iter().map(|(name, _)| *name).collect();
        bail!("there is no test {name}; there are {}", known.join(", "));
    }
    println!("{}", tests(&names)?);
    Ok(())
}

/// Installs what is needed.
pub(crate) fn prepare() -> Result<()> {
    setup::install(&NEEDED)
}

/// Why a guest is impossible here.
pub(crate) fn missing() -> Option<String> {
    let programs = NEEDED.iter().filter(|(program, _)| !setup::is_there(program));
    let programs: Vec<&str> = programs.map(|(program, _)| *program).collect();
    match programs[..] {
        _ if std::env::consts::ARCH != "x86_64" => {
            Some("the guest is an x86_64 machine, this is another".to_owned())
        }
        [] if !setup::is_root() => Some("to make and mount disks takes root".to_owned()),
        [] => None,
        _ => Some(format!("{} missing", programs.join(", "))),
    }
}

/// Runs the named tests, or all. Returns how many there were.
pub(crate) fn tests(names: &[&String]) -> Result<String> {
    let remora = debug()?;
    let image = Image::ready()?;
    let wanted =
        scenario::ALL.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|one| one == name));
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, test) in wanted {
        let began = Instant::now();
        let guest = Guest::resume(&image.path(""))?;
        match test(&Test { guest: &guest, program: &remora }) {
            Ok(()) => {
                println!("guest: {name} ... ok ({:.1} s)", began.elapsed().as_secs_f64());
                passed += 1;
            }
            Err(error) => {
                println!("guest: {name} ... FAILED: {error:#}\nthe guest said: {}", guest.said());
                failed.push(*name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("guest tests: {passed} passed, {} failed: {}", failed.len(), failed.join(", "));
    }
    Ok(format!("guest tests: {passed} passed"))
}

/// Builds the program as for the tests, and returns its path.
fn debug() -> Result<PathBuf> {
    // Of the workspace, so that all below it is as it was built for the tests.
    run(cargo().args(["build", "--quiet", "--workspace", "--bin", "remora"]))?;
    Ok(crate::target().join("debug/remora"))
}
