//! The program against volumes in a folder: `backup`, `restore`, `verify`, `list`, `prune`.

#[path = "backup/list.rs"]
mod list;

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{Ended, Running, ignores_hup, remora, skipped};

const PAGE: usize = 16 << 10;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = remora(self.0.path());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }

    /// Pages of text, each different.
    fn volume(&self, name: &str, pages: usize) {
        let page = |number: usize| format!("page {number} ").repeat(PAGE).into_bytes()[..PAGE].to_vec();
        std::fs::write(self.path(name), (0..pages).flat_map(page).collect::<Vec<u8>>()).unwrap();
    }

    fn change(&self, name: &str, at: u64, bytes: &[u8]) {
        let mut file = std::fs::OpenOptions::new().write(true).open(self.path(name)).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
}

#[test]
fn three_generations_come_back() {
    let place = Place::new();
    place.volume("disk.img", 700);
    let mut states = Vec::new();
    for round in 0..3u8 {
        place.change("disk.img", u64::from(round) * 100_000, &[round; 50]);
        states.push(place.bytes("disk.img"));
        place
            .run(&["backup", "file:disk.img", "--to", "repo"])
            .exits(0)
            .says(&[&format!("disk.img@{}", round + 1)]);
    }
    let listed = place.run(&["list", "repo"]).exits(0).out;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(
        listed.contains("disk.img@1") && listed.contains("full") && listed.contains("changes to 2"),
        "{listed}"
    );
    place.run(&["verify", "repo"]).exits(0).says(&["all sound", "3 generations"]);
    for (number, state) in (1..).zip(&states) {
        let target = format!("back{number}");
        place.run(&["restore", &format!("repo@{number}"), "--to", &target]).exits(0);
        assert!(place.bytes(&target) == *state, "generation {number}");
    }
    place.run(&["restore", "repo", "--to", "back1"]).exits(2).says(&["exists already", "--delta"]);
    place
        .run(&["restore", "repo/disk.img", "--to", "file:back1", "--delta"])
        .exits(0)
        .says(&["32.8 kB of it written"]);
    assert!(place.bytes("back1") == states[2]);
    place.run(&["prune", "repo", "--keep-last", "1"]).exits(0).says(&["forgotten: 1 2", "written again: 3"]);
    place.run(&["verify", "repo"]).exits(0);
    place.run(&["restore", "repo", "--to", "back1", "--overwrite"]).exits(0);
    assert!(place.bytes("back1") == states[2]);
    place.run(&["restore", "repo@1", "--to", "new"]).exits(1).says(&["no generation 1"]);
}

