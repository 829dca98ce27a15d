//! `remora demo`: each part by itself, and nothing left of it however it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{Family, Product};

use crate::queue::library;
use crate::support::{
    Ended, Running, copy_program, mysql97, of_today, part_of_today, places, products, remora, tell, until,
};

/// The name of a sandbox that nobody else has, and its folder.
fn place(test: &str) -> (String, PathBuf) {
    let name = format!("demo-{test}-{}", std::process::id());
    let folder = places().cache.join("sandboxes").join(&name);
    (name, folder)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// Runs parts of the demo on a server, in a folder for temporary files that must be empty afterwards.
fn shown(mut program: Command, product: Product, parts: &[&str]) -> Ended {
    tell(format!("{parts:?} on {product}"));
    let (name, folder) = place(&format!("{}-{}", product.id(), parts.join("-")));
    let temporary = tempfile::tempdir().unwrap();
    program.args(["demo", "--rows", "2000", "--name", &name, "--server", product.id()]);
    program.args(parts.iter().flat_map(|part| ["--only", part])).env("TMPDIR", temporary.path());
    let ended = Ended::of(&program.stdin(Stdio::null()).output().unwrap());
    assert!(!folder.exists() && is_empty(temporary.path()), "{}{}", ended.out, ended.err);
    ended
}

fn holds(ended: &Ended, words: &[&str]) {
    for word in words {
        assert!(ended.out.contains(word), "no {word:?} in: {}{}", ended.out, ended.err);
    }
}

#[test]
fn each_part_shows_itself_on_mariadb() {
    let mariadbs = products().into_iter().filter(|product| product.family() == Family::MariaDb).collect();
    for product in of_today(mariadbs) {
        let here = || remora(Path::new("/"));
        let ended = shown(here(), product, &["import"]).exits(0);
        holds(&ended, &["$ remora import hits.csv.zst --into web.hits --create", "\n  hits  missing\n"]);
        ended.says(&["2000 rows into web.hits", "written directly"]);
        let ended = shown(here(), product, &["backup"]).exits(0);
        // The byte in the middle of the file is in blocks, or in a record between them.
        holds(&ended, &["$ remora verify damaged\n", "; costs generation", "$ remora verify repo\n"]);
        ended.says(&[" damaged place", "all sound"]);
        let ended = shown(here(), product, &["undo"]).exits(0);
        holds(&ended, &["> DELETE FROM web.hits WHERE status = 404;", "rows_again\n  2000\n"]);
        // The change after the backup is replayed, the one that was wrong is not.
        ended.says(&[
            "of log: 1 transaction",
            "DELETE FROM web.hits WHERE status = 404",
            "2000 rows of 1 table",
        ]);
    }
}

#[test]
fn mysql_shows_what_it_can() {
    let Some(found) = mysql97("mysql_shows_what_it_can") else { return };
    let here = || remora(Path::new("/"));
    shown(here(), found.product, &["import"]).exits(0).says(&["2000 rows into web.hits"]);
    let ended = shown(here(), found.product, &["undo"]).exits(0);
    holds(&ended, &["rows_again\n  2000\n"]);
    assert!(!ended.out.contains("remora restore"));
    let ended = shown(here(), found.product, &["backup"]).exits(3);
    holds(&ended, &["Left out: only MariaDB is copied while it runs"]);
}

#[test]
fn plugins_are_shown_where_they_are_and_named_where_not() {
    let engines = products().into_iter().filter_map(|product| Some((product, library("demo", product)?)));
    for (product, engine) in engines {
        let folder = tempfile::tempdir().unwrap();
        let (bin, lib) = (folder.path().join("bin"), folder.path().join("lib/remora"));
        std::fs::create_dir_all(lib.join(product.id())).unwrap();
        std::fs::create_dir(&bin).unwrap();
        let program = bin.join("remora");
        copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &program);
        let ended = shown(Command::new(&program), product, &["urls"]).exits(3);
        holds(&ended, &["Left out: liburlpack_udf.so is neither in"]);
        let urls = std::env::current_exe().unwrap().with_file_name("liburlpack_udf.so");
        std::fs::copy(urls, lib.join("liburlpack_udf.so")).unwrap();
        let ended = shown(Command::new(&program), product, &["urls", "queue"]).exits(3);
        holds(&ended, &["percent\n", "Left out: without ENGINE=QUEUE: ha_queue.so is neither in"]);
        std::fs::copy(engine, lib.join(product.id()).join("ha_queue.so")).unwrap();
        let ended = shown(Command::new(&program), product, &["queue"]).exits(0);
        holds(&ended, &["$ kill -9 ", "each whose INSERT had returned, none twice"]);
    }
}

#[test]
fn nothing_is_left_of_a_demo_that_is_interrupted() {
    let product = of_today(products())[0];
    let (import, query) = ("$ remora import", "> SELECT COUNT(*)");
    let cases = vec![
        ("INT", 130, import),
        ("KILL", -1, import),
        ("INT", 130, query),
        ("KILL", -1, query),
        ("TERM", 143, import),
    ];
    for (signal, code, line) in part_of_today(cases, 2) {
        tell(format!("SIG{signal} after {line}"));
        let (name, folder) = place("interrupted");
        let temporary = tempfile::tempdir().unwrap();
        let mut command = remora(Path::new("/"));
        command.args(["demo", "--only=import", "--rows=200000", "--name", &name, "--server", product.id()]);
        command.env("TMPDIR", temporary.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut demo = Running::new(command.spawn().unwrap());
        while !demo.line().contains(line) {
            demo.must_run();
        }
        demo.signal(signal);
        assert_eq!(demo.end().code, code);
        // The supervisor of the server does it for a demo that was killed.
        until("it is gone", || !folder.exists() && is_empty(temporary.path()));
    }
}

#[test]
fn the_demo_takes_nobody_elses_sandbox_and_has_no_json() {
    let product = of_today(products())[0];
    let (name, folder) = place("taken");
    let sandbox = |words: &[&str]| {
        let mut command = remora(Path::new("/"));
        Ended::of(&command.arg("sandbox").args(words).output().unwrap()).exits(0)
    };
    sandbox(&["start", &name, "--server", product.id()]);
    sandbox(&["stop", &name]);
    let ended = remora(Path::new("/")).args(["demo", "--name", &name]).output().unwrap();
    Ended::of(&ended).exits(2).says(&[&format!("remora sandbox stop {name} --remove")]);
    assert!(folder.exists());
    sandbox(&["stop", &name, "--remove"]);
    let ended = remora(Path::new("/")).args(["demo", "--json", "--name", &name]).output().unwrap();
    let ended = Ended::of(&ended).exits(2);
    holds(&ended, &["it has no --json"]);
}
