//! `remora verify --replay`: a generation and the archived log from there must be the next generation. What
//! was changed without the log is in the next one only, and a recovery would silently lack it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use block::Generation;
use disk::{Disk, RealDisk};
use dump::{Difference, Selection, Side};
use failure::usage;
use instance::binary_log::BinaryLog;
use instance::requirements::{NOTHING, Requirements};
use instance::{Files, Wanted};
use pitr::{Folders, Recovery, RecoveryTarget, ReplayRequest, must_replay_all};
use progress::{Progress, count};
use repository::Named;
use sandbox::Sandbox;
use serde_json::json;

use super::Arguments;
use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

/// The mark of a difference in a table's counter alone. Such a difference is no defect: inserts that were
/// rolled back advance the counter, and are in no log.
const COUNTER: &str = ": AUTO_INCREMENT is ";

pub(super) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    must_replay_all(&arguments.server_option)?;
    let text = arguments.repository.to_string_lossy();
    let (named, number) = repository::one(&text, arguments.key.read_full()?.as_ref())?;
    let (before, after) = pair(&named, number)?;
    let stop = commands::stop_flag(report)?;
    let proof = Proof { arguments, named: &named, stop: &stop, report };
    let found = match proof.compare(&before, &after) {
        Ok(found) => found,
        Err(error) => return super::after_damage(error, &named, commands::cores(), (&stop, report)),
    };
    report.end();
    let name = &named.name;
    let (before, after) = (before.number, after.number);
    let seconds = began.elapsed().as_secs_f64();
    let lines: Vec<&String> = found.lines.iter().filter(|line| !line.contains(COUNTER)).collect();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": name, "generation": after, "before": before, "tables": found.tables,
            "rows": found.rows, "differences": lines, "seconds": seconds,
        }))?;
    } else {
        lines.iter().try_for_each(|line| report.data(line))?;
        let differences = match lines.len() {
            0 => "all equal".to_owned(),
            number => count(number as u64, "difference"),
        };
        report.note(&format!(
            "{name}@{before} and the archived log up to {name}@{after}: {}, {}, {differences}, {seconds:.1} s",
            count(found.tables as u64, "table"),
            report::rows(found.rows),
        ));
    }
    if lines.is_empty() {
        return Ok(Exit::Done);
    }
    report.warn(&format!(
        "what {name}@{after} has and the log lacks was changed without the log (sql_log_bin=0, log_bin off for a while, \
         binlog_ignore_db), or a statement in the log makes something else each time (binlog_format=STATEMENT or MIXED). A recovery \
         from {name}@{before} would lack it too: one from {name}@{after} or later does not"
    ));
    Ok(Exit::Damaged)
}

/// The generation that is meant, and the one before it. Both must say where they are in the log.
fn pair(named: &Named, number: Option<u64>) -> Result<(Generation, Generation)> {
    let mut all = named.repository.list()?.generations;
    all.retain(|found| number.is_none_or(|number| found.number <= number));
    let name = &named.name;
    let after = all.pop().filter(|last| number.is_none_or(|number| last.number == number));
    let after =
        after.ok_or_else(|| usage(format!("there is no generation {} of {name}", number.unwrap_or(0))))?;
    ensure!(
        repository::position(&after).is_some(),
        "{name}@{} does not say where it is in the log: it was made of a server without a binary log, or not as mysql:",
        after.number
    );
    let before = all.into_iter().rfind(|older| repository::position(older).is_some());
    let before = before.with_context(|| {
        format!(
            "{name} has no generation before {} that says where it is in the log; make another backup",
            after.number
        )
    })?;
    Ok((before, after))
}

struct Proof<'a> {
    arguments: &'a Arguments,
    named: &'a Named,
    stop: &'a Arc<AtomicBool>,
    report: &'a Report,
}

/// A server, and the files that it runs on. Dropped in this order.
struct Served {
    server: Sandbox,
    _files: Files,
    name: String,
}

