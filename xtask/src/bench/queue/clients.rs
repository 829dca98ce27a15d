//! Our packages for Python, Node, Go, PHP and Ruby, and other systems with theirs: the same jobs, as many
//! workers, each system as durable.

mod contestants;
mod packages;
mod servers;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use contestants::{CONTESTANTS, Contestant};
use packages::Packages;
use servers::Servers;

use super::peer::{Daemon, PATIENCE, output};
use super::{folder, ratio};
use crate::bench::measure::{as_f64, middle};

const WORKERS: [u64; 2] = [10, 40];

/// What a worker needs to be at full speed after its first job.
const WARM: Duration = Duration::from_secs(2);

/// Jobs a second that are put for the delays.
const RATE: u64 = 100;

/// Where the ids of these begin. The programs know it too.
const RATED: u64 = 1_000_000_000;

/// How many workers wait for nothing, for how long after they have settled.
const IDLE_WORKERS: u64 = 40;
const SETTLED: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(20);

/// A job as it was recorded; times are microseconds since 1970.
struct Done {
    id: u64,
    put: u64,
    at: u64,
}

/// What was measured of one contestant.
struct Measured {
    contestant: &'static Contestant,
    /// For each number of workers what each round has given: jobs a second, and delays in milliseconds.
    rates: [Vec<f64>; WORKERS.len()],
    medians: [Vec<f64>; WORKERS.len()],
    late: [Vec<f64>; WORKERS.len()],
    /// Statements a second that idle workers send, and milliseconds a second that the server is at work.
    idle: (f64, f64),
}

struct Contest {
    packages: Packages,
    servers: Servers,
    seconds: u64,
}

pub(super) fn run(seconds: u64, rounds: u64, only: Option<&str>) -> Result<()> {
    let is_named = |contestant: &&Contestant| {
        only.is_none_or(|only| {
            only.split(',').any(|word| contestant.name.to_lowercase().contains(&word.to_lowercase()))
        })
    };
    let mut contest = Contest { packages: Packages::new()?, servers: Servers::default(), seconds };
    let mut all: Vec<Measured> = Vec::new();
    for contestant in CONTESTANTS.iter().filter(is_named) {
        match contest.prepare(contestant) {
            Ok(()) => all.push(Measured::new(contestant)),
            Err(error) => println!("{} is left out: {error:#}", contestant.name),
        }
    }
    for round in 1..=rounds {
        for (column, workers) in WORKERS.into_iter().enumerate() {
            all.retain_mut(|one| one.goes_on(|one| contest.measure(one, column, workers)));
        }
        // Each round begins with another one.
        let begun_with = (all.len() / 2).max(1).min(all.len());
        all.rotate_left(begun_with);
        println!("round {round} of {rounds} is done");
    }
    all.retain_mut(|one| {
        one.goes_on(|one| {
            one.idle = contest.idle(one.contestant)?;
            Ok(())
        })
    });
    all.sort_by_key(|one| CONTESTANTS.iter().position(|other| other.name == one.contestant.name));
    print(&all);
    println!("\n{}", contest.servers.versions()?);
    Ok(())
}

impl Measured {
    fn new(contestant: &'static Contestant) -> Measured {
        Measured {
            contestant,
            rates: Default::default(),
            medians: Default::default(),
            late: Default::default(),
            idle: (0.0, 0.0),
        }
    }

    /// Whether a step succeeds. One that fails ends a contestant, and no other.
    fn goes_on(&mut self, step: impl FnOnce(&mut Measured) -> Result<()>) -> bool {
        let gone = step(self);
        if let Err(error) = &gone {
            println!("{} is left out: {error:#}", self.contestant.name);
        }
        gone.is_ok()
    }

    fn note(&mut self, column: usize, rate: f64, (median, late): (f64, f64)) {
        let lists = [(&mut self.rates, rate), (&mut self.medians, median), (&mut self.late, late)];
        for (list, value) in lists {
            if let Some(values) = list.get_mut(column) {
                values.push(value);
            }
        }
    }
}

impl Contest {
    /// Starts the server and installs the packages, unless they are there.
    fn prepare(&mut self, contestant: &Contestant) -> Result<()> {
        self.servers.start(contestant.server)?;
        self.packages.bring(contestant.language)
    }

