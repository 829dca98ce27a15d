//! `remora mount`, and single files out of a backup.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::tree::{self, Layout, Node, TreeSource};
use block::{BLOCK, Folder, Repository, RunContext, Scan};
use disk::RealDisk;
use progress::Silent;
use sandbox::{Product, Sandbox, Settings};
use tempfile::TempDir;

use crate::extract::{execute, filled, folder, run, session};
use crate::support::{Ended, Running, places, remora, skipped, until};

pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// Whether a test can mount here.
pub(crate) fn is_possible() -> bool {
    let why = if !rustix::process::getuid().is_root() {
        "to mount takes root"
    } else if fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        "the kernel has no FUSE"
    } else {
        return true;
    };
    skipped(std::thread::current().name().unwrap_or("mount"), why);
    false
}

/// One more generation of a folder, as `repo/data`.
pub(crate) fn generation(folder: &Path, top: &Path) {
    generation_as("data", r#"{"tree":true}"#, folder, top);
}

/// One more generation of a folder, with another name and note.
pub(crate) fn generation_as(name: &str, note: &str, folder: &Path, top: &Path) {
    let place = folder.join("repo").join(name);
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), place)));
    let (nodes, _) = tree::list(&RealDisk, top).unwrap();
    let newest = repository.list().unwrap().generations.last().map(|generation| generation.number);
    let before = newest.map(|newest| tree::layout_of(&repository, Some(newest)).unwrap());
    let layout = Layout::new(nodes, before.as_ref());
    let reader = TreeSource::of(Arc::new(RealDisk), &layout, top);
    let note = note.to_owned();
    let request = block::backup::Request { note, ..block::backup::Request::new(name) };
    let world = RunContext { stop: &NEVER, progress: &Silent };
    block::backup(&repository, &mut Scan::new(Box::new(reader)), &request, world).unwrap();
}

/// Bytes that look random.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    (0..len).map(|_| next()).collect()
}

/// A folder with some of everything.
fn mixed(top: &Path) {
    fs::create_dir_all(top.join("app/empty")).unwrap();
    fs::write(top.join("app/table.ibd"), noise(1, 70 * BLOCK)).unwrap();
    fs::write(top.join("app/odd name\n"), noise(2, 3 * BLOCK + 7)).unwrap();
    fs::write(top.join("nothing"), "").unwrap();
    fs::hard_link(top.join("app/table.ibd"), top.join("app/second")).unwrap();
    symlink("table.ibd", top.join("app/link")).unwrap();
    fs::set_permissions(top.join("nothing"), PermissionsExt::from_mode(0o4711)).unwrap();
    fs::set_permissions(top.join("app"), PermissionsExt::from_mode(0o2750)).unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(300 << 20).unwrap();
    sparse.write_all_at(b"end", (300 << 20) - 3).unwrap();
}

/// A mount that a program of ours serves.
pub(crate) struct Mounted {
    pub(crate) running: Running,
    pub(crate) top: PathBuf,
}

impl Mounted {
    pub(crate) fn new(folder: &Path, more: &[&str]) -> Mounted {
        fs::create_dir_all(folder.join("mnt")).unwrap();
        let mut command = remora(folder);
        command.args(["mount", "repo", "mnt"]).args(more).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running::new(child);
        if more.contains(&"--json") {
            assert!(running.line().contains("mounted"));
        } else {
            running.until_says("ends it");
        }
        Mounted { running, top: folder.join("mnt") }
    }

    fn is_there(&self) -> bool {
        is_mounted(&self.top)
    }

    /// Ends it as a service is ended.
    pub(crate) fn end(self) -> Ended {
        self.running.signal("TERM");
        let ended = self.running.end();
        assert!(!is_mounted(&self.top), "it is unmounted");
        ended
    }
}

fn is_mounted(top: &Path) -> bool {
    mounts().contains(&format!(" {} ", top.canonicalize().unwrap_or_else(|_| top.to_owned()).display()))
}

