//! The machine that a server runs on, as Linux tells it in files: processors, memory, swap, disks, pressure.
//!
//! Facts: proc(5), and Documentation/admin-guide/iostats.rst and Documentation/accounting/psi.rst of Linux.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The files below /proc that are read. Some systems have no pressure.
const FILES: [&str; 9] = [
    "stat",
    "loadavg",
    "meminfo",
    "vmstat",
    "diskstats",
    "uptime",
    "pressure/cpu",
    "pressure/io",
    "pressure/memory",
];
/// In place of a file: the size of a page of memory, in bytes.
const PAGE_SIZE: &str = "page-size";

/// What a machine is asked again after an error: each attempt may be a login.
const AFTER_ERROR: Duration = Duration::from_secs(10);
/// How many intervals a reading may be late before it counts as old.
const LATE: u32 = 3;
/// And this long in any case.
const LATE_MIN: Duration = Duration::from_secs(3);

/// Bytes of a sector, in the counters of disks, whatever the disk has.
const SECTOR_BYTES: u64 = 512;
/// Devices that are no disks, or that stand for others.
const NO_DISKS: [&str; 4] = ["loop", "ram", "zram", "sr"];

/// The files of this machine, each behind its name. What can't be read is left out.
#[must_use]
pub fn here() -> String {
    let read = |name: &&str| {
        format!("@{name}\n{}", std::fs::read_to_string(format!("/proc/{name}")).unwrap_or_default())
    };
    let files: String = FILES.iter().map(read).collect();
    format!("{files}@{PAGE_SIZE}\n{}\n", rustix::param::page_size())
}

/// A script for a shell that prints the same.
#[must_use]
pub fn script() -> String {
    let files = FILES.join(" ");
    format!(
        "for f in {files}; do echo \"@$f\"; cat \"/proc/$f\" 2>/dev/null; done; \
         echo \"@{PAGE_SIZE}\"; getconf PAGESIZE"
    )
}

/// Counters of a disk, since it is there.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    read: u64,
    written: u64,
    busy_ms: u64,
}

/// What the files say at one time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    uptime_s: f64,
    processors: usize,
    /// Of all processors, in ticks: all time, idle, waiting for disks, taken by other machines.
    ticks: [u64; 4],
    load: [f64; 3],
    /// By name, in bytes.
    memory: BTreeMap<String, u64>,
    swapped_pages: u64,
    page_bytes: u64,
    disks: BTreeMap<String, Disk>,
    pressure: Vec<Pressure>,
}

/// For which share of the last ten seconds work waited for something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// `cpu`, `io` or `memory`.
    pub of: String,
    /// Percent of the time in which at least one task waited.
    pub some: f64,
}

/// What a disk does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskLoad {
    /// As the system names it.
    pub name: String,
    /// Bytes read per second.
    pub read_s: f64,
    /// Bytes written per second.
    pub written_s: f64,
    /// The share of the time in which it worked, 0 to 1. One that does many things at once may do more.
    pub busy: f64,
}

/// What a machine does, between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// How many there are.
    pub processors: usize,
    /// The share of their time in which they worked, 0 to 1.
    pub busy: f64,
    /// In which they were idle and something waited for a disk.
    pub waiting: f64,
    /// In which another virtual machine had them.
    pub stolen: f64,
    /// Tasks that ran or waited for a disk, on average over 1, 5 and 15 minutes.
    pub load: [f64; 3],
    /// Bytes.
    pub memory: u64,
    /// Bytes that programs can still get without swapping.
    pub available: u64,
    /// Bytes.
    pub swap: u64,
    /// Bytes of it that are used.
    pub swap_used: u64,
    /// Bytes that went to swap or came from it, per second.
    pub swapped_s: f64,
    /// Disks that did something since the machine was started, the busiest first.
    pub disks: Vec<DiskLoad>,
    /// Empty if the system does not measure it.
    pub pressure: Vec<Pressure>,
}

impl Reading {
    /// Reads what [`here`] or [`script`] gives. `None` if it is not of a Linux.
    #[must_use]
    pub fn parse(text: &str) -> Option<Reading> {
        let mut reading = Reading::default();
        let mut file = "";
        for line in text.lines() {
            match line.strip_prefix('@') {
                Some(name) => file = name,
                None => reading.line(file, line),
            }
        }
        (reading.uptime_s > 0.0 && reading.ticks[0] > 0).then_some(reading)
    }

