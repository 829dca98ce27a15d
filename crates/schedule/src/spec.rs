//! When a schedule comes.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::Error;

/// The most ticks that are delivered at once after an interruption.
const CAUGHT_UP_MAX: usize = 1000;

/// How far a cron expression is looked ahead for its next tick.
const YEARS_MAX: i32 = 10;

/// A cron expression in a time zone, or an interval.
///
/// A local time that does not exist, because clocks go forward, is replaced by the first one after the gap;
/// one that comes twice counts the first time only. That is so for an expression with one minute and one
/// hour. One with lists, ranges or steps there goes by the clock on the wall: it comes whenever that shows a
/// time of it.
#[derive(Debug, Clone)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Debug, Clone)]
enum Times {
    Cron(Box<Cron>),
    Every(SignedDuration),
}

/// What is delivered of the ticks that passed while nobody could deliver them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// Nothing.
    Skip,
    /// The last one.
    Once,
    /// All, at most the last 1000.
    All,
}

impl Missed {
    /// As the table names it.
    pub fn named(name: &str) -> Option<Missed> {
        match name {
            "skip" => Some(Missed::Skip),
            "once" => Some(Missed::Once),
            "all" => Some(Missed::All),
            _ => None,
        }
    }
}

/// What has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The ticks to deliver, in order. None if all were missed and are skipped.
    pub ticks: Vec<Timestamp>,
    /// The last tick that has come, delivered or not.
    pub last: Timestamp,
}

impl Schedule {
    /// `spec`: five fields of cron, six with seconds first, `@hourly` and its like, or `@every 90s`. `zone`:
    /// a name of the IANA database, or an offset from UTC such as `+02:00`.
    ///
    /// # Errors
    /// When one of them is not that, or the expression never comes.
    pub fn parse(spec: &str, zone: &str) -> Result<Schedule, Error> {
        let wrong = |why: String| Error::Spec { spec: spec.to_owned(), why };
        let zone = time_zone(zone.trim()).ok_or_else(|| Error::Zone(zone.to_owned()))?;
        let times = match spec.trim().strip_prefix("@every ") {
            Some(interval) => Times::Every(interval_of(interval).map_err(wrong)?),
            None => {
                let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
                let cron = parser.parse(spec.trim()).map_err(|error| wrong(reason(&error)))?;
                Times::Cron(Box::new(cron))
            }
        };
        Ok(Schedule { times, zone })
    }

    /// The first tick after an instant; none if there is none within ten years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let cron = match &self.times {
            Times::Every(interval) => return after.checked_add(*interval).ok(),
            Times::Cron(cron) => cron,
        };
        let after = after.to_zoned(self.zone.clone());
        let limit = after.checked_add(YEARS_MAX.years()).ok()?;
        cron.find_next_occurrence(&after, false)
            .ok()
            .filter(|next| *next <= limit)
            .map(|next| next.timestamp())
    }

    /// What has come after one instant until another one. A tick that is `grace` old or less is on time, and
    /// delivered in any case.
    pub fn due(
        &self,
        after: Timestamp,
        now: Timestamp,
        missed: Missed,
        grace: SignedDuration,
    ) -> Option<Due> {
        let mut ticks = self.backwards(after, now);
        let last = *ticks.first()?;
        ticks.reverse();
        let on_time = ticks.partition_point(|tick| now.duration_since(*tick) > grace);
        let skipped = match missed {
            Missed::All => 0,
            Missed::Once if on_time == ticks.len() => ticks.len() - 1,
            Missed::Once | Missed::Skip => on_time,
        };
        ticks.drain(..skipped);
        Some(Due { ticks, last })
    }

    /// The last ticks after one instant until another one, the newest first.
    fn backwards(&self, after: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        match &self.times {
            Times::Every(interval) => {
                let passed = now.duration_since(after).as_nanos() / interval.as_nanos();
                let tick = |count: i128| {
                    let nanos = interval.as_nanos() * count;
                    after.checked_add(SignedDuration::from_nanos_i128(nanos)).ok()
                };
                (1..=passed).rev().take(CAUGHT_UP_MAX).map_while(tick).collect()
            }
            Times::Cron(cron) => {
                let before = |from: Timestamp, inclusive| {
                    let found = cron.find_previous_occurrence(&from.to_zoned(self.zone.clone()), inclusive);
                    found.ok().map(|tick| tick.timestamp()).filter(|tick| *tick > after)
                };
                // An expression of seconds has ticks on whole seconds only.
                let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
                std::iter::successors(before(now, true), |tick| before(*tick, false))
                    .take(CAUGHT_UP_MAX)
                    .collect()
            }
        }
    }
}

fn time_zone(name: &str) -> Option<TimeZone> {
    let offset = || {
        let (sign, rest) = match name.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':')?;
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let inside = (0..=14).contains(&hours) && (0..60).contains(&minutes) && rest.len() <= 5;
        inside.then(|| Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()).flatten()
    };
    offset().map(TimeZone::fixed).or_else(|| TimeZone::get(name).ok())
}

/// `90s`, `15m`, `2h`, `1d`, or several of these, at least a second.
fn interval_of(text: &str) -> Result<SignedDuration, String> {
    let usage = || format!("'{}' is no interval; write @every 90s, @every 15m or @every 1h30m", text.trim());
    let mut seconds: i64 = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let (count, unit) = rest.split_at(digits);
        let unit_s: i64 = match unit.chars().next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86400,
            _ => return Err(usage()),
        };
        let part = count.parse::<i64>().ok().and_then(|count| count.checked_mul(unit_s));
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(usage)?;
        rest = &unit[1..];
    }
    // Ten years, as for an expression.
    if (1..=315_360_000).contains(&seconds) { Ok(SignedDuration::from_secs(seconds)) } else { Err(usage()) }
}

/// What the parser says, in one line.
fn reason(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let text = text.trim_end_matches('.').replace('\n', " ");
    match text.split_once("error: ").or_else(|| text.split_once("pattern: ")) {
        Some((_, why)) => why.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