/// Whether anything is mounted in a folder. Other tests mount elsewhere meanwhile.
pub(crate) fn is_mounted_in(folder: &Path) -> bool {
    mounts().contains(&format!(" {}/", folder.canonicalize().unwrap().display()))
}

fn mounts() -> String {
    fs::read_to_string("/proc/thread-self/mounts").unwrap()
}

/// What can be seen of a tree; the volume's blocks apart.
fn seen(top: &Path) -> Vec<Node> {
    tree::list(&RealDisk, top).unwrap().0
}

#[test]
fn mount_equals_restore_of_every_generation() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let (folder, top) = (folder.path(), folder.path().join("data"));
    mixed(&top);
    generation(folder, &top);
    let table = fs::OpenOptions::new().write(true).open(top.join("app/table.ibd")).unwrap();
    table.write_all_at(&noise(3, BLOCK + 5), 20 * BLOCK as u64 + 9).unwrap();
    generation(folder, &top);
    fs::remove_file(top.join("nothing")).unwrap();
    fs::remove_file(top.join("app/second")).unwrap();
    fs::write(top.join("app/new"), noise(4, 5 * BLOCK)).unwrap();
    generation(folder, &top);
    let restore = |number: u64| {
        let back = format!("back{number}");
        run(folder, &["restore", &format!("repo@{number}"), "--to", &back]).exits(0);
        folder.join(back)
    };
    let mounted = Mounted::new(folder, &[]);
    let restored: Vec<PathBuf> = (1..=3).map(restore).collect();
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (restored, mounted) = (&restored, &mounted);
            scope.spawn(move || {
                // Each begins with another one.
                for number in (0..3).map(|at| (at + reader) % 3) {
                    let there = mounted.top.join("data").join((number + 1).to_string());
                    assert!(seen(&there) == seen(&restored[number]), "generation {}", number + 1);
                    let same =
                        Command::new("diff").arg("-r").args([&there, &restored[number]]).output().unwrap();
                    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
                }
            });
        }
    });
    // Here and there in a file.
    let file = fs::File::open(mounted.top.join("data/2/app/table.ibd")).unwrap();
    let all = fs::read(folder.join("back2/app/table.ibd")).unwrap();
    for at in [0, 1, BLOCK - 1, 20 * BLOCK, 40 * BLOCK + 3, all.len() - 10] {
        let mut part = vec![0; 3 * BLOCK];
        let read = file.read_at(&mut part, at as u64).unwrap();
        assert_eq!(part[..read], all[at..at + read]);
        assert_eq!(read, part.len().min(all.len() - at));
    }
    let names = |path: &str| {
        let entries = fs::read_dir(mounted.top.join(path)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(
        (names(""), names("data")),
        (vec!["data".to_owned()], vec!["1".into(), "2".into(), "3".into()])
    );
    // One that is made meanwhile.
    fs::write(top.join("app/newest"), "newest").unwrap();
    generation(folder, &top);
    until("the new generation", || mounted.top.join("data/4/app/newest").exists());
    assert_eq!(fs::read(mounted.top.join("data/4/app/newest")).unwrap(), b"newest");
    // Nothing can be changed.
    let refused = fs::write(mounted.top.join("data/1/new"), "x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(!mounted.top.join("data/5").exists() && !mounted.top.join("data/01").exists());
    mounted.end().exits(0).says(&["is unmounted", "were fetched"]);
}

#[test]
fn a_killed_mount_is_unmounted() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let (folder, top) = (folder.path(), folder.path().join("data"));
    mixed(&top);
    generation(folder, &top);
    let mounted = Mounted::new(folder, &[]);
    let place = mounted.top.clone();
    // Somebody uses it.
    let mut open = fs::File::open(place.join("data/1/app/table.ibd")).unwrap();
    mounted.running.kill();
    until("nothing is mounted", || !is_mounted(&place));
    assert!(open.read(&mut [0; 10]).is_err());
    drop(open);
    // The next watcher is called like it.
    until("its watcher has ended", || watcher(&place).is_none());

    // Its watcher too: the next run finds a dead mount.
    let mounted = Mounted::new(folder, &[]);
    // A process has no arguments yet while it starts, and a busy machine makes that long.
    until("its watcher has started", || watcher(&place).is_some());
    let watcher = watcher(&place).expect("its watcher");
    assert!(Command::new("kill").args(["-9", &watcher.to_string()]).status().unwrap().success());
    mounted.running.kill();
    assert!(is_mounted(&place), "nobody was left to unmount it");
    until("it is dead", || fs::read_dir(&place).is_err());
    let mut command = remora(folder);
    command.args(["mount", "repo", "mnt"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::new(command.spawn().unwrap());
    let said = running.said("ends it");
    assert!(said.contains("was still mounted by a run that was killed"), "{said}");
    assert!(place.join("data/1/nothing").exists());
    running.signal("INT");
    running.end().exits(0);
    assert!(!is_mounted(&place));
}

/// The process that unmounts what a killed run has mounted.
fn watcher(place: &Path) -> Option<u32> {
    let place = place.canonicalize().unwrap();
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let is_it = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("sh\0-c\0trap") && line.contains(&*place.to_string_lossy())
    };
    processes.into_iter().find(is_it)
}

#[test]
fn umount_ends_the_mount() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let (folder, top) = (folder.path(), folder.path().join("data"));
    mixed(&top);
    generation(folder, &top);
    let mounted = Mounted::new(folder, &[]);
    assert!(mounted.is_there());
    assert!(Command::new("umount").arg(&mounted.top).status().unwrap().success());
    mounted.running.end().exits(0).says(&["is unmounted"]);
}

#[test]
fn a_damaged_block_is_an_error_and_is_named() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let (folder, top) = (folder.path(), folder.path().join("data"));
    fs::create_dir_all(&top).unwrap();
    let bytes = noise(5, 100 * BLOCK);
    fs::write(top.join("table.ibd"), &bytes).unwrap();
    fs::write(top.join("sound"), noise(6, 100 * BLOCK)).unwrap();
    generation(folder, &top);
    let file = folder.join("repo/data/000001.blk");
    let mut stored = fs::read(&file).unwrap();
    let needle = &bytes[50 * BLOCK..50 * BLOCK + 64];
    let at = stored.windows(64).position(|found| found == needle).expect("it is stored as it is");
    stored[at] ^= 1;
    fs::write(&file, stored).unwrap();
    let mounted = Mounted::new(folder, &[]);
    let there = mounted.top.join("data/1");
    assert!(fs::read(there.join("sound")).unwrap() == noise(6, 100 * BLOCK));
    let table = fs::File::open(there.join("table.ibd")).unwrap();
    let mut block = vec![0; BLOCK];
    // Whatever can be read is right.
    let mut lost = 0;
    for number in 0..100 {
        match table.read_exact_at(&mut block, (number * BLOCK) as u64) {
            Ok(()) => assert!(block == bytes[number * BLOCK..(number + 1) * BLOCK], "block {number}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "{error}");
                lost += 1;
            }
        }
    }
    assert!((1..=48).contains(&lost), "{lost} blocks: a group, and what the kernel reads with it");
    assert!(table.read_exact_at(&mut block, (50 * BLOCK) as u64).is_err());
    mounted.end().exits(4).says(&["data/1/table.ibd: ", "000001.blk at byte", "damaged blocks"]);
}

