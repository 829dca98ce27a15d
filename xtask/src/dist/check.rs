//! Checks of a release: what it says must be true on machines that have never seen it. `docs/packaging.md`
//! lists the checks.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use sandbox::{Product, Sandbox, Settings};

use crate::{places, root, run};

use super::cross::Build;
use super::tree::{TREES, Tree};
use super::{Arch, Release, cross, files, fresh, output, package, run_quietly};

/// Checks a release. Programs that were `ready` are not built again.
pub(super) fn run_checks(release: &Release, ready: bool) -> Result<()> {
    lint(release)?;
    image(release)?;
    alpine(release)?;
    other_architecture(release)?;
    let next = next_version(release)?;
    for (name, series) in TREES {
        for script in ["tree.sh", "languages.sh"] {
            Tree::debian(release, name)?.run(script, series, &next)?;
        }
    }
    let (name, series) = TREES[0];
    Tree::unpack(release, &super::image::server_layer(release))?.run("server.sh", series, &next)?;
    let machine = Tree::debian(release, name)?;
    machine.run("machine.sh", series, &next)?;
    machine.boot()?;
    if !ready {
        same_bytes(release)?;
    }
    println!("the release is good: {}", release.out.display());
    Ok(())
}

/// Debian's own checks of packages.
fn lint(release: &Release) -> Result<()> {
    let packages = files(&release.out)?;
    let packages = packages.iter().filter(|name| name.ends_with(".deb"));
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).args(packages);
    run(lintian.current_dir(&release.out))
}

/// The image is one, and what is in it runs with nothing beside it, as on a system with another C library.
fn image(release: &Release) -> Result<()> {
    let name =
        format!("oci-archive:{}", release.out.join(format!("remora-{}-oci.tar", release.version)).display());
    let inspected = output(Command::new("skopeo").args(["inspect", "--config", &name]))?;
    if !inspected.contains("/usr/bin/remora") {
        bail!("{name} starts something else: {inspected}");
    }
    let folder = release.work.join("image-x86_64");
    run(Command::new("chroot").arg(folder).args(["/usr/bin/remora", "--version"]))
}

/// What Alpine's package installs is where Alpine has it, and needs nothing else to run.
fn alpine(release: &Release) -> Result<()> {
    let folder = release.work.join("alpine");
    fresh(&folder)?;
    let package = release.out.join(format!("remora_{}_x86_64.apk", release.version));
    // It is three archives one after the other: signature or control data, then the files.
    let mut unpack = Command::new("tar");
    unpack.args(["--ignore-zeros", "--warning=no-unknown-keyword", "-xzf"]).arg(&package);
    run_quietly(unpack.arg("-C").arg(&folder))?;
    for place in ["usr/share/man/man1/remora-import.1.gz", "usr/share/doc/remora/copyright", ".PKGINFO"] {
        if !folder.join(place).is_file() {
            bail!("{} has no {place}", package.display());
        }
    }
    run(Command::new("chroot").arg(&folder).args(["/usr/bin/remora", "--version"]))
}

/// The program for the other architecture works: emulated, it packs, imports, backs up and verifies.
fn other_architecture(release: &Release) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let remora = release.program(Arch::Arm);
    let remora = |arguments: &[&str]| {
        let mut command = Command::new("qemu-aarch64-static");
        run(command.arg(&remora).args(arguments).current_dir(folder.path()))
    };
    let places = places()?;
    let installed = sandbox::find(&places, Product::MariaDb1011)?;
    let mut server = Sandbox::start(&installed, &places, &Settings::default())?;
    let rows: String = (0..10_000).map(|number| format!("{number},text {number}\n")).collect();
    std::fs::write(folder.path().join("rows.csv"), rows)?;
    let url = format!("unix://root@{}", server.socket().display());
    let into =
        ["import", "rows.csv", "--into", "arm.numbers", "--no-header", "--create", "--create-database"];
    remora(&["--version"])?;
    remora(&[&into[..], &["--url", &url]].concat())?;
    remora(&["pack", "rows.csv", "-o", "rows.csv.zst"])?;
    // What was packed is removed.
    remora(&["backup", "file:rows.csv.zst", "--to", "repo", "--name", "rows"])?;
    remora(&["verify", "repo"])?;
    server.stop()?;
    Ok(())
}

/// A folder with the package of a version that comes after this one.
fn next_version(release: &Release) -> Result<PathBuf> {
    let out = release.work.join("next");
    fresh(&out)?;
    let next = release.with(format!("{}+next", release.version), out.clone());
    package::program(&next, Arch::here()?, &release.work.join("stage-x86_64"))?;
    Ok(out)
}

/// Builds only the program for this machine, here and in another folder, and compares the two.
pub(super) fn twice() -> Result<()> {
    let release = Release::begin()?;
    for (arch, program) in cross::programs(&release, &[Arch::here()?])? {
        std::fs::copy(program, release.program(arch))?;
    }
    same_bytes(&release)
}

/// Another checkout in another folder makes the same programs, byte for byte.
fn same_bytes(release: &Release) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("remora-again-").tempdir_in(&release.work)?;
    let tree = folder.path().join("another-place");
    run(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(root()).arg(&tree))?;
    let build = Build { root: tree, target: folder.path().join("another-target"), release };
    for (arch, program) in build.programs(&[Arch::here()?])? {
        run(Command::new("cmp").args([&release.program(arch), &program]))?;
    }
    println!("two builds in two folders are the same");
    Ok(())
}
