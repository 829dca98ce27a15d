//! The files of a release, for those who have no compiler: static programs, packages for Linux systems, for
//! Python and for Node, an image, and what proves where they are from. docs/packaging.md says how a release
//! is made and checked.

mod check;
mod cross;
mod image;
mod npm;
mod package;
mod sbom;
mod stage;
mod tools;
pub(crate) mod tree;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{root, run, target};
use tools::Tools;

const USAGE: &str = "cargo xtask dist [--key FILE] [--programs FOLDER] [--check] | --twice";

/// An architecture that a release is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    X86,
    Arm,
}

impl Arch {
    const ALL: [Arch; 2] = [Arch::X86, Arch::Arm];

    /// As Linux and Rust name it.
    fn linux(self) -> &'static str {
        match self {
            Arch::X86 => "x86_64",
            Arch::Arm => "aarch64",
        }
    }

    /// As Debian, Go and container images name it.
    fn debian(self) -> &'static str {
        match self {
            Arch::X86 => "amd64",
            Arch::Arm => "arm64",
        }
    }

    /// As Node names it.
    fn node(self) -> &'static str {
        match self {
            Arch::X86 => "x64",
            Arch::Arm => "arm64",
        }
    }

    /// That of this machine.
    fn here() -> Result<Arch> {
        let here = std::env::consts::ARCH;
        Arch::ALL.into_iter().find(|arch| arch.linux() == here).context("no release is made on this machine")
    }
}

/// A release that is being made.
pub(crate) struct Release {
    version: String,
    /// The time of all files in it: that of the commit, in seconds since 1970.
    epoch: String,
    /// What is given away.
    out: PathBuf,
    /// What is needed to make it.
    work: PathBuf,
    tools: Tools,
}

impl Release {
    /// One into the target folder, whose results of an earlier run are removed.
    fn begin() -> Result<Release> {
        let (out, work) = (target().join("dist"), target().join("dist-work"));
        for folder in [&out, &work] {
            fresh(folder)?;
        }
        let epoch = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
        let tools = Tools::ready(&epoch)?;
        Ok(Release { version: version()?, epoch, out, work, tools })
    }

    /// Where the program for an architecture is.
    fn program(&self, arch: Arch) -> PathBuf {
        self.out.join(format!("remora-{}-linux-{}", self.version, arch.linux()))
    }

    /// The same release under another version, into another folder.
    fn with(&self, version: String, out: PathBuf) -> Release {
        Release {
            version,
            out,
            epoch: self.epoch.clone(),
            work: self.work.clone(),
            tools: self.tools.clone(),
        }
    }

    /// Gives everything below a folder the time of the release.
    fn date(&self, folder: &Path) -> Result<()> {
        let mut find = Command::new("find");
        find.arg(folder).args(["-exec", "touch", "--no-dereference", "--date", &format!("@{}", self.epoch)]);
        run_quietly(find.args(["{}", "+"]))
    }
}

/// Makes the files of a release, or checks that they can be made, installed and used.
pub(crate) fn run_chore(arguments: &[String]) -> Result<()> {
    if arguments == ["--twice"] {
        return check::twice();
    }
    let (mut key, mut ready, mut is_check) = (None, None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut path = || std::path::absolute(rest.next().context(USAGE)?).context(USAGE);
        match argument.as_str() {
            "--key" => key = Some(path()?),
            "--programs" => ready = Some(path()?),
            "--check" => is_check = true,
            _ => bail!(USAGE),
        }
    }
    if is_check {
        tree::prepare()?;
    }
    let release = make(key.as_deref(), ready.as_deref())?;
    if is_check { check::run_checks(&release, ready.is_some()) } else { Ok(()) }
}

/// Makes everything, signed if there is a key, and prints a table of it. `ready`: a folder with programs that
/// were built before, such as `x86_64/remora`.
fn make(key: Option<&Path>, ready: Option<&Path>) -> Result<Release> {
    let release = Release::begin()?;
    let programs: Vec<(Arch, PathBuf)> = match ready {
        None => cross::programs(&release, &Arch::ALL)?,
        Some(folder) => Arch::ALL.map(|arch| (arch, folder.join(arch.linux()).join("remora"))).into(),
    };
    for (arch, program) in &programs {
        std::fs::copy(program, release.program(*arch)).with_context(|| program.display().to_string())?;
    }
    let own = release.program(Arch::here()?);
    let staged = stage::documents(&release, &own)?;
    for (arch, program) in &programs {
        package::program(&release, *arch, &stage::with_program(&release, &staged, *arch, program)?)?;
        wheel::build(&release, *arch, program)?;
    }
    image::build(&release, &programs)?;
    npm::build(&release, &programs)?;
    package::plugins(&release)?;
    match tree::missing() {
        None => image::build_server(&release)?,
        Some(why) => println!("the image of MariaDB is left out: {why}"),
    }
    sbom::write(&release)?;
    sums(&release, key)?;
    Ok(release)
}

/// Writes SHA256SUMS, its signature if there is a key, and prints the table of all files.
fn sums(release: &Release, key: Option<&Path>) -> Result<()> {
    let names = files(&release.out)?;
    let sums = output(Command::new("sha256sum").arg("--").args(&names).current_dir(&release.out))?;
    let place = release.out.join("SHA256SUMS");
    std::fs::write(&place, format!("{sums}\n"))?;
    if let Some(key) = key {
        let comment = format!("remora {}", release.version);
        let mut sign = Command::new("minisign");
        sign.args(["-S", "-s"]).arg(key).arg("-m").arg(&place);
        run(sign.args(["-t", &comment, "-c", &comment]))?;
    }
    println!("{:>12}  {:64}  file", "bytes", "SHA-256");
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").context("a line of sha256sum")?;
        println!("{:>12}  {sum}  {name}", std::fs::metadata(release.out.join(name))?.len());
    }
    println!("{}", release.out.display());
    Ok(())
}

/// The names of the files in a folder, in order.
fn files(folder: &Path) -> Result<Vec<String>> {
    let names = std::fs::read_dir(folder)?.map(|entry| {
        let name = entry?.file_name().into_string();
        name.map_err(|name| anyhow::anyhow!("{}: no name for a release", name.display()))
    });
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The version of the workspace.
fn version() -> Result<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    Ok(line.context("Cargo.toml has no version")?.trim_matches('"').to_owned())
}

/// An empty folder.
fn fresh(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// What a command prints, without the end of its last line.
fn output(command: &mut Command) -> Result<String> {
    let line = crate::shown(command);
    let output = command.output().with_context(|| line.clone())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{line}: {}: {}{said}", output.status, String::from_utf8_lossy(&output.stdout));
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// Runs a command whose line and output say nothing, unless it fails.
fn run_quietly(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// A tar that archives a folder with the same bytes wherever it is.
fn tar(release: &Release, folder: &Path) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--directory").arg(folder);
    tar
}

/// Archives a folder.
fn archive(release: &Release, folder: &Path, place: &Path) -> Result<()> {
    run_quietly(tar(release, folder).arg("--file").arg(place).arg("."))
}
