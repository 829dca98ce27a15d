//! Whether the log has all that was changed between two generations: the older one and the log from there
//! must be the newer one. What was changed without the log is in the newer one only, and a recovery would
//! silently lack it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use block::Generation;
use disk::{Disk, RealDisk};
use dump::{Difference, Selection, Side};
use failure::usage;
use instance::binary_log::BinaryLog;
use instance::requirements::{NOTHING, Requirements};
use instance::{Files, Wanted};
use progress::{Progress, Shared, count};
use repository::Named;
use sandbox::{Sandbox, ServerChoice};

use crate::{Folders, Recovery, RecoveryTarget, ReplayRequest};

/// The generation that is meant, and the one before it. Both must say where they are in the log.
///
/// # Errors
/// If there is no such pair.
pub fn pair(named: &Named, number: Option<u64>) -> Result<(Generation, Generation)> {
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

/// A comparison of two generations with the log between them, on two private servers.
pub struct LogCheck<'a> {
    /// The name that has them.
    pub named: &'a Named,
    /// Which server; none: the one that the data call for.
    pub server: Option<&'a ServerChoice>,
    /// Further options for it.
    pub server_options: &'a [String],
    /// A folder to work in; none: the one for temporary files.
    pub work: Option<&'a Path>,
    /// Threads that restore.
    pub jobs: usize,
    /// Sessions that compare.
    pub sessions: usize,
    /// Set when the user asks to stop.
    pub stop: &'a Arc<AtomicBool>,
    /// Where progress is shown.
    pub report: &'a Shared,
}

/// A server, and the files that it runs on. Dropped in this order.
struct Served {
    server: Sandbox,
    _files: Files,
    name: String,
}

impl LogCheck<'_> {
    /// Compares the older generation and the log up to the newer one with that one.
    ///
    /// # Errors
    /// If one of them can't be restored, or no server runs on it.
    pub fn compare(&self, before: &Generation, after: &Generation) -> Result<Difference> {
        let Some((file, at)) = repository::position(after) else { bail!("it has no position") };
        let target = RecoveryTarget::Position(file, at);
        let recovery = Recovery::find((self.named, Some(before.number)), &target, None, self.report)?;
        let wanted = Wanted {
            data_folder: None,
            server: self.server,
            options: &[],
            work: self.work,
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
            progress: Arc::new(Arc::clone(self.report)),
        };
        let side = |served: &Served| {
            Ok::<_, anyhow::Error>(Side::Server(Box::new(instance::target(&served.server)?)))
        };
        let compared = dump::diff(&world, (&side(&replayed)?, &side(&real)?), &selection, self.sessions);
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
        let options = needs.options(self.server_options)?;
        let options: Vec<String> = instance::FRUGAL.map(str::to_owned).into_iter().chain(options).collect();
        let wanted = Wanted { options: &options, needs: &needs, ..wanted };
        // As for restore --tables: what a replay alters outside of its data folder can't be in a mount.
        let is_lazy = recovery.is_none() || !needs.has_outside();
        let jobs = self.jobs;
        let to = instance::Work { folder: work, jobs, is_lazy };
        let (_, files) = instance::readable(self.named, Some(of.number), &to, stop, report)?;
        let data = instance::data(&files, wanted)?;
        report.phase("recovering", None);
        instance::refuse_outside(&data)?;
        if let Some(recovery) = recovery {
            let folders = Folders { data: &data, work };
            let request = ReplayRequest { wanted, only: &Selection::default() };
            recovery.replay(folders, request, stop, report)?;
        }
        let log = BinaryLog::find(&data, needs.log())?;
        let server = instance::start(&data, log.as_ref(), wanted)?;
        instance::settle(&server, stop)?;
        Ok(Served { server, _files: files, name: format!("{}@{}", self.named.name, of.number) })
    }
}
