//! Builds the program that goes to the other side of an ssh connection: one static file that needs nothing
//! there. An ordinary build has it for its own architecture. `cargo xtask dist` builds it for several, and
//! names the files in variables, such as `REMORA_FAR_AARCH64`.

#![expect(clippy::disallowed_methods, reason = "the files of a build need not survive a crash")]

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of what is given away: zstd's strongest ordinary level. Higher ones need more memory to unpack.
const LEVEL: i32 = 19;
/// Of a build for tests.
const FAST_LEVEL: i32 = 3;
/// The architectures that there may be a ready program for.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let own = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut table = String::from("&[");
    for arch in ARCHITECTURES {
        let variable = format!("REMORA_FAR_{}", arch.to_uppercase());
        println!("cargo:rerun-if-env-changed={variable}");
        let program = match env::var_os(variable).map(PathBuf::from) {
            Some(ready) => {
                println!("cargo:rerun-if-changed={}", ready.display());
                ready
            }
            None if arch == own => build(&out),
            None => continue,
        };
        let place = out.join(format!("remora-far-{arch}.zst"));
        pack(&program, &place);
        write!(table, "({arch:?}, include_bytes!({:?})),", place.display()).expect("a text takes any text");
    }
    table.push(']');
    let place = out.join("far.rs");
    let written = std::fs::write(&place, table);
    assert!(written.is_ok(), "{}: {written:?}", place.display());
    println!("cargo:rustc-env=REMORA_FAR={}", place.display());
    for crate_name in ["far", "block", "disk", "innodb", "progress", "seal"] {
        println!("cargo:rerun-if-changed=../{crate_name}/src");
        println!("cargo:rerun-if-changed=../{crate_name}/Cargo.toml");
    }
}

/// Compresses a program: it makes a third of its size when it lies in our own.
fn pack(program: &Path, place: &Path) {
    let level = if is_debug() { FAST_LEVEL } else { LEVEL };
    let packed = std::fs::read(program).and_then(|program| zstd::encode_all(&*program, level));
    let written = packed.and_then(|packed| std::fs::write(place, packed));
    assert!(written.is_ok(), "{} into {}: {written:?}", program.display(), place.display());
}

/// Whether this is a build for tests.
fn is_debug() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "debug")
}

/// Builds the program for the architecture of this build.
fn build(out: &Path) -> PathBuf {
    // What is given away is as small and fast as it can be. That takes minutes, for which no test need wait.
    let profile = if is_debug() { "far-dev" } else { "far" };
    // TARGET/PROFILE/build/remora-HASH/out: one build for all profiles of each kind.
    let target_dir = out.ancestors().nth(4).map_or_else(|| out.join("far"), |target| target.join("far"));
    let triple = env::var("TARGET").unwrap_or_default();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--package", "far", "--bin", "remora-far", "--profile", profile]);
    cargo.args(["--target", &triple]).arg("--target-dir").arg(&target_dir);
    // Flags and wrappers are for the build that this one belongs to.
    for name in
        ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR"]
    {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    cargo.current_dir(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let status = cargo.status();
    assert!(status.is_ok_and(|status| status.success()), "remora-far was not built: {cargo:?}");
    target_dir.join(triple).join(profile).join("remora-far")
}
