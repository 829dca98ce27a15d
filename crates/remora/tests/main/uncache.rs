//! `remora uncache` on files of a real file system.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use disk::{Disk, RealDisk};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ended, copy_program, remora, skipped, tell};

const LEN: usize = 8 << 20;

/// A folder whose files can leave memory; `None` on a file system that stores them nowhere else.
fn folder(name: &str) -> Option<TempDir> {
    // Not where other tests have their files: that may be in memory.
    let place = env!("CARGO_TARGET_TMPDIR");
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir_in(place).unwrap();
    let probe = folder.path().join("probe");
    std::fs::write(&probe, [1; 5000]).unwrap();
    let source = RealDisk.open(&probe).unwrap();
    let only_there = source.resident(0, 5000).unwrap().unwrap().only_there;
    std::fs::remove_file(&probe).unwrap();
    if only_there {
        skipped(name, "files for tests lie in memory alone");
        return None;
    }
    Some(folder)
}

/// A file that is on disk, and cached.
fn cached(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, vec![7; LEN]).unwrap();
    RealDisk.open(path).unwrap().write_out().unwrap();
    std::fs::read(path).unwrap();
}

/// Bytes that are cached according to mincore(2), which the program itself does not use where it has a better
/// way.
fn there(path: &Path) -> u64 {
    let source = RealDisk.open(path).unwrap();
    let len = usize::try_from(source.stat().unwrap().len).unwrap();
    len as u64 - source.absent(0, len).unwrap().iter().map(|range| range.end - range.start).sum::<u64>()
}

fn run(folder: &Path, arguments: &[&str]) -> Ended {
    Ended::of(&remora(folder).arg("uncache").args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// The line of JSON about a file.
fn line(ended: &Ended, path: &str) -> Value {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .into_iter()
        .find(|line| line["path"] == path)
        .unwrap_or_else(|| panic!("no {path} in {}", ended.out))
}

#[test]
fn files_are_uncached_and_the_sums_say_how_much() {
    let Some(folder) = folder("uncache: files go") else { return };
    let file = |name: &str| folder.path().join(name);
    ["one", "data/two", "data/deep/three.ibd", "data/deep/four"].iter().for_each(|name| cached(&file(name)));
    std::os::unix::fs::symlink(file("one"), file("data/link")).unwrap();
    std::fs::hard_link(file("data/two"), file("data/zwei")).unwrap();
    let ended = run(folder.path(), &["-r", "data", "--exclude", "*.ibd", "--json"]).exits(0);
    for name in ["data/two", "data/deep/four"] {
        let told = line(&ended, name);
        assert_eq!((&told["resident_before"], &told["resident_after"]), (&Value::from(LEN), &Value::from(0)));
        assert_eq!(there(&file(name)), 0, "{name}");
    }
    assert_eq!((there(&file("one")), there(&file("data/deep/three.ibd"))), (LEN as u64, LEN as u64));
    let last: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["files"], &last["resident_before"]),
        (&Value::from(2), &Value::from(2 * LEN)),
        "{last}"
    );
    // A pattern, and a folder that was not named.
    let ended =
        run(folder.path(), &["o*", "data"]).exits(3).says(&["data: is a folder; use -r to go into it"]);
    assert!(ended.out.contains("8.39 MB ->       0 B of   8.39 MB  one"), "{}", ended.out);
    assert!(ended.err.contains("1 file, 8.39 MB: 8.39 MB in memory before, 0 B now"), "{}", ended.err);
    assert_eq!(there(&file("one")), 0);
    run(folder.path(), &["nothing"]).exits(1).says(&["nothing: there is no such file"]);
    let failed = run(folder.path(), &["nothing", "--json"]).exits(1);
    let last: Value = serde_json::from_str(failed.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["message_type"], &last["exit_code"]), (&"error".into(), &1.into()), "{}", failed.out);
    run(folder.path(), &["one", "--exclude", "a[b"]).exits(2).says(&["--exclude a[b"]);
}

