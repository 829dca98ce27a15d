//! Backups of an image: full, and after one page in a hundred has changed.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use pageviews::Random;

use super::measure::{Timed, timed};
use super::server;
use crate::{release, setup};

/// InnoDB's page.
const PAGE: usize = 16 << 10;
/// Pages of the image: 1.5 GiB.
const PAGES: u64 = 98_304;
/// Runs of pages of one kind.
const RUN: u64 = 512;
/// Rounds; the median by processor time counts.
const ROUNDS: usize = 3;

/// Programs of the comparison and their packages. If one is missing its rows are left out, and a message says
/// so.
const PEERS: [(&str, &str); 4] =
    [("/usr/bin/time", "time"), ("zstd", "zstd"), ("restic", "restic"), ("borg", "borgbackup")];

/// The cost of a run.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall_s: f64,
    processor_s: f64,
    memory_mb: f64,
    bytes: u64,
}

/// A way to back up the image: a shell line for each step, in its own folder.
struct Method {
    name: &'static str,
    needs: &'static str,
    prepare: &'static str,
    /// Full, and incremental if it can.
    full: &'static str,
    incremental: Option<&'static str>,
}

static METHODS: [Method; 5] = [
    Method {
        name: "remora backup",
        needs: "",
        prepare: "true",
        full: "$REMORA backup -q file:$IMAGE --to repo",
        incremental: Some("$REMORA backup -q file:$IMAGE --to repo"),
    },
    Method {
        name: "dd \\| zstd -1",
        needs: "zstd",
        prepare: "mkdir repo",
        full: "dd if=$IMAGE bs=4M status=none | zstd -1 -q > repo/full.zst",
        incremental: None,
    },
    Method {
        name: "restic",
        needs: "restic",
        prepare: "restic -q init --repo repo",
        full: "restic -q backup --no-cache --repo repo $IMAGE",
        incremental: Some("restic -q backup --no-cache --repo repo $IMAGE"),
    },
    Method {
        name: "borg, default chunks, zstd 1",
        needs: "borg",
        prepare: "borg init -e none repo",
        full: "borg create -C zstd,1 repo::a $IMAGE",
        incremental: Some("borg create -C zstd,1 repo::b $IMAGE"),
    },
    Method {
        name: "borg, fixed 64 KiB, zstd 1",
        needs: "borg",
        prepare: "borg init -e none repo",
        full: "borg create -C zstd,1 --chunker-params fixed,65536 repo::a $IMAGE",
        incremental: Some("borg create -C zstd,1 --chunker-params fixed,65536 repo::b $IMAGE"),
    },
];

pub(super) fn run(arguments: &[String]) -> Result<()> {
    if arguments.first().is_some_and(|argument| argument == "--server") {
        return server::run(arguments);
    }
    if let Err(error) = setup::install(&PEERS) {
        println!("{error:#}; what is missing is left out");
    }
    let remora = release()?;
    let folder = tempfile::Builder::new().prefix("remora-bench-").tempdir()?;
    let (image, before) = (folder.path().join("image"), folder.path().join("before"));
    write_image(&before)?;
    println!("1.5 GiB: about a third zeros, a fifth rows like a database's, a third text, a tenth noise");
    println!("incremental: one page in a hundred has a changed header, trailer and row\n");
    if arguments.first().is_some_and(|argument| argument == "--tracked") {
        tracked(&folder, &before, &remora)?;
        return tracked_server(&folder, &before, &remora);
    }
    let mut found: Vec<[Vec<Cost>; 3]> = METHODS.iter().map(|_| [vec![], vec![], vec![]]).collect();
    for round in 0..ROUNDS {
        for turn in 0..METHODS.len() {
            let nth = (turn + round) % METHODS.len();
            let (Some(method), Some(costs)) = (METHODS.get(nth), found.get_mut(nth)) else { continue };
            if !method.needs.is_empty() && !setup::is_there(method.needs) {
                continue;
            }
            std::fs::copy(&before, &image)?;
            let place = Place::new(folder.path(), &image, &remora)?;
            place.shell(method.prepare)?;
            let [full, incremental, restore] = costs;
            full.push(place.measure(method.full)?);
            if let Some(line) = method.incremental {
                change_pages(&image)?;
                incremental.push(place.measure(line)?);
            }
            if method.name.starts_with("remora") {
                restore.push(place.measure("$REMORA restore -q repo --to restored")?);
                place.shell("cmp restored $IMAGE")?;
            } else if method.name.starts_with("dd") {
                restore.push(place.measure("zstd -dc -q repo/full.zst | dd of=restored bs=4M status=none")?);
            }
        }
    }
    for (step, name) in ["full", "incremental", "restore"].into_iter().enumerate() {
        table(name, &found, step);
    }
    tracked(&folder, &before, &remora)?;
    tracked_server(&folder, &before, &remora)
}

