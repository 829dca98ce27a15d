//! `remora pack` and `remora unpack`

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{Ended, fed, remora};

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap()
}

/// Rows of a table: enough for several pieces of the quick codecs.
fn rows() -> String {
    (0..60_000_u32)
        .map(|n| {
            format!(
                "{n}\t{}.{:02}\tuser{}\t2026-11-22\n",
                n.wrapping_mul(2_654_435_761) % 1000,
                n % 100,
                n / 50 % 77
            )
        })
        .collect()
}

fn run(folder: &TempDir, arguments: &[&str]) -> Ended {
    Ended::of(&remora(folder.path()).args(arguments).output().unwrap())
}

fn names(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn write(folder: &TempDir, name: &str, text: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn read(folder: &TempDir, name: &str) -> Vec<u8> {
    std::fs::read(folder.path().join(name)).unwrap()
}

fn has(tool: &str) -> bool {
    let mut asked = Command::new(tool);
    asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok()
}

/// Lines of JSON among packed bytes would be damage.
#[test]
fn data_and_lines_of_json_do_not_share_standard_output() {
    let folder = folder();
    write(&folder, "a.txt", b"a\n");
    run(&folder, &["pack", "a.txt", "--keep"]).exits(0);
    for line in [
        "pack a.txt --stdout",
        "pack a.txt -o -",
        "pack -",
        "unpack a.txt.zst --stdout",
        "unpack a.txt.zst --column 1",
        "url pack --model none",
        "url unpack --model none",
    ] {
        let line: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let ended = run(&folder, &line).exits(2);
        assert!(ended.out.contains("standard output is for the data"), "{line:?}: {}", ended.out);
    }
    run(&folder, &["unpack", "a.txt.zst", "--test", "--json"]).exits(0);
}

const METHODS: [(&str, &str, &str); 9] = [
    ("zstd", "zst", "zstd"),
    ("zstd:1", "zst", "zstd"),
    ("zstd:10", "zst", "zstd"),
    ("gzip:1", "gz", "gzip"),
    ("xz:0", "xz", "xz"),
    ("bzip2:1", "bz2", "bzip2"),
    ("lz4", "lz4", "lz4"),
    ("column", "rcol", ""),
    ("column:12", "rcol", ""),
];

#[test]
fn files_are_packed_and_unpacked_in_every_codec() {
    let folder = folder();
    let text = rows();
    for (method, end, tool) in METHODS {
        let path = write(&folder, "nodes.tsv", text.as_bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let before = std::fs::metadata(&path).unwrap();
        let ended = run(&folder, &["pack", "--to", method, "nodes.tsv"]).exits(0);
        let name = format!("nodes.tsv.{end}");
        assert!(ended.err.contains("read back and equal; the old file is removed"), "{}", ended.err);
        assert_eq!(names(&folder), [name.as_str()], "{method}");
        let packed = std::fs::metadata(folder.path().join(&name)).unwrap();
        assert!(packed.len() * 2 < before.len(), "{method}: {}", packed.len());
        assert_eq!((packed.mode(), packed.mtime_nsec()), (before.mode(), before.mtime_nsec()), "{method}");
        if !tool.is_empty() && has(tool) {
            let theirs = Command::new(tool).args(["-dc", &name]).current_dir(folder.path()).output().unwrap();
            assert!(
                theirs.status.success() && theirs.stdout == text.as_bytes(),
                "{method}: {tool} reads other text"
            );
        }
        run(&folder, &["unpack", "--test", &name]).exits(0);
        run(&folder, &["unpack", "-T1", &name]).exits(0);
        assert_eq!(names(&folder), ["nodes.tsv"], "{method}");
        assert!(read(&folder, "nodes.tsv") == text.as_bytes(), "{method}");
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!((after.mode(), after.mtime_nsec()), (before.mode(), before.mtime_nsec()), "{method}");
    }
}

#[test]
fn a_file_is_not_replaced_by_itself_unasked() {
    let folder = folder();
    write(&folder, "s.tsv", b"one\n");
    for name in ["s.tsv", "./s.tsv"] {
        let ended = run(&folder, &["pack", "s.tsv", "-o", name]).exits(1);
        ended.says(&["s.tsv", "--force"]);
        assert_eq!((names(&folder), read(&folder, "s.tsv")), (vec!["s.tsv".to_owned()], b"one\n".to_vec()));
    }
    run(&folder, &["pack", "s.tsv", "-o", "s.tsv", "--force"]).exits(0);
    run(&folder, &["unpack", "s.tsv", "-o", "s.tsv", "-f"]).exits(0);
    assert_eq!((names(&folder), read(&folder, "s.tsv")), (vec!["s.tsv".to_owned()], b"one\n".to_vec()));
}

#[test]
fn zeros_become_holes_and_padding_is_no_data() {
    let folder = folder();
    let mut text = vec![0; 8 << 20];
    text[5 << 20] = b'x';
    text.extend_from_slice(b"end");
    write(&folder, "disk", &text);
    run(&folder, &["pack", "--to", "gzip", "disk"]).exits(0);
    let packed = [read(&folder, "disk.gz"), vec![0; 3000]].concat();
    write(&folder, "disk.gz", &packed);
    run(&folder, &["unpack", "--test", "disk.gz"]).exits(0);
    run(&folder, &["unpack", "disk.gz"]).exits(0);
    assert!(read(&folder, "disk") == text);
    let stat = std::fs::metadata(folder.path().join("disk")).unwrap();
    assert!(stat.blocks() * 512 < 1 << 20, "{} blocks", stat.blocks());
    // Only zeros, and nothing.
    for (name, len) in [("zeros", 1 << 20), ("nothing", 0)] {
        write(&folder, name, &vec![0; len]);
        run(&folder, &["pack", name]).exits(0);
        run(&folder, &["unpack", &format!("{name}.zst")]).exits(0);
        assert_eq!(read(&folder, name), vec![0; len]);
    }
}

#[test]
fn a_packed_file_is_packed_again_in_one_step() {
    let folder = folder();
    let text = rows();
    write(&folder, "hot.tsv", text.as_bytes());
    run(&folder, &["pack", "--to", "lz4", "hot.tsv"]).exits(0);
    run(&folder, &["pack", "--to", "column", "hot.tsv.lz4"]).exits(0);
    assert_eq!(names(&folder), ["hot.tsv.rcol"]);
    let ended = run(&folder, &["pack", "--to", "zstd:9", "--keep", "hot.tsv.rcol", "--json"]).exits(0);
    let message: serde_json::Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&message["from_codec"], &message["to_codec"]),
        (&"column".into(), &"zstd".into()),
        "{message}"
    );
    assert_eq!(
        (&message["plain_bytes"], &message["removed"]),
        (&text.len().into(), &false.into()),
        "{message}"
    );
    assert_eq!(names(&folder), ["hot.tsv.rcol", "hot.tsv.zst"]);
    // The same codec at another level replaces the file.
    let before = read(&folder, "hot.tsv.zst");
    run(&folder, &["pack", "--to", "zstd:1", "hot.tsv.zst"]).exits(0);
    assert_ne!(read(&folder, "hot.tsv.zst"), before);
    let ended = run(&folder, &["unpack", "-c", "hot.tsv.zst"]).exits(0);
    assert!(ended.out == text);
    let ended = run(&folder, &["unpack", "-o", "-", "hot.tsv.zst"]).exits(0);
    assert!(ended.out == text);
    let packed = remora(folder.path()).args(["pack", "-o", "-", "hot.tsv.zst"]).output().unwrap();
    let back = fed(remora(folder.path()).args(["unpack", "-"]), &packed.stdout);
    assert!(back.stdout == text.as_bytes());
    assert_eq!(names(&folder), ["hot.tsv.rcol", "hot.tsv.zst"], "-c and -o - leave it where it is");
}

#[test]
fn pack_and_unpack_work_in_pipes() {
    let folder = folder();
    let text = rows();
    let pipe = |arguments: &[&str], input: &[u8]| fed(remora(folder.path()).args(arguments), input);
    for method in ["gzip:1", "column", "zstd"] {
        let packed = pipe(&["pack", "--to", method, "-"], text.as_bytes());
        assert!(packed.status.success(), "{packed:?}");
        let back = pipe(&["unpack", "-"], &packed.stdout);
        assert!(back.status.success() && back.stdout == text.as_bytes(), "{method}");
        let cut = pipe(&["unpack", "-"], &packed.stdout[..packed.stdout.len() - 9]);
        assert_eq!(cut.status.code(), Some(4), "{method}: {cut:?}");
    }
}

#[test]
fn damaged_files_are_kept() {
    let folder = folder();
    write(&folder, "nodes.tsv", rows().as_bytes());
    for method in ["gzip", "zstd", "xz:0", "bzip2", "lz4", "column"] {
        run(&folder, &["pack", "--keep", "--to", method, "nodes.tsv"]).exits(0);
    }
    std::fs::remove_file(folder.path().join("nodes.tsv")).unwrap();
    for name in names(&folder) {
        let whole = read(&folder, &name);
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 4;
        let cut = whole[..whole.len() - 20].to_vec();
        let end = name.strip_prefix("nodes.tsv").unwrap();
        for (what, bytes) in [("cut", cut), ("flipped", flipped)] {
            let damaged = format!("{what}{end}");
            write(&folder, &damaged, &bytes);
            let before = names(&folder);
            for arguments in [
                &["unpack", damaged.as_str()][..],
                &["unpack", "--test", &damaged],
                &["pack", "-fo", "new", &damaged],
            ] {
                let ended = run(&folder, arguments).exits(4);
                assert!(ended.err.contains(&damaged), "{}", ended.err);
                assert_eq!(names(&folder), before, "{arguments:?}");
            }
        }
    }
    // Several files: a bad one does not stop the others, and the exit code shows it.
    let ended = run(&folder, &["unpack", "cut.gz", "nodes.tsv.gz", "missing.gz"]).exits(4);
    assert!(
        ended.err.contains("missing.gz") && ended.err.contains("cut.gz: the gzip stream ends"),
        "{}",
        ended.err
    );
    assert!(folder.path().join("nodes.tsv").exists() && !folder.path().join("nodes.tsv.gz").exists());
}

#[test]
fn surprising_commands_are_refused() {
    let folder = folder();
    write(&folder, "a.tsv", b"1\t2\n");
    write(&folder, "a.tsv.zst", b"somebody else's");
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let before = names(&folder);
        let ended = run(&folder, arguments).exits(code);
        assert!(ended.err.contains(words), "{arguments:?}: {}", ended.err);
        assert_eq!(names(&folder), before, "{arguments:?}");
    };
    refused(&["pack", "a.tsv"], 1, "a.tsv.zst exists already; add --force");
    assert_eq!(read(&folder, "a.tsv.zst"), b"somebody else's");
    for arguments in [&["unpack", "a.tsv"][..], &["unpack", "-o", "b", "a.tsv"], &["unpack", "-c", "a.tsv"]] {
        refused(arguments, 4, "a.tsv: this is not a compressed file");
        assert_eq!(run(&folder, arguments).out, "");
    }
    refused(&["pack", "-o", "b", "-"], 2, "- goes to standard output");
    refused(&["pack", "--to", "zip", "a.tsv"], 2, "the codecs are zstd, gzip");
    refused(&["pack", "--to", "gzip:19", "a.tsv"], 2, "gzip has the levels 1 to 9");
    refused(&["pack", "--to", "gzip", "--long", "a.tsv"], 2, "--long is for zstd");
    refused(&["pack", "-o", "b", "a.tsv", "a.tsv.zst"], 2, "one FILE");
    refused(&["pack", "missing.tsv"], 1, "missing.tsv");
    refused(&["pack", "."], 1, "is a folder");
    refused(&["pack", "--quiet", "bench", "a.tsv"], 2, "come after bench");
    write(&folder, "help", b"help\n");
    run(&folder, &["pack", "-o", "x", "help"]).exits(0);
    refused(&["pack", "help"], 1, "help: No such file");
    std::fs::remove_file(folder.path().join("x")).unwrap();
    run(&folder, &["pack", "--force", "a.tsv"]).exits(0);
    assert_eq!(names(&folder), ["a.tsv.zst"]);
    std::fs::rename(folder.path().join("a.tsv.zst"), folder.path().join("odd")).unwrap();
    refused(&["unpack", "odd"], 2, "its name does not end in .zst");
    refused(&["unpack", "odd", "missing"], 2, "missing");
    refused(&["pack", "--keep", "-o", "odd", "odd"], 1, "would be replaced");
    write(&folder, "new.partial", b"not a leftover\n");
    refused(&["pack", "-o", "new", "new.partial"], 1, "has the temporary name of new");
    symlink("odd", folder.path().join("link.zst")).unwrap();
    refused(&["unpack", "link.zst"], 1, "has other names");
    refused(&["pack", "--keep", "--force", "-o", "odd", "link.zst"], 1, "would be replaced");
    run(&folder, &["unpack", "--keep", "link.zst"]).exits(0);
    assert_eq!(read(&folder, "link"), b"1\t2\n");
    std::fs::hard_link(folder.path().join("link"), folder.path().join("second")).unwrap();
    refused(&["pack", "second"], 1, "has other names");
}

