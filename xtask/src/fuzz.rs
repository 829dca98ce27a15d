//! Fuzzes the decoders: libFuzzer's own build, with only the stable compiler.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, root, run, shown, target};

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
    let share = (seconds / u32::try_from(chosen.len())?).max(1);
    build()?;
    let mut inputs = 0;
    for target in &chosen {
        inputs += run_one(target, share)?;
    }
    println!("fuzzed: {} decoders, {share} s each, {inputs} inputs", chosen.len());
    Ok(())
}

/// Builds all targets.
fn build() -> Result<()> {
    // With a named target, build scripts are built without the flags, with which they could not be linked.
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--target", &host()?, "--manifest-path"]);
    build.arg(root().join("fuzz/Cargo.toml")).arg("--target-dir").arg(target().join("fuzz"));
    // The macro of a fuzz target does what our lints disallow.
    run(build.env("RUSTFLAGS", FLAGS).env_remove("RUSTC_WORKSPACE_WRAPPER"))
}

/// Runs a target, and returns how many inputs it was given. Inputs that reach new code are kept in the build
/// folder, and the next run begins with them.
fn run_one(name: &str, seconds: u32) -> Result<u64> {
    let built = target().join("fuzz");
    let corpus = built.join("corpus").join(name);
    std::fs::create_dir_all(&corpus)?;
    let mut fuzzer = Command::new(built.join(host()?).join("release").join(name));
    fuzzer.arg(&corpus).arg(format!("-max_total_time={seconds}"));
    // A failing input stays where it can be run again.
    fuzzer.arg(format!("-artifact_prefix={}/", root().join("fuzz").display()));
    fuzzer.args(["-print_final_stats=1", "-verbosity=0"]);
    let line = shown(&fuzzer);
    println!("$ {line}");
    let output = fuzzer.output().with_context(|| line.clone())?;
    let told = String::from_utf8_lossy(&output.stderr);
    print!("{told}");
    if !output.status.success() {
        bail!("{line}: {}", output.status);
    }
    let inputs = told.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    inputs
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("{line}: no count of inputs"))
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
