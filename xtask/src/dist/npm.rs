//! The packages for Node: one that everybody installs, and one with the program for each architecture, of
//! which npm takes the one that fits.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use crate::root;

use super::{Arch, Release, run_quietly, sbom, stage, tar};

/// Makes all packages.
pub(super) fn build(release: &Release, programs: &[(Arch, PathBuf)]) -> Result<()> {
    let folder = release.work.join("npm");
    stage::copy_tree(&root().join("packaging/npm"), &folder)?;
    let manifest = folder.join("package.json");
    let text = std::fs::read_to_string(&manifest)?.replace("VERSION", &release.version);
    std::fs::write(&manifest, text)?;
    pack(release, "remora-db", &folder)?;
    for (arch, program) in programs {
        let name = format!("remora-db-linux-{}", arch.node());
        let folder = release.work.join(&name);
        stage::place_program(program, &folder.join("remora"))?;
        let manifest = json!({
            "name": name,
            "version": release.version,
            "description": format!("the program of remora-db for Linux on {}", arch.linux()),
            "license": "GPL-3.0-or-later",
            "os": ["linux"],
            "cpu": [arch.node()],
            "files": ["remora", "licenses"],
        });
        stage::write(&folder.join("package.json"), &format!("{manifest:#}\n"))?;
        stage::write(&folder.join("licenses"), &sbom::licences(&sbom::PROGRAM)?)?;
        pack(release, &name, &folder)?;
    }
    Ok(())
}

/// Packs a folder as npm does: below `package`, in a compressed archive.
fn pack(release: &Release, name: &str, folder: &Path) -> Result<()> {
    std::fs::copy(root().join("LICENSE"), folder.join("LICENSE"))?;
    let archive = release.out.join(format!("{name}-{}.tgz", release.version));
    let mut tar = tar(release, folder);
    tar.args(["--transform=s,^\\.,package,", "--use-compress-program=gzip -9n", "--file"]).arg(archive);
    run_quietly(tar.arg("."))
}
