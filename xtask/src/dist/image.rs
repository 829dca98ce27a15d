//! Images for containers, as archives of the layout of OCI
//! (<https://github.com/opencontainers/image-spec>). `podman load`, `docker load` and `skopeo copy` take
//! them.
//! One has nothing but the program, the other one MariaDB with the plugins.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::root;

use super::tree::{TREES, Tree};
use super::{Arch, Release, archive, output, run_quietly, stage};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Makes one image for all architectures: whoever takes it, takes the program for his own.
pub(super) fn build(release: &Release, programs: &[(Arch, PathBuf)]) -> Result<()> {
    let layout = Layout { release, folder: release.work.join("image") };
    let config = json!({ "Entrypoint": ["/usr/bin/remora"], "Env": ["PATH=/usr/bin"] });
    let one = |(arch, program): &(Arch, PathBuf)| {
        let files = release.work.join(format!("image-{}", arch.linux()));
        stage::place_program(program, &files.join("usr/bin/remora"))?;
        // The program makes files there, whoever it runs as.
        let temporary = stage::folder(&files, "tmp")?;
        run_quietly(Command::new("chmod").arg("1777").arg(temporary))?;
        let tar = release.work.join(format!("layer-{}.tar", arch.linux()));
        archive(release, &files, &tar)?;
        layout.add(*arch, &tar, &config)
    };
    let manifests = programs.iter().map(one).collect::<Result<Vec<_>>>()?;
    layout.finish(manifests, "remora")
}

/// The files of the image of MariaDB.
pub(super) fn server_layer(release: &Release) -> PathBuf {
    release.work.join("layer-server.tar")
}

/// Makes an image of Debian's MariaDB of the first series with the plugins, for this machine's architecture,
/// as they are.
pub(super) fn build_server(release: &Release) -> Result<()> {
    let (name, series) = TREES[0];
    let tree = Tree::debian(release, name)?;
    tree.run("image.sh", series, &release.out)?;
    tree.clear()?;
    stage::place_program(&root().join("packaging/image/start"), &tree.folder.join("usr/bin/start"))?;
    let tar = server_layer(release);
    archive(release, &tree.folder, &tar)?;
    let config = json!({
        "Entrypoint": ["/usr/bin/start"],
        "Cmd": ["mariadbd"],
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "ExposedPorts": { "3306/tcp": {} },
        "Volumes": { "/var/lib/mysql": {} },
        "StopSignal": "SIGTERM",
    });
    let layout = Layout { release, folder: release.work.join("image-server") };
    let manifest = layout.add(Arch::here()?, &tar, &config)?;
    layout.finish(vec![manifest], &format!("remora-mariadb-{series}"))
}

/// A folder that becomes an image.
struct Layout<'a> {
    release: &'a Release,
    folder: PathBuf,
}

impl Layout<'_> {
    /// Adds the image of an architecture, of an archive of its files and of how it runs, and returns what an
    /// index says about it.
    fn add(&self, arch: Arch, tar: &Path, run: &Value) -> Result<Value> {
        let unpacked = digest(tar)?;
        run_quietly(Command::new("gzip").args(["-9nk", "--"]).arg(tar))?;
        let layer = self.file(LAYER, &tar.with_added_extension("gz"))?;
        let created =
            output(Command::new("date").args(["-u", "+%FT%TZ", "-d", &format!("@{}", self.release.epoch)]))?;
        let config = json!({
            "created": created,
            "architecture": arch.debian(),
            "os": "linux",
            "config": run,
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

    /// Makes the archive of the images of all architectures.
    fn finish(&self, manifests: Vec<Value>, name: &str) -> Result<()> {
        let version = &self.release.version;
        stage::write(&self.folder.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
        let all = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        let mut named = self.blob(INDEX, &all)?;
        named["annotations"] = json!({ "org.opencontainers.image.ref.name": version });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] });
        stage::write(&self.folder.join("index.json"), &index.to_string())?;
        archive(self.release, &self.folder, &self.release.out.join(format!("{name}-{version}-oci.tar")))
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