    fn line(&mut self, file: &str, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let float = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        let first = words.first().copied().unwrap_or_default();
        match file {
            PAGE_SIZE => self.page_bytes = number(0),
            "uptime" => self.uptime_s = float(0),
            "loadavg" => self.load = [float(0), float(1), float(2)],
            // user nice system idle iowait irq softirq steal; what follows is a part of these.
            "stat" if first == "cpu" => {
                self.ticks = [(1..=8).map(number).sum(), number(4), number(5), number(8)];
            }
            "stat" if first.starts_with("cpu") => self.processors += 1,
            "meminfo" => drop(self.memory.insert(first.trim_end_matches(':').to_owned(), number(1) * 1024)),
            "vmstat" if ["pswpin", "pswpout"].contains(&first) => self.swapped_pages += number(1),
            "diskstats" if words.len() > 12 => {
                let disk = Disk { read: number(5), written: number(9), busy_ms: number(12) };
                self.disks.insert(words[2].to_owned(), disk);
            }
            _ if first == "some" => {
                let some = words.get(1).and_then(|word| word.strip_prefix("avg10=")?.parse().ok());
                let of = file.trim_start_matches("pressure/").to_owned();
                self.pressure.extend(some.map(|some| Pressure { of, some }));
            }
            _ => {}
        }
    }

    /// Whether a device is a whole disk: others are parts of disks, or stand for them.
    fn is_disk(&self, name: &str) -> bool {
        let is_part = |disk: &String| {
            let rest = name.strip_prefix(disk.as_str()).filter(|rest| !rest.is_empty());
            rest.is_some_and(|rest| rest.trim_start_matches('p').bytes().all(|byte| byte.is_ascii_digit()))
        };
        !NO_DISKS.iter().any(|front| name.starts_with(front)) && !self.disks.keys().any(is_part)
    }
}

impl MachineLoad {
    /// What happened between two readings. `None` if no time has passed, or the machine was started again.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    pub fn between(before: &Reading, after: &Reading) -> Option<MachineLoad> {
        let seconds = after.uptime_s - before.uptime_s;
        let [all, idle, waiting, stolen] =
            [0, 1, 2, 3].map(|at| after.ticks[at].saturating_sub(before.ticks[at]) as f64);
        if seconds <= 0.0 || all <= 0.0 {
            return None;
        }
        let rate = |one: u64, other: u64| one.saturating_sub(other) as f64 / seconds;
        let disk = |(name, now): (&String, &Disk)| {
            let then = before.disks.get(name).copied().unwrap_or(*now);
            DiskLoad {
                name: name.clone(),
                read_s: rate(now.read * SECTOR_BYTES, then.read * SECTOR_BYTES),
                written_s: rate(now.written * SECTOR_BYTES, then.written * SECTOR_BYTES),
                busy: rate(now.busy_ms, then.busy_ms) / 1000.0,
            }
        };
        let did = |(name, now): &(&String, &Disk)| now.read + now.written > 0 && after.is_disk(name);
        let mut disks: Vec<DiskLoad> = after.disks.iter().filter(did).map(disk).collect();
        disks.sort_by(|one, other| other.busy.total_cmp(&one.busy));
        let memory = |name: &str| after.memory.get(name).copied().unwrap_or(0);
        Some(MachineLoad {
            processors: after.processors,
            busy: (all - idle - waiting) / all,
            waiting: waiting / all,
            stolen: stolen / all,
            load: after.load,
            memory: memory("MemTotal"),
            available: memory("MemAvailable"),
            swap: memory("SwapTotal"),
            swap_used: memory("SwapTotal").saturating_sub(memory("SwapFree")),
            swapped_s: rate(after.swapped_pages * after.page_bytes, before.swapped_pages * after.page_bytes),
            disks,
            pressure: after.pressure.clone(),
        })
    }
}

/// Turns readings into loads.
#[derive(Default)]
pub(crate) struct Follower(Option<Reading>);

impl Follower {
    /// What happened since the last reading; `None` at the first one.
    pub(crate) fn take(&mut self, text: &str) -> Option<Result<MachineLoad, String>> {
        let Some(reading) = Reading::parse(text) else {
            return Some(Err("its files in /proc are not those of Linux".to_owned()));
        };
        let load = self.0.as_ref().and_then(|before| MachineLoad::between(before, &reading));
        self.0 = Some(reading);
        load.map(Ok)
    }
}

/// What is known of a machine, or why nothing is.
pub(crate) type Latest = Option<Result<MachineLoad, String>>;

/// What was found last, and when.
#[derive(Default)]
struct Found {
    latest: Latest,
    at: Option<Instant>,
}

/// Another machine, read by a thread of its own: a connection that hangs holds up no samples.
pub struct Elsewhere {
    found: Arc<Mutex<Found>>,
    interval: Duration,
}

impl Elsewhere {
    /// Reads it again after each interval. The thread ends after this.
    pub fn start(
        mut read: impl FnMut() -> io::Result<String> + Send + 'static,
        interval: Duration,
    ) -> Elsewhere {
        let found: Arc<Mutex<Found>> = Arc::default();
        let weak: Weak<Mutex<Found>> = Arc::downgrade(&found);
        std::thread::spawn(move || {
            let mut follower = Follower::default();
            while weak.strong_count() > 0 {
                let (latest, pause) = match read() {
                    Ok(text) => (follower.take(&text), interval),
                    Err(error) => (Some(Err(error.to_string())), interval.max(AFTER_ERROR)),
                };
                if let (Some(latest), Some(found)) = (latest, weak.upgrade()) {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    *found = Found { latest: Some(latest), at: Some(Instant::now()) };
                }
                std::thread::park_timeout(pause);
            }
        });
        Elsewhere { found, interval }
    }

