//! Builds the program that goes to the other side of an ssh connection: one static file that needs nothing
//! there.

#![expect(clippy::disallowed_methods, reason = "the files of a build need not survive a crash")]

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// zstd's strongest ordinary level: higher ones need more memory to unpack.
const LEVEL: i32 = 19;

fn main() {
    let folder = |name: &str| PathBuf::from(env::var_os(name).unwrap_or_default());
    let out = folder("OUT_DIR");
    // TARGET/PROFILE/build/remora-HASH/out: one build for all profiles.
    let target_dir = out.ancestors().nth(4).map_or_else(|| out.join("far"), |target| target.join("far"));
    let triple = env::var("TARGET").unwrap_or_default();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "far",
        "--bin",
        "remora-far",
        "--profile",
        "far",
        "--target",
        &triple,
    ]);
    cargo.arg("--target-dir").arg(&target_dir);
    // Flags and wrappers are for the build that this one belongs to.
    for name in
        ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR"]
    {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    cargo.current_dir(folder("CARGO_MANIFEST_DIR"));
    let status = cargo.status();
    assert!(status.is_ok_and(|status| status.success()), "remora-far was not built: {cargo:?}");
    // It makes a third of its size when it lies in our own.
    let program = std::fs::read(target_dir.join(triple).join("far/remora-far"));
    let packed = program.and_then(|program| zstd::encode_all(&*program, LEVEL));
    let place = out.join("remora-far.zst");
    let written = packed.and_then(|packed| std::fs::write(&place, packed));
    assert!(written.is_ok(), "{}: {written:?}", place.display());
    println!("cargo:rustc-env=REMORA_FAR={}", place.display());
    for crate_name in ["far", "block", "disk", "progress"] {
        println!("cargo:rerun-if-changed=../{crate_name}/src");
        println!("cargo:rerun-if-changed=../{crate_name}/Cargo.toml");
    }
}
