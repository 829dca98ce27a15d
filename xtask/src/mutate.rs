//! Mutants: the code is changed in small ways, and each change must make a test fail. A change that makes
//! none fail shows that a test is missing, unless the list of accepted mutants has it, with a reason.
//!
//! cargo-gamma builds all changes of a crate into one test program, and each run of it switches one of them
//! on. So a crate is built once, and a mutant takes as long as the tests that reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{audit, cargo, root, shown, target};

/// Crates whose tests need no servers, threads or disks, so that a mutant takes seconds.
const PURE: [&str; 13] = [
    "binlog",
    "rows",
    "column",
    "innodb",
    "urlpack",
    "codec",
    "status",
    "block",
    "condition",
    "queue",
    "transactions",
    "humanize",
    "seal",
];

/// Crates of which only these files have such tests; those of the others start servers.
const PURE_FILES: [(&str, &[&str]); 3] = [
    ("follow", &["form", "row_condition", "row_condition/*", "scope", "touched", "window"]),
    ("hotcopy", &["binary_log", "changed_pages", "control_file", "file_list", "listing", "tablespaces"]),
    ("pitr", &["gtid_set", "mysql_place", "storage_engine"]),
];

/// The version whose report is read here.
const VERSION: &str = "0.4.0";

/// What is changed: values of functions, operators, guards and arms of a match, fields. Other changes, such
/// as those of literals, give many mutants that mean little.
const MUTATORS: &str = "fn_value,relational,arith,bitwise,shift,assign,logical.and_to_or,logical.or_to_and,\
                        match_guard.always_true,match_guard.always_false,match_arm,struct_field,unary";

/// Mutants that may survive, one per line: file, function and change, ` # `, the reason.
const ACCEPTED: &str = "xtask/survivors.txt";

/// Functions, and types with all their methods, that need a session: the tests of the program try them on
/// real servers, which takes minutes.
const BY_SERVERS: [(&str, &[&str]); 6] = [
    ("crates/pitr/src/storage_engine.rs", &["tell_missing"]),
    ("crates/status/src/lib.rs", &["pairs"]),
    ("crates/status/src/counter/overhead.rs", &["MeasuredSession", "find", "stream", "counts"]),
    (
        "crates/status/src/counter/sampler.rs",
        &["Sampler", "OpenSession", "refused", "not_fatal", "prepare", "settings"],
    ),
    ("crates/status/src/variable/running_server.rs", &["read_server", "deprecations"]),
    ("crates/status/src/variable/advise.rs", &["Facts::read"]),
];

/// How the report begins the reason of a mutant whose tests took too long. Its status is that of a survivor.
const TOO_LONG: &str = "timed out: ";

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
struct Wanted<'a> {
    crates: Vec<&'a str>,
    /// Only what differs from this revision.
    since: Option<&'a str>,
    /// A part of each crate's mutants: which one from 0, and of how many.
    shard: Option<(&'a str, &'a str)>,
    /// Only these files; all if there are none.
    files: Vec<&'a str>,
}

impl Wanted<'_> {
    fn read(arguments: &[String]) -> Result<Wanted<'_>> {
        let mut wanted = Wanted::default();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            match argument {
                "--file" => wanted.files.push(rest.next().context("--file GLOB")?),
                "--in-diff" => wanted.since = Some(rest.next().context("--in-diff REV")?),
                "--shard" => {
                    let shard = rest.next().and_then(|shard| shard.split_once('/'));
                    wanted.shard = Some(shard.context("--shard K/N")?);
                }
                name if all().any(|known| known == name) => wanted.crates.push(name),
                other => {
                    let known: Vec<_> = all().collect();
                    bail!("no crate {other} to change; there are {}", known.join(", "));
                }
            }
        }
        if wanted.crates.is_empty() {
            all().for_each(|name| wanted.crates.push(name));
        }
        Ok(wanted)
    }

    /// What of a crate is changed; all of it if there are none.
    fn globs(&self, name: &str) -> Vec<String> {
        if !self.files.is_empty() {
            return self.files.iter().map(|glob| (*glob).to_owned()).collect();
        }
        let files = PURE_FILES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, files)| files);
        files.iter().map(|file| format!("crates/{name}/src/{file}.rs")).collect()
    }
}

/// The crates that can be changed.
fn all() -> impl Iterator<Item = &'static str> {
    PURE.into_iter().chain(PURE_FILES.map(|(name, _)| name))
}

/// `cargo xtask mutate [CRATE...] [--shard K/N] [--file GLOB]... [--in-diff REV]`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wanted = Wanted::read(arguments)?;
    let list = std::fs::read_to_string(root().join(ACCEPTED)).context(ACCEPTED)?;
    let accepted = accepted(&list)?;
    audit::ready("gamma", Some(VERSION))?;
    let mut new = 0;
    for name in &wanted.crates {
        let survivors = report(name, &wanted)?.survivors();
        let unknown: Vec<_> = survivors.iter().filter(|mutant| !accepted.contains(mutant.as_str())).collect();
        unknown.iter().for_each(|mutant| println!("survives: {mutant}"));
        let known = survivors.len() - unknown.len();
        println!("{name}: {} mutants survive, {known} of them accepted in {ACCEPTED}", survivors.len());
        new += unknown.len();
    }
    if new == 0 { Ok(()) } else { bail!("{new} mutants that no test notices") }
}

