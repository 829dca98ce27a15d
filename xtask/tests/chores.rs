//! The program as it is called.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

#[test]
fn what_is_no_chore_is_refused_with_the_list_of_chores() {
    let output = xtask(&["tidyy"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success());
    assert!(told.contains("no such chore") && told.contains("\n  tidy "), "{told}");
    assert!(xtask(&["help"]).status.success());
}