    /// One round with so many workers.
    fn measure(&self, one: &mut Measured, column: usize, workers: u64) -> Result<()> {
        let rate = self.rate(one.contestant, workers)?;
        let (median, late) = self.delays(one.contestant, workers)?;
        let name = one.contestant.name;
        println!("{name}, {workers} workers: {rate:.0}/s, {median:.1} ms, 99 of 100 {late:.1} ms");
        one.note(column, rate, (median, late));
        Ok(())
    }

    /// A program of a contestant, for jobs that are recorded in a file of this folder.
    fn command(&self, contestant: &Contestant, folder: &Path, arguments: &[&str]) -> Result<Command> {
        let mut command = self.packages.command(contestant);
        command
            .args(arguments)
            .env("BENCH_ADDRESS", self.servers.of(contestant.server)?.address())
            .env("BENCH_BROKER", contestant.broker)
            .env("BENCH_DONE", folder.join("done"));
        Ok(command)
    }

    /// Empties the server, and makes the queue.
    fn make(&self, contestant: &Contestant, folder: &Path) -> Result<()> {
        self.servers.of(contestant.server)?.reset()?;
        output(&mut self.command(contestant, folder, &["make"])?).map(drop)
    }

    fn fill(&self, contestant: &Contestant, folder: &Path, jobs: u64) -> Result<()> {
        output(&mut self.command(contestant, folder, &["fill", &jobs.to_string()])?).map(drop)
    }

    fn work(&self, contestant: &Contestant, folder: &Path, workers: u64) -> Result<Daemon> {
        let command = self.command(contestant, folder, &["work", &workers.to_string()])?;
        Daemon::start(&command, &folder.join("log"))
    }

    /// Jobs a second, from a queue with more of them than are done, or until the last one is done.
    fn rate(&self, contestant: &Contestant, workers: u64) -> Result<f64> {
        let folder = folder()?;
        let folder = folder.path();
        self.make(contestant, folder)?;
        let window = Duration::from_secs(self.seconds);
        let jobs = contestant.most * (WARM + window).as_secs();
        self.fill(contestant, folder, jobs)?;
        let running = self.work(contestant, folder, workers)?;
        until(folder, || Ok(!done(folder)?.is_empty()))?;
        let end = Instant::now() + WARM + window;
        while Instant::now() < end && lines(folder)? < jobs {
            // Not so often that it takes time from the workers.
            std::thread::sleep(Duration::from_millis(500));
        }
        running.kill()?;
        let done = done(folder)?;
        told_twice(contestant, &done);
        let first = done.iter().map(|job| job.at).min().context("no job was done")?;
        let begin = first + u64::try_from(WARM.as_micros())?;
        let end = begin + self.seconds * 1_000_000;
        let times: Vec<u64> = done.iter().map(|job| job.at).filter(|at| (begin..end).contains(at)).collect();
        let all_done = done.len() as u64 >= jobs;
        let last = if all_done { times.iter().copied().max().unwrap_or(begin) } else { end };
        ensure!(last > begin + 1_000_000, "all jobs were done before the time was over");
        Ok(as_f64(times.len() as u64) / (as_f64(last - begin) / 1e6))
    }

    /// Milliseconds from when a job was to be put until it was done: the median, and that of 99 of 100.
    fn delays(&self, contestant: &Contestant, workers: u64) -> Result<(f64, f64)> {
        let folder = folder()?;
        let folder = folder.path();
        self.make(contestant, folder)?;
        let running = self.work(contestant, folder, workers)?;
        self.fill(contestant, folder, workers)?;
        until(folder, || Ok(lines(folder)? >= workers))?;
        std::thread::sleep(WARM);
        let count = RATE * self.seconds;
        let numbers = [RATE, count].map(|number| number.to_string());
        output(&mut self.command(contestant, folder, &["put", &numbers[0], &numbers[1]])?)?;
        until(folder, || Ok(rated(folder)?.len() as u64 >= count))?;
        running.kill()?;
        let jobs = rated(folder)?;
        told_twice(contestant, &jobs);
        let mut delays: Vec<f64> =
            jobs.iter().map(|job| as_f64(job.at.saturating_sub(job.put)) / 1e3).collect();
        delays.sort_by(f64::total_cmp);
        let at = |share: usize| delays.get(delays.len() * share / 100).copied().context("no delays");
        Ok((at(50)?, at(99)?))
    }

