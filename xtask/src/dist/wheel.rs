//! The package for Python: a wheel with the program and a module that runs it.

use std::path::Path;

use anyhow::Result;

use crate::{root, run};

use super::{Arch, Release, sbom, stage};

/// Makes the wheel for an architecture.
pub(super) fn build(release: &Release, arch: Arch, program: &Path) -> Result<()> {
    let folder = release.work.join(format!("wheel-{}", arch.linux()));
    stage::copy_tree(&root().join("packaging/python"), &folder)?;
    stage::place_program(program, &folder.join("bin/remora"))?;
    std::fs::copy(root().join("LICENSE"), folder.join("LICENSE"))?;
    stage::write(&folder.join("licenses"), &sbom::licences(&sbom::PROGRAM)?)?;
    let mut hatchling = release.tools.command("hatchling");
    hatchling.args(["build", "--target", "wheel", "--directory"]).arg(&release.out);
    run(hatchling.env("VERSION", &release.version).env("ARCH", arch.linux()).current_dir(&folder))
}