impl Proof<'_> {
    fn compare(&self, before: &Generation, after: &Generation) -> Result<Difference> {
        let Some((file, at)) = repository::position(after) else { bail!("it has no position") };
        let target = RecoveryTarget::Position(file, at);
        let recovery =
            Recovery::find((self.named, Some(before.number)), &target, None, &self.report.shared())?;
        let wanted = Wanted {
            data_folder: None,
            server: self.arguments.server.as_ref(),
            options: &[],
            work: self.arguments.work.as_deref(),
            needs: &NOTHING,
            account: None,
        };
        let work = wanted.work_folder()?;
        let folder = |name: &str| -> Result<PathBuf> {
            let folder = work.path().join(name);
            RealDisk.create_folder(&folder)?;
            Ok(folder)
        };
        let replayed = self.serve(before, Some(recovery), &folder("before")?, wanted)?;
        let real = self.serve(after, None, &folder("after")?, wanted)?;
        self.report.phase("comparing", None);
        let queues = instance::connect(&real.server)?.strings(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'QUEUE'",
        )?;
        let exclude =
            queues.iter().filter_map(|row| format!("{}.{}", row[0].as_ref()?, row[1].as_ref()?).parse().ok());
        let selection = Selection { include: Vec::new(), exclude: exclude.collect(), no_accounts: true };
        if !queues.is_empty() {
            let queues = count(queues.len() as u64, "queue");
            self.report.note(&format!("{queues} not compared: their rows are not in the binary log"));
        }
        let world = dump::Context {
            disk: Arc::new(RealDisk),
            server: Arc::new(RealDisk),
            stop: Arc::clone(self.stop),
            progress: Arc::new(self.report.clone()),
        };
        let side = |served: &Served| {
            Ok::<_, anyhow::Error>(Side::Server(Box::new(instance::target(&served.server)?)))
        };
        let compared = dump::diff(&world, (&side(&replayed)?, &side(&real)?), &selection, commands::cores());
        for served in [&replayed, &real] {
            if matches!(&served._files, Files::Lazy(lazy) if lazy.inodes.is_damaged()) {
                return Err(failure::damage(format!("what a server needs of {} is damaged", served.name)));
            }
        }
        let mut found = compared?;
        // People know generations, not the sockets of private servers.
        for line in &mut found.lines {
            for (served, shown) in
                [(&replayed, format!("{} and the log", replayed.name)), (&real, real.name.clone())]
            {
                *line = line.replace(&instance::target(&served.server)?.to_string(), &shown);
            }
        }
        Ok(found)
    }

    /// Starts a server on a generation, or on what a replay makes of it.
    fn serve(
        &self,
        of: &Generation,
        recovery: Option<Recovery<'_>>,
        work: &Path,
        wanted: Wanted<'_>,
    ) -> Result<Served> {
        let (stop, report) = (self.stop, self.report);
        let needs = Requirements::of(&self.named.repository, Some(of.number))?;
        let options = needs.options(&self.arguments.server_option)?;
        let options: Vec<String> = instance::FRUGAL.map(str::to_owned).into_iter().chain(options).collect();
        let wanted = Wanted { options: &options, needs: &needs, ..wanted };
        // As for restore --tables: what a replay alters outside of its data folder can't be in a mount.
        let is_lazy = recovery.is_none() || !needs.has_outside();
        let jobs = self.arguments.jobs.unwrap_or_else(commands::cores);
        let to = instance::Work { folder: work, jobs, is_lazy };
        let (_, files) = instance::readable(self.named, Some(of.number), &to, stop, &report.shared())?;
        let data = instance::data(&files, wanted)?;
        report.phase("recovering", None);
        instance::refuse_outside(&data)?;
        if let Some(recovery) = recovery {
            let folders = Folders { data: &data, work };
            let request = ReplayRequest { wanted, only: &Selection::default() };
            recovery.replay(folders, request, stop, &report.shared())?;
        }
        let log = BinaryLog::find(&data, needs.log())?;
        let server = instance::start(&data, log.as_ref(), wanted)?;
        instance::settle(&server, stop)?;
        Ok(Served { server, _files: files, name: format!("{}@{}", self.named.name, of.number) })
    }
}