    /// What idle workers cost: statements a second, and milliseconds of the server's processors a second.
    fn idle(&self, contestant: &Contestant) -> Result<(f64, f64)> {
        let folder = folder()?;
        let folder = folder.path();
        self.make(contestant, folder)?;
        let running = self.work(contestant, folder, IDLE_WORKERS)?;
        self.fill(contestant, folder, IDLE_WORKERS)?;
        until(folder, || Ok(lines(folder)? >= IDLE_WORKERS))?;
        std::thread::sleep(SETTLED);
        let server = self.servers.of(contestant.server)?;
        let before = (server.asked()?, servers::processor_s(server.pid())?);
        std::thread::sleep(IDLE);
        let after = (server.asked()?, servers::processor_s(server.pid())?);
        running.kill()?;
        Ok(((after.0 - before.0) / IDLE.as_secs_f64(), (after.1 - before.1) * 1e3 / IDLE.as_secs_f64()))
    }
}

/// Waits until something is so, but not for ever.
fn until(folder: &Path, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > end {
            let log = std::fs::read_to_string(folder.join("log"))?;
            bail!("jobs are not done: {} are; the workers say: {log}", lines(folder)?);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// What the workers have written, without a line that is not whole yet.
fn text(folder: &Path) -> Result<String> {
    let mut text = match std::fs::read_to_string(folder.join("done")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    Ok(text)
}

/// How many jobs are done.
fn lines(folder: &Path) -> Result<u64> {
    Ok(text(folder)?.lines().count() as u64)
}

/// What the workers have recorded.
fn done(folder: &Path) -> Result<Vec<Done>> {
    let parse = |line: &str| -> Result<Done> {
        let mut numbers = line.split(' ').map(str::parse);
        let mut next = || numbers.next().context("a number is missing")?.context("no number");
        Ok(Done { id: next()?, put: next()?, at: next()? })
    };
    text(folder)?.lines().map(|line| parse(line).with_context(|| line.to_owned())).collect()
}

/// Those of them that were put at a rate.
fn rated(folder: &Path) -> Result<Vec<Done>> {
    Ok(done(folder)?.into_iter().filter(|job| job.id >= RATED).collect())
}

/// A job that was done twice counts twice, and somebody has to know.
fn told_twice(contestant: &Contestant, done: &[Done]) {
    let ids: BTreeSet<u64> = done.iter().map(|job| job.id).collect();
    if ids.len() < done.len() {
        println!("{}: {} of {} jobs were done again", contestant.name, done.len() - ids.len(), done.len());
    }
}

fn print(all: &[Measured]) {
    let rate = |one: &Measured, column: usize| middle(one.rates[column].clone()).unwrap_or_default();
    println!("\n| jobs a second | 10 workers | of ours | of the best | 40 workers | of ours | of the best |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for one in all {
        let cells = (0..WORKERS.len()).map(|column| {
            let ours = all.iter().find(|other| other.contestant.name == one.contestant.ours);
            let best = all.iter().max_by(|a, b| rate(a, column).total_cmp(&rate(b, column)));
            let of = |base: Option<&Measured>| {
                base.map_or_else(String::new, |base| ratio(&one.rates[column], &base.rates[column]))
            };
            format!(" {:.0} | {} | {} |", rate(one, column), of(ours), of(best))
        });
        println!("| {} |{}", one.contestant.name, cells.collect::<String>());
    }
    println!(
        "\n| ms from put to done | 10 workers, median | 99 of 100 | 40 workers, median | 99 of 100 | idle: statements a second | the server's processors, ms a second |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for one in all {
        let cells = (0..WORKERS.len()).map(|column| {
            let of = |lists: &[Vec<f64>; 2]| middle(lists[column].clone()).unwrap_or_default();
            format!(" {:.1} | {:.1} |", of(&one.medians), of(&one.late))
        });
        let (asked, busy) = one.idle;
        println!("| {} |{} {asked:.1} | {busy:.1} |", one.contestant.name, cells.collect::<String>());
    }
}