#[test]
fn a_volume_is_a_file() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("disk.img"), noise(7, 300 * BLOCK + 512)).unwrap();
    run(folder, &["backup", "file:disk.img", "--to", "repo"]).exits(0);
    let mounted = Mounted::new(folder, &["--writable"]);
    let volume = mounted.top.join("disk.img/1/volume.img");
    assert!(fs::read(&volume).unwrap() == noise(7, 300 * BLOCK + 512));
    fs::OpenOptions::new().write(true).open(&volume).unwrap().write_all_at(b"new", 5).unwrap();
    assert_eq!(fs::read(&volume).unwrap()[4..9], [&noise(7, 5)[4..], b"new", &noise(7, 9)[8..]].concat());
    mounted.end().exits(0);
    run(folder, &["restore", "repo", "--to", "back"]).exits(0);
    assert!(fs::read(folder.join("back")).unwrap() == noise(7, 300 * BLOCK + 512), "the backup is as it was");
}

#[test]
fn wrong_names_are_explained() {
    let folder = folder();
    let (folder, top) = (folder.path(), folder.path().join("data"));
    mixed(&top);
    generation(folder, &top);
    fs::create_dir(folder.join("mnt")).unwrap();
    for (line, code, words) in [
        (&["mount", "none", "mnt"][..], 1, "none: there is no such folder"),
        (&["mount", "repo/dat", "mnt"], 1, "it has those of data"),
        (&["mount", "repo/data@1", "mnt"], 2, "leave @N out"),
        (&["mount", "repo", "nowhere"], 2, "mount on an empty folder"),
        (&["mount", "repo", "data"], 2, "data is not empty"),
        (&["mount", "repo", "mnt", "--scratch", "."], 2, "--writable"),
        (&["list", "repo/data@7", "--files"], 1, "no generation 7 in repo/data; there is only 1"),
        (&["list", "repo", "--files", "none.ibd"], 2, "there is no none.ibd"),
        (&["restore", "repo", "--path", "table.ibd", "--to", "x"], 2, "there is app/table.ibd"),
        (&["restore", "repo", "--path", "../etc", "--to", "x"], 2, "begins at the top"),
        (&["restore", "repo", "--path", "app", "--to", "mnt"], 2, "exists already"),
        (&["restore", "repo", "--path", "app", "--to", "x", "--delta"], 2, "cannot be used with"),
    ] {
        run(folder, line).exits(code).says(&[words]);
    }
    assert!(!folder.join("x").exists());
}

