//! The terminal as a screen: whether it can be one, its keys, and its end.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Result;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::End;

/// Whether the terminal can't move its cursor, as inside of an editor.
pub fn is_dumb() -> bool {
    std::env::var("TERM").map_or(true, |term| matches!(term.as_str(), "" | "dumb"))
}

/// The columns that a line may have where nobody knows better.
pub const USUAL_WIDTH: usize = 80;

/// The width of the terminal, if standard output is one.
pub fn width() -> Option<usize> {
    let size = io::stdout().is_terminal().then(ratatui::crossterm::terminal::size)?;
    size.ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Draws a screen, and restores the terminal. When the terminal is gone it ends as by SIGHUP.
pub fn screen(show: impl FnOnce(&mut DefaultTerminal, &mut Keyboard) -> Result<End>) -> Result<End> {
    let mut keyboard = Keyboard::open()?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &mut keyboard);
    let restored = ratatui::try_restore();
    let is_gone = |error: &anyhow::Error| error.downcast_ref().is_some_and(is_hung_up);
    match ended {
        Err(error) if is_gone(&error) => Ok(End::HungUp),
        Ok(End::HungUp) => Ok(End::HungUp),
        ended => {
            restored?;
            ended
        }
    }
}

/// Whether the terminal has another size than what was drawn last.
pub fn is_resized(terminal: &mut DefaultTerminal) -> io::Result<bool> {
    Ok(terminal.size()? != terminal.get_frame().area().as_size())
}

/// What a terminal answers when nobody is at its other end.
fn is_hung_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// The keys of the terminal. (crossterm has a reader too, which never returns once the terminal is gone.)
pub struct Keyboard(File);

impl Keyboard {
    #[expect(clippy::disallowed_methods, reason = "the terminal is no file of the user's")]
    fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Keyboard(stdin.as_fd().try_clone_to_owned()?.into()));
        }
        File::open("/dev/tty").map(Keyboard)
    }

    /// Waits for keys, and returns those that were pressed; `None` when the terminal is gone.
    pub fn next(&mut self, wait: Duration) -> io::Result<Option<Vec<KeyEvent>>> {
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        let mut asked = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut asked, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Some(Vec::new())),
            found => found?,
        };
        let mut bytes = [0; 1024];
        match self.0.read(&mut bytes) {
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(keys(bytes.get(..count).unwrap_or_default()))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(Vec::new())),
            Err(error) if is_hung_up(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The keys that a terminal sends as these bytes.
fn keys(mut bytes: &[u8]) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        let code = match (first, rest) {
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
                let (sequence, after) = sequence.split_at(end.map_or(sequence.len(), |end| end + 1));
                bytes = after;
                named(sequence)
            }
            (byte, rest) if byte.is_ascii() => {
                bytes = rest;
                plain(*byte)
            }
            _ => {
                let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
                let letter = text.chars().next();
                bytes = bytes.get(letter.map_or(1, char::len_utf8)..).unwrap_or_default();
                letter.map(KeyCode::Char)
            }
        };
        let modifiers = if *first == 3 { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
        keys.extend(code.map(|code| KeyEvent::new(code, modifiers)));
    }
    keys
}

fn plain(byte: u8) -> Option<KeyCode> {
    match byte {
        0x1b => Some(KeyCode::Esc),
        b'\r' | b'\n' => Some(KeyCode::Enter),
        b'\t' => Some(KeyCode::Tab),
        8 | 0x7f => Some(KeyCode::Backspace),
        3 => Some(KeyCode::Char('c')),
        ..0x20 => None,
        _ => Some(KeyCode::Char(char::from(byte))),
    }
}

/// The key of an escape sequence, behind its first two bytes.
fn named(sequence: &[u8]) -> Option<KeyCode> {
    match sequence {
        [.., b'A'] => Some(KeyCode::Up),
        [.., b'B'] => Some(KeyCode::Down),
        [.., b'C'] => Some(KeyCode::Right),
        [.., b'D'] => Some(KeyCode::Left),
        [.., b'H'] | b"1~" | b"7~" => Some(KeyCode::Home),
        [.., b'Z'] => Some(KeyCode::BackTab),
        b"5~" => Some(KeyCode::PageUp),
        b"6~" => Some(KeyCode::PageDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_recognised_by_their_bytes() {
        let codes = |bytes: &[u8]| keys(bytes).into_iter().map(|key| key.code).collect::<Vec<_>>();
        let letters = |text: &str| text.chars().map(KeyCode::Char).collect::<Vec<_>>();
        assert_eq!(codes("q/\u{e4}?".as_bytes()), letters("q/\u{e4}?"));
        assert_eq!(codes(b"\x1b"), [KeyCode::Esc]);
        assert_eq!(codes(b"\r\t\x7f\x01"), [KeyCode::Enter, KeyCode::Tab, KeyCode::Backspace]);
        use KeyCode::{BackTab, Down, Home, Left, PageDown, PageUp, Right, Up};
        let arrows = b"\x1b[A\x1b[B\x1bOC\x1b[1;5D\x1b[H\x1b[1~\x1b[5~\x1b[6~\x1b[Z";
        assert_eq!(codes(arrows), [Up, Down, Right, Left, Home, Home, PageUp, PageDown, BackTab]);
        // What is not known, or not whole, does not end the rest.
        assert_eq!(codes(b"a\x1b[200~b\xffc\xc3"), letters("abc"));
        assert_eq!(codes(b"\x1b[3"), []);
        assert_eq!(keys(b"\x03"), [KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)]);
    }
}
