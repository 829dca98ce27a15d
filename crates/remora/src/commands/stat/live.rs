//! `remora stat --live`: a screen.

mod draw;
mod screen;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use monitor::fleet::{Fleet, Times};
use monitor::recording::Recorder;
use ratatui::DefaultTerminal;

use self::screen::{Screen, Step};
use crate::exit::{Exit, stopped};
use crate::terminal::{self, Keyboard};

/// The longest delay between a key and its effect.
const LOOK: Duration = Duration::from_millis(50);

/// Shows servers until a key, a signal or the end of the terminal ends it.
pub(crate) fn run(
    feed: &Fleet,
    interval: Duration,
    stop: &AtomicBool,
    recorder: Option<&mut Recorder>,
) -> Result<Exit> {
    terminal::screen(|terminal, keyboard| follow((terminal, keyboard), feed, interval, stop, recorder))
}

fn follow(
    (terminal, keyboard): (&mut DefaultTerminal, &mut Keyboard),
    feed: &Fleet,
    interval: Duration,
    stop: &AtomicBool,
    mut recorder: Option<&mut Recorder>,
) -> Result<Exit> {
    let mut screen = Screen::new(feed.names().to_vec(), interval);
    let mut times = Times::new(interval);
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            feed.ask();
            next = times.advance();
        }
        let mut has_changed = false;
        while let Some(event) = feed.next(Instant::now(), stop) {
            if let (Some(recorder), Ok(sample)) = (&mut recorder, &event.what) {
                recorder.add(&feed.names()[event.server], sample)?;
            }
            screen.take(event);
            has_changed = true;
        }
        let Some(keys) = keyboard.next(LOOK)? else { return Ok(Exit::HungUp) };
        for key in keys {
            if screen.key(key) == Step::End {
                return Ok(Exit::Done);
            }
            has_changed = true;
        }
        if has_changed || screen.is_new() || terminal::is_resized(terminal)? {
            terminal.draw(|frame| draw::draw(frame, &mut screen))?;
        }
    }
    Ok(stopped())
}
