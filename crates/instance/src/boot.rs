//! A server that is started on a generation of a backup, to prove it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use std::{fs, iter};

use anyhow::{Context, Result, bail};
use block::restore::Request;
use block::{Repository, RunContext};
use mount::Warn;
use progress::Progress;
use repository::Named;
use sandbox::Sandbox;
use serde_json::Value;

use crate::binary_log::{self, BinaryLog, Position};
use crate::requirements::Requirements;
use crate::table_check::{self, Checked};
use crate::{Files, Wanted};

/// Starts a server on a generation, and notes in the repository whether it is sound.
///
/// # Errors
/// If it can't be known whether it is sound: no server is here, its keys are missing, or what it needs of the
/// repository is damaged.
pub fn boot(
    named: &Named,
    request: Request,
    wanted: Wanted<'_>,
    (stop, report): (&AtomicBool, &progress::Shared),
) -> Result<BootResult> {
    let began = Instant::now();
    // Before what may take hours.
    let needs = Requirements::of(&named.repository, request.generation)?;
    let options = needs.options(wanted.options)?;
    let work = wanted.work_folder()?;
    // What was copied while its server ran was not sound before a server recovered it: that is what is proven
    // here, and that every table can be read. That every byte came back is proven without a server.
    let is_lazy = log_end(&named.repository, request.generation)?.is_some() && mount::is_possible();
    let (generation, files, how) = if is_lazy {
        let say = Arc::clone(report);
        let say: Warn = Box::new(move |what| say.warn(what));
        let (generation, files) = crate::lazy(named, request.generation, work.path(), say)?;
        (generation, files, "recovered")
    } else {
        let world = RunContext { stop, progress: &**report };
        let (restored, files) = crate::files(named, work.path(), request, world)?;
        (restored.generation, files, "restored and recovered")
    };
    let log_end = log_end(&named.repository, Some(generation))?;
    let frugal = crate::FRUGAL.iter().filter(|_| is_lazy).map(ToString::to_string);
    let options: Vec<String> = frugal.chain(options).collect();
    let wanted = Wanted { options: &options, needs: &needs, ..wanted };
    let start = || {
        let data = crate::data(&files, wanted)?;
        report.phase("recovering", None);
        crate::refuse_outside(&data)?;
        let log = BinaryLog::find(&data, needs.log())?;
        let mut result = BootResult {
            generation,
            how,
            seconds_to_recovery: None,
            seconds: 0.0,
            position: None,
            checked: Checked::default(),
        };
        match crate::start(&data, log.as_ref(), wanted) {
            Ok(server) => {
                result.seconds_to_recovery = Some(began.elapsed().as_secs_f64());
                result.look(&server, log.as_ref(), log_end, (stop, &**report))?;
            }
            Err(error) => result.checked.damages = why_not(error)?,
        }
        Ok(result)
    };
    let started: Result<BootResult> = start();
    report.end();
    let is_damaged = matches!(&files, Files::Lazy(lazy) if lazy.inodes.is_damaged());
    drop(files);
    if is_damaged {
        // It was told already where, and says nothing about the copy.
        return Err(failure::damage(format!(
            "what a server needs of {}@{generation} is damaged",
            named.name
        )));
    }
    let mut result = started?;
    if let Some(said) = needs.not_decrypted(&result.checked.damages) {
        bail!(
            "{}@{generation} is encrypted, and the server could not decrypt it: are these its keys? Whether it is sound is still unknown. {said}",
            named.name
        );
    }
    // A defect counts, even if the repository can't be told of it.
    if let Err(error) = named.repository.note_boot(generation, result.checked.damages.is_empty()) {
        report.warn(&format!("this could not be noted in the repository: {error}"));
    }
    result.seconds = began.elapsed().as_secs_f64();
    Ok(result)
}

/// Where the redo log of a generation, or of the newest one, ends if it was copied while the server ran.
fn log_end(repository: &Repository, generation: Option<u64>) -> Result<Option<u64>> {
    let all = repository.list()?.generations;
    let found = all.iter().rfind(|found| generation.is_none_or(|number| found.number == number));
    let note: Value = found.and_then(|found| serde_json::from_str(&found.note).ok()).unwrap_or_default();
    Ok(note.pointer("/log/to").and_then(Value::as_u64))
}

/// The problem, if by its messages a server did not read its redo log up to `end`: a server takes the first
/// damaged place for the end.
fn too_short(said: &str, end: u64) -> Option<String> {
    let at = said.lines().rev().find_map(|line| line.split_once("End of log at LSN=")).map(|(_, rest)| rest);
    let Some(at) = at else { return Some("the server did not say where its redo log ends".to_owned()) };
    let digits: String = at.chars().take_while(char::is_ascii_digit).collect();
    (digits != end.to_string()).then(|| {
        format!("the redo log was copied up to LSN {end}, but the server read it up to LSN {digits} only")
    })
}

/// What a server that was started on a generation has found.
pub struct BootResult {
    /// The generation.
    pub generation: u64,
    /// What was done to the generation before.
    pub how: &'static str,
    /// Counted from the first restored byte; none when the server did not start.
    pub seconds_to_recovery: Option<f64>,
    /// Seconds of all of it.
    pub seconds: f64,
    /// Where the binary log was.
    pub position: Option<Position>,
    /// What was checked, and what is damaged.
    pub checked: Checked,
}

impl BootResult {
    fn look(
        &mut self,
        server: &Sandbox,
        log: Option<&BinaryLog>,
        log_end: Option<u64>,
        (stop, report): (&AtomicBool, &dyn Progress),
    ) -> Result<()> {
        let mut session = crate::connect(server)?;
        let innodb = binary_log::innodb_position(&server.error_log())?;
        self.position = match log {
            // After RESET MASTER InnoDB may still tell a position of an older log, which this one does not
            // reach. What is wrong with the log itself is so from its beginning, too.
            Some(log) => {
                Some(log.position(&mut session, innodb).or_else(|_| log.position(&mut session, None))?)
            }
            None => innodb,
        };
        let tables = table_check::tables(&mut session, false)?;
        self.checked = table_check::check(&mut session, &tables, None, stop, report)?;
        let said = fs::read(server.error_log()).with_context(|| server.error_log().display().to_string())?;
        let said = String::from_utf8_lossy(&said);
        self.checked.damages.extend(table_check::errors(&said));
        self.checked.damages.extend(log_end.and_then(|end| too_short(&said, end)));
        Ok(())
    }
}

/// What is wrong with data on which no server starts, if the server says so; else the error.
fn why_not(error: anyhow::Error) -> Result<Vec<String>> {
    let said = match error.downcast_ref() {
        Some(sandbox::Error::Start { log, .. }) => table_check::errors(log),
        _ => Vec::new(),
    };
    if said.is_empty() {
        return Err(error);
    }
    Ok(iter::once(table_check::NO_START.to_owned()).chain(said).collect())
}

#[cfg(test)]
mod tests {
    use super::too_short;

    #[test]
    fn a_log_must_be_read_up_to_its_end() {
        let said = "2026-11-23 [Note] InnoDB: Starting crash recovery from checkpoint LSN=12\n\
                    2026-11-23 [Note] InnoDB: End of log at LSN=3456\n2026-11-23 [Note] ready";
        assert_eq!(too_short(said, 3456), None);
        for (said, end, wrong) in
            [(said, 3457, "up to LSN 3456 only"), (said, 345, "3456"), ("", 1, "did not say")]
        {
            assert!(too_short(said, end).is_some_and(|text| text.contains(wrong)), "{end}");
        }
    }
}
