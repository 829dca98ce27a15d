//! What the user sees while a command works: a moving line on a terminal, a line every ten seconds in a log,
//! lines of JSON for a program.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use humanize::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use progress::{Part, Progress, count};
pub(crate) use progress::{as_f64, clock, short, size};
use serde_json::json;

use crate::exit::{self, Exit};

/// How often a line is printed if there is no moving line.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// How often the line on a terminal is redrawn, and a program is informed.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The most parts of a phase that the line names; with more sessions more may be running.
const PARTS_MAX: usize = 2;
/// Parts of at least this many bytes get their own line when they are complete.
const TOLD_FROM_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Terminal,
    Lines,
    Json,
    Quiet,
}

/// Where messages and progress go. Clones report to the same place.
#[derive(Clone)]
pub(crate) struct Report(Arc<Inner>);

struct Inner {
    style: Style,
    bar: ProgressBar,
    phase: Mutex<Phase>,
    read: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    ended: AtomicBool,
}

struct Phase {
    name: String,
    total: Option<u64>,
    began: Instant,
    drawn: Instant,
    /// Running parts with their progress, and how many are complete.
    parts: Vec<(String, Option<f64>)>,
    whole: u64,
    /// What is done of a phase without bytes, in words.
    steps: Option<String>,
    /// Whether it continues until it is stopped, so that its lines would fill a log.
    is_endless: bool,
}

impl Phase {
    fn new(name: &str, total: Option<u64>) -> Phase {
        let now = Instant::now();
        Phase {
            name: name.to_owned(),
            total,
            began: now,
            drawn: now,
            parts: Vec::new(),
            whole: 0,
            steps: None,
            is_endless: false,
        }
    }

    /// `3 done, shop.orders 45 %`; nothing when there are no parts.
    fn parts(&self) -> Option<String> {
        let done = (self.whole > 0).then(|| format!("{} done", self.whole));
        let named = self.parts.iter().take(PARTS_MAX).map(|(name, share)| match share {
            Some(share) => format!("{name} {:.0} %", share * 100.0),
            None => name.clone(),
        });
        let more = self.parts.len().checked_sub(PARTS_MAX).filter(|more| *more > 0);
        let more = more.map(|more| format!("{more} more"));
        let all: Vec<String> = done.into_iter().chain(named).chain(more).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

impl Report {
    pub(crate) fn new(json: bool, quiet: bool) -> Report {
        Report::with_style(match (json, quiet) {
            (true, _) => Style::Json,
            (_, true) => Style::Quiet,
            _ if io::stderr().is_terminal() => Style::Terminal,
            _ => Style::Lines,
        })
    }

    /// For errors before the options are known.
    pub(crate) fn plain() -> Report {
        Report::with_style(Style::Lines)
    }

    fn with_style(style: Style) -> Report {
        let bar = match style {
            Style::Terminal => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            _ => ProgressBar::hidden(),
        };
        bar.set_style(
            ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        Report(Arc::new(Inner {
            style,
            bar,
            phase: Mutex::new(Phase::new("", None)),
            read: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }))
    }

    /// The same, for work that keeps it.
    pub(crate) fn shared(&self) -> progress::Shared {
        Arc::new(self.clone())
    }

    pub(crate) fn is_json(&self) -> bool {
        self.0.style == Style::Json
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.0.style == Style::Quiet
    }

    /// Standard output, for data among which lines of JSON would be damage.
    pub(crate) fn output(&self) -> anyhow::Result<exit::Stdout> {
        if self.is_json() {
            let text = "standard output is for the data: leave --json out, or write to a file";
            return Err(failure::usage(text));
        }
        Ok(exit::stdout())
    }

    /// Writes a line of data to stdout.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        let mut out = exit::stdout();
        // In one write, so that lines of several threads do not mix.
        out.write_all(format!("{text}\n").as_bytes())?;
        out.flush()
    }

    /// Writes a line of JSON to stdout.
    pub(crate) fn message(&self, value: &serde_json::Value) -> io::Result<()> {
        // The summary is the last line.
        if value["message_type"] == "summary" {
            let ended = std::mem::replace(&mut *self.phase_now(), Phase::new("", None));
            self.phase_ended(&ended);
        }
        self.data(&value.to_string())
    }

    /// A message for people, above the moving line.
    pub(crate) fn say(&self, text: &str) {
        self.0.bar.suspend(|| {
            // If stderr is gone nobody can be told.
            writeln!(io::stderr().lock(), "{}", text::plain(text)).ok();
        });
    }

    /// Prints the last message of a command that failed.
    pub(crate) fn error(&self, error: &anyhow::Error, exit: Exit) {
        self.end();
        let text = failure::text(error);
        if self.is_json() {
            let line = json!({"message_type": "error", "message": text, "exit_code": exit.code()});
            self.message(&line).ok();
        } else {
            self.say(&format!("remora: {text}"));
        }
    }

    /// Begins a phase that continues until it is stopped: its line is shown on a terminal, and on request.
    pub(crate) fn endless(&self, name: &str) {
        self.phase(name, None);
        self.phase_now().is_endless = true;
    }

    /// Prints the progress line at once, for SIGUSR1.
    pub(crate) fn print_line(&self) {
        let line = self.line(&self.phase_now());
        self.say(&line);
    }

    /// Tells a program how long the phase took that ends now.
    fn phase_ended(&self, phase: &Phase) {
        if self.is_json() && !phase.name.is_empty() {
            let seconds = phase.began.elapsed().as_secs_f64();
            let line = json!({"message_type": "phase", "phase": phase.name, "seconds": seconds});
            self.message(&line).ok();
        }
    }

    fn phase_now(&self) -> MutexGuard<'_, Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `loading   62 %   3.4 M rows   412 k rows/s   31 MB/s   0:08 left`
    fn line(&self, phase: &Phase) -> String {
        let (read, rows, bytes) = self.counts();
        let seconds = phase.began.elapsed().as_secs_f64();
        let mut parts = vec![phase.name.clone()];
        parts.extend(phase.steps.clone());
        if let Some(share) = share(read, phase.total) {
            parts.push(format!("{:.0} %", share * 100.0));
        }
        if rows > 0 {
            parts.push(self::rows(rows));
            parts.push(rate(as_f64(rows) / seconds));
            parts.push(format!("{:.0} MB/s", as_f64(bytes) / 1e6 / seconds));
        } else if read > 0 {
            parts.push(format!("{:.0} MB/s", as_f64(read) / 1e6 / seconds));
        }
        match share(read, phase.total).filter(|share| *share > 0.0) {
            Some(share) if seconds > 1.0 => parts.push(format!("{} left", clock(seconds / share - seconds))),
            _ => parts.push(format!("{} so far", clock(seconds))),
        }
        parts.extend(phase.parts());
        parts.join("   ")
    }

    fn counts(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.0.read), load(&self.0.rows), load(&self.0.bytes))
    }

