//! The second part: a copy of the running server, damaged on purpose.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use progress::count;
use server::Session;

use super::stage::Stage;
use super::{Shown, import};
use crate::exit::Exit;

pub(super) fn show(stage: &mut Stage) -> Result<Shown> {
    if !stage.is_mariadb() {
        stage.title("A backup of a running server")?;
        return Ok(Shown::Not(
            "only MariaDB is copied while it runs; MySQL is backed up from a snapshot (LVM, btrfs, XFS), \
             or with 'remora dump'"
                .to_owned(),
        ));
    }
    import::table(stage)?;
    stage.title("A backup of a running server")?;
    stage.say("A session writes to the server while its files are copied.")?;
    stage.sql("CREATE TABLE web.ticks (id BIGINT PRIMARY KEY AUTO_INCREMENT, t DATETIME(6))")?;
    let mut session = stage.session()?;
    let over = AtomicBool::new(false);
    let (made, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&mut session, &over));
        let made = make(stage);
        over.store(true, Ordering::Relaxed);
        (made, writer.join())
    });
    made?;
    let rows = written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    stage.say(&format!(
        "Meanwhile {} committed. The second backup stores only what has changed.",
        count(rows, "row")
    ))?;
    make(stage)?;
    stage.ends(Exit::Done, &["list", "repo"])?;
    stage.say("Would you notice if one byte of a backup went bad?")?;
    damage(stage)?;
    stage.ends(Exit::Damaged, &["verify", "damaged"])?;
    stage.say("The byte is found, and what it costs. The original is sound:")?;
    stage.ends(Exit::Done, &["verify", "repo"])?;
    Ok(Shown::Whole)
}

/// Makes a backup.
pub(super) fn make(stage: &mut Stage) -> Result<()> {
    let address = stage.address.as_str();
    stage.ends(Exit::Done, &["backup", address, "--to", "repo", "--name", "web", "--way", "copy"])?;
    stage.is_backed_up = true;
    Ok(())
}

/// Commits rows until it is over: how many.
fn write(session: &mut Session, over: &AtomicBool) -> Result<u64, server::Error> {
    let mut rows = 0;
    while !over.load(Ordering::Relaxed) {
        session.execute("INSERT INTO web.ticks (t) VALUES (NOW(6))")?;
        rows += 1;
    }
    Ok(rows)
}

/// Changes a byte in the middle of a copy of the repository.
fn damage(stage: &Stage) -> Result<()> {
    stage.shell("cp -r repo damaged")?;
    let file = largest(Path::new("damaged/web"))?;
    let content = std::fs::read(&file)?;
    let at = content.len() / 2;
    let other = content.get(at).map_or(0, |byte| byte ^ 0xFF);
    stage.shell(&format!(
        "printf '\\{other:03o}' | dd of={} bs=1 seek={at} conv=notrunc status=none",
        file.display()
    ))
}

/// The largest file of a folder.
fn largest(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder)?.flatten();
    let files = entries.filter_map(|entry| Some((entry.metadata().ok()?, entry.path())));
    let files = files.filter(|(about, _)| about.is_file());
    let largest = files.max_by_key(|(about, _)| about.len()).map(|(_, path)| path);
    largest.with_context(|| format!("{} is empty", folder.display()))
}
