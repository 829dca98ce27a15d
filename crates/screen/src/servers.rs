//! `remora stat --live`: a screen.

mod blocked;
mod counters;
mod draw;
mod item;
mod machine;
mod overview;
mod popup;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod watched;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use monitor::fleet::{Event, Fleet, Times};
use monitor::incident::Incident;
use monitor::recording::{self, Recorder};
use ratatui::DefaultTerminal;
use server::Target;
use status::counter::record::Recorded;

use self::screen::{Page, Screen, Step};
use self::watched::FRAMES_MAX;
use crate::End;
use crate::terminal::{self, Keyboard};

/// The longest delay between a key and its effect.
const LOOK: Duration = Duration::from_millis(50);

/// The servers that are shown.
pub struct Shown<'a> {
    /// They, and what asks them.
    pub fleet: &'a Fleet,
    /// How to reach each of them, for sessions of their own.
    pub targets: &'a [Target],
    /// The time between two looks.
    pub interval: Duration,
    /// After how many intervals to end; `None` for never.
    pub count: Option<u64>,
}

/// Shows servers until a key, a signal or the end of the terminal ends it.
pub fn run(shown: &Shown<'_>, stop: &AtomicBool, recorder: Option<&mut Recorder>) -> Result<End> {
    terminal::screen(|terminal, keyboard| follow((terminal, keyboard), shown, stop, recorder))
}

fn follow(
    (terminal, keyboard): (&mut DefaultTerminal, &mut Keyboard),
    shown: &Shown<'_>,
    stop: &AtomicBool,
    mut recorder: Option<&mut Recorder>,
) -> Result<End> {
    let fleet = shown.fleet;
    let mut screen = Screen::new(fleet.names().to_vec(), shown.interval);
    let mut times = Times::new(shown.interval);
    let mut next = Instant::now();
    let mut left = shown.count.map(|count| count.saturating_add(1));
    fleet.set_digests(false);
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            if left == Some(0) {
                return Ok(End::Done);
            }
            left = left.map(|left| left - 1);
            fleet.ask();
            next = times.advance();
        }
        let mut has_changed = false;
        while let Some(event) = fleet.next(Instant::now(), stop) {
            if let (Some(recorder), Ok(sample)) = (&mut recorder, &event.what) {
                recorder.add(&fleet.names()[event.server], sample, &event.incident)?;
            }
            screen.take(event);
            has_changed = true;
        }
        while let Some((server, reply)) = fleet.reply() {
            screen.reply(server, reply);
            has_changed = true;
        }
        has_changed |= screen.wait(fleet.waited(screen.shown));
        let Some(keys) = keyboard.next(LOOK)? else { return Ok(End::HungUp) };
        for key in keys {
            let page = screen.page;
            match screen.key(key) {
                Step::End => return Ok(End::Done),
                Step::Go => {}
                Step::Ask(request) => fleet.request(screen.shown, request),
                Step::Explain(id) => fleet.explain(screen.shown, shown.targets[screen.shown].clone(), id),
            }
            if page != screen.page {
                // They are many: a server sends them only while somebody looks.
                fleet.set_digests(screen.page == Page::Statements);
                fleet.set_whole(screen.page == Page::Counters);
            }
            has_changed = true;
        }
        if has_changed || screen.is_new() || terminal::is_resized(terminal)? {
            terminal.draw(|frame| draw::draw(frame, &mut screen))?;
        }
    }
    Ok(End::Stopped)
}

/// Shows a recording on the screen, its end first. Of a long one at most `FRAMES_MAX` samples of each
/// server are kept; counters are changes between those.
pub fn replay(file: &Path, interval: Duration, stop: &AtomicBool) -> Result<End> {
    let (names, span) = recording::survey(file)?;
    let frames = u32::try_from(FRAMES_MAX).unwrap_or(u32::MAX);
    let interval = interval.max(span / frames);
    let mut screen = Screen::new(names.clone(), interval);
    let mut last: Vec<Option<Duration>> = vec![None; names.len()];
    let mut own: Vec<Option<status::counter::sample::Sample>> = vec![None; names.len()];
    recording::replay(file, None, &mut |Recorded { server, mut sample, beside }| {
        let server = names.iter().position(|known| *known == server).unwrap_or_default();
        if sample.begin.is_none()
            && let Some(skipped) = own[server].take()
        {
            sample.add_own(&skipped);
        }
        let since = last[server].map(|last| sample.at.saturating_sub(last));
        // A sample may be taken a little earlier or later than scheduled.
        if sample.begin.is_none() && since.is_some_and(|since| since + interval / 20 < interval) {
            own[server] = Some(sample);
        } else {
            last[server] = Some(sample.at);
            let (notes, incident) = (Vec::new(), Incident::recorded(&beside, &mut sample));
            screen.take(Event { server, what: Ok(sample), notes, incident });
        }
        Ok(!stop.load(Ordering::Relaxed))
    })?;
    screen.show_recording();
    terminal::screen(|terminal, keyboard| {
        while !stop.load(Ordering::Relaxed) {
            terminal.draw(|frame| draw::draw(frame, &mut screen))?;
            let Some(keys) = keyboard.next(LOOK)? else { return Ok(End::HungUp) };
            for key in keys {
                if matches!(screen.key(key), Step::End) {
                    return Ok(End::Done);
                }
            }
        }
        Ok(End::Stopped)
    })
}
