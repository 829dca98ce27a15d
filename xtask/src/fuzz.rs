//! Fuzzes the decoders: libFuzzer's own build, with only the stable compiler.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, root, run, target};

/// Coverage for libFuzzer: a counter for each edge, and the operands of comparisons.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

pub(crate) fn fuzz(arguments: &[String]) -> Result<()> {
    let targets = targets()?;
    let (Some(target), seconds) = (arguments.first(), arguments.get(1).map_or("60", String::as_str)) else {
        bail!("cargo xtask fuzz TARGET|all [SECONDS]; targets: {}", targets.join(", "));
    };
    let seconds: u32 = seconds.parse().context("SECONDS is a number")?;
    let chosen: Vec<&String> = targets.iter().filter(|known| target == "all" || *known == target).collect();
    if chosen.is_empty() {
        bail!("no target {target}; there are {}", targets.join(", "));
    }
    run_all(&chosen, seconds)
}

/// Runs every target; this is their total time.
pub(crate) fn all(seconds: u32) -> Result<()> {
    let targets = targets()?;
    let share = seconds / u32::try_from(targets.len().max(1))?;
    run_all(&targets.iter().collect::<Vec<_>>(), share.max(1))
}

/// Builds the targets and runs them one after the other. Interesting inputs are kept in the build folder, and
/// the next run begins with them.
fn run_all(chosen: &[&String], seconds: u32) -> Result<()> {
    let folder = root().join("fuzz");
    let built = target().join("fuzz");
    let (host, mut build) = (host()?, cargo());
    // With a named target, build scripts are built without the flags, with which they could not be linked.
    build
        .args(["build", "--release", "--quiet", "--target", &host, "--manifest-path"])
        .arg(folder.join("Cargo.toml"));
    run(build.arg("--target-dir").arg(&built).env("RUSTFLAGS", FLAGS))?;
    for target in chosen {
        let corpus = built.join("corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        let mut fuzzer = Command::new(built.join(&host).join("release").join(target));
        fuzzer.arg(&corpus).arg(format!("-max_total_time={seconds}"));
        // A failing input stays where it can be run again.
        fuzzer
            .arg(format!("-artifact_prefix={}/", folder.display()))
            .args(["-print_final_stats=1", "-verbosity=0"]);
        run(&mut fuzzer)?;
    }
    Ok(())
}

/// The names of the files in `fuzz/targets`.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("fuzz/targets"))? {
        let path: PathBuf = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc")?;
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc names no host")
}