#[test]
fn a_folder_that_cannot_be_read_ends_no_walk() {
    let Some(folder) = folder("uncache: unreadable folders") else { return };
    let file = |name: &str| folder.path().join(name);
    ["data/a/one", "data/b/two", "data/c/three"].iter().for_each(|name| cached(&file(name)));
    // Other users may not enter the folder of the tested program, so they run a copy.
    let program = folder.path().join("remora");
    copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &program);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(file("data/b"), std::fs::Permissions::from_mode(0o000)).unwrap();
    for (arguments, gone, code) in [
        (&["-r", "data"][..], true, 3),
        (&["data/*/*"], true, 3),
        (&["-r", "data/**/t*"], true, 3),
        (&["data/b/*"], false, 1),
    ] {
        ["data/a/one", "data/c/three"].iter().for_each(|name| drop(std::fs::read(file(name)).unwrap()));
        let mut command = Command::new(&program);
        command.current_dir(folder.path()).arg("uncache").args(arguments).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let ended = Ended::of(&command.output().unwrap()).exits(code);
        assert!(ended.err.contains("data/b: Permission denied"), "{arguments:?}: {}", ended.err);
        assert_eq!(there(&file("data/c/three")) == 0, gone, "{arguments:?}: {}", ended.err);
    }
    std::fs::set_permissions(file("data/b"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_dry_run_uncaches_nothing() {
    let Some(folder) = folder("uncache: a look") else { return };
    let path = folder.path().join("table.ibd");
    cached(&path);
    let bar = |ended: &Ended| ended.out.split_once(']').unwrap().0.trim_start_matches('[').to_owned();
    let ended = run(folder.path(), &["--show", "table.ibd"]).exits(0);
    assert_eq!(bar(&ended), "#".repeat(40));
    assert!(ended.out.contains("8.39 MB of   8.39 MB 100 %  table.ibd"), "{}", ended.out);
    assert_eq!(there(&path), LEN as u64);
    let source = RealDisk.open(&path).unwrap();
    // Pages of the third quarter.
    source.forget(4 << 20, 2 << 20);
    let left = there(&path);
    assert!(left < LEN as u64);
    let ended = run(folder.path(), &["--show", "--json", "table.ibd"]).exits(0);
    assert_eq!(line(&ended, "table.ibd")["resident"], left);
    let shown = bar(&run(folder.path(), &["--show", "table.ibd"]).exits(0));
    assert!(shown.starts_with(&"#".repeat(19)) && shown.ends_with(&"#".repeat(9)), "{shown:?}");
    assert!(shown.contains("     "), "{shown:?}");
    assert_eq!(there(&path), left);
    run(folder.path(), &["--show", "--sync", "table.ibd"]).exits(2);
}

#[test]
fn dirty_pages_are_not_lost() {
    let Some(folder) = folder("uncache: dirty pages") else { return };
    let path = folder.path().join("fresh");
    for round in 0..20u8 {
        let bytes = vec![round; LEN];
        std::fs::write(&path, &bytes).unwrap();
        // Only what was not on disk yet stays. The kernel may write some of it at any time.
        let ended = run(folder.path(), &["--json", "fresh"]).exits(0);
        let told = line(&ended, "fresh");
        if let Some(dirty) = told["dirty_before"].as_u64() {
            assert!(told["resident_after"].as_u64().unwrap() <= dirty, "{told}");
        }
        let ended = run(folder.path(), &["--json", "--sync", "fresh"]).exits(0);
        assert_eq!(line(&ended, "fresh")["resident_after"], 0);
        assert_eq!(there(&path), 0);
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn mapped_pages_stay_and_are_reported() {
    let Some(folder) = folder("uncache: mapped pages") else { return };
    let program = folder.path().join("sleeper");
    copy_program(Path::new("/bin/sleep"), &program);
    RealDisk.open(&program).unwrap().write_out().unwrap();
    let mut child = Command::new(&program).arg("600").stdin(Stdio::null()).spawn().unwrap();
    let ended = run(folder.path(), &["--sync", "sleeper"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = ended.exits(0);
    assert!(ended.out.contains("(in use: mapped, locked, or being read)"), "{}{}", ended.out, ended.err);
    let ended = run(folder.path(), &["--json", "sleeper"]).exits(0);
    assert_eq!(line(&ended, "sleeper")["resident_after"], 0, "{}", ended.out);
}

#[test]
fn files_of_other_users_are_uncached_without_numbers() {
    let Some(folder) = folder("uncache: files of others") else { return };
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("theirs");
    cached(&path);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    // Other users may not enter the folder of the tested program, so they run a copy.
    let program = folder.path().join("remora");
    copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &program);
    let mut command = Command::new(&program);
    command.current_dir(folder.path()).args(["uncache", "theirs"]).uid(65534).gid(65534);
    let Ok(output) = command.output() else {
        skipped("uncache: files of others", "only root can run a program as somebody else");
        return;
    };
    let ended = Ended::of(&output).exits(0).says(&["for 1 file the kernel does not say what is in memory"]);
    assert!(ended.out.starts_with("unknown"), "{}", ended.out);
    tell("they are gone all the same");
    assert_eq!(there(&path), 0);
}
