//! One connection: what the server sends is compared, appended, made durable and acknowledged.

mod name;
mod pace;
mod place;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use binlog::Corrupt;
use binlog::archive::Tail;
use binlog::event::format::Format;
use binlog::event::{ARTIFICIAL, Body, Event, Kind};
use binlog::group::GroupId;
use progress::size;
use server::Error;
use server::binlog_dump::{BinlogDump, DumpRequest, Packet};
use transactions::names::{self, number};

use self::name::is_log;
use self::place::reached;
use crate::compare::Compare;
use crate::output::{Output, Written};
use crate::{NO_SUCH_PLACE, Run};

/// The beginning of the first event of a file.
const FIRST: u64 = 4;
/// How often an idle server says that there is nothing.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// A server that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a silent connection is trusted. After RESET MASTER a server continues to say that there is
/// nothing, whatever it writes into its new files.
const TRUST: Duration = Duration::from_secs(10);
/// By how many seconds what arrived last may be older than the server's clock then. Who is behind does not
/// wait.
const HEELS_S: i64 = 1;
/// How long to wait at most until looking whether to stop.
const LOOK: Duration = Duration::from_millis(200);

/// Why a connection was left.
pub(crate) enum Left {
    /// Everything is archived.
    End,
    /// A signal came.
    Stopped,
    /// What the server has differs from what is archived. How.
    Forked(String),
    /// It is to be made again: what the server has is to be compared.
    Again,
}

/// What happens with an event.
enum Took {
    It,
    /// Everything was sent before.
    Silence,
    Difference(String),
}

/// A connection.
pub(crate) struct Follow<'r, 'a> {
    run: &'r Run<'a>,
    writer: Output<'r>,
    timeline: &'r Written<'r>,
    tail: Option<Tail>,
    first: String,
    /// Where the server's log ended at the beginning.
    end: (String, u64),
    /// While this is there, nothing is appended.
    compare: Option<Compare>,
    /// The file that is sent.
    file: String,
    /// Where the next event is in it.
    at: u64,
    format: Format,
    /// The server first repeats how events are written.
    skips_format: bool,
    /// Since when there is something that is not durable.
    dirty: Option<Instant>,
    waits: bool,
    /// How long more may come before it is read.
    gather: Duration,
    /// How long what was read waits until it is synced.
    patience: Duration,
    /// The last transaction.
    name: GroupId,
    /// When the newest event was made, in seconds since 1970.
    newest_s: i64,
    /// When that which is read next had not come yet, by the server's clock.
    before_s: i64,
    was_silent: bool,
}

/// Notes when the server had nothing more than what is archived up to there. Nobody needs to know it before
/// more comes.
fn note_silence(run: &Run<'_>, writer: &mut Output<'_>, at: u64) -> Result<()> {
    match run.silent.take() {
        Some((end, time_s)) if end == at => writer.came(time_s, true),
        _ => Ok(()),
    }
}

/// Once all is compared, what follows is appended.
fn go_on<'r>(
    compare: &mut Option<Compare>,
    tail: Option<&Tail>,
    timeline: &Written<'r>,
    writer: &mut Output<'r>,
) -> Result<()> {
    match (compare.take(), tail) {
        (Some(_), Some(tail)) => timeline.resume(writer, tail),
        _ => Ok(()),
    }
}

impl<'r, 'a> Follow<'r, 'a> {
    pub(crate) fn new(
        run: &'r Run<'a>,
        timeline: &'r Written<'r>,
        tail: Option<Tail>,
        (first, end): (String, (String, u64)),
    ) -> Result<Follow<'r, 'a>> {
        let compare = match &tail {
            Some(tail) => Some(timeline.compare(tail)?),
            None => None,
        };
        let gather = if run.ack || run.once { Duration::ZERO } else { pace::gather(run.sync) };
        Ok(Follow {
            run,
            writer: timeline.writer()?,
            timeline,
            tail,
            first,
            end,
            compare,
            file: String::new(),
            at: FIRST,
            format: Format::without_sums(),
            skips_format: false,
            dirty: None,
            waits: false,
            gather,
            patience: pace::patience(run.sync, Duration::ZERO, gather),
            name: GroupId::None,
            newest_s: 0,
            before_s: run.time_s(),
            was_silent: false,
        })
    }

