//! A page-view log over real URLs: Zipf-distributed, with a daily rhythm. The same seed gives the same log.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use codec::Codec;

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

/// Xorshift64*: small, fast and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64).try_into().unwrap_or(0)
    }
}

/// Weights that can be drawn from.
struct Wheel(Vec<u64>);

impl Wheel {
    fn new(weights: impl Iterator<Item = u64>) -> Wheel {
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Wheel(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.below(self.0.last().copied().unwrap_or(1));
        self.0.partition_point(|sum| *sum <= at)
    }
}

/// Writes `hits` lines with a header as CSV, compressed with zstd.
pub(crate) fn write(urls: &Path, hits: u64, to: &Path) -> Result<()> {
    let text = std::fs::read(urls).with_context(|| urls.display().to_string())?;
    let urls: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|url| !url.is_empty()).collect();
    let file = std::fs::File::create(to)?;
    let mut out = BufWriter::with_capacity(1 << 20, Codec::Zstd.encoder(file, 3)?);
    let mut random = Random::new(20_261_121);
    // The list is sorted by host; popularity must not be.
    let mut rank: Vec<usize> = (0..urls.len()).collect();
    for at in (1..rank.len()).rev() {
        let other = usize::try_from(random.below(at as u64 + 1))?;
        rank.swap(at, other);
    }
    let popularity = Wheel::new((1..=urls.len() as u64).map(|rank| 1_000_000_000 / rank));
    let agents = Wheel::new(AGENTS.iter().map(|(_, weight)| *weight));
    let mut clock = Clock::new(hits);
    writeln!(out, "time,url,referrer,status,bytes,user_agent")?;
    for _ in 0..hits {
        let page = rank.get(popularity.draw(&mut random)).copied().unwrap_or(0);
        clock.write_next(&mut random, &mut out)?;
        write_field(&mut out, urls.get(page).copied().unwrap_or_default())?;
        out.write_all(b",")?;
        // Four in ten hits come from another page of the list, the others from unknown places.
        if random.below(10) < 4 {
            let from = rank.get(popularity.draw(&mut random)).copied().unwrap_or(0);
            write_field(&mut out, urls.get(from).copied().unwrap_or_default())?;
        }
        let status = match (page % 97, random.below(1000)) {
            (13, _) => 404,
            (_, 0..=2) => 500,
            (_, 3..=40) => 304,
            (_, 41..=60) => 301,
            _ => 200,
        };
        let bytes = if status == 304 { 0 } else { 300 + random.below(1 << (8 + page % 11)) };
        let agent = AGENTS.get(agents.draw(&mut random)).map_or("", |(name, _)| *name);
        write!(out, ",{status},{bytes},")?;
        write_field(&mut out, agent.as_bytes())?;
        out.write_all(b"\n")?;
    }
    let encoder = out.into_inner().map_err(|error| error.into_error())?;
    encoder.finish()?.sync_all()?;
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

    fn write_next(&mut self, random: &mut Random, out: &mut dyn Write) -> Result<()> {
        let hour = usize::try_from(self.now_us / 3_600_000_000 % 24)?;
        let average = HOURS.iter().sum::<u64>() / 24;
        let share = HOURS.get(hour).copied().unwrap_or(average);
        self.now_us += random.below(2 * self.mean_us * average / share + 1);
        let seconds = self.now_us / 1_000_000;
        let (day, hour, minute, second) =
            (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            out,
            "2026-11-{:02} {hour:02}:{minute:02}:{second:02}.{:06},",
            9 + day,
            self.now_us % 1_000_000
        )?;
        Ok(())
    }
}

fn write_field(out: &mut dyn Write, text: &[u8]) -> Result<()> {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n')) {
        return Ok(out.write_all(text)?);
    }
    out.write_all(b"\"")?;
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.write_all(part)?;
        if part.last() == Some(&b'"') {
            out.write_all(b"\"")?;
        }
    }
    Ok(out.write_all(b"\"")?)
}
