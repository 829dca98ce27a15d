//! Imports that write the table's file on disks that are too small.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use disk::{RealDisk, Tree as _};
use sandbox::{Sandbox, Settings};

use crate::physical::files;
use crate::support::{Ended, Place, mariadbs, of_today, on_mariadb, on_products, places, skipped};
use crate::tmpfs::Mounted;

/// What is left free for the server, in MiB.
const LEFT: u32 = 256;
/// More than a server needs, in MiB.
const LARGE: u32 = 2000;

/// Rows of about 1000 bytes, with so many MiB in all.
fn rows(megabytes: u32, ids: impl Iterator<Item = u32>) -> String {
    let mut text = String::from("id,word,note\n");
    for id in ids.take(megabytes as usize * 1024) {
        writeln!(text, "{id},w{id},{}", "x".repeat(1000)).unwrap();
    }
    text
}

/// The size in MiB with which so many are free.
fn size_for(disk: &Path, megabytes: u32) -> u32 {
    LARGE + megabytes - u32::try_from(RealDisk.free(disk).unwrap() >> 20).unwrap()
}

/// Runs a test with a server of each series of MariaDB that has so many MiB left for data.
fn on_a_small_disk(name: &str, megabytes: u32, test: impl Fn(&Place, &Sandbox, &Mounted<'_>)) {
    if !rustix::process::geteuid().is_root() {
        return skipped(name, "only root can mount a small file system");
    }
    let here: Vec<_> = of_today(mariadbs());
    on_products(&here, |product| {
        let top = tempfile::tempdir().unwrap();
        let disk = Mounted::new(top.path(), LARGE);
        let options = ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"].map(str::to_owned);
        let folder = Some(top.path().join("server"));
        let settings = Settings { options: options.into(), folder, ..Settings::default() };
        let server =
            Sandbox::start(&sandbox::find(&places(), product).unwrap(), &places(), &settings).unwrap();
        let place = Place::new(&server);
        place.sql(&[
            "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, word VARCHAR(20), note TEXT, KEY word (word, id))",
            "INSERT INTO t VALUES (7, 'old', NULL)",
        ]);
        disk.resize(size_for(top.path(), megabytes));
        test(&place, &server, &disk);
        drop(server);
    });
}

/// A file that is as if it had many more rows. Only its first ones are read.
fn grown(place: &Place, text: String) -> String {
    let name = place.file("rows.csv", text);
    std::fs::OpenOptions::new().write(true).open(place.path(&name)).unwrap().set_len(8 << 30).unwrap();
    name
}

#[test]
fn a_file_that_does_not_fit_is_refused_before_it_is_written() {
    on_a_small_disk("physical_disk_space::a_file_that_does_not_fit", LEFT + 1000, |place, server, _| {
        let folder = server.data().join(&place.schema);
        let file = grown(place, rows(24, 1..));
        for way in ["--physical", "--physical=auto"] {
            let told = place.import(&[&file, "--into", "t", "--replace", way]).exits(1);
            told.says(&[" GB more are needed", " are free", " for the table's file; make room"]);
            place.untouched("t", 1);
            assert_eq!(files(&folder), []);
        }
    });
}

#[test]
fn a_disk_too_small_for_sorting_is_reported_before_it_is_full() {
    if !rustix::process::geteuid().is_root() {
        return skipped(
            "physical_disk_space::a_disk_too_small_for_sorting",
            "only root can mount a small file system",
        );
    }
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, word VARCHAR(20), note TEXT)"]);
        let at = place.path("sort");
        std::fs::create_dir(&at).unwrap();
        let _disk = Mounted::new(&at, LEFT + 10);
        let file = grown(place, rows(24, (1..=1 << 20).rev()));
        let mut command = place.command(&[&file, "--into", "t", "--physical"]);
        let told = Ended::of(&command.env("TMPDIR", &at).stdin(Stdio::null()).output().unwrap()).exits(1);
        told.says(&[
            "can't be written: ",
            "sort: about ",
            " GB more are needed",
            "TMPDIR",
            "--physical=auto",
        ]);
        place.untouched("t", 0);
    });
}

#[test]
fn a_disk_that_fills_up_ends_the_import_and_leaves_the_table() {
    on_a_small_disk("physical_disk_space::a_disk_that_fills_up", LEFT + 40, |place, server, disk| {
        let name = place.file("rows.csv", rows(120, 1..));
        assert!(Command::new("gzip").arg("-1").arg(place.path(&name)).status().unwrap().success());
        let folder = server.data().join(&place.schema);
        let import = ["rows.csv.gz", "--into", "t", "--replace", "--physical"];
        let told = place.import(&import).exits(1);
        told.says(&["the disk is nearly full, and the server needs what is left"]);
        place.untouched("t", 1);
        assert_eq!(files(&folder), []);
        disk.resize(LARGE);
        place.import(&import).exits(0).says(&["file was written directly"]);
        assert_eq!(place.count("t"), 120 * 1024);
    });
}
