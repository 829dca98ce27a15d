//! `remora stat --live`: a screen.

mod draw;
mod screen;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyEventKind};

use self::screen::{Screen, Step};
use super::feed::{Feed, Times};
use super::recording::Recorder;
use crate::exit::{Exit, stopped};

/// The longest delay between a key and its effect.
const LOOK: Duration = Duration::from_millis(50);

/// Shows servers until a key or a signal ends it, and restores the terminal.
pub(crate) fn run(
    feed: &Feed,
    interval: Duration,
    stop: &AtomicBool,
    recorder: Option<&mut Recorder>,
) -> Result<Exit> {
    let mut terminal = ratatui::try_init()?;
    let ended = follow(&mut terminal, feed, interval, stop, recorder);
    ratatui::try_restore()?;
    ended
}

fn follow(
    terminal: &mut DefaultTerminal,
    feed: &Feed,
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
            next = times.next();
        }
        let mut has_changed = false;
        while let Some(event) = feed.next(Instant::now(), stop) {
            if let (Some(recorder), Ok(sample)) = (&mut recorder, &event.what) {
                recorder.add(&feed.names()[event.server], sample)?;
            }
            screen.take(event);
            has_changed = true;
        }
        if event::poll(LOOK)? {
            match event::read()? {
                Input::Key(key) if key.kind == KeyEventKind::Press && screen.key(key) == Step::End => {
                    return Ok(Exit::Done);
                }
                _ => has_changed = true,
            }
        }
        if has_changed || screen.is_new() {
            terminal.draw(|frame| draw::draw(frame, &mut screen))?;
        }
    }
    Ok(stopped())
}