/// The name of the package in a crate's folder.
fn package(folder: &str) -> Result<String> {
    let manifest = root().join("crates").join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.map(str::to_owned).with_context(|| format!("{}: no name", manifest.display()))
}

/// Makes the mutants of a crate, tries them and reads what became of them.
fn report(name: &str, wanted: &Wanted<'_>) -> Result<Report> {
    let folder = target().join("mutants").join(name);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("gamma-report.json");
    // An old report must not pass for this run's.
    std::fs::write(&path, "{\"files\":{}}")?;
    // It takes minutes of a machine that may be wanted for other things.
    let mut mutants = Command::new("nice");
    mutants.args(["-n", "12"]).arg(cargo().get_program()).current_dir(root());
    mutants.args(["gamma", "run", "--no-config", "--color=never", "--progress=never", "--jobs=1"]);
    mutants.args(["--package", &package(name)?, "--mutators", MUTATORS, "--artifact-dir"]).arg(&folder);
    // What it builds stays for the next run. It has to lie in this tree.
    mutants.arg("--cache-dir").arg(root().join("target/gamma")).env_remove("CARGO_TARGET_DIR");
    // Its own bounds of memory need a cgroup, and a loaded machine may be slow.
    mutants.args(["--memory=off", "--minimum-test-timeout=20"]);
    // A failed property is enough; the smallest example of it is not looked for.
    mutants.env("PROPTEST_MAX_SHRINK_ITERS", "0");
    mutants.args(wanted.globs(name).iter().flat_map(|glob| ["--file", glob]));
    if let Some((which, parts)) = wanted.shard {
        mutants.args(["--shard-index", which, "--shard-count", parts]);
    }
    if let Some(since) = wanted.since {
        let source = format!("crates/{name}/src");
        let diff = Command::new("git").args(["diff", since, "--", &source]).current_dir(root()).output()?;
        if !diff.status.success() {
            bail!("git diff {since}: {}", String::from_utf8_lossy(&diff.stderr));
        }
        if diff.stdout.is_empty() {
            return Ok(Report::default());
        }
        let path = folder.join("diff");
        std::fs::write(&path, diff.stdout)?;
        mutants.arg("--in-diff").arg(path);
    }
    println!("$ {}", shown(&mutants));
    let status = mutants.status()?;
    if !status.success() {
        bail!("cargo gamma: {status}");
    }
    serde_json::from_slice(&std::fs::read(&path)?).with_context(|| path.display().to_string())
}

/// What cargo-gamma says, as far as it matters here.
#[derive(Default, Deserialize)]
struct Report {
    files: BTreeMap<String, File>,
}

