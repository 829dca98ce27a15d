//! The guest as it is before a test: its disks, and its memory at the moment when its servers were ready.
//! Made once, in the cache folder; what is in this file and in `xtask/guest` decides whether it has to be
//! made again.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::guest::machine;
use crate::{places, run};

const ITSELF: &str = include_str!("image.rs");
const FIRST_INIT: &str = include_str!("../../guest/initrd-init");
/// Paths in the guest.
const FILES: [(&str, &str); 5] = [
    ("sbin/guest-init", include_str!("../../guest/guest-init")),
    ("etc/guest.cnf", include_str!("../../guest/guest.cnf")),
    ("etc/guest.sql", include_str!("../../guest/guest.sql")),
    ("etc/lvm/lvmlocal.conf", include_str!("../../guest/lvmlocal.conf")),
    ("etc/ssh/sshd_config.d/guest.conf", include_str!("../../guest/sshd.conf")),
];

const PACKAGES: &str = "linux-image-cloud-amd64,lvm2,thin-provisioning-tools,mariadb-server-core,mariadb-client-core,\
                        openssh-server,kmod,busybox-static";
/// What its kernel needs for a disk and a network, in the order of loading.
const MODULES: [&str; 9] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
];
/// Files that nothing reads; without them the guest is made faster.
const LEFT_OUT: [&str; 4] =
    ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/etc/kernel/postinst.d/initramfs-tools"];

/// A guest that is saved and ready to be resumed.
pub(crate) struct Image(PathBuf);