#[test]
fn files_are_listed_and_come_back_alone() {
    let folder = folder();
    let (folder, top) = (folder.path(), folder.path().join("data"));
    mixed(&top);
    fs::write(top.join("large"), noise(8, 2000 * BLOCK)).unwrap();
    generation(folder, &top);
    let listed = run(folder, &["list", "repo", "--files"]).exits(0).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 10, "{listed}");
    let line = |end: &str| {
        lines.iter().find(|line| line.ends_with(end)).unwrap_or_else(|| panic!("{end}: {listed}"))
    };
    assert!(line("  app/second").starts_with("-rw-r--r--      1146880  20"), "{listed}");
    // Whichever of two names comes first has the bytes.
    assert!(line("  app/table.ibd = app/second").starts_with("-rw-r--r--      1146880  20"), "{listed}");
    assert!(line("  nothing").starts_with("-rws--x--x            0  20"), "{listed}");
    assert!(line("  app").starts_with("drwxr-s---"), "{listed}");
    line("  app/link -> table.ibd");
    line("  app/odd name\\n");
    let some = run(folder, &["list", "repo@1", "--files", "**/*.ibd"]).exits(0).out;
    assert_eq!(some.lines().count(), 1, "{some}");
    let told = run(folder, &["list", "repo/data", "--files", "nothing", "--json"]).exits(0).out;
    for part in [r#""message_type":"file""#, r#""mode":"4711""#, r#""bytes":0"#, r#""generation":1"#] {
        assert!(told.contains(part), "{told}");
    }

    let back = ["restore", "repo", "--path", "app/table.ibd", "noth*", "--to", "some", "--json"];
    let done = run(folder, &back).exits(0).out;
    assert_eq!(fs::read(folder.join("some/app/table.ibd")).unwrap(), noise(1, 70 * BLOCK));
    assert_eq!(fs::metadata(folder.join("some/nothing")).unwrap().mode() & 0o7777, 0o4711);
    assert_eq!(fs::read_dir(folder.join("some")).unwrap().count(), 2);
    let fetched = done.split(r#""bytes_fetched":"#).nth(1).unwrap().split(',').next().unwrap();
    let fetched: usize = fetched.parse().unwrap();
    assert!((70 * BLOCK..200 * BLOCK).contains(&fetched), "{fetched} of 2000 blocks");
}