/// The beginning of both scripts: an XFS that nobody else sees, a function to measure, and one to change
/// pages of a file.
const FIRST: &str = r#"
mount --make-rprivate /
truncate -s "$ROOM" xfs; mkfs.xfs -q xfs; mkdir mnt; mount -o loop xfs mnt
measure() { kind=$1; shift; /usr/bin/time -f "$kind %e %U %S %M" -a -o time "$@"; }
"#;

/// Scans against tracked runs, on XFS, by the size of the file, which consists of copies of the image. One
/// page in a hundred changes before each run.
const TRACKED: &str = r#"
mkdir mnt/data
for copy in $(seq $((SIZE * 2 / 3 + 1))); do cat $BEFORE; done > mnt/data/table.ibd
truncate -s ${SIZE}G mnt/data/table.ibd
change() {
    perl -e 'open F, "+<", "mnt/data/table.ibd" or die; $pages = (-s F) / 16384;
             for (1 .. $pages / 100) { seek F, int(rand $pages) * 16384 + 3584, 0; print F map { chr rand 256 } 1 .. 512 }'
    sync
}
backup() { measure $1 $REMORA backup -q xfs:mnt/data --to repo --name data --track; }
backup full
for round in 1 2 3; do
    change; backup tracked
    change; rm -rf mnt/.remora-*; backup scan
done
cat time
"#;

/// A running server with a table of two million rows, one in a hundred of which changes before each
/// increment.
const TRACKED_SERVER: &str = r#"
mkdir mnt/server; socket=$PWD/mnt/server/server.sock
$REMORA sandbox start -q bench-block --folder mnt/server --option --innodb-buffer-pool-size=1G
trap '$REMORA sandbox stop -q bench-block' EXIT
sql() { mariadb --no-defaults -u root -S $socket -e "$1"; }
sql "CREATE DATABASE app; USE app; CREATE TABLE t (id INT PRIMARY KEY, a INT, b CHAR(60)) SELECT seq id, seq * 7 % 1000 a,
     SHA2(seq, 224) b FROM seq_1_to_2000000"
login="--no-defaults -u root -S $socket"
for round in 1 2 3; do
    rm -rf repo one two mnt/server/.remora-*
    measure remora-full $REMORA backup -q mysql: $login --to repo --track
    sql "UPDATE app.t SET a = a + 1 WHERE id DIV 20000 % 100 = $round"; sleep 2
    before=$(du -sb repo | cut -f1)
    measure remora-increment $REMORA backup -q mysql: $login --to repo --track
    echo "bytes remora $before $(($(du -sb repo | cut -f1) - before))"
    measure peer-full mariadb-backup $login --backup --target-dir=one 2> log
    sql "UPDATE app.t SET a = a + 1 WHERE id DIV 20000 % 100 = $round + 10"; sleep 2
    measure peer-increment mariadb-backup $login --backup --target-dir=two --incremental-basedir=one 2> log
    echo "bytes peer $(du -sb one | cut -f1) $(du -sb two | cut -f1)"
done
cat time
"#;

