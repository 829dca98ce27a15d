//! `remora sandbox` as it is typed.

use std::process::Command;

use crate::support::{Ended, places};

const PROGRAM: &str = env!("CARGO_BIN_EXE_remora");

fn run(arguments: &[&str]) -> Ended {
    Ended::of(&Command::new(PROGRAM).arg("sandbox").args(arguments).output().unwrap())
}

fn is_listed(name: &str) -> bool {
    sandbox::list(&places()).iter().any(|listed| listed.name == name)
}

#[test]
fn options_and_port_outlive_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("server");
    let name = format!("options-test-{}", std::process::id());
    let ask = |query: &str| run(&["shell", &name, "--", "-BNe", query]).exits(0).out.trim().to_owned();
    let place = ["--folder", data.to_str().unwrap()];
    let options =
        ["--port", "0", "--option", "max-connections=77", "--option", "--innodb-buffer-pool-size=32M"];
    run(&[["start", name.as_str()].as_slice(), &place, &options].concat()).exits(0);
    let asked = "SELECT @@max_connections, @@port";
    let before = ask(asked);
    assert!(before.starts_with("77\t") && !before.ends_with("\t0"), "{before}");
    run(&["stop", &name]).exits(0);
    let again = run(&["start", &name]).exits(0);
    assert!(again.out.contains("--max-connections=77"), "{}", again.out);
    assert_eq!(ask(asked), before);
    run(&["stop", &name]).exits(0);
    // A start that fails changes nothing.
    run(&["start", &name, "--option", "--no-such-option=1"]).exits(1).says(&["no-such-option"]);
    assert!(is_listed(&name));
    run(&["start", &name]).exits(0);
    assert_eq!(ask(asked), before);
    run(&["stop", &name]).exits(0);
    run(&["start", &name, "--option", "none"]).exits(0);
    assert_ne!(ask("SELECT @@max_connections"), "77");
    run(&["stop", &name, "--remove"]).exits(0);
    // No trace: also no link to a folder that is gone.
    assert!(
        std::fs::symlink_metadata(places().cache.join("sandboxes").join(&name)).is_err() && !data.exists()
    );
}

#[test]
fn a_wrong_name_is_refused_before_anything_is_done() {
    let long = "x".repeat(300);
    for name in ["a/b", "", ".hidden", long.as_str()] {
        run(&["start", name]).exits(2).says(&["cannot name a sandbox", "at most 200"]);
        run(&["start", name, "--galera"]).exits(2).says(&["cannot name a sandbox"]);
    }
}

#[test]
fn a_first_start_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("server");
    let name = format!("failing-test-{}", std::process::id());
    for place in [&[][..], &["--folder", data.to_str().unwrap()]] {
        let start = [&["start", name.as_str(), "--option", "--no-such-option=1"], place].concat();
        run(&start).exits(1).says(&["no-such-option"]);
        assert!(!is_listed(&name));
        run(&["stop", &name]).exits(2).says(&["no sandbox is called"]);
    }
    assert!(std::fs::read_dir(&data).map_or(0, Iterator::count) == 0);
}
