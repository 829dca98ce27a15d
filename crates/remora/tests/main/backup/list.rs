//! `list`: how old a backup is, and numbers for Prometheus.

use std::io::Write;
use std::path::Path;

use super::Place;

#[test]
fn an_old_backup_is_told() {
    let place = Place::new();
    std::fs::create_dir(place.path("repo")).unwrap();
    place.run(&["list", "repo", "--older-than", "26h"]).exits(3);
    place.run(&["list", "repo"]).exits(0);
    place.volume("disk.img", 1);
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    place.run(&["list", "repo", "--older-than", "26h"]).exits(0);
    age(&place.path("repo/disk.img/000001.blk"), 27 * 3600);
    place.run(&["list", "repo", "--older-than", "26h"]).exits(3).says(&["too old"]);
    place.run(&["list", "repo", "--older-than", "28h"]).exits(0);
    age(&place.path("repo/disk.img/000001.blk"), -50 * 3600);
    place.run(&["list", "repo", "--older-than", "26h"]).exits(3).says(&["dated in the future"]);
    place.run(&["backup", "file:disk.img", "--to", "repo", "--full"]).exits(0);
    place.run(&["list", "repo", "--older-than", "26h"]).exits(0);
    // A name whose files are gone is no name that never was.
    for file in ["000001.blk", "000002.blk"] {
        std::fs::remove_file(place.path("repo/disk.img").join(file)).unwrap();
    }
    place.volume("other.img", 1);
    place.run(&["backup", "file:other.img", "--to", "repo"]).exits(0);
    let gone = "generation 2 existed, but its file is missing";
    place.run(&["list", "repo"]).exits(4).says(&[gone]);
    place.run(&["list", "repo", "--older-than", "26h"]).exits(4).says(&[gone, "there is no backup"]);
    place.run(&["list", "repo/disk.img"]).exits(4).says(&[gone]);
    let told = place.run(&["verify", "repo"]).exits(4);
    assert!(told.out.contains("missing; the generation in it, if there was one, is lost"), "{}", told.out);
    told.says(&["every generation that 'remora list' shows can still be restored whole; make a new backup"]);
    for missing in ["repo/other", "nowhere"] {
        place.run(&["list", missing, "--older-than", "26h"]).exits(3).says(&["no backup"]);
        place.run(&["list", missing]).exits(1);
    }
}

#[test]
fn a_generation_without_the_one_that_it_builds_on_is_damaged() {
    let place = Place::new();
    place.volume("disk.img", 20);
    for part in [b"one", b"two"] {
        place.change("disk.img", 0, part);
        place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    }
    std::fs::remove_file(place.path("repo/disk.img/000001.blk")).unwrap();
    let listed = place.run(&["list", "repo", "--textfile", "repo.prom"]).exits(4);
    assert!(listed.out.starts_with("disk.img@2 ") && listed.out.contains("  DAMAGED  "), "{}", listed.out);
    let metrics = std::fs::read_to_string(place.path("repo.prom")).unwrap();
    assert!(
        metrics.contains("remora_backup_damaged{repository=\"repo\",name=\"disk.img\"} 1\n"),
        "{metrics}"
    );
}

#[test]
fn what_is_there_is_written_for_prometheus() {
    let place = Place::new();
    place.volume("disk.img", 10);
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    place.run(&["backup", "file:disk.img", "--to", "repo", "--full"]).exits(0);
    let list = ["list", "repo", "--textfile", "remora.prom", "--older-than", "26h"];
    place.run(&list).exits(0);
    let text = std::fs::read_to_string(place.path("remora.prom")).unwrap();
    let files: u64 = ["1", "2"]
        .map(|n| place.path(&format!("repo/disk.img/00000{n}.blk")).metadata().unwrap().len())
        .iter()
        .sum();
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
        let (labels, value) = line.rsplit_once(' ').unwrap();
        assert_eq!(labels, format!("{name}{{repository=\"repo\",name=\"disk.img\"}}"));
        value.parse::<u64>().unwrap()
    };
    assert_eq!(of("remora_backup_generations"), 2);
    assert_eq!(of("remora_backup_stored_bytes"), files);
    assert_eq!((of("remora_backup_broken_files"), of("remora_backup_unsound")), (0, 0));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now - of("remora_backup_newest_timestamp_seconds") < 3600);
    assert!(!text.contains("proven_timestamp"), "{text}");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&place.path("remora.prom").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o644);
    // Blocks of a generation that is forgotten may be needed.
    std::fs::OpenOptions::new()
        .append(true)
        .open(place.path("disk.img"))
        .unwrap()
        .write_all(&[7; 9])
        .unwrap();
    place.run(&["backup", "file:disk.img", "--to", "repo"]).exits(0);
    place.run(&["prune", "repo", "--keep-last", "1"]).exits(0);
    place.run(&list).exits(0);
    let text = std::fs::read_to_string(place.path("remora.prom")).unwrap();
    let blocks = std::fs::read_dir(place.path("repo/disk.img")).unwrap().map(Result::unwrap);
    let blocks = blocks.filter(|entry| entry.path().extension().is_some_and(|end| end == "blk"));
    let all: u64 = blocks.map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(
        text.contains(&format!("stored_bytes{{repository=\"repo\",name=\"disk.img\"}} {all}\n")),
        "{text}, {all}"
    );
    // What is too old is told in both ways, and what is damaged is counted.
    std::fs::write(place.path("repo/disk.img/000009.blk"), "nothing").unwrap();
    place.run(&["list", "repo", "--textfile", "remora.prom"]).exits(4);
    let text = std::fs::read_to_string(place.path("remora.prom")).unwrap();
    assert!(text.contains("broken_files{repository=\"repo\",name=\"disk.img\"} 1\n"), "{text}");
    place.run(&["list", "repo", "--textfile", "remora.txt"]).exits(2).says(&[".prom"]);
}

/// Makes a backup without groups of other files look older: changes its time, and the root that covers the
/// time.
fn age(file: &Path, seconds: i64) {
    let mut bytes = std::fs::read(file).unwrap();
    let taken = i64::from_le_bytes(bytes[72..80].try_into().unwrap()) - seconds;
    bytes[72..80].copy_from_slice(&taken.to_le_bytes());
    let note = u32::from_le_bytes(bytes[88..92].try_into().unwrap()) as usize;
    let trailer = bytes.len() - 104;
    let index =
        usize::try_from(u64::from_le_bytes(bytes[trailer + 8..trailer + 16].try_into().unwrap())).unwrap();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..92 + note]);
    hasher.update(&bytes[index..trailer + 72]);
    let root = *hasher.finalize().as_bytes();
    bytes[trailer + 72..].copy_from_slice(&root);
    std::fs::write(file, bytes).unwrap();
}