    /// Continues until there is nothing more to do.
    pub(crate) fn all(mut self) -> Result<Left> {
        let mut from = FIRST;
        if let Some(tail) = &self.tail {
            // Positions in requests have 32 bits.
            from = if u32::try_from(tail.last).is_ok() { tail.last } else { FIRST };
            if from > FIRST
                && let Some(what) = self.head()?
            {
                return Ok(Left::Forked(what));
            }
        }
        let mut dump = self.run.target.dump(&self.asked(from, self.run.once))?;
        self.format.has_sums = dump.has_sums();
        let left = self.receive(&mut dump);
        // Who has ended the connection takes no acknowledgement.
        self.waits &= left.is_ok();
        // Whatever happened, what has come is kept, unless that is what has failed.
        if !self.writer.is_broken() {
            self.sync(&mut dump)?;
        }
        if matches!(left, Ok(Left::End)) {
            self.run.note_now()?;
        }
        if matches!(left, Ok(Left::Stopped | Left::End)) {
            note_silence(self.run, &mut self.writer, self.at)?;
            self.tell("archived:");
        }
        left
    }

    fn asked(&self, at: u64, ends: bool) -> DumpRequest {
        DumpRequest {
            file: self.first.clone(),
            at: u32::try_from(at).unwrap_or(u32::MAX),
            server_id: self.run.server_id,
            ends,
            acknowledges: self.run.ack,
            heartbeat: HEARTBEAT,
        }
    }

    /// Compares the first event of the file: it says when the file was begun. Returns how it differs.
    fn head(&mut self) -> Result<Option<String>> {
        let mut asked = self.asked(FIRST, true);
        asked.acknowledges = false;
        let mut dump = self.run.target.dump(&asked)?;
        let format = Format::without_sums();
        let since = Instant::now();
        while since.elapsed() < SILENCE_MAX {
            let Packet::Event { bytes, .. } = dump.next(HEARTBEAT)? else { continue };
            let event = Event::unchecked(bytes, FIRST, &format)?;
            if event.header.kind == Kind::FORMAT_DESCRIPTION {
                let is_same = self.compare.as_mut().map_or(Ok(true), |compare| compare.has_head(bytes))?;
                return Ok((!is_same).then(|| format!("the server started {} again", self.first)));
            }
        }
        bail!("the server does not send the beginning of {}", self.first)
    }

    fn receive(&mut self, dump: &mut BinlogDump) -> Result<Left> {
        let began = Instant::now();
        let mut read = 0;
        loop {
            if self.run.stop.load(Ordering::Relaxed) {
                return Ok(Left::Stopped);
            }
            // What is here already is taken without a look at the clock, which costs as much as an event.
            let is_here = dump.has_more();
            if !is_here {
                self.run.report.read(std::mem::take(&mut read));
            }
            let left = if is_here { LOOK } else { self.gather(dump) };
            let packet = match dump.next(left) {
                // There is no such place in the file: it is shorter than what is archived.
                Err(Error::Sql { code: NO_SUCH_PLACE, message, .. }) if self.unfinished().is_some() => {
                    return Ok(Left::Forked(format!(
                        "the server's {} differs from what is archived: {message}",
                        self.first
                    )));
                }
                packet => packet.map_err(|error| self.explained(error))?,
            };
            match packet {
                Packet::Event { bytes, waits } => {
                    let len = bytes.len() as u64;
                    self.waits |= waits;
                    // The bytes are the connection's; everything else that is needed is not.
                    match self.event(bytes)? {
                        Took::It => read += len,
                        Took::Silence => {
                            self.run.hears_nothing((self.at, self.before_s));
                            if let Some(what) = self.unfinished() {
                                return Ok(Left::Forked(what));
                            }
                            if !self.run.has_told.replace(true) {
                                self.tell("caught up:");
                            }
                            // Only at first: see TRUST.
                            if !std::mem::replace(&mut self.was_silent, true) {
                                self.sync(dump)?;
                                self.run.note_now()?;
                            }
                            if began.elapsed() > TRUST {
                                return Ok(Left::Again);
                            }
                        }
                        Took::Difference(what) => return Ok(Left::Forked(what)),
                    }
                }
                Packet::Nothing => self.waits_for(dump)?,
                // A server that shuts down ends its log too, wherever it is.
                Packet::End if !self.run.once || !self.has_reached_the_end() => {
                    return Err(self.lost("it ended the log, as it does when it shuts down"));
                }
                Packet::End => {
                    self.run.silent.set(Some((self.at, self.before_s)));
                    return Ok(match self.unfinished() {
                        Some(what) => Left::Forked(what),
                        None => Left::End,
                    });
                }
            }
            let is_due = || self.dirty.is_some_and(|since| since.elapsed() >= self.patience);
            if !dump.has_more() && (self.waits || is_due()) {
                self.sync(dump)?;
            }
        }
    }

