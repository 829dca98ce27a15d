//! What a package installs, as a tree of files: the program, its pages, its completions.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::root;

use super::{Arch, Release, output, run_quietly, sbom};

/// Shells, and where the completions of packages are.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "files/usr/share/bash-completion/completions/remora"),
    // Systems do not agree where; the description of the package says it.
    ("zsh", "zsh/_remora"),
    ("fish", "files/usr/share/fish/vendor_completions.d/remora.fish"),
];

/// The file in `packaging/systemd` that makes the account of the units.
const ACCOUNT: &str = "sysusers.conf";

/// A folder with what is the same for all architectures, made by a program that runs here.
pub(super) fn documents(release: &Release, program: &Path) -> Result<PathBuf> {
    let stage = release.work.join("stage");
    let files = stage.join("files");
    let pages = folder(&files, "usr/share/man/man1")?;
    output(Command::new(program).arg("man").arg(&pages))?;
    super::files(&pages)?.iter().try_for_each(|name| gzip(&pages.join(name)))?;
    for (shell, place) in COMPLETIONS {
        // The script calls the program by the name by which it was called.
        let script = output(Command::new(program).arg0("remora").env("COMPLETE", shell))?;
        write(&stage.join(place), &format!("{script}\n"))?;
    }
    let documents = folder(&files, "usr/share/doc")?.join("remora");
    debian_documents(release, "remora", &documents)?;
    std::fs::copy(root().join("packaging/copyright"), documents.join("copyright"))?;
    std::fs::copy(root().join("README.md"), documents.join("README.md"))?;
    std::fs::copy(root().join("CHANGELOG.md"), documents.join("NEWS.md"))?;
    copy_tree(&root().join("docs/manual"), &documents.join("manual"))?;
    write(&documents.join("licenses"), &sbom::licences(&sbom::PROGRAM)?)?;
    ["licenses", "NEWS.md"].into_iter().try_for_each(|name| gzip(&documents.join(name)))?;
    for name in ["lintian", "postinst"] {
        std::fs::copy(root().join("packaging").join(name), stage.join(name))?;
    }
    units(&files)?;
    Ok(stage)
}

/// What Debian asks of every package: a changelog in its own form, which says when it was made.
pub(super) fn debian_documents(release: &Release, package: &str, documents: &Path) -> Result<()> {
    let date = output(Command::new("date").args(["-R", "-u", "-d", &format!("@{}", release.epoch)]))?;
    let changes = format!(
        "{package} ({}) stable; urgency=medium\n\n  * The changes are in NEWS.md of the package remora.\n\n -- \
         the authors of remora <remora@localhost>  {date}\n",
        release.version
    );
    write(&documents.join("changelog"), &changes)?;
    gzip(&documents.join("changelog"))
}

/// The units of systemd and their account.
fn units(files: &Path) -> Result<()> {
    let from = root().join("packaging/systemd");
    let (units, accounts) = (folder(files, "usr/lib/systemd/system")?, folder(files, "usr/lib/sysusers.d")?);
    for name in super::files(&from)? {
        let place = if name == ACCOUNT { accounts.join("remora.conf") } else { units.join(&name) };
        std::fs::copy(from.join(&name), place).context(name)?;
    }
    Ok(())
}

/// The same folder with a program, for one architecture.
pub(super) fn with_program(
    release: &Release,
    documents: &Path,
    arch: Arch,
    program: &Path,
) -> Result<PathBuf> {
    let stage = release.work.join(format!("stage-{}", arch.linux()));
    copy_tree(documents, &stage)?;
    place_program(program, &stage.join("files/usr/bin/remora"))?;
    // What the program has written is for its user only.
    run_quietly(Command::new("chmod").args(["-R", "u=rwX,go=rX", "--"]).arg(&stage))?;
    release.date(&stage)?;
    Ok(stage)
}

/// Copies a program, and lets everybody run it.
pub(super) fn place_program(from: &Path, to: &Path) -> Result<()> {
    run_quietly(Command::new("install").args(["-D", "-m", "755"]).args([from, to]))
}

/// Makes a folder below another one.
pub(super) fn folder(below: &Path, name: &str) -> Result<PathBuf> {
    let folder = below.join(name);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Writes a text into a file, in a folder that is made if need be.
pub(super) fn write(place: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(place.parent().unwrap_or(place))?;
    std::fs::write(place, text).with_context(|| place.display().to_string())
}

/// Copies a folder with all below it.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    run_quietly(Command::new("cp").args(["-R", "--"]).arg(from.join(".")).arg(to))
}

/// Compresses a file as systems have it: without a name and a time in it.
pub(super) fn gzip(file: &Path) -> Result<()> {
    run_quietly(Command::new("gzip").args(["-9n", "--"]).arg(file))
}