    /// Draws or prints the line when it is time. Called at every progress.
    fn tick(&self) {
        let interval = match self.0.style {
            Style::Quiet => return,
            Style::Terminal | Style::Json => DRAW_INTERVAL,
            Style::Lines => LINE_INTERVAL,
        };
        let mut phase = self.phase_now();
        if phase.drawn.elapsed() < interval || self.0.ended.load(Ordering::Relaxed) {
            return;
        }
        phase.drawn = Instant::now();
        match self.0.style {
            Style::Terminal => self.0.bar.set_message(self.line(&phase)),
            Style::Json => {
                let (read, rows, bytes) = self.counts();
                let line = json!({
                    "message_type": "status", "phase": phase.name, "seconds": phase.began.elapsed().as_secs_f64(),
                    "bytes_read": read, "bytes_total": phase.total, "rows": rows, "bytes_done": bytes,
                    "parts_whole": phase.whole, "steps": phase.steps,
                    "parts": phase.parts.iter().map(|(name, share)| json!({"name": name, "share": share})).collect::<Vec<_>>(),
                });
                self.message(&line).ok();
            }
            Style::Lines if phase.is_endless => {}
            _ => self.say(&self.line(&phase)),
        }
    }
}

impl Progress for Report {
    fn phase(&self, name: &str, bytes: Option<u64>) {
        for counter in [&self.0.read, &self.0.rows, &self.0.bytes] {
            counter.store(0, Ordering::Relaxed);
        }
        let ended = std::mem::replace(&mut *self.phase_now(), Phase::new(name, bytes));
        self.phase_ended(&ended);
        if self.0.style == Style::Terminal {
            self.0.bar.set_message(name.to_owned());
            // The clock runs on while the server is busy with one long statement.
            self.0.bar.enable_steady_tick(DRAW_INTERVAL);
        }
    }

