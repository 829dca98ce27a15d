//! Files of dumps in a store: whole or not there, also if their writer is killed at any request.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bucket::BucketDisk;
use disk::{Disk, Output, Share};

use crate::fake::Fake;

fn at(fake: &Fake) -> BucketDisk {
    BucketDisk::new(fake.bucket(), Path::new("s3://b/p q"))
}

fn path(name: &str) -> PathBuf {
    Path::new("s3://b/p q").join(name)
}

fn text(disk: &BucketDisk, name: &str) -> io::Result<String> {
    let mut text = String::new();
    disk.open(&path(name))?.read_to_string(&mut text)?;
    Ok(text)
}

fn write(disk: &BucketDisk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(disk, &path(name))?;
    output.write_all(bytes)?;
    output.finish()
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    let fake = Fake::start();
    let disk = at(&fake);
    for len in [0, 7, (16 << 20) + 1, 40 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let name = format!("d/{len}.tsv");
        let mut output = Output::create(&disk, &path(&name)).unwrap();
        for part in bytes.chunks(1 << 20) {
            output.write_all(part).unwrap();
        }
        assert_eq!(disk.stat(&path(&name)).unwrap_err().kind(), io::ErrorKind::NotFound);
        output.finish().unwrap();
        assert_eq!(disk.stat(&path(&name)).unwrap().len, len);
        let mut read = Vec::new();
        disk.open(&path(&name)).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == bytes, "{len}");

        let mut given_up = Output::create(&disk, &path("d/other.tsv")).unwrap();
        given_up.write_all(&bytes).unwrap();
        drop(given_up);
        assert_eq!(disk.open(&path("d/other.tsv")).err().unwrap().kind(), io::ErrorKind::NotFound);
        fake.set(|state| assert_eq!(state.unfinished(), 0));
    }
}

#[test]
fn a_file_that_grows_is_read_as_one() {
    let fake = Fake::start();
    let disk = at(&fake);
    write(&disk, "d/journal.jsonl", b"begin\n").unwrap();
    let mut sink = disk.append(&path("d/journal.jsonl"), 6).unwrap();
    let mut wanted = "begin\n".to_owned();
    for line in 0..5 {
        sink.write_all(format!("{line}\n").as_bytes()).unwrap();
        wanted.push_str(&format!("{line}\n"));
        // The last line was not synced.
        if line < 4 {
            sink.sync().unwrap();
            assert_eq!(text(&disk, "d/journal.jsonl").unwrap(), wanted);
        }
    }
    drop(sink);
    assert_eq!(text(&disk, "d/journal.jsonl").unwrap(), wanted);
    assert_eq!(disk.stat(&path("d/journal.jsonl")).unwrap().len, wanted.len() as u64);
    assert_eq!(disk.list(&path("d")).unwrap(), ["journal.jsonl"]);
    // Under its other name it has all, and the old one is free.
    disk.rename(&path("d/journal.jsonl"), &path("d/left.jsonl")).unwrap();
    assert_eq!(text(&disk, "d/left.jsonl").unwrap(), wanted);
    fake.set(|state| assert_eq!(state.names("p q/d/"), ["left.jsonl"]));
    // What an earlier file has grown by is not a part of a new one.
    fake.set(|state| drop(state.files.insert("p q/d/journal.jsonl.000001".into(), b"old\n".to_vec())));
    write(&disk, "d/journal.jsonl", b"new\n").unwrap();
    drop(disk.append(&path("d/journal.jsonl"), 4).unwrap());
    assert_eq!(text(&disk, "d/journal.jsonl").unwrap(), "new\n");
    disk.remove(&path("d/journal.jsonl")).unwrap();
    disk.remove(&path("d/left.jsonl")).unwrap();
    fake.set(|state| assert!(state.names("p q/d/").is_empty()));
}