#[test]
fn a_new_file_in_the_place_of_the_old_one_is_not_removed() {
    let folder = folder();
    let text = rows();
    write(&folder, "a.tsv", text.as_bytes());
    run(&folder, &["pack", "a.tsv"]).exits(0);
    symlink(".", folder.path().join("here")).unwrap();
    for name in ["./a.tsv.zst", "here/a.tsv.zst"] {
        let ended = run(&folder, &["pack", "--force", "--to", "zstd:1", "-o", name, "a.tsv.zst"]).exits(0);
        assert!(ended.err.contains("it replaces the old file"), "{}", ended.err);
        assert_eq!(names(&folder), ["a.tsv.zst", "here"], "{name}");
        assert!(run(&folder, &["unpack", "-c", name]).exits(0).out == text, "{name}");
    }
}

#[test]
fn a_bench_measures_every_codec_and_draws_two_plots() {
    let folder = folder();
    let text = rows();
    write(&folder, "a.tsv", text.as_bytes());
    // Tools by these names are on the path, in front of real ones: one brings other bytes back.
    for (name, unpacks) in [("pigz", "cat"), ("lzop", "tr 1 2")] {
        let script = format!("#!/bin/sh\ncase \"$*\" in *-d*) {unpacks} ;; *--help*) ;; *) cat ;; esac\n");
        let tool = write(&folder, name, script.as_bytes());
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let bench = |arguments: &[&str]| {
        let mut command = remora(folder.path());
        let only = "zstd:1,column:3,pigz -6,lzop -3";
        command.env("PATH", &path).args(["pack", "bench", "--sample", "0", "--only", only]);
        Ended::of(&command.args(arguments).arg("a.tsv").output().unwrap())
    };
    let ended = bench(&["-T", "2", "--json", "--price", "1000000", "--html", "a.html"]).exits(3);
    assert!(ended.out.contains("lzop -3: other bytes came back"), "{}", ended.out);
    let rows: Vec<serde_json::Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row["message_type"] == "measured").collect();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["zstd:1", "column:3", "pigz -6"]);
    let packed = |codec: &str| {
        run(&folder, &["pack", "-k", "-f", "--to", codec, "-o", "b", "a.tsv"]).exits(0);
        read(&folder, "b").len() as u64
    };
    let sizes: Vec<_> = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [packed("zstd:1"), packed("column:3"), text.len() as u64]);
    for (row, bytes) in rows.iter().zip(&sizes) {
        // A million for a terabyte is a millionth for a byte.
        let cost = row["price_a_month"].as_f64().unwrap() * 1e6;
        assert!((cost - f64::from(u32::try_from(*bytes).unwrap())).abs() < 1e-3, "{row}");
        assert!(row["one_core"][1]["cpu_s"].as_f64().unwrap() > 0.0 && row["all_cores"].is_array(), "{row}");
    }
    // Nothing is smaller than the smallest.
    let smallest = sizes.iter().min().unwrap();
    assert!(
        rows.iter().all(|row| row["bytes"] != *smallest || row["frontier_compress"] == true),
        "{}",
        ended.out
    );
    let page = String::from_utf8(read(&folder, "a.html")).unwrap();
    assert!(page.matches("<svg").count() == 2 && page.matches("<circle").count() == 6, "{page}");
    assert!(page.contains("2 cores") && !page.contains("lzop"), "{page}");
    // On one core there is no second column.
    let ended = bench(&["-T", "1"]).exits(3);
    assert!(ended.out.contains("zstd:1") && !ended.out.contains("cores"), "{}", ended.out);
}

