//! A terminal for programs that draw: what they have drawn, as lines, and keys for them.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::support::{PATIENCE, until};

/// The cells of a terminal, and where its cursor is.
struct Cells {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// A sequence that has not ended yet.
    sequence: Option<String>,
}

impl Cells {
    /// Takes a character as a terminal does: only what ratatui writes is understood.
    fn take(&mut self, c: char) {
        if let Some(sequence) = &mut self.sequence {
            sequence.push(c);
            if c.is_ascii_alphabetic() && sequence != "O" {
                let done = self.sequence.take().unwrap_or_default();
                self.obey(&done);
            }
            return;
        }
        match c {
            '\u{1b}' => self.sequence = Some(String::new()),
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            c if c.is_control() => {}
            c => {
                if let Some(cell) = self.lines.get_mut(self.row).and_then(|line| line.get_mut(self.column)) {
                    *cell = c;
                }
                self.column += 1;
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        let Some(sequence) = sequence.strip_prefix('[') else { return };
        match sequence.chars().last() {
            Some('H') => {
                let mut numbers = sequence.trim_end_matches('H').split(';').map(|n| n.parse().unwrap_or(1));
                let mut next = || numbers.next().unwrap_or(1_usize).saturating_sub(1);
                (self.row, self.column) = (next(), next());
            }
            Some('J') => self.lines.iter_mut().for_each(|line| line.fill(' ')),
            _ => {}
        }
    }
}

/// A program in a terminal of its own. It ends with this value.
pub(crate) struct Terminal {
    script: Child,
    keys: ChildStdin,
    cells: Arc<Mutex<Cells>>,
}

impl Terminal {
    /// Runs a line of a shell in a terminal of this size.
    pub(crate) fn run(line: &str, (columns, rows): (usize, usize)) -> Terminal {
        let mut script = Command::new("script");
        let line = format!("stty rows {rows} cols {columns}; exec {line}");
        script.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let lines = vec![vec![' '; columns]; rows];
        let cells = Arc::new(Mutex::new(Cells { lines, row: 0, column: 0, sequence: None }));
        let drawn = Arc::clone(&cells);
        std::thread::spawn(move || {
            let (mut waiting, mut part) = (Vec::new(), [0; 4096]);
            while let Ok(count) = output.read(&mut part) {
                if count == 0 {
                    return;
                }
                waiting.extend_from_slice(&part[..count]);
                // A character may come in two parts.
                let whole = match std::str::from_utf8(&waiting) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let mut cells = drawn.lock().unwrap();
                String::from_utf8_lossy(&waiting[..whole]).chars().for_each(|c| cells.take(c));
                waiting.drain(..whole);
            }
        });
        Terminal { script, keys, cells }
    }

    /// What is drawn now.
    pub(crate) fn text(&self) -> String {
        let cells = self.cells.lock().unwrap();
        let lines = cells.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until all of these are drawn.
    #[track_caller]
    pub(crate) fn shows(&self, expected: &[&str]) {
        let begin = Instant::now();
        until(&format!("{expected:?} on the screen"), || {
            let text = self.text();
            let is_there = expected.iter().all(|expected| text.contains(expected));
            assert!(is_there || begin.elapsed() < PATIENCE / 5, "{expected:?} in\n{text}");
            is_there
        });
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.script.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.script.kill().ok();
        self.script.wait().ok();
    }
}