    /// What was found last. What is old is nothing.
    pub(crate) fn latest(&self) -> Latest {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        current(found.latest.clone(), found.at.map(|at| at.elapsed()), self.interval)
    }
}

/// A load that was read this long ago, if that is not too long. An error stays until something else is known.
fn current(latest: Latest, age: Option<Duration>, interval: Duration) -> Latest {
    match (latest, age) {
        (Some(Ok(_)), Some(age)) if age > (interval * LATE).max(LATE_MIN) => {
            Some(Err(format!("it has not answered for {} s", age.as_secs())))
        }
        (latest, _) => latest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(uptime: &str, cpu: &str, disks: &[&str]) -> String {
        format!(
            "@stat\ncpu  {cpu} 7 7\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n@loadavg\n1.50 0.70 0.20 1/99 4711\n@meminfo\n\
             MemTotal:        1000 kB\nMemAvailable:     400 kB\nSwapTotal:        100 kB\nSwapFree:          40 kB\n\
             @vmstat\nnr_free_pages 5\npswpin {uptime}\npswpout 0\n@diskstats\n{}\n@uptime\n{uptime}.00 9.0\n\
             @page-size\n4096\n@pressure/cpu\nsome avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=1.00 avg60=0.00\n",
            disks.join("\n")
        )
    }

    #[test]
    fn two_readings_are_a_load() {
        let disks = [
            " 254 0 vda 10 0 1000 5 20 0 4000 5 0 1000 9",
            " 254 1 vda1 10 0 1000 5 20 0 4000 5 0 1000 9",
            " 259 0 nvme0n1 1 0 2 5 20 0 0 5 0 0 9",
            " 259 1 nvme0n1p1 1 0 2 5 20 0 0 5 0 0 9",
            " 7 0 loop0 1 0 2 5 20 0 0 5 0 0 9",
            " 11 0 vdb 0 0 0 0 0 0 0 0 0 0 0",
        ];
        let before = Reading::parse(&text("100", "10 0 10 70 10 0 0 0", &disks)).unwrap();
        let now =
            [" 254 0 vda 10 0 1020 5 20 0 4040 5 0 2000 9", disks[1], disks[2], disks[3], disks[4], disks[5]];
        let after = Reading::parse(&text("102", "50 0 30 80 30 0 0 10", &now)).unwrap();
        let load = MachineLoad::between(&before, &after).unwrap();
        assert_eq!((load.processors, load.load), (2, [1.5, 0.7, 0.2]));
        assert_eq!((load.busy, load.waiting, load.stolen), (0.7, 0.2, 0.1));
        assert_eq!((load.memory, load.available), (1_024_000, 409_600));
        assert_eq!((load.swap, load.swap_used, load.swapped_s), (102_400, 61_440, 4096.0));
        assert_eq!(load.pressure, [Pressure { of: "cpu".to_owned(), some: 12.5 }]);
        let disk =
            |name: &str, read_s, written_s, busy| DiskLoad { name: name.to_owned(), read_s, written_s, busy };
        assert_eq!(load.disks, [disk("vda", 5120.0, 10240.0, 0.5), disk("nvme0n1", 0.0, 0.0, 0.0)]);
        // Nothing is known of a time in which the machine was started again.
        assert_eq!(MachineLoad::between(&after, &before), None);
        assert!(Reading::parse("@stat\n@uptime\n").is_none());
    }

    #[test]
    fn this_machine_is_read() {
        let reading = Reading::parse(&here()).unwrap();
        assert!(reading.processors > 0 && reading.memory["MemTotal"] > reading.memory["MemAvailable"]);
        let output = std::process::Command::new("sh").args(["-c", &script()]).output().unwrap();
        let printed = Reading::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
        assert_eq!(printed.memory["MemTotal"], reading.memory["MemTotal"]);
        assert_eq!((printed.processors, printed.page_bytes), (reading.processors, reading.page_bytes));
        assert_eq!(printed.disks.len(), reading.disks.len());
    }

    #[test]
    fn a_load_of_long_ago_is_not_shown_as_that_of_now() {
        let of_now = MachineLoad::between(
            &Reading::parse(&text("100", "10 0 10 70 10 0 0 0", &[])).unwrap(),
            &Reading::parse(&text("102", "50 0 30 80 30 0 0 10", &[])).unwrap(),
        );
        let load = Some(Ok(of_now.unwrap()));
        let [one, four] = [1, 4].map(Duration::from_secs);
        assert_eq!(current(load.clone(), Some(one), one), load);
        assert_eq!(current(load.clone(), Some(four), one * 2), load);
        assert_eq!(current(load, Some(four), one), Some(Err("it has not answered for 4 s".to_owned())));
        let error = Some(Err("no route".to_owned()));
        assert_eq!(current(error.clone(), Some(four), one), error);
    }
}
