//! The program as it is called.

use std::process::Command;

#[test]
fn what_is_no_chore_is_refused_with_the_list_of_chores() {
    let xtask = |argument: &str| Command::new(env!("CARGO_BIN_EXE_xtask")).arg(argument).output().unwrap();
    let refused = xtask("tidyy");
    let told = String::from_utf8(refused.stdout).unwrap();
    assert!(!refused.status.success());
    assert!(told.contains("no such chore") && told.contains("\n  tidy "), "{told}");
    assert!(xtask("help").status.success());
}
