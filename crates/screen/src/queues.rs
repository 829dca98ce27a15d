//! `remora queue status --live`: a screen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use crate::End;
use crate::terminal::{self, Keyboard};

/// The longest delay between a key and its effect.
const LOOK: Duration = Duration::from_millis(50);

/// What the screen shows.
struct Screen<'a> {
    server: &'a str,
    /// The table, its head first.
    table: Vec<String>,
    /// Why there is nothing newer.
    trouble: Option<String>,
    /// How many queues are above those that are shown.
    above: usize,
}

/// Shows the table that `look` returns, again and again, until a key, a signal or the end of the terminal
/// ends it.
pub fn run(
    server: &str,
    look: impl FnMut() -> Result<Vec<String>>,
    every: Duration,
    stop: &AtomicBool,
) -> Result<End> {
    let screen = Screen { server, table: Vec::new(), trouble: None, above: 0 };
    terminal::screen(|terminal, keyboard| screen.follow((terminal, keyboard), look, every, stop))
}

impl Screen<'_> {
    fn follow(
        mut self,
        (terminal, keyboard): (&mut DefaultTerminal, &mut Keyboard),
        mut look: impl FnMut() -> Result<Vec<String>>,
        every: Duration,
        stop: &AtomicBool,
    ) -> Result<End> {
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let is_due = now >= next;
            if is_due {
                match look() {
                    Ok(table) => (self.table, self.trouble) = (table, None),
                    Err(error) => self.trouble = Some(format!("trying again: {error:#}")),
                }
                next = now + every;
            }
            let Some(keys) = keyboard.next(LOOK)? else { return Ok(End::HungUp) };
            let has_input = !keys.is_empty();
            if keys.into_iter().any(|key| self.ends(key)) {
                return Ok(End::Done);
            }
            if is_due || has_input || terminal::is_resized(terminal)? {
                terminal.draw(|frame| self.draw(frame))?;
            }
        }
        Ok(End::Stopped)
    }

    /// Does what a key says; true for the end.
    fn ends(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') => return key.modifiers.contains(KeyModifiers::CONTROL),
            KeyCode::Down => self.above += 1,
            KeyCode::Up => self.above = self.above.saturating_sub(1),
            KeyCode::PageDown => self.above += 10,
            KeyCode::PageUp => self.above = self.above.saturating_sub(10),
            KeyCode::Home => self.above = 0,
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [top, head, queues, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Line::from(self.server).bold(), top);
        if let Some((first, rest)) = self.table.split_first() {
            // The last queues stay in sight.
            self.above = self.above.min(rest.len().saturating_sub(usize::from(queues.height)));
            let shown = rest.iter().skip(self.above).map(|line| Line::from(line.as_str()));
            frame.render_widget(Line::from(first.as_str()).fg(Color::DarkGray), head);
            frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), queues);
        }
        let last = match &self.trouble {
            Some(trouble) => Line::from(trouble.as_str()).fg(Color::Red),
            None => Line::from("q ends it; up and down scroll").fg(Color::DarkGray),
        };
        frame.render_widget(last, foot);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::Screen;

    /// What a screen of 30 columns and 6 lines shows, so that two queues fit.
    fn shown(screen: &mut Screen<'_>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(30, 6)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(30);
        lines
            .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
            .collect()
    }

    fn press(screen: &mut Screen<'_>, code: KeyCode, modifiers: KeyModifiers) -> bool {
        screen.ends(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn queues_scroll_below_their_head_and_errors_are_shown() {
        let table = ["queue  waiting", "a 1", "b 2", "c 3"].map(str::to_owned).to_vec();
        let mut screen = Screen { server: "the server", table, trouble: None, above: 0 };
        let foot = "q ends it; up and down scroll";
        assert_eq!(shown(&mut screen), ["the server", "", "queue  waiting", "a 1", "b 2", foot]);
        for _ in 0..5 {
            assert!(!press(&mut screen, KeyCode::Down, KeyModifiers::NONE));
        }
        assert_eq!(shown(&mut screen), ["the server", "", "queue  waiting", "b 2", "c 3", foot]);
        assert!(!press(&mut screen, KeyCode::Up, KeyModifiers::NONE));
        screen.trouble = Some("trying again: gone".to_owned());
        assert_eq!(
            shown(&mut screen),
            ["the server", "", "queue  waiting", "a 1", "b 2", "trying again: gone"]
        );
        assert!(!press(&mut screen, KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(press(&mut screen, KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(press(&mut screen, KeyCode::Char('q'), KeyModifiers::NONE));
    }
}
