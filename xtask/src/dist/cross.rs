//! Static programs for every architecture.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use crate::{cargo, root, run, target};

use super::{Arch, Release};

/// Options that leave out when C was compiled. SOURCE_DATE_EPOCH would set that time, but cargo and zig cache
/// what they compile, and the variable is not part of their keys.
const TIMELESS: [&str; 3] = ["-Wno-builtin-macro-redefined", "-D__DATE__=\"\"", "-D__TIME__=\"\""];

/// The programs for some architectures. Each has the programs for the far side of ssh of all architectures in
/// it.
pub(super) fn programs(release: &Release, wanted: &[Arch]) -> Result<Vec<(Arch, PathBuf)>> {
    bring_targets()?;
    Build::of(release).programs(wanted)
}

/// A build of a tree in a folder.
pub(super) struct Build<'a> {
    /// The sources.
    pub(super) root: PathBuf,
    /// Where cargo builds.
    pub(super) target: PathBuf,
    pub(super) release: &'a Release,
}

impl<'a> Build<'a> {
    /// The build of this tree.
    pub(super) fn of(release: &'a Release) -> Build<'a> {
        Build { root: root(), target: target().join("cross"), release }
    }

    /// The programs for some architectures.
    pub(super) fn programs(&self, wanted: &[Arch]) -> Result<Vec<(Arch, PathBuf)>> {
        let mut far = Vec::new();
        for arch in Arch::ALL {
            let program = self.build(arch, ["far", "remora-far", "far"], &[])?;
            far.push((format!("REMORA_FAR_{}", arch.linux().to_uppercase()), program));
        }
        let program = |arch: &Arch| Ok((*arch, self.build(*arch, ["remora", "remora", "dist"], &far)?));
        wanted.iter().map(program).collect()
    }

    /// Builds `[package, program, profile]` with further variables, and returns the path of the program.
    fn build(&self, arch: Arch, what: [&str; 3], variables: &[(String, PathBuf)]) -> Result<PathBuf> {
        let [package, program, profile] = what;
        let triple = format!("{}-unknown-linux-musl", arch.linux());
        let mut cargo = self.cargo("zigbuild", package, &triple)?;
        cargo.args(["--bin", program, "--profile", profile]);
        run(cargo.envs(variables.iter().map(|(name, path)| (name, path))))?;
        Ok(self.target.join(triple).join(profile).join(program))
    }

    /// Builds the library of a plugin for this machine's architecture, and returns the path of a file of it.
    pub(super) fn library(&self, package: &str, file: &str) -> Result<PathBuf> {
        let triple = format!("{}-unknown-linux-gnu", Arch::here()?.linux());
        run(self.cargo("build", package, &triple)?.args(["--lib", "--profile", "dist"]))?;
        Ok(self.target.join(triple).join("dist").join(file))
    }

    /// The cargo that builds a package for a triple.
    fn cargo(&self, verb: &str, package: &str, triple: &str) -> Result<Command> {
        let mut cargo = cargo();
        cargo.current_dir(&self.root);
        cargo.args([verb, "--locked", "--package", package, "--target", triple]);
        cargo.arg("--target-dir").arg(&self.target);
        for name in ["RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR"] {
            cargo.env_remove(name);
        }
        self.release.tools.prepare(&mut cargo);
        // The separator that cargo takes between flags.
        let separator = "\x1f".as_ref();
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags("--remap-path-prefix=", &self.renamed()?).join(separator));
        cargo.env("CFLAGS", self.c_flags()?.join(" "));
        Ok(cargo)
    }

    /// Options for a compiler of C and C++: nothing depends on the folder, or on the time.
    pub(super) fn c_flags(&self) -> Result<Vec<String>> {
        let flags = flags("-ffile-prefix-map=", &self.renamed()?).into_iter().map(OsString::into_string);
        flags
            .map(|flag| flag.map_err(|flag| anyhow!("{}: no folder for a release", flag.display())))
            .chain(TIMELESS.map(|flag| Ok(flag.to_owned())))
            .collect()
    }

    /// Folders, and what the program is to say instead: no file may depend on where it was built. Of two that
    /// fit, the compiler takes the last.
    fn renamed(&self) -> Result<[(PathBuf, &'static str); 3]> {
        Ok([(self.root.clone(), "/remora"), (cargo_home()?, "/cargo"), (self.target.clone(), "/target")])
    }
}

fn flags(option: &str, renamed: &[(PathBuf, &str)]) -> Vec<OsString> {
    let flag = |(from, to): &(PathBuf, &str)| {
        let mut flag = OsString::from(option);
        flag.push(from);
        flag.push("=");
        flag.push(to);
        flag
    };
    renamed.iter().map(flag).collect()
}

/// Where cargo keeps the sources of others.
fn cargo_home() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("neither CARGO_HOME nor HOME is set")
}

/// Lets rustup bring the libraries of Rust for the architectures, if it is there.
fn bring_targets() -> Result<()> {
    let there = super::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let there = Path::new(&there).join("lib/rustlib");
    for arch in Arch::ALL {
        let triple = format!("{}-unknown-linux-musl", arch.linux());
        if !there.join(&triple).is_dir() {
            run(Command::new("rustup").args(["target", "add", &triple]))?;
        }
    }
    Ok(())
}