/// Runs a script in a mount namespace of its own. Returns its output.
fn alone(place: &Place<'_>, script: &str, variables: &[(&str, &str)]) -> Result<String> {
    let mut command = place.command("unshare");
    command.args(["--mount", "bash", "-e", "-o", "pipefail", "-c", &format!("{FIRST}{script}")]);
    let output = command.envs(variables.iter().copied()).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The costs of the runs of one kind, from lines written by GNU time.
fn costs(text: &str, kind: &str) -> Result<Cost> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    let costs = lines.filter_map(|line| {
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [wall_s, user, system, kilobytes] = numbers[..] else { return None };
        Some(Cost { wall_s, processor_s: user + system, memory_mb: kilobytes / 1e3, bytes: 0 })
    });
    median(costs.collect()).with_context(|| format!("no {kind} in {text}"))
}

/// Prints the cost of runs that know which blocks to read, and of runs that do not.
fn tracked(folder: &tempfile::TempDir, before: &Path, remora: &Path) -> Result<()> {
    println!(
        "| XFS, one page in a hundred changed | GiB | CPU s | wall s | peak MB |\n|---|--:|--:|--:|--:|"
    );
    for gibibytes in [1u32, 4, 16] {
        let place = Place::new(folder.path(), before, remora)?;
        let (room, size) = (format!("{}G", gibibytes * 2 + 4), gibibytes.to_string());
        let shown = before.display().to_string();
        let text = alone(&place, TRACKED, &[("ROOM", &room), ("SIZE", &size), ("BEFORE", &shown)])?;
        for kind in ["full", "scan", "tracked"] {
            let cost = costs(&text, kind)?;
            println!(
                "| {kind} | {gibibytes} | {:.2} | {:.2} | {:.0} |",
                cost.processor_s, cost.wall_s, cost.memory_mb
            );
        }
    }
    println!();
    Ok(())
}

/// Prints the cost of tracked backups of a server, beside that of the tool that ships with it.
fn tracked_server(folder: &tempfile::TempDir, before: &Path, remora: &Path) -> Result<()> {
    setup::install(&[("mariadb-backup", "mariadb-backup")])?;
    let place = Place::new(folder.path(), before, remora)?;
    let text = alone(&place, TRACKED_SERVER, &[("ROOM", "4G")])?;
    println!("| MariaDB that runs, 2,000,000 rows on XFS | CPU s | wall s | peak MB |\n|---|--:|--:|--:|");
    for (who, shown) in [("remora", "remora backup mysql: --track"), ("peer", "mariadb-backup")] {
        for step in ["full", "increment"] {
            let cost = costs(&text, &format!("{who}-{step}"))?;
            let Cost { wall_s, processor_s, memory_mb, .. } = cost;
            println!("| {shown}, {step} | {processor_s:.2} | {wall_s:.2} | {memory_mb:.0} |");
        }
    }
    let bytes = text.lines().filter(|line| line.starts_with("bytes"));
    bytes.for_each(|line| println!("{line} (full, increment)"));
    Ok(())
}

fn table(name: &str, found: &[[Vec<Cost>; 3]], step: usize) {
    println!(
        "| {name} | CPU s | wall s | MB written | peak MB | CPU, ratio to remora |\n|---|--:|--:|--:|--:|--:|"
    );
    let cost = |costs: &[Vec<Cost>; 3]| costs.get(step).cloned().and_then(median);
    let ours = found.first().and_then(cost).map_or(1.0, |cost| cost.processor_s);
    for (method, costs) in METHODS.iter().zip(found) {
        let Some(cost) = cost(costs) else { continue };
        println!(
            "| {} | {:.2} | {:.2} | {:.1} | {:.0} | {:.1} |",
            method.name,
            cost.processor_s,
            cost.wall_s,
            megabytes(cost.bytes),
            cost.memory_mb,
            cost.processor_s / ours
        );
    }
    println!();
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn median(mut costs: Vec<Cost>) -> Option<Cost> {
    costs.sort_by(|a, b| a.processor_s.total_cmp(&b.processor_s));
    costs.get(costs.len().saturating_sub(1) / 2).copied()
}

/// A folder for one method.
struct Place<'a> {
    folder: tempfile::TempDir,
    image: &'a Path,
    remora: &'a Path,
}

