//! Measures a process that reads one file and writes another: its time and its memory.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use disk::{Disk, RealDisk};
use tempfile::TempDir;

/// What one run costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Seconds by the clock.
    pub wall_s: f64,
    /// Processor time of the process with all its threads.
    pub cpu_s: f64,
    /// The most memory that it had, sampled every few milliseconds; 0 if it ended before.
    pub memory_bytes: u64,
}

impl Cost {
    /// The most memory, if the process lived long enough to be looked at.
    pub fn memory(&self) -> Option<u64> {
        Some(self.memory_bytes).filter(|bytes| *bytes > 0)
    }
}

/// How often memory is sampled.
const LOOK: Duration = Duration::from_millis(5);
/// Clock ticks of /proc per second: USER_HZ, 100 on every Linux that Rust supports.
const TICKS: f64 = 100.0;
/// The clock of processor time is too coarse for shorter times: such a run is repeated.
const SHORT_S: f64 = 0.3;
/// The most runs.
const RUNS_MAX: u32 = 16;

/// A folder with the text, and with the last result of compressing it.
pub struct Place<'a> {
    folder: TempDir,
    text: &'a [u8],
    stop: Arc<AtomicBool>,
}

impl Place<'_> {
    /// A place for the files of the measurements.
    ///
    /// # Errors
    /// If the text can't be written there.
    pub fn new(text: &[u8], stop: Arc<AtomicBool>) -> Result<Place<'_>> {
        let folder = tempfile::Builder::new().prefix("remora-pack-").tempdir()?;
        let place = Place { folder, text, stop };
        Disk::create(&RealDisk, &place.path("text"))?.write_all(text)?;
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compresses the text. Returns the compressed length.
    pub fn pack(&self, command: &[String]) -> Result<(u64, Cost)> {
        let packed = self.path("packed");
        let mut bytes = 0;
        let cost = repeated(|| {
            if packed.exists() {
                Disk::remove(&RealDisk, &packed)?;
            }
            let mut sink = Disk::create(&RealDisk, &packed)?;
            bytes = 0;
            self.run(command, "text", &mut |piece| {
                bytes += piece.len() as u64;
                sink.write_all(piece)
            })
        })?;
        Ok((bytes, cost))
    }

    /// Decompresses the result and compares it with the text.
    pub fn unpack(&self, command: &[String]) -> Result<Cost> {
        repeated(|| {
            let mut rest = self.text;
            let cost = self.run(command, "packed", &mut |piece| {
                rest = rest.strip_prefix(piece).ok_or_else(|| io::Error::other("other bytes came back"))?;
                Ok(())
            })?;
            if !rest.is_empty() {
                bail!("{} bytes did not come back", rest.len());
            }
            Ok(cost)
        })
    }

    fn run(
        &self,
        command: &[String],
        input: &str,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Cost> {
        let Some((program, arguments)) = command.split_first() else { bail!("there is no command") };
        let input = OpenOptions::new().read(true).open(self.path(input))?;
        let (before, began) = (processor()?, Instant::now());
        let child = Command::new(program)
            .args(arguments)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| program.clone())?;
        let mut child = Ending(child);
        let mut memory_bytes = 0;
        let outcome = std::thread::scope(|scope| {
            let (done, ended) = crossbeam_channel::bounded::<()>(0);
            let status = format!("/proc/{}/status", child.0.id());
            let watching = scope.spawn(move || {
                let mut most = 0;
                while ended.recv_timeout(LOOK) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
                    most = memory(&status).unwrap_or(0).max(most);
                }
                most
            });
            let outcome = self.pass_on(&mut child.0, each);
            drop(done);
            memory_bytes = watching.join().unwrap_or(0);
            outcome
        });
        outcome?;
        let status = child.0.wait()?;
        let wall_s = began.elapsed().as_secs_f64();
        if !status.success() {
            bail!("it failed: {status}");
        }
        Ok(Cost { wall_s, cpu_s: processor()? - before, memory_bytes })
    }

    fn pass_on(&self, child: &mut Child, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
        let mut out = child.stdout.take().context("it has no output")?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            if self.stop.load(Ordering::Relaxed) {
                bail!("stopped by a signal");
            }
            match out.read(&mut buffer)? {
                0 => return Ok(()),
                count => each(buffer.get(..count).unwrap_or_default())?,
            }
        }
    }
}

/// The mean time of a run and its peak memory. The run is repeated until the clock is precise enough: what
/// the clock cuts off from one run it adds to the next.
fn repeated(mut run: impl FnMut() -> Result<Cost>) -> Result<Cost> {
    let mut sum = run()?;
    let mut runs = 1;
    while sum.cpu_s < SHORT_S && runs < RUNS_MAX {
        let next = run()?;
        sum.wall_s += next.wall_s;
        sum.cpu_s += next.cpu_s;
        sum.memory_bytes = sum.memory_bytes.max(next.memory_bytes);
        runs += 1;
    }
    // All of the runs together may be shorter than a tick.
    let cpu_s = sum.cpu_s.max(1.0 / TICKS) / f64::from(runs);
    Ok(Cost { wall_s: sum.wall_s / f64::from(runs), cpu_s, memory_bytes: sum.memory_bytes })
}

/// A process that is killed when this is dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Processor time of our ended children, in seconds: cutime and cstime of proc_pid_stat(5).
fn processor() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(") ").context("/proc/self/stat")?.1.split(' ').collect();
    let ticks =
        |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).context("/proc/self/stat");
    Ok((ticks(13)? + ticks(14)?) / TICKS)
}

/// The peak memory of a process.
fn memory(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
