//! Packs the models that ship: in the programs they take a quarter less space.

#![expect(clippy::disallowed_methods, reason = "the files of a build need not survive a crash")]

use std::env;
use std::path::PathBuf;

/// zstd's strongest ordinary level: higher ones need more memory to unpack.
const LEVEL: i32 = 19;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in ["small", "text"] {
        let file = format!("model/{name}.urlmodel");
        let packed = std::fs::read(&file).and_then(|model| zstd::encode_all(&*model, LEVEL));
        let written = packed.and_then(|packed| std::fs::write(out.join(name).with_extension("zst"), packed));
        assert!(written.is_ok(), "{file}: {written:?}");
        println!("cargo:rerun-if-changed={file}");
    }
}
