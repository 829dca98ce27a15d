//! An image for containers with nothing but the program, as an archive of the layout of OCI
//! (<https://github.com/opencontainers/image-spec>): `podman load`, `docker load` and `skopeo copy` take it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Arch, Release, archive, output, run_quietly, stage};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Makes one image for all architectures: whoever takes it, takes the program for his own.
pub(super) fn build(release: &Release, programs: &[(Arch, PathBuf)]) -> Result<()> {
    let layout = Layout { release, folder: release.work.join("image") };
    let manifests =
        programs.iter().map(|(arch, program)| layout.add(*arch, program)).collect::<Result<Vec<_>>>()?;
    stage::write(&layout.folder.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let all = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    let mut named = layout.blob(INDEX, &all)?;
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] });
    stage::write(&layout.folder.join("index.json"), &index.to_string())?;
    let place = release.out.join(format!("remora-{}-oci.tar", release.version));
    archive(release, &layout.folder, &place)
}

/// A folder that becomes an image.
struct Layout<'a> {
    release: &'a Release,
    folder: PathBuf,
}

impl Layout<'_> {
    /// Adds the image for an architecture, and returns what an index says about it.
    fn add(&self, arch: Arch, program: &Path) -> Result<Value> {
        let files = self.release.work.join(format!("image-{}", arch.linux()));
        stage::place_program(program, &files.join("usr/bin/remora"))?;
        // The program makes files there, whoever it runs as.
        let temporary = stage::folder(&files, "tmp")?;
        run_quietly(Command::new("chmod").arg("1777").arg(temporary))?;
        let tar = self.release.work.join(format!("layer-{}.tar", arch.linux()));
        archive(self.release, &files, &tar)?;
        let unpacked = digest(&tar)?;
        run_quietly(Command::new("gzip").args(["-9n", "--"]).arg(&tar))?;
        let layer = self.file(LAYER, &tar.with_added_extension("gz"))?;
        let created =
            output(Command::new("date").args(["-u", "+%FT%TZ", "-d", &format!("@{}", self.release.epoch)]))?;
        let config = json!({
            "created": created,
            "architecture": arch.debian(),
            "os": "linux",
            "config": { "Entrypoint": ["/usr/bin/remora"], "Env": ["PATH=/usr/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [unpacked] },
            "history": [{ "created": created, "created_by": "cargo xtask dist" }],
        });
        let config = self.blob(CONFIG, &config)?;
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        let mut described = self.blob(MANIFEST, &manifest)?;
        described["platform"] = json!({ "architecture": arch.debian(), "os": "linux" });
        Ok(described)
    }

    /// Adds a value as a file.
    fn blob(&self, kind: &str, value: &Value) -> Result<Value> {
        let file = self.release.work.join("blob");
        std::fs::write(&file, value.to_string())?;
        self.file(kind, &file)
    }

    /// Moves a file to where it is found by its digest, and returns its description.
    fn file(&self, kind: &str, file: &Path) -> Result<Value> {
        let digest = digest(file)?;
        let name = digest.strip_prefix("sha256:").context("a digest")?;
        let place = stage::folder(&self.folder, "blobs/sha256")?.join(name);
        std::fs::rename(file, &place)?;
        Ok(json!({ "mediaType": kind, "digest": digest, "size": std::fs::metadata(&place)?.len() }))
    }
}

fn digest(file: &Path) -> Result<String> {
    let sum = output(Command::new("sha256sum").arg("--").arg(file))?;
    Ok(format!("sha256:{}", sum.split_whitespace().next().context("a line of sha256sum")?))
}