#[derive(Deserialize)]
struct File {
    source: String,
    mutants: Vec<Mutant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mutant {
    status: String,
    #[serde(default)]
    status_reason: String,
    description: String,
    location: Location,
}

#[derive(Deserialize)]
struct Location {
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: usize,
}

impl Report {
    /// The mutants that no test noticed, although a test of the crate could: `file: function: change`. The
    /// line is left out, because it changes with every line that is added above. A mutant whose tests took
    /// too long was noticed.
    fn survivors(&self) -> BTreeSet<String> {
        let all =
            self.files.iter().flat_map(|(path, file)| file.mutants.iter().map(move |it| (path, file, it)));
        all.filter(|(_, _, mutant)| matches!(mutant.status.as_str(), "Survived" | "NoCoverage"))
            .filter(|(_, _, mutant)| !mutant.status_reason.starts_with(TOO_LONG))
            .map(|(path, file, mutant)| (path, function(&file.source, mutant.location.start.line), mutant))
            .filter(|(path, function, _)| !is_by_servers(path, function))
            .map(|(path, function, mutant)| format!("{path}: {function}: {}", mutant.description))
            .collect()
    }
}

fn is_by_servers(path: &str, function: &str) -> bool {
    let owner = function.split("::").next().unwrap_or_default();
    BY_SERVERS
        .iter()
        .any(|(file, names)| path == *file && (names.contains(&function) || names.contains(&owner)))
}

/// The function that a line, counted from 1, is in: `name`, or `Type::name`.
fn function(source: &str, line: usize) -> String {
    let before: Vec<&str> = source.lines().take(line).collect();
    // rustfmt has the beginnings and ends of items at the margin.
    let item = before.iter().rev().take_while(|line| **line != "}");
    let owner = item.filter_map(|line| line.strip_prefix("impl")).next().map(|head| {
        let head = head.split_once(" for ").map_or(head, |(_, ty)| ty).trim_start();
        let head =
            if head.starts_with('<') { head.split_once("> ").map_or(head, |(_, ty)| ty) } else { head };
        head.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(head)
    });
    let named = before.iter().rev().find_map(|line| {
        let (front, rest) = line.split_once("fn ")?;
        let is_head = front.trim_start().split(' ').all(|word| {
            word.is_empty() || word.starts_with("pub") || matches!(word, "const" | "unsafe" | "extern" | "in")
        });
        is_head.then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())?
    });
    let name = named.unwrap_or("?");
    owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}::{name}"))
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
    use super::{PURE, PURE_FILES, Report, Wanted, accepted};

    #[test]
    fn a_part_of_the_mutants_may_be_asked_for() {
        let arguments = ["codec", "--shard", "1/4", "--file", "**/lib.rs", "--in-diff", "HEAD~3"];
        let arguments = arguments.map(str::to_owned);
        let wanted = Wanted {
            crates: vec!["codec"],
            since: Some("HEAD~3"),
            shard: Some(("1", "4")),
            files: vec!["**/lib.rs"],
        };
        assert_eq!(Wanted::read(&arguments).unwrap(), wanted);
        assert_eq!(wanted.globs("pitr"), ["**/lib.rs"]);
        let whole = Wanted::read(&[]).unwrap();
        assert_eq!(whole.crates.len(), PURE.len() + PURE_FILES.len());
        assert!(whole.globs("codec").is_empty());
        for (name, files) in PURE_FILES {
            assert_eq!(whole.globs(name).len(), files.len());
            for glob in whole.globs(name) {
                let path = crate::root().join(glob.replace("/*.rs", ""));
                assert!(path.exists(), "{}", path.display());
            }
        }
        for wrong in [&["remora"][..], &["--shard"], &["--shard", "1"], &["--in-diff"], &["--file"]] {
            let wrong: Vec<String> = wrong.iter().map(|word| (*word).to_owned()).collect();
            assert!(Wanted::read(&wrong).is_err(), "{wrong:?}");
        }
    }

    /// The survivors in a report about one mutant, in the last line of a source.
    fn survivors(path: &str, source: &str, status: &str, reason: Option<&str>) -> Vec<String> {
        let mut mutant = serde_json::json!({
            "status": status, "description": "replace < with <=",
            "location": {"start": {"line": source.lines().count()}}
        });
        if let Some(reason) = reason {
            mutant["statusReason"] = reason.into();
        }
        let report = serde_json::json!({"files": {path: {"source": source, "mutants": [mutant]}}});
        serde_json::from_value::<Report>(report).unwrap().survivors().into_iter().collect()
    }

    #[test]
    fn a_mutant_that_nothing_noticed_survives() {
        let of = |status, reason| survivors("a.rs", "fn f() {\n    a < b\n", status, reason);
        let survived = ["a.rs: f: replace < with <="];
        assert_eq!([of("Survived", None), of("NoCoverage", Some("none"))], [survived; 2]);
        let too_long = "timed out: the test run exceeded its budget";
        assert_eq!([of("Killed", Some("failed `x`")), of("Survived", Some(too_long))], [[""; 0]; 2]);
    }

    #[test]
    fn a_mutant_is_known_by_its_function() {
        let of = |path: &str, source: &str| {
            survivors(path, &format!("{source}\n        a < b\n"), "Survived", None)
        };
        let end = "    fn other() {\n    }\n}\n\n";
        for (source, function) in [
            ("pub(crate) fn f(\n    a: fn (),\n) {", "f"),
            ("impl A {\n    pub fn f() {", "A::f"),
            ("impl<W: Write> A<W> {\n    fn f() {", "A::f"),
            ("impl<'a> Write for A<'a> {\n    fn f() {", "A::f"),
            (&format!("impl B {{\n{end}impl A {{\n    fn f() {{"), "A::f"),
            (&format!("impl A {{\n{end}fn f() {{"), "f"),
        ] {
            assert_eq!(of("a.rs", source), [format!("a.rs: {function}: replace < with <=")], "{source}");
        }
        // Tests of these need a server, whether the list has the function or its type.
        assert_eq!(of("crates/status/src/lib.rs", "fn pairs() {"), [""; 0]);
        let own = "crates/status/src/counter/overhead.rs";
        assert_eq!(of(own, "impl MeasuredSession {\n    fn new() {"), [""; 0]);
        assert_eq!(of(own, "impl Answer {\n    fn find() {").len(), 1);
    }

    #[test]
    fn an_accepted_mutant_has_a_reason() {
        let mutant = "a.rs: f: replace < with <=";
        let list = format!("# a comment\n\n{mutant} # both give the same\n");
        assert!(accepted(&list).unwrap().contains(mutant));
        assert!(accepted(&format!("{mutant}\n")).is_err() && accepted(&format!("{mutant} # \n")).is_err());
    }
}
