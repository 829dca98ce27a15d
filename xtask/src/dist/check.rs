//! Checks of a release: what it says must be true on machines that have never seen it. `docs/packaging.md`
//! lists the checks.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};

use crate::guest::image;
use crate::{places, root, run, setup};

use super::cross::Build;
use super::{Arch, Release, files, fresh, output, package, run_quietly, stage};

/// Required programs, and the Debian packages that contain them.
const NEEDED: [(&str, &str); 5] = [
    ("mmdebstrap", "mmdebstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("lintian", "lintian"),
    ("qemu-aarch64-static", "qemu-user-static"),
    ("skopeo", "skopeo"),
];

/// Releases of Debian, and the series of their MariaDB.
const TREES: [(&str, &str); 2] = [("bookworm", "10.11"), ("trixie", "11.8")];

/// Why a release can't be checked here.
pub(crate) fn missing() -> Option<String> {
    match NEEDED.iter().find(|(program, _)| !setup::is_there(program)) {
        _ if std::env::consts::ARCH != "x86_64" => Some("the checks are for an x86_64 machine".to_owned()),
        _ if !setup::is_root() => Some("to install packages in a tree takes root".to_owned()),
        Some((program, _)) => Some(format!("{program} is missing; as root: cargo xtask dist --check")),
        None => None,
    }
}

/// Checks a release. Programs that were `ready` are not built again.
pub(super) fn run_checks(release: &Release, ready: bool) -> Result<()> {
    setup::install(&NEEDED)?;
    if let Some(why) = missing() {
        bail!(why);
    }
    lint(release)?;
    image(release)?;
    other_architecture(release)?;
    let next = next_version(release)?;
    for (name, series) in TREES {
        for script in ["tree.sh", "languages.sh"] {
            Tree::unpack(release, name)?.run(script, series, &next)?;
        }
    }
    let (name, series) = TREES[0];
    let machine = Tree::unpack(release, name)?;
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

/// A bare system in a folder, and what it is given to install.
struct Tree<'a> {
    release: &'a Release,
    folder: PathBuf,
}

impl Tree<'_> {
    /// Unpacks a release of Debian, which is made once and kept in the cache.
    fn unpack<'a>(release: &'a Release, name: &str) -> Result<Tree<'a>> {
        let archive = places()?.cache.join("dist-trees").join(format!("{name}.tar"));
        if !archive.is_file() {
            bootstrap(name, &archive)?;
        }
        let folder = release.work.join("tree");
        fresh(&folder)?;
        run_quietly(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&folder))?;
        for place in ["release", "checks"] {
            stage::folder(&folder, place)?;
        }
        run_quietly(Command::new("cp").arg("/etc/resolv.conf").arg(folder.join("etc/resolv.conf")))?;
        Ok(Tree { release, folder })
    }

    /// Runs a script of `xtask/dist` in it. What it mounts goes with its namespace.
    fn run(&self, script: &str, series: &str, next: &Path) -> Result<()> {
        // The tree is a place of its own among the mounts, as a root folder is.
        let enter = "mount --rbind \"$1\" \"$1\" && mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" && \
                     mount -t tmpfs tmp \"$1/tmp\" && mount --bind \"$2\" \"$1/release\" && \
                     mount --bind \"$3\" \"$1/checks\" && mkdir \"$1/tmp/next\" && \
                     mount --bind \"$4\" \"$1/tmp/next\" && exec chroot \"$1\" sh \"/checks/$5\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", enter, "sh"]).arg(&self.folder).arg(&self.release.out);
        unshare.arg(root().join("xtask/dist")).arg(next).arg(script);
        unshare.env("SERIES", series).env("NEXT", "/tmp/next").env_remove("TMPDIR");
        println!("  {script} with MariaDB {series}");
        let status = unshare.status()?;
        if status.success() { Ok(()) } else { bail!("{script} with MariaDB {series}: {status}") }
    }

    /// Boots it as a machine, whose unit runs `units.sh` and ends it with its code.
    fn boot(&self) -> Result<()> {
        let mut machine = Command::new("systemd-nspawn");
        machine.args(["--boot", "--quiet", "--console=pipe", "--directory"]).arg(&self.folder);
        machine.arg(format!("--bind-ro={}:/checks", root().join("xtask/dist").display()));
        if !Path::new("/run/systemd/system").is_dir() {
            // This machine's own systemd would register it, and chooses how processes are grouped.
            machine.args(["--register=no", "--keep-unit"]).env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "0");
        }
        println!("  units.sh with systemd");
        run(machine.stdin(Stdio::null()))
    }
}

/// Makes a small system of a release of Debian, from where this machine's packages come.
fn bootstrap(name: &str, archive: &Path) -> Result<()> {
    std::fs::create_dir_all(archive.parent().context("the cache")?)?;
    let own = output(Command::new("sh").args(["-c", ". /etc/os-release; echo \"$VERSION_CODENAME\""]))?;
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    let sources = image::sources("debian")?.replace(&own, name);
    let new = archive.with_added_extension("new.tar");
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--quiet", "--variant=apt", "--aptopt=Acquire::Languages \"none\"", name])
        .arg(&new)
        .arg("-");
    println!("$ {}", crate::shown(&command));
    let mut child = command.stdin(Stdio::piped()).spawn().context("mmdebstrap")?;
    child.stdin.take().context("no pipe")?.write_all(sources.as_bytes())?;
    let status = child.wait()?;
    if !status.success() {
        bail!("mmdebstrap: {status}");
    }
    Ok(std::fs::rename(new, archive)?)
}
