//! The fifth part: a queue whose server is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use crossbeam_channel::{Receiver, bounded, unbounded};
use progress::count;
use server::Session;

use super::Shown;
use super::stage::Stage;

/// Sessions that publish.
const PUBLISHERS: u64 = 3;
/// How long they publish before the server is killed.
const PUBLISHING: Duration = Duration::from_secs(1);
/// How many messages are taken at once.
const TAKEN: u64 = 1000;

pub(super) fn show(stage: &mut Stage) -> Result<Shown> {
    stage.title("A queue that loses nothing")?;
    if let Some(why) = stage.without("ha_queue.so")? {
        return Ok(Shown::Not(why));
    }
    stage.sql("CREATE DATABASE IF NOT EXISTS web")?;
    stage.sql("CREATE TABLE web.jobs (id BIGINT, body VARCHAR(100)) ENGINE=QUEUE")?;
    stage.say(&format!(
        "{} publish, one INSERT after the other, and the server is killed.",
        count(PUBLISHERS, "session")
    ))?;
    let published = publish_and_kill(stage)?;
    stage.say(&format!("{} had returned.", count(published.len() as u64, "INSERT")))?;
    stage.print_command(&format!("remora sandbox start {}", stage.name()))?;
    stage.server.restart()?;
    stage.sql("SELECT COUNT(*) AS waiting FROM web.jobs")?;
    stage.say("A consumer takes one message, and its connection is lost:")?;
    stage.sql("SELECT id, body FROM web.jobs WHERE queue_wait('web.jobs')")?;
    stage.say("Another consumer takes them all, a thousand at a time:")?;
    let taken = take_all(stage)?;
    let lost = published.difference(&taken).count();
    ensure!(lost == 0, "{} lost by the queue", count(lost as u64, "message"));
    stage.say(&format!(
        "{} taken: each whose INSERT had returned, none twice, and {} of which the publisher never \
         heard.",
        count(taken.len() as u64, "message"),
        taken.difference(&published).count()
    ))?;
    Ok(Shown::Whole)
}

/// Publishes with several sessions until the server is killed. Returns the messages whose INSERT has
/// returned.
fn publish_and_kill(stage: &mut Stage) -> Result<BTreeSet<u64>> {
    let sessions = (0..PUBLISHERS).map(|_| stage.session()).collect::<Result<Vec<_>>>()?;
    let (send, published) = unbounded();
    let (failed, failure) = bounded(sessions.len());
    std::thread::scope(|scope| {
        for (number, mut session) in (0..).zip(sessions) {
            let (send, failed) = (send.clone(), failed.clone());
            scope.spawn(move || {
                let error = publish(&mut session, number, |id| send.send(id).is_ok());
                failed.send(error).ok();
            });
        }
        drop((send, failed));
        let told =
            pause(&failure).and_then(|()| stage.print_command(&format!("kill -9 {}", stage.server.pid())));
        // In any case: nothing else ends the publishers.
        let killed = stage.server.kill();
        told.and_then(|()| Ok(killed?))
    })?;
    Ok(published.iter().collect())
}

/// Waits, unless a publisher fails before the server is killed.
fn pause(failure: &Receiver<server::Error>) -> Result<()> {
    failure.recv_timeout(PUBLISHING).map_or(Ok(()), |error| Err(error.into()))
}

/// Publishes until the server is gone; `returned` gets each message that is in the queue for sure.
fn publish(session: &mut Session, number: u64, returned: impl Fn(u64) -> bool) -> server::Error {
    let ids = (0..).map(|at| at * PUBLISHERS + number);
    for id in ids {
        match session.execute(&format!("INSERT INTO web.jobs VALUES ({id}, 'job {id}')")) {
            Ok(_) => drop(returned(id)),
            Err(error) => return error,
        }
    }
    unreachable!("there is no last number")
}

/// Takes and ends all messages.
fn take_all(stage: &Stage) -> Result<BTreeSet<u64>> {
    let take = format!("SELECT id FROM web.jobs WHERE queue_wait_n({TAKEN}, 'web.jobs', 0)");
    stage.print_statement(&take)?;
    stage.print_statement("SELECT queue_end()")?;
    let mut session = stage.session()?;
    let mut taken = BTreeSet::new();
    loop {
        stage.check()?;
        let rows = session.strings(&take)?;
        if rows.is_empty() {
            return Ok(taken);
        }
        for id in rows.into_iter().flatten().flatten() {
            ensure!(taken.insert(id.parse()?), "message {id} came twice");
        }
        session.value("SELECT queue_end()")?;
    }
}