    /// Lets more come, and returns how long to wait for it then.
    fn gather(&self, dump: &BinlogDump) -> Duration {
        let left = self.dirty.map_or(LOOK, |since| self.patience.saturating_sub(since.elapsed()).min(LOOK));
        if self.run.time_s() - self.newest_s <= HEELS_S {
            dump.gather(self.gather.min(left));
        }
        left
    }

    /// Nothing came for a moment, or not all of an event.
    fn waits_for(&mut self, dump: &BinlogDump) -> Result<()> {
        if dump.silence() > SILENCE_MAX {
            return Err(self.lost("it has said nothing for 30 s"));
        }
        // What has come in part was there before.
        if !dump.is_amid() {
            self.before_s = self.run.time_s();
        }
        Ok(())
    }

    /// Behind what is archived the server can't read its own file, as after it was killed during an event.
    fn explained(&self, error: Error) -> anyhow::Error {
        let is_file = error.code() == Some(NO_SUCH_PLACE) && !self.file.is_empty();
        let error = anyhow::Error::new(error);
        if !is_file {
            return error;
        }
        error.context(format!(
            "the server can't read its {} behind {}; if it has a later file, PURGE BINARY LOGS TO that one lets the archive go on \
             in a new timeline, and a backup is needed then",
            self.file, self.at
        ))
    }

    fn lost(&self, why: &str) -> anyhow::Error {
        let (target, why) = (self.run.target.to_string(), why.to_owned());
        Error::LostConnection { target, why, statement: "COM_BINLOG_DUMP".to_owned() }.into()
    }

    /// Whether everything has come that was there at the beginning.
    fn has_reached_the_end(&self) -> bool {
        let (file, len) = &self.end;
        (number(&self.file), self.at) >= (number(file), *len)
    }

    /// That the server has less than what is archived.
    fn unfinished(&self) -> Option<String> {
        let compare = self.compare.as_ref()?;
        (self.at < compare.end()).then(|| {
            format!(
                "the server's {} ends at {}, and {} bytes are archived",
                self.file,
                self.at,
                compare.end()
            )
        })
    }

    fn sync(&mut self, dump: &mut BinlogDump) -> Result<()> {
        // If this fails nothing is acknowledged, also not later.
        let waits = std::mem::take(&mut self.waits);
        if self.dirty.take().is_some() {
            let began = Instant::now();
            self.writer.came(self.run.time_s(), false)?;
            self.writer.sync()?;
            self.run.has_archived.set(true);
            self.patience = pace::patience(self.run.sync, began.elapsed(), self.gather);
            if !dump.has_more() {
                self.run.note(self.newest_s)?;
            }
        }
        if waits {
            dump.acknowledge(&self.file, self.at)?;
        }
        Ok(())
    }