impl Image {
    /// Makes it, if it is not there or was made by another recipe.
    pub(crate) fn ready() -> Result<Image> {
        let cache = places()?.cache;
        let folder = cache.join("guest");
        let recipe = recipe()?;
        if fs::read_to_string(folder.join("recipe")).is_ok_and(|found| found == recipe) {
            return Ok(Image(folder));
        }
        fs::create_dir_all(&cache)?;
        let new = tempfile::Builder::new().prefix("guest-").tempdir_in(&cache)?;
        let image = Image(new.path().to_owned());
        image.make_disks()?;
        machine::save(&image.0)?;
        fs::write(image.path("recipe"), recipe)?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::rename(new.keep(), &folder)?;
        Ok(Image(folder))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn make_disks(&self) -> Result<()> {
        let root = tempfile::Builder::new().prefix("root-").tempdir_in(&self.0)?;
        debootstrap(root.path())?;
        self.lay_out(root.path())?;
        self.make_first_disk(root.path())?;
        let image = self.path("root.img");
        run(Command::new("mke2fs")
            .args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"])
            .args([root.path(), &image])
            .arg("900M"))?;
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2"])
            .arg(self.path("data.qcow2"))
            .arg("1G")
            .status();
        if !made?.success() {
            bail!("qemu-img made no disk");
        }
        Ok(())
    }

    /// Our files, keys, a data folder.
    fn lay_out(&self, root: &Path) -> Result<()> {
        for (name, text) in FILES {
            let path = root.join(name);
            fs::create_dir_all(path.parent().context("a file without a folder")?)?;
            fs::write(&path, text)?;
        }
        fs::set_permissions(root.join("sbin/guest-init"), fs::Permissions::from_mode(0o755))?;
        let (key, host_key) = (self.path("key"), root.join("etc/ssh/ssh_host_ed25519_key"));
        for old in fs::read_dir(root.join("etc/ssh"))? {
            let old = old?;
            if old.file_name().as_encoded_bytes().starts_with(b"ssh_host_") {
                fs::remove_file(old.path())?;
            }
        }
        for file in [&key, &host_key] {
            run(Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
                .arg(file))?;
        }
        let home = root.join("root/.ssh");
        fs::create_dir_all(&home)?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
        fs::copy(key.with_extension("pub"), home.join("authorized_keys"))?;
        let known = fs::read_to_string(host_key.with_extension("pub"))?;
        fs::write(self.path("known_hosts"), format!("guest {known}"))?;
        run(Command::new("chroot")
            .arg(root)
            .args([
                "mariadb-install-db",
                "--defaults-file=/etc/guest.cnf",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--force",
                "--datadir=/srv/seed",
            ])
            .stdout(Stdio::null()))
    }

    /// The kernel, and the archive with what it needs to reach the disk.
    fn make_first_disk(&self, root: &Path) -> Result<()> {
        let kernel = fs::read_dir(root.join("lib/modules"))?.next().context("no kernel was installed")??;
        let version = kernel.file_name().into_string().ok().context("a kernel without a name")?;
        fs::copy(root.join(format!("boot/vmlinuz-{version}")), self.path("vmlinuz"))?;
        let first = tempfile::tempdir()?;
        for folder in ["bin", "dev", "root", "modules"] {
            fs::create_dir(first.path().join(folder))?;
        }
        fs::copy(root.join("bin/busybox"), first.path().join("bin/busybox"))?;
        for (number, module) in MODULES.iter().enumerate() {
            let found = find(&kernel.path(), &format!("{module}.ko"))?
                .with_context(|| format!("the kernel {version} has no module {module}"))?;
            fs::copy(found, first.path().join(format!("modules/{number}.ko")))?;
        }
        fs::write(first.path().join("init"), FIRST_INIT)?;
        fs::set_permissions(first.path().join("init"), fs::Permissions::from_mode(0o755))?;
        let pack = "find . | ./bin/busybox cpio -o -H newc >\"$0\" 2>/dev/null";
        let packed =
            Command::new("sh").args(["-c", pack]).arg(self.path("initrd")).current_dir(&first).status();
        if packed?.success() { Ok(()) } else { bail!("the first disk could not be packed") }
    }
}

/// What a image is made of: another one must be made when this changes.
fn recipe() -> Result<String> {
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output()?.stdout;
    let parts = FILES.iter().map(|(_, text)| *text).chain([ITSELF, machine::ITSELF, FIRST_INIT]);
    Ok(parts.collect::<String>() + &String::from_utf8_lossy(&qemu))
}

/// Installs a small system of this machine's own release, from where this machine's packages come.
fn debootstrap(root: &Path) -> Result<()> {
    let release = fs::read_to_string("/etc/os-release")?;
    let field = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
            .with_context(|| format!("/etc/os-release: no {name}"))
    };
    let (distribution, codename) = (field("ID")?, field("VERSION_CODENAME")?);
    let mut sources = sources(&distribution)?;
    if sources.is_empty() {
        run(Command::new("apt-get").args(["update", "-qq"]))?;
        sources = self::sources(&distribution)?;
    }
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=minbase", "--aptopt=Acquire::Languages \"none\""]);
    command.args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")));
    command.arg(format!("--include={PACKAGES}")).args([&codename]).arg(root).arg("-");
    println!("$ {}", crate::shown(&command));
    let mut child = command.stdin(Stdio::piped()).spawn().context("mmdebstrap")?;
    child.stdin.take().context("no pipe")?.write_all(sources.as_bytes())?;
    let status = child.wait()?;
    if status.success() { Ok(()) } else { bail!("mmdebstrap: {status}") }
}

/// apt's own sources, as far as they are of this distribution.
pub(crate) fn sources(distribution: &str) -> Result<String> {
    let format = "$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)";
    let told =
        Command::new("apt-get").args(["indextargets", "Created-By: Packages", "--format", format]).output();
    let told = String::from_utf8(told.context("apt-get")?.stdout)?;
    let ours = told.lines().filter_map(|line| {
        let (origin, source) = line.split_once(' ')?;
        origin.eq_ignore_ascii_case(distribution).then(|| format!("{source}\n"))
    });
    Ok(ours.collect())
}

fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = if entry.file_type()?.is_dir() {
            find(&entry.path(), name)?
        } else {
            (entry.file_name() == name).then(|| entry.path())
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