    fn read(&self, bytes: u64) {
        self.0.read.fetch_add(bytes, Ordering::Relaxed);
        self.tick();
    }

    fn done(&self, rows: u64, bytes: u64) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tick();
    }

    fn step(&self, done: usize, total: usize, noun: &str) {
        self.phase_now().steps = Some(format!("{done} of {}", count(total as u64, noun)));
        self.tick();
    }

    fn state(&self, text: &str) {
        self.phase_now().steps = Some(text.to_owned());
        self.tick();
    }

    fn part(&self, part: &Part<'_>) {
        let mut phase = self.phase_now();
        let known = phase.parts.iter().position(|(name, _)| name == part.name);
        if !part.is_whole {
            let share = share(part.bytes, Some(part.bytes_total));
            match known {
                Some(at) => phase.parts[at].1 = share,
                None => phase.parts.push((part.name.to_owned(), share)),
            }
            return;
        }
        phase.whole += 1;
        if let Some(at) = known {
            phase.parts.remove(at);
        }
        let name = phase.name.clone();
        drop(phase);
        match self.0.style {
            Style::Json => {
                self.message(&json!({
                    "message_type": "part", "phase": name, "name": part.name, "rows": part.rows, "bytes": part.bytes,
                }))
                .ok();
            }
            Style::Terminal | Style::Lines if part.bytes >= TOLD_FROM_BYTES => {
                self.say(&format!("{name}: {} is done, {}, {}", part.name, rows(part.rows), size(part.bytes)))
            }
            _ => {}
        }
    }

    /// Removes the moving line.
    fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
        self.0.bar.finish_and_clear();
    }

    fn note(&self, text: &str) {
        match self.0.style {
            Style::Quiet => {}
            Style::Json => {
                self.message(&json!({"message_type": "note", "message": text})).ok();
            }
            _ => self.say(text),
        }
    }

    fn warn(&self, text: &str) {
        match self.0.style {
            Style::Json => {
                self.message(&json!({"message_type": "warning", "message": text})).ok();
            }
            _ => self.say(&format!("warning: {text}")),
        }
    }
}

fn share(read: u64, total: Option<u64>) -> Option<f64> {
    total.filter(|total| *total > 0).map(|total| (as_f64(read) / as_f64(total)).min(1.0))
}

/// `1 row`, `12.3 k rows`
pub(crate) fn rows(number: u64) -> String {
    if number < 1000 { count(number, "row") } else { format!("{} rows", short(as_f64(number))) }
}

/// `1 row/s`, `412 k rows/s`
pub(crate) fn rate(rows_a_second: f64) -> String {
    let number = short(rows_a_second);
    let noun = if number == "1" { "row" } else { "rows" };
    format!("{number} {noun}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([rows(1), rows(999), rows(1200)], ["1 row", "999 rows", "1.20 k rows"]);
        assert_eq!(
            [clock(7.6), clock(61.0), clock(3723.0), clock(-1.0)],
            ["0:08", "1:01", "1:02:03", "0:00"]
        );
    }

    #[test]
    fn a_line_tells_share_rate_and_time_left() {
        let report = Report::with_style(Style::Quiet);
        report.phase("loading", Some(1000));
        report.read(250);
        report.done(10, 500);
        report.phase_now().began = Instant::now() - Duration::from_secs(10);
        assert_eq!(
            report.line(&report.phase_now()),
            "loading   25 %   10 rows   1 row/s   0 MB/s   0:30 left"
        );
        let part =
            |name, bytes, is_whole| report.part(&Part { name, rows: 1, bytes, bytes_total: 8, is_whole });
        for (name, bytes, is_whole) in
            [("d.a", 8, false), ("d.b", 2, false), ("d.c", 1, false), ("d.a", 8, true)]
        {
            part(name, bytes, is_whole);
        }
        assert_eq!(report.phase_now().parts().as_deref(), Some("1 done, d.b 25 %, d.c 12 %"));
        part("d.e", 0, false);
        assert!(report.line(&report.phase_now()).ends_with("0:30 left   1 done, d.b 25 %, d.c 12 %, 1 more"));
        report.phase("verifying", None);
        assert_eq!(report.phase_now().parts(), None);
    }
}
