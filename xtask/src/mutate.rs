//! Mutants: the code is changed in small ways, and each change must make a test fail. A change that does not
//! reveals a missing test, or is in the list of accepted ones, with the reason.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{audit, cargo, root, shown, target};

/// Crates whose tests need no servers, threads or disks, so that a mutant takes seconds.
const PURE: [&str; 8] = ["rows", "column", "innodb", "urlpack", "codec", "status", "block", "queue"];

/// Mutants that may survive, one per line: the name from cargo-mutants without the place in the file, ` # `,
/// the reason.
const ACCEPTED: &str = "xtask/survivors.txt";

/// `cargo xtask mutate [CRATE...] [--in-diff REV]`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut crates, mut since) = (Vec::new(), None);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument {
            "--in-diff" => since = Some(rest.next().context("--in-diff REV")?),
            name if PURE.contains(&name) => crates.push(name),
            other => bail!("no crate {other} to change; there are {}", PURE.join(", ")),
        }
    }
    if crates.is_empty() {
        crates.extend(PURE);
    }
    let survivors = survivors(&crates, since)?;
    let list = std::fs::read_to_string(root().join(ACCEPTED)).context(ACCEPTED)?;
    let accepted = accepted(&list)?;
    let new: Vec<&String> = survivors.iter().filter(|mutant| !accepted.contains(mutant.as_str())).collect();
    new.iter().for_each(|mutant| println!("survives: {mutant}"));
    let known = survivors.len() - new.len();
    println!("{} mutants survive, {known} of them accepted in {ACCEPTED}", survivors.len());
    if new.is_empty() { Ok(()) } else { bail!("{} mutants that no test notices", new.len()) }
}

/// The mutants that no test noticed.
fn survivors(crates: &[&str], since: Option<&str>) -> Result<BTreeSet<String>> {
    audit::ready("mutants")?;
    let folder = target().join("mutants");
    std::fs::create_dir_all(&folder)?;
    let mut mutants = cargo();
    mutants.args(["mutants", "--no-shuffle", "--colors=never", "--output"]).arg(&folder);
    mutants.args(crates.iter().flat_map(|name| ["--package", name]));
    if let Some(since) = since {
        let diff = Command::new("git").args(["diff", since]).current_dir(root()).output()?;
        let path = folder.join("diff");
        std::fs::write(&path, diff.stdout)?;
        mutants.arg("--in-diff").arg(path);
    }
    println!("$ {}", shown(&mutants));
    // 2: some survived. 3: some timed out, which counts as noticed.
    let status = mutants.status()?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo mutants: {status}");
    }
    let missed = std::fs::read_to_string(folder.join("mutants.out/missed.txt")).unwrap_or_default();
    Ok(missed.lines().map(without_place).collect())
}

/// `crates/rows/src/mark.rs:12:5: replace ...` without the numbers, which change with every line that is
/// added above.
fn without_place(line: &str) -> String {
    let Some((place, change)) = line.split_once(": ") else { return line.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {change}")
}

/// The mutants in the list. A line without a reason is refused.
fn accepted(list: &str) -> Result<BTreeSet<&str>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(" # ") {
            Some((mutant, reason)) if !reason.trim().is_empty() => Ok(mutant.trim()),
            _ => bail!("{ACCEPTED}: no reason in: {line}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{accepted, without_place};

    #[test]
    fn a_survivor_is_known_wherever_it_stands_in_its_file() {
        let told = without_place("crates/rows/src/mark.rs:12:5: replace < with <= in Marks::take");
        assert_eq!(told, "crates/rows/src/mark.rs: replace < with <= in Marks::take");
        let list = format!("# a comment\n\n{told} # both give the same\n");
        assert!(accepted(&list).unwrap().contains(told.as_str()));
        assert!(accepted(&format!("{told}\n")).is_err() && accepted(&format!("{told} # \n")).is_err());
    }
}
