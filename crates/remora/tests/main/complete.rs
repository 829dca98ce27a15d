//! Completions in real shells.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Ended, skipped};

const PROGRAM: &str = env!("CARGO_BIN_EXE_remora");

/// A sandbox with a table, and a repository, for one test.
struct Scene {
    name: String,
    folder: TempDir,
    /// Whether shells wait for names however long they take.
    is_patient: bool,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let name = format!("{name}-test-{}", std::process::id());
        let scene = Scene { name, folder: tempfile::tempdir().unwrap(), is_patient: true };
        scene.run(&["sandbox", "start", &scene.name]);
        let sql = "CREATE DATABASE shop; CREATE TABLE shop.orders (a INT); CREATE TABLE shop.old_x (a INT);
                   CREATE TABLE shop.oldyx (a INT); CREATE DATABASE web; CREATE TABLE web.hits (a INT)";
        scene.run(&["sandbox", "shell", &scene.name, "--", "-e", sql]);
        std::fs::write(scene.folder.path().join("disk"), "1").unwrap();
        for _ in 0..2 {
            scene.run(&["backup", "file:disk", "--to", "repository"]);
        }
        scene
    }

    fn run(&self, arguments: &[&str]) {
        Ended::of(&self.command(PROGRAM).args(arguments).output().unwrap()).exits(0);
    }

    /// A program that finds remora on its path.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let folder = Path::new(PROGRAM).parent().unwrap().display();
        command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
        command.current_dir(self.folder.path());
        // On a machine that is busy, an answer that is not awaited would be none.
        if self.is_patient {
            command.env("REMORA_COMPLETE_MS", "30000");
        }
        command
    }

    /// What bash offers for a line whose last word is being typed.
    fn bash(&self, line: &str) -> Vec<String> {
        // bash cuts a line into words as readline does, which a script has to do by itself.
        let script = r#"source <(COMPLETE=bash remora) || exit 1
            COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
            read -ra COMP_WORDS <<< "$(sed -E 's/([:=@])/ \1 /g' <<< "$1")"
            [[ $1 == *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            word=${COMP_WORDS[COMP_CWORD]}
            [[ $word == [:=@] ]] && word=
            _clap_complete_remora remora "$word" "" 2>errors
            printf '%s\n' "${COMPREPLY[@]}"
            [[ ! -s errors ]] || { cat errors >&2; exit 1; }"#;
        let ended = self.command("bash").args(["-c", script, "bash", line]).output().unwrap();
        let ended = Ended::of(&ended).exits(0);
        assert_eq!(ended.err, "", "{line}");
        ended.out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.command(PROGRAM).args(["sandbox", "stop", &self.name, "--remove"]).output().ok();
    }
}

#[test]
fn bash_completes_names_of_servers_repositories_and_sandboxes() {
    let scene = Scene::new("complete");
    let url = format!("--url sandbox:{}", scene.name);
    let check = |line: &str, expected: &[&str]| assert_eq!(scene.bash(line), expected, "{line}");
    check("remora impo", &["import"]);
    check("remora import --on-dup", &["--on-duplicate"]);
    check(&format!("remora import disk {url} --into shop.o"), &["shop.old_x", "shop.oldyx", "shop.orders"]);
    check(&format!("remora import disk {url} --into shop.old_"), &["shop.old_x"]);
    check(&format!("remora import disk {url} -D shop --into ord"), &["orders"]);
    check(&format!("remora dump {url} web"), &["web.hits"]);
    check(&format!("remora dump {url} --exclude=sh"), &["shop.old_x", "shop.oldyx", "shop.orders"]);
    check(&format!("remora queue peek {url} web.h"), &["web.hits"]);
    check(&format!("remora import {url} -D sh"), &["shop"]);
    check(&format!("remora sandbox shell {}", &scene.name[..scene.name.len() - 1]), &[&scene.name]);
    check(&format!("remora stat sandbox:{}", &scene.name[..scene.name.len() - 1]), &[&scene.name]);
    check("remora restore repo", &["repository/"]);
    check("remora restore repository/", &["repository/disk/"]);
    check("remora restore repository/disk@", &["2", "1"]);
    check("remora import di", &["disk"]);
}

#[test]
fn what_is_not_known_in_time_is_not_completed_and_nothing_is_said() {
    let mut scene = Scene::new("silent");
    scene.is_patient = false;
    std::fs::write(scene.folder.path().join("bad.cnf"), "[client]\nport=none\n").unwrap();
    // A server that accepts and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let lines = [
        format!("remora import x -h 127.0.0.1 -P {port} --into shop.o"),
        "remora import x --no-defaults -S /nowhere/mysqld.sock --into shop.o".to_owned(),
        "remora import x --defaults-file bad.cnf --into shop.o".to_owned(),
        "remora import x --url sandbox:nobody --into shop.o".to_owned(),
        "remora import x --no-such-option --url ftp://x --into shop.o".to_owned(),
        "remora restore nowhere/disk@".to_owned(),
        "remora nothing --into shop.o".to_owned(),
    ];
    for line in lines {
        let began = Instant::now();
        assert_eq!(scene.bash(&line), [""; 0], "{line}");
        // The shell itself and the start of the program are in it, on a machine that is busy.
        assert!(began.elapsed() < Duration::from_secs(5), "{line}: {:?}", began.elapsed());
    }
}

#[test]
fn zsh_and_fish_complete_too() {
    let scene = Scene::new("shells");
    let url = format!("--url sandbox:{}", scene.name);
    let line = format!("remora import disk {url} --into shop.old_");
    let there = |shell: &str| {
        let found = Command::new(shell).args(["-c", "true"]).output().is_ok();
        if !found {
            skipped("completions", &format!("{shell} is not here"));
        }
        found
    };
    if there("fish") {
        let script = "COMPLETE=fish remora | source; complete -C $argv[1]";
        let ended = scene.command("fish").args(["-N", "-c", script, &line]).output().unwrap();
        let ended = Ended::of(&ended).exits(0);
        assert_eq!((ended.out.trim(), ended.err.as_str()), ("shop.old_x", ""));
    }
    if there("zsh") {
        // What the registered function would offer, without a terminal: compadd and friends are replaced.
        let script = r#"compdef() { }; _describe() { print -l -- ${(P)3} }; compadd() { print -l -- "${@[-1]}" }
            source <(COMPLETE=zsh remora)
            words=(${(z)1}); CURRENT=${#words}
            _clap_dynamic_completer_remora"#;
        let ended = scene.command("zsh").args(["-f", "-c", script, "zsh", &line]).output().unwrap();
        let ended = Ended::of(&ended);
        assert!(ended.out.contains("shop.old_x") && ended.err.is_empty(), "{ended:?}");
    }
}