#[test]
fn damage_has_a_code_of_its_own() {
    let place = Place::new();
    place.volume("disk.img", 100);
    place.run(&["backup", "file:disk.img", "--to", "repo", "--name", "data"]).exits(0);
    place.change("repo/data/000001.blk", 900, b"!");
    let found = place.run(&["verify", "repo"]).exits(4);
    assert!(found.out.contains("000001.blk at byte"), "{}", found.out);
    place.run(&["restore", "repo", "--to", "back"]).exits(4).says(&["000001.blk at byte"]);
    assert!(!place.path("back").exists() && !place.path("back.partial").exists());
    let json = place.run(&["verify", "repo", "--json"]).exits(4).out;
    assert!(json.contains(r#""message_type":"damage""#), "{json}");
}

#[test]
fn a_name_belongs_to_one_source() {
    let place = Place::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(place.path(folder)).unwrap();
        place.volume(&format!("{folder}/disk.img"), 20);
    }
    let backup = |path: &str, more: &[&str]| {
        place.run(&[&["backup", path, "--to", "repo", "--full"][..], more].concat())
    };
    backup("file:a/disk.img", &[]).exits(0);
    let shown = place.path("b/disk.img").display().to_string();
    backup("file:b/disk.img", &[]).exits(1).says(&["has backups of another source", &shown, "--adopt"]);
    // The same one, written in another way.
    backup(&format!("file:{}", place.path("a/disk.img").display()), &[]).exits(0).says(&["disk.img@2"]);
    // One that has taken its place: said once, it continues.
    backup("file:b/disk.img", &["--adopt"]).exits(0).says(&["disk.img@3"]);
    backup("file:b/disk.img", &[]).exits(0).says(&["disk.img@4"]);
    backup("file:a/disk.img", &[]).exits(1);
    let listed = place.run(&["list", "repo"]).exits(0);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(listed.out.contains(&format!("file:b/disk.img on {host}\n")), "{}", listed.out);
    let json = place.run(&["list", "repo", "--json"]).exits(0).out;
    assert!(json.contains(&format!(r#""host":"{host}""#)), "{json}");
}

/// As it was before names belonged to a source.
#[test]
fn mixed_names_are_told_and_keep_what_each_source_needs() {
    let place = Place::new();
    for (folder, repository) in [("a", "repo"), ("b", "other")] {
        std::fs::create_dir(place.path(folder)).unwrap();
        place.volume(&format!("{folder}/disk.img"), 20);
        for _ in 0..4 {
            let source = format!("file:{folder}/disk.img");
            place.run(&["backup", &source, "--to", repository, "--full"]).exits(0);
        }
    }
    // Each is full, so each stands by itself.
    for number in [2, 4] {
        let file = format!("disk.img/00000{number}.blk");
        std::fs::copy(place.path("other").join(&file), place.path("repo").join(&file)).unwrap();
    }
    let told = ["has backups of 2 sources", "a/disk.img", "the newest disk.img@3", "the newest disk.img@4"];
    for command in ["list", "verify"] {
        place.run(&[command, "repo"]).exits(3).says(&told);
    }
    place.run(&["prune", "repo", "--keep-last", "1"]).exits(3).says(&told).says(&["forgotten: 1 2"]);
    place
        .run(&["backup", "file:a/disk.img", "--to", "repo"])
        .exits(1)
        .says(&["has backups of another source"]);
    place.run(&["backup", "file:a/disk.img", "--to", "repo", "--adopt"]).exits(0);
    place.run(&["list", "repo"]).exits(0);
    place.run(&["prune", "repo", "--keep-last", "1"]).exits(0).says(&["forgotten: 3 4"]);
}

#[test]
fn what_is_no_file_or_in_use_is_told_and_not_waited_for() {
    let place = Place::new();
    place.volume("disk.img", 20);
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    place.run(&["backup", "file:pipe", "--to", "repo"]).exits(1).says(&["is no regular file"]);
    let open = std::fs::OpenOptions::new().append(true).open(place.path("disk.img")).unwrap();
    for how in ["--overwrite", "--delta"] {
        place
            .run(&["restore", "repo/disk.img", "--to", "disk.img", how])
            .exits(11)
            .says(&["disk.img is open for writing in another program"]);
    }
    drop(open);
    place.run(&["restore", "repo/disk.img", "--to", "disk.img", "--overwrite"]).exits(0);
}

/// Text for eight files; a stored block of it is damaged.
#[test]
fn damage_costs_what_is_damaged_and_the_next_backup_heals_it() {
    let place = Place::new();
    place.volume("disk.img", 600);
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    place.change("disk.img", 0, b"changed");
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    // After the record of the first chunk, in one of its sixteen groups.
    place.change("repo/disk.img/000001.blk", 7_300, b"!");
    place.run(&["restore", "repo", "--to", "back"]).exits(4).says(&["--keep-going"]);
    let kept = place.run(&["restore", "repo", "--to", "back", "--keep-going"]).exits(4);
    let lost = kept.out.lines().find_map(|line| line.strip_prefix("lost: bytes ")).unwrap();
    let (from, to) = lost.split_once(" to ").unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    let (back, disk) = (place.bytes("back"), place.bytes("disk.img"));
    assert!(to - from <= 16 * PAGE && back[..from] == disk[..from] && back[to..] == disk[to..]);
    let found = place.run(&["verify", "repo"]).exits(4).says(&["next backup"]);
    assert!(found.out.contains(&format!("costs generations 1 to 2: bytes {from} to {to}")), "{}", found.out);
    let json = place.run(&["verify", "repo", "--json"]).exits(4).out;
    assert!(json.contains(&format!(r#""losses":[{{"from":{from},"path":null,"to":{to}}}]"#)), "{json}");
    let list = ["list", "repo", "--textfile", "repo.prom"];
    let listed =
        place.run(&list).exits(4).says(&["noted damage", "generations 1, 2 can't be restored whole"]);
    assert_eq!(listed.out.matches("  DAMAGED  file:disk.img").count(), 2, "{}", listed.out);
    let metrics = || std::fs::read_to_string(place.path("repo.prom")).unwrap();
    assert!(metrics().contains("remora_backup_damaged{repository=\"repo\",name=\"disk.img\"} 2\n"));
    let json = place.run(&["list", "repo", "--json"]).exits(4).out;
    assert_eq!(json.matches(r#""damaged":true"#).count(), 2, "{json}");
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0).says(&["stored again"]);
    let listed = place.run(&list).exits(0).says(&["every generation that is listed can still be restored"]);
    assert!(!listed.out.contains("DAMAGED"), "{}", listed.out);
    assert!(metrics().contains("remora_backup_damaged{repository=\"repo\",name=\"disk.img\"} 0\n"));
    std::fs::remove_file(place.path("back")).unwrap();
    for generation in ["repo@2", "repo@3"] {
        place.run(&["restore", generation, "--to", "back"]).exits(0);
        assert!(place.bytes("back") == disk);
        std::fs::remove_file(place.path("back")).unwrap();
    }
    let told =
        place.run(&["verify", "repo"]).exits(4).says(&["every generation can still be restored whole"]);
    assert!(told.out.contains("it costs nothing") && !told.err.contains("next backup"), "{}", told.err);
    // The file itself is damaged: backups build on what is left, and report the damage each time until it is
    // gone.
    place.change("repo/disk.img/000003.blk", 0, b"!");
    place.run(&["restore", "repo@3", "--to", "back"]).exits(4).says(&["000003.blk"]);
    let told = place.run(&["verify", "repo"]).exits(4);
    let in_file = told.out.lines().filter(|line| line.contains("000003.blk")).collect::<String>();
    assert!(!in_file.is_empty() && !in_file.contains("it costs nothing"), "{}", told.out);
    place.run(&["restore", "repo@3", "--to", "back", "--keep-going"]).exits(0);
    assert!(place.bytes("back") == disk);
    place
        .run(&["backup", "file:disk.img", "--to", "repo"])
        .exits(4)
        .says(&["@4 (changes to 2)", "is whole, but"]);
    place.run(&["prune", "repo", "--keep-last", "1"]).exits(4).says(&["forgotten: 1 2"]);
    place.run(&["list", "repo"]).exits(0);
}

#[test]
fn a_file_that_somebody_has_open_for_writing_is_told() {
    let place = Place::new();
    place.volume("disk.img", 20);
    let open = std::fs::OpenOptions::new().append(true).open(place.path("disk.img")).unwrap();
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0).says(&["open for writing elsewhere"]);
    drop(open);
    let quiet = place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    assert!(!quiet.err.contains("open for writing"), "{}", quiet.err);
}

#[test]
fn json_tells_what_was_done() {
    let place = Place::new();
    place.volume("disk.img", 10);
    let made = place.run(&["backup", "file:disk.img", "--to", "repo", "--json"]).exits(0);
    let lines: Vec<serde_json::Value> =
        made.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., phase, line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(phase["message_type"] == "phase" && phase["seconds"].is_number(), "{phase}");
    assert_eq!(line["message_type"], "summary");
    assert_eq!(
        (&line["generation"], &line["parent"], &line["blocks_changed"]),
        (&1.into(), &0.into(), &10.into())
    );
    let listed = place.run(&["list", "repo", "--json"]).exits(0);
    let line: serde_json::Value = serde_json::from_str(listed.out.lines().last().unwrap()).unwrap();
    assert_eq!((&line["bytes"], &line["note"]["source"]), (&163_840.into(), &"file:disk.img".into()));
}

#[test]
fn a_sample_is_a_part_of_the_data() {
    let place = Place::new();
    place.volume("disk.img", 2000);
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    let verify = |more: &[&str]| {
        let line = place.run(&[&["verify", "repo", "--json"], more].concat()).exits(0).out;
        serde_json::from_str::<serde_json::Value>(line.lines().last().unwrap()).unwrap()
    };
    let (whole, part) = (verify(&[]), verify(&["--sample", "25%"]));
    assert_eq!((&whole["blocks"], &whole["parts"]), (&2000.into(), &serde_json::Value::Null));
    assert_eq!(part["parts"], 4);
    assert!((1..=4).contains(&part["part"].as_u64().unwrap()), "{part}");
    assert!((1..2000).contains(&part["blocks"].as_u64().unwrap()), "{part}");
    assert_eq!(verify(&["--sample", "1/1"])["blocks"], 2000);
    place
        .run(&["verify", "repo", "--sample", "1/3"])
        .exits(0)
        .says(&["of 3 (another one each day)", "all sound"]);
    for bad in ["0", "5", "0%", "101%", "1/0", "x%"] {
        place.run(&["verify", "repo", "--sample", bad]).exits(2).says(&["share"]);
    }
}

#[test]
fn a_repository_with_several_names_is_no_log() {
    let place = Place::new();
    for name in ["disk.img", "other.img"] {
        place.volume(name, 1);
        place.run(&["backup", &format!("file:{name}"), "--to", "repo"]).exits(0);
    }
    let told = place.run(&["log", "repo"]).exits(2);
    told.says(&["repo holds backups of disk.img, other.img; say which: repo/disk.img"]);
}

#[test]
fn the_last_byte_is_kept_also_if_it_is_the_only_one_of_its_chunk() {
    let place = Place::new();
    for len in [1, 2, (4 << 20) + 1, (8 << 20) + 1] {
        std::fs::write(place.path("v"), vec![b'x'; len]).unwrap();
        let name = len.to_string();
        place.run(&["backup", "file:v", "--to", "repo", "--name", &name]).exits(0);
        place.run(&["restore", &format!("repo/{len}"), "--to", &name]).exits(0);
        assert!(std::fs::read(place.path(&name)).unwrap() == vec![b'x'; len], "{len} bytes");
    }
}

#[test]
fn a_name_may_be_called_like_the_folder_of_an_archived_log() {
    let place = Place::new();
    for name in ["disk.img", "log"] {
        place.volume(name, 2);
        place.run(&["backup", &format!("file:{name}"), "--to", "repo"]).exits(0);
    }
    let listed = place.run(&["list", "repo"]).exits(0).out;
    assert!(["disk.img", "log"].iter().all(|name| listed.contains(name)), "{listed}");
    place.run(&["verify", "repo"]).exits(0).says(&["disk.img: ", "log: "]);
    place.run(&["restore", "repo/log", "--to", "new"]).exits(0);
    // Nor like one of its files.
    place.run(&["backup", "file:disk.img", "--to", "repo", "--name", "newest.note"]).exits(0);
    place.run(&["verify", "repo"]).exits(0).says(&["newest.note: "]);
    place
        .run(&["log", "repo"])
        .exits(2)
        .says(&["repo holds backups of disk.img, log, newest.note; say which"]);
    assert_eq!(std::fs::read(place.path("new")).unwrap(), std::fs::read(place.path("log")).unwrap());
    // A first backup that was killed has not put anything there.
    std::fs::create_dir_all(place.path("other/log")).unwrap();
    std::fs::write(place.path("other/log/writer.lock"), "").unwrap();
    place.run(&["backup", "file:disk.img", "--to", "other"]).exits(0);
    place.run(&["verify", "other"]).exits(0).says(&["disk.img: "]);
}

#[test]
fn wrong_lines_say_what_to_type() {
    let place = Place::new();
    place.volume("disk.img", 1);
    std::fs::create_dir(place.path("folder")).unwrap();
    place
        .run(&["backup", "disk.img", "--to", "repo"])
        .exits(2)
        .says(&["it must begin with one of file: block:"]);
    place
        .run(&["backup", "file:disk.img", "--to", "repo", "--name", "../x"])
        .exits(2)
        .says(&["can't be a name"]);
    place.run(&["backup", "file:..", "--to", "repo"]).exits(2).says(&["--name"]);
    place.run(&["backup", "file:folder", "--to", "repo"]).exits(1).says(&["is a folder"]);
    place.run(&["backup", "block:disk.img", "--to", "repo"]).exits(1).says(&["no block device"]);
    place.run(&["backup", "file:/dev/null", "--to", "repo"]).exits(1).says(&["no regular file"]);
    place.run(&["backup", "file:none", "--to", "repo"]).exits(1);
    place.run(&["prune", "repo"]).exits(2).says(&["--keep-last"]);
    assert!(!place.path("repo").exists(), "a command that did nothing leaves nothing");
    place.run(&["restore", "repo", "--to", "x"]).exits(1).says(&["no such folder"]);
    place.run(&["list", "folder"]).exits(0).says(&["no backup"]);
    place.volume("other.img", 1);
    place
        .run(&["backup", "file:disk.img", "file:other.img", "file:none", "--to", "repo"])
        .exits(3)
        .says(&["file:none"]);
    place.run(&["restore", "repo", "--to", "x"]).exits(2).says(&["disk.img, other.img", "say which"]);
    for command in ["list", "verify"] {
        let told = place.run(&[command, "repo/disk.img@1"]).exits(2);
        told.says(&["here no generation can be chosen: write repo/disk.img;"]);
    }
    place
        .run(&["restore", "repo/disk.img@x", "--to", "x"])
        .exits(2)
        .says(&["'x' is no number of a generation"]);
    place
        .run(&["restore", "repo/disk.img", "--to", "folder"])
        .exits(2)
        .says(&["folder is a folder; a volume"]);
    let told = place.run(&["restore", "repo/disk.img@9", "--to", "x"]).exits(1);
    told.says(&["there is no generation 9 in repo/disk.img", "; there is only 1"]);
}

#[test]
fn a_backup_that_is_killed_leaves_the_old_ones_and_is_gone_on_with() {
    let place = Place::new();
    place.volume("disk.img", 500);
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    let before = place.bytes("disk.img");
    place.change("disk.img", 0, &[7; 4 * PAGE]);
    // The source is read slowly enough to catch the run in the middle.
    for (signal, code) in [("KILL", -1), ("TERM", 143), ("HUP", 129)] {
        if signal == "HUP" && ignores_hup() {
            continue;
        }
        // The file left by the previous round could be mistaken for this run's own.
        std::fs::remove_file(place.path("repo/disk.img/000002.blk.partial")).ok();
        let mut command = place.command(&["backup", "file:disk.img", "--to", "repo", "--rate", "32K"]);
        let mut running = Running::new(
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
        );
        crate::support::until("a partial file", || {
            running.must_run();
            place.path("repo/disk.img/000002.blk.partial").exists()
        });
        place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(11).says(&["in use by another run"]);
        running.signal(signal);
        assert_eq!(running.end().code, code);
        place.run(&["restore", "repo", "--to", "back"]).exits(0);
        assert!(place.bytes("back") == before);
        std::fs::remove_file(place.path("back")).unwrap();
    }
    place
        .run(&["backup", "file:disk.img", "--to", "repo"])
        .exits(0)
        .says(&["changes to 1", "interrupted run"]);
    place.run(&["verify", "repo"]).exits(0);
}

/// Loop devices need root, which CI and most containers do not give; there, the kernel's own refusal is not
/// tested.
#[test]
fn a_device_is_backed_up_and_refused_while_it_is_in_use() {
    if !rustix::process::getuid().is_root() {
        skipped("a_device_is_backed_up_and_refused_while_it_is_in_use", "loop devices need root");
        return;
    }
    let place = Place::new();
    place.volume("disk.img", 600);
    let device = Loop::new(&place.path("disk.img"));
    place.run(&["backup", &format!("block:{}", device.0), "--to", "repo", "--name", "dev"]).exits(0);
    let before = place.bytes("disk.img");
    place.run(&["restore", "repo", "--to", "disk.img", "--overwrite"]).exits(1).says(&["losetup -d"]);
    let holder = std::fs::OpenOptions::new().read(true).custom_flags_excl().open(&device.0).unwrap();
    place.run(&["restore", "repo", "--to", &device.0, "--delta"]).exits(1).says(&["in use"]);
    drop(holder);
    place.change("disk.img", 3_000_000, b"garbage");
    Command::new("blockdev").args(["--flushbufs", &device.0]).status().unwrap();
    place.run(&["restore", "repo", "--to", &device.0, "--delta"]).exits(0);
    assert!(place.bytes("disk.img") == before);
    place.volume("small.img", 599);
    let small = Loop::new(&place.path("small.img"));
    place.run(&["restore", "repo", "--to", &small.0, "--overwrite"]).exits(1).says(&["larger device"]);
}

trait Excl {
    fn custom_flags_excl(&mut self) -> &mut Self;
}

impl Excl for std::fs::OpenOptions {
    fn custom_flags_excl(&mut self) -> &mut Self {
        let excl = i32::try_from(rustix::fs::OFlags::EXCL.bits()).unwrap();
        std::os::unix::fs::OpenOptionsExt::custom_flags(self, excl)
    }
}

/// A loop device, until it is dropped.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Loop {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Loop(String::from_utf8(made.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").args(["-d", &self.0]).status().ok();
    }
}
