//! A tied server ends with the process that started it, even when that is killed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sandbox::{Product, Settings};

use crate::{installations, places, start};

/// Makes this test binary the parent that is going to be killed; the value names the product.
const ROLE: &str = "SANDBOX_TEST_PARENT";

/// How long the test waits for what has to happen.
const BOUND: Duration = Duration::from_secs(60);

/// Not a test: the parent, run by the test below.
#[test]
#[ignore = "run by a_killed_parent_takes_its_server_with_it"]
fn parent() {
    let Ok(product) = std::env::var(ROLE) else { return };
    let installation = sandbox::find(&places(), product.parse::<Product>().unwrap()).unwrap();
    // Another thread than the one that lives on, and a sibling that must not keep the pipe open.
    let (first, second) = std::thread::spawn(move || {
        (start(&installation, &Settings::default()), start(&installation, &Settings::default()))
    })
    .join()
    .unwrap();
    println!("\nfirst {} {}", first.pid(), first.folder().display());
    println!("\nsecond {} {}", second.pid(), second.folder().display());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    panic!("the test should have killed this process");
}

/// The shell over the server, which ends after everything is cleared away.
fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_killed_parent_takes_its_server_with_it() {
    for installation in installations() {
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "parent::parent", "--nocapture"])
            .env(ROLE, installation.product.id())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
        let servers: Vec<(u32, PathBuf)> = lines
            .filter(|line| line.starts_with("first ") || line.starts_with("second "))
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
        assert_eq!(servers.len(), 2);
        for (_, folder) in &servers {
            assert!(!folder.exists(), "{}", folder.display());
        }
    }
}