impl<'a> Place<'a> {
    fn new(above: &Path, image: &'a Path, remora: &'a Path) -> Result<Place<'a>> {
        Ok(Place { folder: tempfile::tempdir_in(above)?, image, remora })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("IMAGE", self.image).env("REMORA", self.remora);
        command.env("RESTIC_PASSWORD", "x").env("BORG_BASE_DIR", self.folder.path().join("borg"));
        command.env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes");
        command.stdin(Stdio::null());
        command
    }

    fn shell(&self, line: &str) -> Result<()> {
        let output = self.command("bash").args(["-o", "pipefail", "-c", line]).output()?;
        if !output.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn repository_bytes(&self) -> Result<u64> {
        let mut sum = 0;
        let repository = self.folder.path().join("repo");
        let mut folders: Vec<PathBuf> = if repository.exists() { vec![repository] } else { Vec::new() };
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else {
                    sum += metadata.len();
                }
            }
        }
        Ok(sum)
    }

    /// Runs a line and measures it, and what it adds to the repository.
    fn measure(&self, line: &str) -> Result<Cost> {
        let before = self.repository_bytes()?;
        let report = self.folder.path().join("time");
        let Timed { wall_s, processor_s, memory_mb, .. } =
            timed(self.command("/usr/bin/time"), line, &report)?;
        let bytes = self.repository_bytes()?.saturating_sub(before);
        Ok(Cost { wall_s, processor_s, memory_mb, bytes })
    }
}

/// Writes the image: runs of pages of one kind, the same every time.
pub(super) fn write_image(path: &Path) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random::new(1);
    let mut page = vec![0u8; PAGE];
    let mut kind = 0;
    for number in 0..PAGES {
        if number % RUN == 0 {
            kind = random.below(100);
        }
        match kind {
            0..36 => page.fill(0),
            36..56 => rows(&mut page, number, &mut random),
            56..90 => words(&mut page, &mut random),
            _ => noise(&mut page, &mut random),
        }
        out.write_all(&page)?;
    }
    out.flush()?;
    Ok(())
}

/// A page like that of a table with numbers and short random texts, two thirds full.
fn rows(page: &mut [u8], number: u64, random: &mut Random) {
    page.fill(0);
    for (row, slot) in page.chunks_mut(200).take(PAGE / 300).enumerate() {
        let id = number * 54 + row as u64;
        let text: String = (0..12).map(|_| format!("{:011}-", random.below(99_999_999_999))).collect();
        let bytes = [&id.to_be_bytes()[..], text.as_bytes()].concat();
        slot.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
}

fn noise(bytes: &mut [u8], random: &mut Random) {
    for part in bytes.chunks_mut(8) {
        let number = random.next().to_le_bytes();
        part.copy_from_slice(number.get(..part.len()).unwrap_or_default());
    }
}

/// Words with different frequencies.
fn words(page: &mut [u8], random: &mut Random) {
    let mut rest = page;
    while !rest.is_empty() {
        let bits = random.below(14);
        let rank = random.below(1 << bits);
        let word = format!("{:x} ", rank.wrapping_mul(0x9e37_79b9) % 0xff_ffff);
        let (now, later) = rest.split_at_mut(word.len().min(rest.len()));
        now.iter_mut().zip(word.bytes()).for_each(|(to, from)| *to = from);
        rest = later;
    }
}

/// Changes one in a hundred of the pages that are not zeros, in the way in which a database changes a page
/// when it updates a row.
pub(super) fn change_pages(path: &Path) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut random = Random::new(2);
    let mut page = vec![0u8; PAGE];
    let mut left = PAGES / 100;
    while left > 0 {
        let at = random.below(PAGES) * PAGE as u64;
        file.read_exact_at(&mut page, at)?;
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        left -= 1;
        for (offset, len) in [(16, 8), (200 * random.below(50) + 8, 200), (PAGE as u64 - 8, 8)] {
            let mut bytes = vec![0; len];
            noise(&mut bytes, &mut random);
            file.write_all_at(&bytes, at + offset)?;
        }
    }
    file.sync_all()?;
    Ok(())
}
