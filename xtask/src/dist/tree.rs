//! Bare systems in folders: what is installed in them is what a release gives away.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::guest::image as guest_image;
use crate::{places, root, run, setup};

use super::{Release, fresh, output, run_quietly, stage};

/// Required programs, and the Debian packages that contain them.
const NEEDED: [(&str, &str); 5] = [
    ("mmdebstrap", "mmdebstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("lintian", "lintian"),
    ("qemu-aarch64-static", "qemu-user-static"),
    ("skopeo", "skopeo"),
];

/// Releases of Debian, and the series of their MariaDB.
pub(super) const TREES: [(&str, &str); 2] = [("bookworm", "10.11"), ("trixie", "11.8")];

/// Why there can be no such systems here.
pub(crate) fn missing() -> Option<String> {
    match NEEDED.iter().find(|(program, _)| !setup::is_there(program)) {
        _ if std::env::consts::ARCH != "x86_64" => Some("the checks are for an x86_64 machine".to_owned()),
        _ if !setup::is_root() => Some("to install packages in a tree takes root".to_owned()),
        Some((program, _)) => Some(format!("{program} is missing; as root: cargo xtask dist --check")),
        None => None,
    }
}

/// Installs what is needed.
pub(crate) fn prepare() -> Result<()> {
    setup::install(&NEEDED)?;
    missing().map_or(Ok(()), |why| bail!(why))
}

/// A system in a folder, and what it is given to install.
pub(super) struct Tree<'a> {
    release: &'a Release,
    pub(super) folder: PathBuf,
}

/// Folders of a tree that scripts find the release and themselves in.
const MOUNTED: [&str; 2] = ["release", "checks"];

impl Tree<'_> {
    /// A release of Debian, which is made once and kept in the cache.
    pub(super) fn debian<'a>(release: &'a Release, name: &str) -> Result<Tree<'a>> {
        let archive = places()?.cache.join("dist-trees").join(format!("{name}.tar"));
        if !archive.is_file() {
            bootstrap(name, &archive)?;
        }
        let tree = Tree::unpack(release, &archive)?;
        let names = tree.folder.join("etc/resolv.conf");
        run_quietly(Command::new("cp").arg("/etc/resolv.conf").arg(names))?;
        Ok(tree)
    }

    /// What is in an archive of all files of a system.
    pub(super) fn unpack<'a>(release: &'a Release, archive: &Path) -> Result<Tree<'a>> {
        let folder = release.work.join("tree");
        fresh(&folder)?;
        run_quietly(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&folder))?;
        for place in MOUNTED {
            stage::folder(&folder, place)?;
        }
        Ok(Tree { release, folder })
    }

    /// Runs a script of `xtask/dist` in it. What it mounts goes with its namespace.
    pub(super) fn run(&self, script: &str, series: &str, next: &Path) -> Result<()> {
        // The tree is a place of its own among the mounts, as a root folder is.
        let enter = "mount --rbind \"$1\" \"$1\" && mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" && \
                     mount -t tmpfs tmp \"$1/tmp\" && mount --bind \"$2\" \"$1/release\" && \
                     mount --bind \"$3\" \"$1/checks\" && mkdir \"$1/tmp/next\" && \
                     mount --bind \"$4\" \"$1/tmp/next\" && exec chroot \"$1\" sh \"/checks/$5\"";
        let mut unshare = Command::new("unshare");
        // What it starts ends with it, and it sees no process of this machine.
        unshare
            .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, "sh"])
            .arg(&self.folder)
            .arg(&self.release.out);
        unshare.arg(root().join("xtask/dist")).arg(next).arg(script);
        unshare.env("SERIES", series).env("NEXT", "/tmp/next").env_remove("TMPDIR");
        println!("  {script} with MariaDB {series}");
        let status = unshare.status()?;
        if status.success() { Ok(()) } else { bail!("{script} with MariaDB {series}: {status}") }
    }

    /// Takes away what only scripts need.
    pub(super) fn clear(&self) -> Result<()> {
        std::fs::write(self.folder.join("etc/resolv.conf"), "")?;
        MOUNTED.iter().try_for_each(|place| std::fs::remove_dir(self.folder.join(place)))?;
        Ok(())
    }

    /// Boots it as a machine, whose unit runs `units.sh` and ends it with its code.
    pub(super) fn boot(&self) -> Result<()> {
        let mut machine = Command::new("systemd-nspawn");
        machine.args(["--boot", "--quiet", "--console=pipe", "--directory"]).arg(&self.folder);
        machine.arg(format!("--bind-ro={}:/checks", root().join("xtask/dist").display()));
        if !Path::new("/run/systemd/system").is_dir() {
            // This machine's own systemd would register it, and chooses how processes are grouped.
            machine.args(["--register=no", "--keep-unit"]).env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "0");
        }
        println!("  units.sh with systemd");
        let ended = run(machine.stdin(Stdio::null()));
        print!("{}", std::fs::read_to_string(self.folder.join("units.log")).unwrap_or_default());
        ended
    }
}

/// Makes a small system of a release of Debian, from where this machine's packages come.
fn bootstrap(name: &str, archive: &Path) -> Result<()> {
    std::fs::create_dir_all(archive.parent().context("the cache")?)?;
    let own = output(Command::new("sh").args(["-c", ". /etc/os-release; echo \"$VERSION_CODENAME\""]))?;
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    let sources = guest_image::sources("debian")?.replace(&own, name);
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
