//! Packages for Linux systems, made by nfpm from descriptions in `packaging`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sandbox::{Ability, Product};

use crate::{plugin, root, run};

use super::cross::Build;
use super::{Arch, Release, run_quietly, sbom, stage};

/// The kinds of packages: for Debian and Ubuntu; Fedora, RHEL and SUSE; Alpine; Arch.
const KINDS: [&str; 4] = ["deb", "rpm", "apk", "archlinux"];

/// The library of the functions for URLs.
const URLPACK: &str = "liburlpack_udf.so";

/// The program in every kind of package, from a folder with its files.
pub(super) fn program(release: &Release, arch: Arch, stage: &Path) -> Result<()> {
    let package = Package { release, arch, stage, description: "nfpm.yaml" };
    KINDS.into_iter().try_for_each(|kind| package.make(kind, &[]))
}

/// The plugins, for servers as Debian builds them, on this machine's architecture.
pub(super) fn plugins(release: &Release) -> Result<()> {
    let build = Build::of(release);
    let library = build.library("urlpack-plugin", URLPACK)?;
    let stage = documents(release, "remora-urlpack", "urlpack-plugin", "urlpack.sql")?;
    place(&library, &stage.join("files/usr/lib/remora").join(URLPACK))?;
    make_plugin(release, &stage, "urlpack.yaml", &[])?;
    let core = build.library("queue-plugin", plugin::CORE)?;
    let flags = build.c_flags()?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for product in Product::that_can(Ability::Queue) {
        let built = plugin::for_releases(product, &core, &flags)?;
        if !built.is_empty() {
            engines(release, product, &built)?;
        }
    }
    Ok(())
}

/// The engine for all releases of a series.
fn engines(release: &Release, product: Product, built: &[(String, PathBuf)]) -> Result<()> {
    let (major, minor) = product.series();
    let series = format!("{major}.{minor}");
    let stage = documents(release, &format!("remora-plugins-{series}"), "queue-plugin", "queue.sql")?;
    let folder = stage.join("files/usr/lib/remora").join(product.id());
    for (number, library) in built {
        place(library, &folder.join(number).join("ha_queue.so"))?;
    }
    stage::place_program(&root().join("packaging/plugins/fit"), &folder.join("fit"))?;
    for script in ["postinst", "prerm"] {
        let place = stage.join("scripts").join(script);
        stage::place_program(&root().join("packaging/plugins").join(script), &place)?;
    }
    make_plugin(release, &stage, "plugins.yaml", &[("SERIES", &series)])
}

/// A folder with the documents of a plugin, and the SQL that installs it.
fn documents(release: &Release, package: &str, name: &str, sql: &str) -> Result<PathBuf> {
    let stage = release.work.join(package);
    let documents = stage::folder(&stage, "files/usr/share/doc")?.join(package);
    stage::debian_documents(release, package, &documents)?;
    let overrides = stage::folder(&stage, "files/usr/share/lintian/overrides")?.join(package);
    std::fs::copy(root().join("packaging/lintian"), overrides)?;
    std::fs::copy(root().join("packaging/plugins/copyright"), documents.join("copyright"))?;
    stage::write(&documents.join("licenses"), &sbom::licences(&[name])?)?;
    stage::gzip(&documents.join("licenses"))?;
    std::fs::copy(root().join("sql").join(sql), documents.join(sql)).context(sql.to_owned())?;
    Ok(stage)
}

fn make_plugin(release: &Release, stage: &Path, description: &str, variables: &[(&str, &str)]) -> Result<()> {
    release.date(stage)?;
    Package { release, arch: Arch::here()?, stage, description }.make("deb", variables)
}

/// Copies a library without its symbols.
fn place(library: &Path, to: &Path) -> Result<()> {
    stage::place_program(library, to)?;
    run_quietly(Command::new("chmod").arg("644").arg(to))?;
    run_quietly(Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(to))
}

/// A package to make of a folder with the files in it.
struct Package<'a> {
    release: &'a Release,
    arch: Arch,
    stage: &'a Path,
    /// The name of the file that describes it.
    description: &'a str,
}

impl Package<'_> {
    /// Makes one kind of it; the description may use variables.
    fn make(&self, kind: &str, variables: &[(&str, &str)]) -> Result<()> {
        let mut nfpm = self.release.tools.command("nfpm");
        nfpm.arg("package").arg("--config").arg(root().join("packaging").join(self.description));
        nfpm.args(["--packager", kind, "--target"]).arg(&self.release.out);
        nfpm.env("ARCH", self.arch.debian()).env("VERSION", &self.release.version);
        run(nfpm.envs(variables.iter().copied()).current_dir(self.stage))
    }
}