#[test]
fn a_folder_is_there_as_long_as_something_is_in_it() {
    let fake = Fake::start();
    let disk = at(&fake);
    let names = |folder: &str| disk.list(&path(folder)).map_err(|error| error.kind());
    assert_eq!(names("d"), Err(io::ErrorKind::NotFound));
    disk.create_folder(&path("d")).unwrap();
    write(&disk, "d/a.b/1.tsv", b"1").unwrap();
    write(&disk, "d/a.b/2.tsv", b"2").unwrap();
    write(&disk, "d/c.d/1.tsv", b"3").unwrap();
    write(&disk, "d/manifest.json", b"4").unwrap();
    write(&disk, "dd/1.tsv", b"5").unwrap();
    assert_eq!(names("d").unwrap(), ["a.b", "c.d", "manifest.json"]);
    assert_eq!(names("d/a.b").unwrap(), ["1.tsv", "2.tsv"]);
    assert_eq!(names("").unwrap(), ["d", "dd"]);
    assert_eq!(disk.create_folder(&path("d")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(disk.all(&path("d/a")).unwrap(), ["d/a.b/1.tsv", "d/a.b/2.tsv"].map(path));
    disk.remove(&path("d/c.d/1.tsv")).unwrap();
    assert_eq!(disk.remove(&path("d/c.d/1.tsv")).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(names("d").unwrap(), ["a.b", "manifest.json"]);
    // Of an error the name is told once: whoever asks says it.
    fake.set(|state| state.retains = true);
    let refused = disk.remove(&path("d/a.b/1.tsv")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn one_run_writes_to_a_folder_and_whoever_only_reads_can_ask() {
    let fake = Fake::start();
    let (one, other) = (at(&fake), at(&fake));
    let lock = path("d/dump.lock");
    assert!(!one.is_locked(&lock).unwrap());
    let held = one.lock(&lock, Share::Exclusive).unwrap().expect("nobody has it");
    assert!(other.lock(&lock, Share::Exclusive).unwrap().is_none());
    assert!(other.holder(&lock).unwrap().starts_with("this test, which renewed its lock"));
    assert!(other.lock(&path("e/dump.lock"), Share::Exclusive).unwrap().is_some(), "another folder");
    fake.set(|state| state.is_read_only = true);
    assert!(other.is_locked(&lock).unwrap());
    fake.set(|state| state.is_read_only = false);
    // A run that was dead for long enough can't add anything once another has taken its place.
    let mut late = Output::create(&one, &path("d/late.tsv")).unwrap();
    late.write_all(&vec![1; 20 << 20]).unwrap();
    fake.set(|state| state.now += 1000);
    let taken = other.lock(&lock, Share::Exclusive).unwrap().expect("it has expired");
    assert!(late.finish().is_err());
    assert!(write(&one, "d/later.tsv", b"1").is_err());
    write(&other, "d/mine.tsv", b"1").unwrap();
    assert_eq!(other.list(&path("d")).unwrap(), ["mine.tsv"]);
    // It does not notice in time, but its manifest can't replace the other's.
    write(&other, "d/manifest.json", b"other").unwrap();
    let stale = at(&fake);
    assert_eq!(write(&stale, "d/manifest.json", b"one").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(text(&other, "d/manifest.json").unwrap(), "other");
    drop((held, taken));
    assert!(!one.is_locked(&lock).unwrap());
}

/// What a dump does.
fn run(disk: &BucketDisk) -> io::Result<()> {
    let held = disk.lock(&path("d/dump.lock"), Share::Exclusive)?.ok_or(io::ErrorKind::ResourceBusy)?;
    write(disk, "d/journal.jsonl", b"begin\n")?;
    let mut journal = disk.append(&path("d/journal.jsonl"), 6)?;
    for (number, len) in [(0, 10), (1, (16 << 20) + 10)] {
        write(disk, &format!("d/a.b/{number}.tsv"), &vec![b'x'; len])?;
        journal.write_all(b"step\n")?;
        journal.sync()?;
    }
    write(disk, "d/manifest.json", b"all of it")?;
    drop(journal);
    disk.remove(&path("d/journal.jsonl"))?;
    drop(held);
    Ok(())
}

#[test]
fn whatever_request_kills_a_run_another_one_completes_it() {
    let mut is_done = false;
    for left in 0.. {
        let fake = Fake::start();
        fake.set(|state| state.left = Some(left));
        let ended = run(&at(&fake)).is_ok();
        // A long file is whole, or not there.
        fake.set(|state| {
            state.left = None;
            let long = state.files.get("p q/d/a.b/1.tsv").map_or((16 << 20) + 10, Vec::len);
            assert_eq!(long, (16 << 20) + 10);
            assert!(state.files.get("p q/d/manifest.json").is_none_or(|text| text == b"all of it"));
            state.now += 1000;
        });
        let disk = at(&fake);
        assert!(!ended || disk.stat(&path("d/manifest.json")).is_ok());
        if disk.stat(&path("d/journal.jsonl")).is_ok() {
            let journal = text(&disk, "d/journal.jsonl").unwrap();
            assert!("begin\nstep\nstep\n".starts_with(&journal) && !journal.is_empty(), "{left}: {journal}");
        }
        if disk.stat(&path("d/manifest.json")).is_ok() {
            is_done = true;
            break;
        }
        run(&disk).unwrap();
        fake.set(|state| {
            assert_eq!(state.names("p q/d/"), ["a.b/0.tsv", "a.b/1.tsv", "manifest.json"], "{left}");
            assert_eq!(state.unfinished(), 0);
        });
    }
    assert!(is_done);
}