#[test]
fn a_column_is_read_by_its_name_or_number() {
    let folder = folder();
    let text = "id,\"who\",note\n".to_owned()
        + &(0..5000).map(|n| format!("{n},u{},\"a, {n}\"\n", n % 7)).collect::<String>();
    write(&folder, "t.csv", text.as_bytes());
    run(&folder, &["pack", "--to", "column", "t.csv"]).exits(0);
    let who = "\"who\"\n".to_owned() + &(0..5000).map(|n| format!("u{}\n", n % 7)).collect::<String>();
    for name in ["who", "2"] {
        let ended = run(&folder, &["unpack", "--column", name, "t.csv.rcol"]).exits(0);
        assert!(ended.out == who && ended.err.is_empty(), "{name}: {}", ended.err);
    }
    write(&folder, "odd.csv", (text.clone() + "1,2\n").as_bytes());
    run(&folder, &["pack", "--to", "column", "odd.csv"]).exits(0);
    let ended = run(&folder, &["unpack", "--column", "note", "odd.csv.rcol", "t.csv.rcol"]).exits(3);
    assert!(ended.err.contains("odd.csv.rcol: left out 1 record with more or fewer fields"), "{}", ended.err);
    assert_eq!(ended.out.lines().filter(|line| line.starts_with("\"a, ")).count(), 10_000);
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let ended = run(&folder, &[&["unpack", "--column"], arguments].concat()).exits(code);
        assert!(ended.err.contains(words) && ended.out.is_empty(), "{arguments:?}: {}", ended.err);
    };
    refused(&["nobody", "t.csv.rcol"], 2, "from 1 to 3, or a name of the first line: id, who, note");
    refused(&["4", "t.csv.rcol"], 2, "there is no such column");
    refused(&["who", "--test", "t.csv.rcol"], 2, "--test");
    write(&folder, "whole.csv", text.as_bytes());
    run(&folder, &["pack", "--to", "gzip", "whole.csv"]).exits(0);
    refused(&["who", "whole.csv.gz"], 2, "not in column mode but gzip");
    let whole = read(&folder, "t.csv.rcol");
    write(&folder, "cut.rcol", &whole[..whole.len() - 3]);
    run(&folder, &["unpack", "--column", "who", "cut.rcol"]).exits(4);
}

