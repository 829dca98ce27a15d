//! `remora cron`

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ended, Running, remora, until};

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap()
}

fn command(folder: &TempDir, options: &[&str], script: &str) -> Command {
    let mut command = remora(folder.path());
    command.args(["cron", "--log", "log"]).args(options).args(["--", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &TempDir, options: &[&str], script: &str) -> Ended {
    Running::new(command(folder, options, script).spawn().unwrap()).end()
}

fn log(folder: &TempDir) -> String {
    std::fs::read_to_string(folder.path().join("log")).unwrap()
}

#[test]
fn a_successful_job_is_silent_and_logged() {
    let folder = folder();
    let ended = run(&folder, &[], "echo one; echo two >&2; printf three").exits(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    let log = log(&folder);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 6, "{log}");
    assert_eq!(lines[0], "-".repeat(78));
    assert!(lines[1].contains("starting: sh -c echo one"), "{log}");
    for (line, text) in lines[2..].iter().zip(["one", "two", "three", "command exited with code 0"]) {
        let (time, rest) = line.split_once("] ").unwrap();
        assert_eq!((time.len(), rest), ("[2026-01-01 00:00:00+00:00".len(), text), "{log}");
    }
}

#[test]
fn a_failed_job_is_reported_with_its_exit_code() {
    let folder = folder();
    run(&folder, &[], "exit 0");
    let ended = run(&folder, &[], "seq 1 80; exit 7").exits(7);
    assert!(ended.out.contains("exited with code 7") && ended.out.contains("] 80"), "{}", ended.out);
    assert!(!ended.out.contains("] 9\n"), "the end of the output only: {}", ended.out);
    let ended = run(&folder, &[], "kill -9 $$").exits(137);
    assert!(ended.out.contains("died of signal 9"), "{}", ended.out);
    let mut missing = remora(folder.path());
    let missing = missing.args(["cron", "--log", "log", "--", "/no/such/program"]).output().unwrap();
    let missing = Ended::of(&missing).exits(127);
    assert!(missing.out.contains("/no/such/program"), "{}", missing.out);
    assert_eq!(log(&folder).matches(&"-".repeat(78)).count(), 4, "runs are appended");
}

#[test]
fn a_program_is_told_of_a_job_that_failed_and_of_nothing_else() {
    let folder = folder();
    let told = |options: &[&str], script: &str, code: i32| -> Value {
        let ended = run(&folder, &[&["--json"], options].concat(), script).exits(code);
        assert_eq!((ended.out.lines().count(), ended.err.as_str()), (1, ""), "{}", ended.out);
        crate::schema::check("cron", &ended.out).unwrap();
        serde_json::from_str(&ended.out).unwrap()
    };
    assert_eq!(run(&folder, &["--json"], "echo one").exits(0).out, "");
    let failed = told(&[], "echo two; exit 7", 7);
    assert_eq!(
        (&failed["exit_code"], &failed["signal"], &failed["log"]),
        (&7.into(), &Value::Null, &"log".into())
    );
    assert!(
        failed["name"] == "sh -c echo two; exit 7" && failed["output"].as_str().unwrap().contains("] two")
    );
    assert_eq!(told(&[], "kill -9 $$", 137)["signal"], 9);
    assert_eq!(told(&["--timeout", "1s"], "sleep 600", 1)["reason"], "was ended: it ran for longer than 1 s");
    let mut missing = remora(folder.path());
    let missing =
        missing.args(["cron", "--json", "--log", "log", "--", "/no/such/program"]).output().unwrap();
    let missing: Value = serde_json::from_str(&Ended::of(&missing).exits(127).out).unwrap();
    assert!(missing["reason"].as_str().unwrap().starts_with("was not started: "), "{missing}");
    // Another run holds the lock.
    let lock = std::fs::File::create(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    for (option, code) in [(&[][..], 11), (&["--skip"], 0)] {
        let busy = told(&[&["--lock", "lock"], option].concat(), "touch ran", code);
        assert_eq!((&busy["reason"], &busy["exit_code"]), (&"another run holds lock".into(), &code.into()));
    }
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn all_processes_of_a_job_are_ended_at_the_timeout() {
    let folder = folder();
    let child = folder.path().join("child");
    let script = format!("sleep 600 & echo $! > {}; wait", child.display());
    let ended = run(&folder, &["--timeout", "1s"], &script).exits(1);
    assert!(ended.out.contains("longer than 1 s"), "{}", ended.out);
    let pid: u32 = std::fs::read_to_string(child).unwrap().trim().parse().unwrap();
    until("the grandchild is gone", || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
}

/// Whether the process whose number is in a file is there, and has not ended.
fn lives(folder: &TempDir, file: &str) -> bool {
    let pid = std::fs::read_to_string(folder.path().join(file)).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !(state.is_empty() || state.contains(") Z "))
}

#[test]
fn all_processes_of_a_job_are_asked_to_end_before_they_are_killed() {
    let folder = folder();
    // The shell ends at once; its child needs a while for its cleanup, and a third process has a session of
    // its own.
    std::fs::write(
        folder.path().join("job"),
        "trap 'exit 0' TERM
         sh -c 'trap \"sleep 1; echo clean >cleaned; exit 0\" TERM; echo $$ >child; while :; do sleep 0.05; done' &
         setsid sh -c 'trap \"sleep 1; echo clean >cleaned_too; exit 0\" TERM; echo $$ >away; while :; do sleep 0.05; done' &
         setsid sh -c 'trap \"\" TERM; echo $$ >deaf; while [ -e job ]; do sleep 0.05; done' &
         until [ -e child ] && [ -e away ] && [ -e deaf ]; do sleep 0.05; done
         while :; do sleep 0.05; done",
    )
    .unwrap();
    run(&folder, &["--timeout", "3s"], ". ./job").exits(1).says(&[]);
    for cleaned in ["cleaned", "cleaned_too"] {
        assert!(folder.path().join(cleaned).exists(), "{cleaned}: {}", log(&folder));
    }
    for name in ["child", "away", "deaf"] {
        assert!(!lives(&folder, name), "{name}");
    }
}

#[test]
fn a_log_that_can_not_be_written_does_not_stop_the_job() {
    let folder = folder();
    for log in ["/dev/full", "none/log"] {
        let mut command = remora(folder.path());
        let script = "echo said; touch done";
        command.args(["cron", "--log", log, "--", "sh", "-c", script]).stdin(Stdio::null());
        let ended = Ended::of(&command.output().unwrap()).exits(1);
        assert!(ended.out.contains("could not be written") && ended.out.contains("] said"), "{}", ended.out);
        std::fs::remove_file(folder.path().join("done")).unwrap();
    }
}

#[test]
fn the_log_of_one_long_run_is_rotated() {
    let folder = folder();
    run(&folder, &["--log-size", "20k"], "seq 1 30000").exits(0);
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let logs: Vec<u64> = names
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with("log"))
        .map(|entry| entry.metadata().unwrap().len())
        .collect();
    assert!(logs.len() == 6 && logs.iter().all(|len| *len < 22_000), "{logs:?}");
    assert!(log(&folder).contains("] 30000\n") && log(&folder).contains("exited with code 0"));
}

#[test]
fn only_one_run_holds_the_lock() {
    let folder = folder();
    let go = folder.path().join("go");
    let script = format!(
        "touch started; while [ -d {} ] && ! [ -e {} ]; do sleep 0.05; done",
        folder.path().display(),
        go.display()
    );
    let first = Running::new(command(&folder, &["--lock", "lock"], &script).spawn().unwrap());
    until("it runs", || folder.path().join("started").exists());
    run(&folder, &["--lock", "lock"], "touch second").exits(11).says(&["--skip", "--wait"]);
    let skipped = run(&folder, &["--lock", "lock", "--skip"], "touch second").exits(0);
    assert_eq!((skipped.out.as_str(), skipped.err.as_str()), ("", ""));
    assert!(!folder.path().join("second").exists());
    let waiting =
        Running::new(command(&folder, &["--lock", "lock", "--wait"], "touch third").spawn().unwrap());
    // The command continues and keeps the lock when the first `remora cron` is killed.
    first.kill();
    run(&folder, &["--lock", "lock"], "touch second").exits(11);
    std::fs::write(&go, "").unwrap();
    waiting.end().exits(0);
    assert!(folder.path().join("third").exists());
    run(&folder, &["--lock", "lock"], "true").exits(0);
}

#[test]
fn a_signal_is_passed_to_the_job() {
    let folder = folder();
    let script = "trap 'echo heard; exit 9' TERM; touch started; while :; do sleep 0.05; done";
    let running = Running::new(command(&folder, &[], script).spawn().unwrap());
    until("it runs", || folder.path().join("started").exists());
    running.signal("TERM");
    let ended = running.end().exits(9);
    assert!(ended.out.contains("heard"), "{}", ended.out);
}

#[test]
fn a_process_left_behind_is_not_waited_for() {
    let folder = folder();
    // It holds the output open until the test is over.
    let script = "while [ -d . ] && [ -e log ]; do sleep 0.05; done & echo $! > child; echo done";
    run(&folder, &[], script).exits(0);
    assert!(log(&folder).contains("] done"));
    let pid = std::fs::read_to_string(folder.path().join("child")).unwrap();
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success(), "it went on");
}

#[test]
fn logs_are_rotated_by_size_and_lines_cut() {
    let folder = folder();
    for round in 0..8 {
        run(
            &folder,
            &["--log-size", "1k"],
            &format!("echo round {round}; head -c 200000 /dev/zero | tr '\\0' x"),
        )
        .exits(0);
    }
    // A run's output continues in the next file, so the end of all files together is that of the last run.
    let old = (1..=5).rev().map(|number| format!("log.{number}"));
    let read = |name: String| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let all: String = old.chain(["log".to_owned()]).map(read).collect();
    let (_, last) = all.split_once("] round 7\n").unwrap();
    assert!(last.contains("exited with code 0"));
    let parts = last.lines().filter(|line| line.contains("] xxx")).count();
    assert!((3..=4).contains(&parts), "200,000 bytes, cut at 64 KiB or a little more: {parts}");
    assert!(folder.path().join("log.5").exists() && !folder.path().join("log.6").exists());
}

/// Answers so many requests with this status; returns the complete requests.
fn answer(status: &'static str, requests: usize) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ping", listener.local_addr().unwrap());
    let serve = move || {
        let all = (0..requests).map(|_| {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            loop {
                let count = stream.read(&mut buffer).unwrap();
                text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let head = head.to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                    break;
                }
            }
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            text
        });
        all.collect()
    };
    (url, std::thread::spawn(serve))
}

#[test]
fn a_url_hook_is_told_how_the_job_ended() {
    let folder = folder();
    let (good, asked) = answer("200 OK", 1);
    let ended = run(&folder, &["--on-success", &good, "--on-failure", "false"], "echo fine").exits(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    assert!(asked.join().unwrap()[0].starts_with("GET /ping HTTP/1.1"));
    let (bad, asked) = answer("200 OK", 1);
    run(&folder, &["--on-success", "false", "--on-failure", &bad], "seq 1 80; exit 7").exits(7);
    let asked = asked.join().unwrap().remove(0);
    assert!(asked.starts_with("POST /ping HTTP/1.1"), "{asked}");
    assert!(asked.contains("\r\n\r\nexited with code 7\n") && asked.contains("] 80\n"), "{asked}");
    assert!(!asked.contains("] 9\n"), "the end of the output only: {asked}");
}

#[test]
fn a_url_hook_that_fails_is_tried_three_times_and_reported() {
    let folder = folder();
    let (url, asked) = answer("503 Service Unavailable", 3);
    let ended = run(&folder, &["--on-success", &url], "echo fine").exits(1);
    assert_eq!(asked.join().unwrap().len(), 3);
    for words in
        ["exited with code 0; the result could not be reported: --on-success http://127.0.0.1", "503"]
    {
        assert!(ended.out.contains(words), "{}", ended.out);
    }
    // The code of a job that failed stays its own.
    let (url, asked) = answer("404 Not Found", 3);
    run(&folder, &["--on-failure", &url], "exit 9").exits(9);
    asked.join().unwrap();
}

#[test]
fn a_command_hook_is_told_how_the_job_ended() {
    let folder = folder();
    let tell = "echo \"$REMORA_CODE $REMORA_REASON\" > told; tail -n 1 $REMORA_LOG; echo heard";
    run(&folder, &["--on-failure", tell], "echo it is late; exit 3").exits(3);
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told, "3 exited with code 3\n");
    let lines = log(&folder);
    assert!(lines.contains("] heard\n"), "{lines}");
    // One that fails is told, and does not hide how the job ended.
    let ended = run(&folder, &["--on-success", "exit 4"], "true").exits(1);
    assert!(ended.out.contains("--on-success: the command exited with code 4"), "{}", ended.out);
    let ended = run(&folder, &["--on-failure", "exit 4"], "exit 3").exits(3);
    assert!(ended.out.contains("--on-failure: the command exited with code 4"), "{}", ended.out);
    run(&folder, &["--on-success", " "], "true").exits(2);
}
