//! A tied server ends with the process that started it, even if that is killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sandbox::{Product, Settings};

use crate::{installations, places, start};

/// Makes this test binary the parent that is to be killed. The value names the product; `FOLDER` names the
/// folder of the server that has one.
const PRODUCT: &str = "SANDBOX_TEST_PRODUCT";
const FOLDER: &str = "SANDBOX_TEST_FOLDER";

/// How long the test waits for an event.
const BOUND: Duration = Duration::from_secs(60);

/// The parent, when the test below runs it; on its own it does nothing.
#[test]
fn parent() {
    let (Ok(product), Some(folder)) = (std::env::var(PRODUCT), std::env::var_os(FOLDER)) else { return };
    let installation = sandbox::find(&places(), product.parse::<Product>().unwrap()).unwrap();
    // A thread other than the one that lives on, and a sibling process that must not keep the pipe open.
    let servers = std::thread::spawn(move || {
        let kept = Settings { folder: Some(folder.into()), ..Settings::default() };
        [Settings::default(), kept].map(|settings| start(&installation, &settings))
    });
    let servers = servers.join().unwrap();
    for server in &servers {
        println!("\nserver {} {}", server.pid(), server.folder().display());
    }
    std::io::stdin().read_line(&mut String::new()).unwrap();
    panic!("the test should have killed this process");
}

/// The shell above the server, which ends after everything is cleaned up.
fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_killed_parent_takes_its_server_with_it() {
    for installation in installations() {
        let kept = tempfile::tempdir().unwrap();
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "parent::parent", "--nocapture"])
            .env(PRODUCT, installation.product.id())
            .env(FOLDER, kept.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
        let servers: Vec<(u32, PathBuf)> = lines
            .filter(|line| line.starts_with("server "))
            .take(2)
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                (words[1].parse().unwrap(), PathBuf::from(words[2]))
            })
            .collect();
        let shells: Vec<u32> = servers.iter().map(|(pid, _)| parent_of(*pid)).collect();
        let open = |pid: &u32| {
            pidfd_open(Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap(), PidfdFlags::empty()).unwrap()
        };
        let handles: Vec<_> = servers.iter().map(|(pid, _)| pid).chain(&shells).map(open).collect();
        parent.kill().unwrap();
        parent.wait().unwrap();
        for handle in &handles {
            let mut polled = [PollFd::new(handle, PollFlags::IN)];
            let bound = Timespec::try_from(BOUND).unwrap();
            assert_eq!(poll(&mut polled, Some(&bound)), Ok(1), "{} is still there", installation.product);
        }
        let folders: Vec<&Path> = servers.iter().map(|(_, folder)| folder.as_path()).collect();
        assert_eq!(folders.len(), 2);
        assert!(!folders[0].exists(), "{}", folders[0].display());
        assert_eq!(folders[1], kept.path());
        let log = std::fs::read_to_string(folders[1].join("error.log")).unwrap();
        assert!(log.contains("Shutdown complete"), "it must have been stopped in order: {log}");
    }
}