#[test]
fn names_need_not_be_text() {
    let folder = folder();
    let name = |end: &str| {
        let mut name = std::ffi::OsString::from_vec(b"caf\xe9".to_vec());
        name.push(end);
        folder.path().join(name)
    };
    std::fs::write(name(".tsv"), rows()).unwrap();
    for (command, file, made) in [("pack", ".tsv", ".tsv.zst"), ("unpack", ".tsv.zst", ".tsv")] {
        let output = remora(folder.path()).arg(command).arg(name(file)).output().unwrap();
        Ended::of(&output).exits(0);
        assert!(name(made).exists() && !name(file).exists(), "{command}");
    }
}

#[test]
fn a_misleading_file_name_is_reported() {
    let folder = folder();
    write(&folder, "plain.gz", b"this is no gzip\n");
    let ended = run(&folder, &["pack", "plain.gz"]).exits(0);
    assert!(ended.err.contains("its name says that it is compressed"), "{}", ended.err);
    assert_eq!(names(&folder), ["plain.gz.zst"]);
    write(&folder, "old.tgz", b"");
    std::fs::remove_file(folder.path().join("old.tgz")).unwrap();
    write(&folder, "old.tar", b"not really a tar\n");
    run(&folder, &["pack", "--to", "gzip", "-o", "old.tgz", "old.tar"]).exits(0);
    run(&folder, &["unpack", "old.tgz"]).exits(0);
    assert_eq!(read(&folder, "old.tar"), b"not really a tar\n");
}
