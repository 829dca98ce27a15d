//! A log of page views that is made up: some pages are read far more often than others, and there are more
//! hits by day. The same number of hits gives the same log.

mod random;
mod urls;

use std::io::{self, Write};

pub use random::Random;
use random::Wheel;

/// Agents and their frequencies, per mille.
const AGENTS: [(&str, u64); 5] = [
    (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0 Safari/537.36",
        520,
    ),
    (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6",
        280,
    ),
    ("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", 120),
    ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", 60),
    ("curl/7.88.1", 20),
];

/// Length of the log in seconds: a week.
const SECONDS: u64 = 7 * 86_400;

/// The share of each hour of the day in its hits.
const HOURS: [u64; 24] =
    [18, 12, 9, 7, 7, 9, 15, 26, 38, 46, 50, 52, 54, 55, 54, 53, 52, 53, 56, 60, 62, 57, 43, 28];

/// How many pages there are.
const PAGES: usize = 3000;

/// Writes a log of so many hits as CSV with a header: a number, time, URL, where the reader came from, status
/// of HTTP, bytes and browser.
///
/// # Errors
/// Those of `out`.
pub fn write(hits: u64, out: &mut dyn Write) -> io::Result<()> {
    let urls = urls::urls(PAGES);
    let mut random = Random::new(20_261_121);
    // The list is sorted by host; popularity must not be.
    let mut rank: Vec<usize> = (0..urls.len()).collect();
    for at in (1..rank.len()).rev() {
        let other = usize::try_from(random.below(at as u64 + 1)).unwrap_or(at);
        rank.swap(at, other);
    }
    let popularity = Wheel::new((1..=urls.len() as u64).map(|rank| 1_000_000_000 / rank));
    let agents = Wheel::new(AGENTS.iter().map(|(_, weight)| *weight));
    let page = |random: &mut Random| rank.get(popularity.draw(random)).copied().unwrap_or(0);
    let url = |page: usize| urls.get(page).map_or("", String::as_str);
    let mut clock = Clock::new(hits);
    writeln!(out, "id,time,url,referrer,status,bytes,user_agent")?;
    for id in 1..=hits {
        let read = page(&mut random);
        write!(out, "{id},")?;
        clock.write_next(&mut random, out)?;
        // Four in ten hits come from another page of the list, the others from unknown places.
        let from = if random.below(10) < 4 { url(page(&mut random)) } else { "" };
        let status = match (read % 97, random.below(1000)) {
            (13, _) => 404,
            (_, 0..=2) => 500,
            (_, 3..=40) => 304,
            (_, 41..=60) => 301,
            _ => 200,
        };
        let bytes = if status == 304 { 0 } else { 300 + random.below(1 << (8 + read % 11)) };
        let agent = AGENTS.get(agents.draw(&mut random)).map_or("", |(name, _)| *name);
        writeln!(out, "{},{from},{status},{bytes},\"{agent}\"", url(read))?;
    }
    Ok(())
}

/// The time of each hit: in order, with more hits by day.
struct Clock {
    /// Microseconds since the start of the week.
    now_us: u64,
    /// Mean time between two hits, microseconds, in an hour of average load.
    mean_us: u64,
}

impl Clock {
    fn new(hits: u64) -> Clock {
        Clock { now_us: 0, mean_us: SECONDS * 1_000_000 / hits.max(1) }
    }

    fn write_next(&mut self, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
        let hour = usize::try_from(self.now_us / 3_600_000_000 % 24).unwrap_or(0);
        let average = HOURS.iter().sum::<u64>() / 24;
        let share = HOURS.get(hour).copied().unwrap_or(average);
        self.now_us += random.below(2 * self.mean_us * average / share + 1);
        let seconds = self.now_us / 1_000_000;
        let (day, hour, minute, second) =
            (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let us = self.now_us % 1_000_000;
        write!(out, "2026-11-{:02} {hour:02}:{minute:02}:{second:02}.{us:06},", 9 + day)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn lines(hits: u64) -> Vec<String> {
        let mut out = Vec::new();
        write(hits, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn pages_differ_and_a_few_are_read_most() {
        let urls = urls::urls(PAGES);
        assert_eq!(urls.iter().collect::<BTreeSet<_>>().len(), PAGES);
        let lines = lines(20_000);
        assert_eq!(lines.len(), 20_001);
        assert!(
            lines[1..].iter().enumerate().all(|(at, line)| line.starts_with(&format!("{},2026-11-", at + 1)))
        );
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for page in lines[1..].iter().filter_map(|line| line.split(',').nth(2)) {
            *counts.entry(page).or_default() += 1;
        }
        // Of 3000 pages with weights 1, 1/2, 1/3 and so on, the first has a ninth.
        let most = counts.values().max().unwrap();
        assert!(
            (1900..2700).contains(most) && counts.keys().all(|page| urls.iter().any(|url| url == page)),
            "{most}"
        );
    }

    #[test]
    fn the_log_is_the_same_each_time_in_order_and_covers_a_week() {
        let lines = lines(5000);
        assert_eq!(lines, self::lines(5000));
        let times: Vec<&str> = lines[1..].iter().filter_map(|line| line.split(',').nth(1)).collect();
        assert!(times.is_sorted());
        assert!(times[0].starts_with("2026-11-09") && times[4999] > "2026-11-14", "{}", times[4999]);
    }
}
