//! What the test programs say, counted.

use super::slow;

/// Sums of the test runners' closing lines, and their lines about single tests.
#[derive(Default)]
pub(crate) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    failures: Vec<String>,
    /// The output of failed tests, as far as it is shown again.
    printed: Vec<String>,
    /// How many more lines of the current test's output may be shown again.
    quota: usize,
    pub(super) skips: Vec<String>,
    /// Slow tests that run on another day.
    pub(super) other_days: usize,
    /// Seconds of each test, as its runner measured them.
    seconds: Vec<(f64, String)>,
}

/// This many lines of a failed test's output are repeated at the end, where they are easy to find.
const AGAIN: usize = 12;

/// This many lines of it, from where it ended on, stand beside the test's name.
const REASON: usize = 4;

/// This many of the slowest tests are named at the end.
const SLOWEST: usize = 10;

/// A line of the file of skipped tests, which may begin with its kind.
pub(super) fn skip(line: &str) -> String {
    line.strip_prefix("skipped: ").unwrap_or(line).to_owned()
}

/// A line of the test runner, as it is shown. Its word for a failed test comes with the test's output: who
/// looks for that word in a long log then finds the reason beside it.
pub(super) fn told(line: &str) -> String {
    if let Some((name, "FAILED", _)) = result(line) {
        return format!("test {name} did not pass; its output follows those of the others");
    }
    match line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
        Some(name) => format!("test {name} ... FAILED"),
        None => line.to_owned(),
    }
}

/// `test NAME ... ok <1.234s>`: the name, the result, and the seconds if they are there.
fn result(line: &str) -> Option<(&str, &str, Option<f64>)> {
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let timed = end.strip_suffix("s>").and_then(|end| end.split_once(" <"));
    let timed = timed.and_then(|(end, seconds)| Some((end, seconds.parse().ok()?)));
    Some(timed.map_or((name, end, None), |(end, seconds)| (name, end, Some(seconds))))
}

impl Counts {
    /// `test result: ok. 7 passed; 0 failed; 0 ignored; ...`, `test NAME ... FAILED`, `test NAME ... ignored,
    /// why`
    pub(super) fn add(&mut self, line: &str) {
        if line.starts_with("---- ") {
            self.quota = AGAIN;
        } else if line == "failures:" || line.starts_with("stack backtrace:") {
            self.quota = 0;
        }
        if self.quota > 0 && !line.is_empty() {
            self.quota -= 1;
            self.printed.push(line.to_owned());
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = rest.split(word).next().unwrap_or_default();
                before.trim_end().rsplit(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
            };
            self.passed += number("passed");
            self.failed += number("failed");
        } else if let Some((name, end, seconds)) = result(line) {
            if end == "FAILED" {
                self.failures.push(name.to_owned());
            } else if let Some(why) = end.strip_prefix("ignored") {
                let why = why.strip_prefix(", ").unwrap_or("ignored");
                self.skips.push(format!("{name}: {why}"));
            }
            self.seconds.extend(seconds.map(|seconds| (seconds, name.to_owned())));
        }
    }

    /// Adds those of another program, in which the names of tests begin with its own.
    pub(super) fn join(&mut self, program: &str, other: Counts) {
        let named = |name: String| format!("{program} {name}");
        self.passed += other.passed;
        self.failed += other.failed;
        for name in other.failures.iter() {
            self.failures.push(format!("{}{}", named(name.clone()), other.why(name)));
        }
        self.printed.extend(other.printed);
        self.skips.extend(other.skips);
        self.seconds.extend(other.seconds.into_iter().map(|(seconds, name)| (seconds, named(name))));
    }

    /// A test that is not one of a runner's has failed.
    pub(super) fn fail(&mut self, what: String) {
        self.failed += 1;
        self.failures.push(what);
    }

    /// Where a test ended and why, in one line: who sees only the end of a log knows it, too.
    fn why(&self, name: &str) -> String {
        let begin = format!("---- {name} stdout ----");
        let output = self.printed.iter().skip_while(|line| **line != begin).skip(1);
        let output = output.take_while(|line| !line.starts_with("---- "));
        let reason: Vec<_> = output.skip_while(|line| !line.contains(" panicked at ")).take(REASON).collect();
        let place = reason.first().and_then(|line| line.split_once(" panicked at "));
        place.map_or_else(String::new, |(_, place)| {
            let rest = reason[1..].iter().flat_map(|line| [" ", line.trim()]);
            [": ", place].into_iter().chain(rest).collect()
        })
    }

    /// Prints the last lines of a run.
    pub(crate) fn tell(&mut self) {
        self.skips.sort();
        self.skips.dedup();
        self.printed.iter().for_each(|line| println!("{line}"));
        self.seconds.sort_by(|one, other| other.0.total_cmp(&one.0));
        for (seconds, name) in self.seconds.iter().take(SLOWEST) {
            println!("slow: {seconds:.0} s {name}");
        }
        self.skips.iter().for_each(|skip| println!("skipped: {skip}"));
        self.failures.iter().for_each(|name| println!("failed: {name}"));
        if self.other_days > 0 {
            println!("{} slow tests run on another day, and in ci --full", self.other_days);
        }
        let skipped = self.skips.len() + self.other_days;
        println!("{} passed, {} failed, {skipped} skipped", self.passed, self.failed);
    }

    /// The list of slow tests that this run makes.
    pub(super) fn slow(&self) -> String {
        slow::list(&self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, result, skip, told};

    #[test]
    fn skipped_tests_are_counted_by_name() {
        let mut counts = Counts::default();
        for line in [
            "test a::works ... ok <1.500s>",
            "test a::breaks ... FAILED <0.250s>",
            "test b::waits ... ignored, takes an hour",
            "failures:",
            "---- a::breaks stdout ----",
            "",
            "thread 'a::breaks' (7) panicked at a.rs:7:1:",
            "it broke",
            "note: ...",
            "stack backtrace:",
            "   0: main",
            "failures:",
            "    a::breaks",
            "test result: FAILED. 7 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0s",
        ] {
            counts.add(line);
        }
        let mut all = Counts::default();
        all.join("p", counts);
        assert_eq!((all.passed, all.failed), (9, 1));
        assert_eq!(all.printed.len(), 4, "{:?}", all.printed);
        assert_eq!(all.failures, ["p a::breaks: a.rs:7:1: it broke note: ..."]);
        assert_eq!(all.skips, ["b::waits: takes an hour"]);
        assert_eq!(all.seconds, [(1.5, "p a::works".to_owned()), (0.25, "p a::breaks".to_owned())]);
        assert_eq!(skip("skipped: tree::xfs: no loop device"), "tree::xfs: no loop device");
        assert_eq!(skip("tree::xfs: no loop device"), "tree::xfs: no loop device");
    }

    #[test]
    fn the_word_for_a_failed_test_stands_beside_its_output() {
        assert_eq!(told("---- a::breaks stdout ----"), "test a::breaks ... FAILED");
        assert!(!told("test a::breaks ... FAILED").contains("FAILED"));
        assert!(!told("test a::breaks ... FAILED <1.000s>").contains("FAILED"));
        assert_eq!(told("test a::works ... ok"), "test a::works ... ok");
        assert_eq!(result("test a - should panic ... ok"), Some(("a - should panic", "ok", None)));
    }
}