#[test]
fn a_server_works_on_a_mounted_generation() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    let mut server = filled(
        Product::MariaDb1011,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100)) ENGINE=InnoDB",
            "INSERT INTO t SELECT seq, REPEAT('x', 90) FROM seq_1_to_5000",
            "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM",
            "INSERT INTO m SELECT seq FROM seq_1_to_1000",
        ],
    );
    server.kill().unwrap();
    generation(folder, server.data());
    let mounted = Mounted::new(folder, &["--writable"]);
    let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let data = mounted.top.join("data/1");
    let settings = Settings { data: Some(data.clone()), ..Settings::default() };
    let mut other = Sandbox::start(&installation, &places(), &settings).unwrap();
    execute(
        &mut session(&other),
        &[
            "UPDATE t SET a = 'changed' WHERE id % 2 = 0",
            "INSERT INTO t SELECT seq + 10000, REPEAT('y', 90) FROM seq_1_to_20000",
            "DELETE FROM m WHERE id <= 10",
            "ALTER TABLE t ADD COLUMN b INT DEFAULT 7, ADD KEY (a), ALGORITHM=COPY",
            "CREATE TABLE u LIKE t",
            "INSERT INTO u SELECT * FROM t",
            "RENAME TABLE u TO v",
            "DROP TABLE m",
            "CREATE TEMPORARY TABLE x SELECT * FROM v",
            "CREATE DATABASE more",
            "DROP DATABASE more",
        ],
    );
    other.stop().unwrap();
    // It comes back from what was written.
    let mut other = Sandbox::start(&installation, &places(), &settings).unwrap();
    let mut reader = session(&other);
    for table in ["t", "v"] {
        let counted = format!("SELECT CONCAT(COUNT(*), ' ', SUM(a = 'changed'), ' ', SUM(b)) FROM {table}");
        assert_eq!(reader.value(&counted).unwrap().unwrap(), "25000 2500 175000");
        let checked = reader.strings(&format!("CHECK TABLE {table} EXTENDED")).unwrap();
        assert_eq!(checked[0][3].as_deref(), Some("OK"), "{checked:?}");
    }
    assert!(!data.join("app/m.MYD").exists() && data.join("app/v.ibd").exists());
    drop(reader);
    other.stop().unwrap();
    drop(other);
    mounted.end().exits(0);
    run(folder, &["verify", "repo"]).exits(0);
    let mounted = Mounted::new(folder, &[]);
    assert!(mounted.top.join("data/1/app/m.MYD").exists(), "the backup is as it was");
    mounted.end().exits(0);
}

#[test]
fn other_users_get_in_only_with_allow_other() {
    if !is_possible() {
        return;
    }
    let place: TempDir = folder();
    let (folder, top) = (place.path(), place.path().join("data"));
    fs::create_dir(&top).unwrap();
    fs::write(top.join("open"), "open").unwrap();
    fs::write(top.join("closed"), "closed").unwrap();
    fs::set_permissions(top.join("closed"), PermissionsExt::from_mode(0o600)).unwrap();
    generation(folder, &top);
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    let reads = |name: &str, mounted: &Mounted| {
        let path = mounted.top.join("data/1").join(name);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"]).arg(path);
        command.output().unwrap().status.success()
    };
    let mounted = Mounted::new(folder, &[]);
    assert!(!reads("open", &mounted));
    mounted.end().exits(0);
    let mounted = Mounted::new(folder, &["--allow-other"]);
    assert!(reads("open", &mounted) && !reads("closed", &mounted));
    mounted.end().exits(0);
}