    fn event(&mut self, bytes: &[u8]) -> Result<Took> {
        // The server changes the first event of a file that it repeats, and not always its checksum.
        let prove = if self.skips_format { Event::unchecked } else { Event::checked };
        let event = match prove(bytes, self.at, &self.format) {
            Ok(event) => event,
            Err(corrupt) => return self.no_event(bytes, &corrupt),
        };
        let header = event.header;
        // How the events behind this one are written.
        let mut next = None;
        match header.kind {
            Kind::HEARTBEAT | Kind::HEARTBEAT_V2 => {
                return Ok(Took::Silence);
            }
            Kind::ROTATE if header.flags & ARTIFICIAL != 0 => {
                let Body::Rotate(rotate) = event.parse()? else { return Ok(Took::It) };
                let (name, at) = (String::from_utf8_lossy(rotate.file).into_owned(), rotate.position);
                return self.rotate(name, at);
            }
            Kind::FORMAT_DESCRIPTION => {
                if let Body::Format(format) = event.parse()? {
                    next = Some(*format);
                }
                if std::mem::take(&mut self.skips_format) {
                    self.format = next.unwrap_or_else(|| self.format.clone());
                    return Ok(Took::It);
                }
            }
            _ if header.flags & ARTIFICIAL != 0 => return Ok(Took::It),
            // Also repeated, if the log is encrypted on the server; in its file it says where it ends.
            Kind::START_ENCRYPTION if header.next_position == 0 => return Ok(Took::It),
            Kind::GTID | Kind::MYSQL_GTID | Kind::GTID_TAGGED => match event.parse()? {
                Body::Gtid(gtid) => self.name = GroupId::MariaDb(gtid.number),
                Body::MySqlGtid(Some((source, number))) => self.name = GroupId::MySql(source, number),
                _ => {}
            },
            _ => {}
        }
        if self.file.is_empty() {
            bail!(
                "the server sends its log without saying which file it is of, so that it can't be archived"
            );
        }
        let end = self.at + bytes.len() as u64;
        // MariaDB from 11.4 on writes 0 for events within a transaction.
        if header.next_position > 0 && u64::from(header.next_position) != end & u64::from(u32::MAX) {
            bail!(
                "the server sent an event that ends at {} where one that ends at {end} belongs, in {}",
                header.next_position,
                self.file
            );
        }
        let timestamp = header.timestamp;
        match &mut self.compare {
            Some(compare) if self.at < compare.end() => {
                if !compare.has(bytes, self.at)? {
                    return Ok(self.difference());
                }
                self.writer.again(&event, bytes)?;
            }
            _ => {
                go_on(&mut self.compare, self.tail.as_ref(), self.timeline, &mut self.writer)?;
                note_silence(self.run, &mut self.writer, self.at)?;
                self.writer.append(&event, bytes)?;
                self.dirty.get_or_insert_with(Instant::now);
            }
        }
        if let Some(format) = next {
            self.format = format;
        }
        self.at = end;
        self.newest_s = timestamp.into();
        Ok(Took::It)
    }

    /// Bytes that are no event: in another history, this may be within one.
    fn no_event(&mut self, bytes: &[u8], corrupt: &Corrupt) -> Result<Took> {
        let compare = self.compare.as_mut().filter(|compare| self.at < compare.end());
        if let Some(compare) = compare
            && !compare.has_damaged(bytes, self.at)?
        {
            return Ok(self.difference());
        }
        Err(failure::damage(format!("the server sent a damaged event of {}: {corrupt}", self.file)))
    }

    /// What is sent now is not what is archived.
    fn difference(&self) -> Took {
        Took::Difference(format!("the server's {} differs from what is archived, at {}", self.file, self.at))
    }

    /// What follows is of this file, from there on.
    fn rotate(&mut self, name: String, at: u64) -> Result<Took> {
        if name == self.file {
            return Ok(Took::It);
        }
        if !is_log(&name) {
            bail!("the server calls a file of its log {name:?}, which is no name of one");
        }
        if self.file.is_empty() {
            self.skips_format = at > FIRST;
        } else if let Some(what) = self.unfinished() {
            return Ok(Took::Difference(what));
        }
        if !self.file.is_empty() || self.compare.is_none() {
            go_on(&mut self.compare, self.tail.as_ref(), self.timeline, &mut self.writer)?;
            let whole = self.writer.file();
            if self.dirty.take().is_some() {
                self.writer.came(self.run.time_s(), false)?;
            }
            self.writer.begin(&name)?;
            if let Some(whole) = whole {
                self.run.report.note(&format!("{whole} is whole: {}", size(self.at)));
            }
        }
        self.file = name;
        self.at = at;
        Ok(Took::It)
    }

    /// `caught up: timeline 1, binlog.000033:818, 0-1-90112`
    fn tell(&self, how: &str) {
        let name = names::gtid(self.name).map_or_else(String::new, |name| format!(", {name}"));
        // What was not compared yet is archived, too.
        let tail = self.tail.as_ref().filter(|_| self.compare.is_some() || self.file.is_empty());
        let place = reached((&self.file, self.at), tail);
        let place = place.map_or_else(String::new, |(file, at)| format!(", {file}:{at}"));
        self.run.report.note(&format!("{how} timeline {}{place}{name}", self.timeline.number()));
    }
}
