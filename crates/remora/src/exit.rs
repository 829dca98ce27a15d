//! All exit codes, in one table.

use std::io::{self, Write};

use failure::{Completeness, Failure};
use signal_hook::consts::{SIGHUP, SIGTERM};

use crate::stop;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything requested is done.
    Done,
    /// It was not done; nothing is half done unless the message says so.
    Failed,
    /// The command line or an option file is wrong.
    Usage,
    /// Done, except for the items named.
    Partial,
    /// What was compared differs, or what was read is not what was written.
    Damaged,
    /// The server can't be reached, or refused the connection.
    Server,
    /// Another run is using the target.
    Busy,
    /// Done, but the archive's timeline has ended with a gap or a fork.
    Broken,
    /// Stopped by SIGHUP.
    HungUp,
    /// Stopped by SIGINT.
    Interrupted,
    /// Stopped by SIGTERM.
    Terminated,
    /// A command that was run for the user ended with this code.
    Command(u8),
}

impl Exit {
    /// All of them, in the order of their codes.
    pub(crate) const ALL: [Exit; 11] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Partial,
        Exit::Damaged,
        Exit::Server,
        Exit::Busy,
        Exit::Broken,
        Exit::HungUp,
        Exit::Interrupted,
        Exit::Terminated,
    ];

    /// The number the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Partial => 3,
            Exit::Damaged => 4,
            Exit::Server => 10,
            Exit::Busy => 11,
            Exit::Broken => 12,
            Exit::HungUp => 129,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
            Exit::Command(code) => code,
        }
    }

    /// The same, once something that was asked for is left out.
    pub(crate) fn and_left_out(self) -> Exit {
        if self == Exit::Done { Exit::Partial } else { self }
    }

    /// The same, after work that may not have got as far as it should.
    pub(crate) fn after(self, completeness: Completeness) -> Exit {
        match completeness {
            Completeness::Complete => self,
            Completeness::Partial => self.and_left_out(),
            Completeness::Damaged => Exit::Damaged,
        }
    }

    /// Its meaning, for help texts.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Failed => "failed",
            Exit::Usage => "wrong command line or option file",
            Exit::Partial => "finished, but some items were left out; each is named",
            Exit::Damaged => "verification found a difference or damage",
            Exit::Server => "server unreachable, or it refused the connection",
            Exit::Busy => "target in use by another run, or a lock not obtained in time",
            Exit::Broken => "done, but the server's log has a gap or a fork",
            Exit::HungUp => "stopped by SIGHUP",
            Exit::Interrupted => "stopped by SIGINT",
            Exit::Terminated => "stopped by SIGTERM",
            Exit::Command(_) => "that of the command that was run",
        }
    }

    /// What a command can end with, in the order of the codes, as its manual page has it.
    pub(crate) fn of_command(name: &str) -> Vec<Exit> {
        use Exit::{Broken, Busy, Command, Damaged, Partial, Server};
        // `is_stopped`: whether it has an exit code of its own when a signal stops it.
        let (further, is_stopped): (&[Exit], bool) = match name {
            "backup" | "copy" | "dump" | "load" => (&[Partial, Damaged, Server, Busy], true),
            "binlog" => (&[Damaged, Server, Busy, Broken], true),
            "blockers" => (&[Partial, Server], false),
            "cron" => (&[Busy, Command(0)], false),
            "demo" => (&[Partial], true),
            "diff" => (&[Damaged, Server], true),
            "doctor" => (&[Partial, Damaged, Server], true),
            "extract" | "mirror" | "prune" | "restore" | "verify" => (&[Partial, Damaged, Busy], true),
            "import" | "stat" | "top" => (&[Partial, Server, Busy], true),
            "kill" => (&[Partial, Server], true),
            "list" | "log" => (&[Partial, Damaged], false),
            "lock" => (&[Server, Busy, Command(0)], false),
            "mount" | "url" => (&[Damaged, Busy], false),
            "pack" | "unpack" => (&[Partial, Damaged], true),
            "poke" => (&[Partial, Server], false),
            "queue" => (&[Server], true),
            "setup" => (&[Partial, Server], true),
            "rekey" => (&[Partial, Damaged, Busy], false),
            "reverse" => (&[Damaged], true),
            "routines" => (&[Partial, Server], false),
            "uncache" => (&[Partial], false),
            "undo" => (&[Server, Busy], false),
            "vars" => (&[Partial, Damaged, Server], false),
            "web" => (&[], true),
            _ => (&[], false),
        };
        let all = [&[Exit::Done, Exit::Failed, Exit::Usage], further].concat();
        // A command that runs another one ends with the other's code, also when all is well.
        let has_own = |exit: &Exit| *exit != Exit::Done || !further.contains(&Command(0));
        let stopped = [Exit::HungUp, Exit::Interrupted, Exit::Terminated].into_iter().filter(|_| is_stopped);
        all.into_iter().filter(has_own).chain(stopped).collect()
    }

    /// The exit code for this error.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        for cause in error.chain() {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return match failure {
                    Failure::Usage(_) => Exit::Usage,
                    Failure::Damage(_) => Exit::Damaged,
                    Failure::Busy(_) => Exit::Busy,
                    Failure::Stopped => stopped(),
                };
            }
            if let Some(job::Stopped(signal)) = cause.downcast_ref::<job::Stopped>() {
                return stopped_by(*signal);
            }
            if let Some(error) = cause.downcast_ref::<import::Error>() {
                return match error {
                    import::Error::Busy { .. } | import::Error::Unfinished { .. } => Exit::Busy,
                    import::Error::Stopped | import::Error::Ended => stopped(),
                    import::Error::Server(error) => of_server(error),
                    _ => Exit::Failed,
                };
            }
            if let Some(error) = cause.downcast_ref::<block::Error>() {
                return match error {
                    block::Error::Corrupt { .. } => Exit::Damaged,
                    block::Error::Store { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                        Exit::Damaged
                    }
                    block::Error::Key(_) => Exit::Usage,
                    block::Error::Busy(_) => Exit::Busy,
                    block::Error::Source { source, .. } if is_held(source) => Exit::Busy,
                    block::Error::Source { source, .. } => {
                        let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<server::Error>());
                        inner.map_or(Exit::Failed, of_server)
                    }
                    block::Error::Store { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                        Exit::Busy
                    }
                    block::Error::Stopped => stopped(),
                    _ => Exit::Failed,
                };
            }
            if let Some(error) = cause.downcast_ref::<physical::Error>() {
                return match error {
                    physical::Error::Stopped => stopped(),
                    error if error.is_damage() => Exit::Damaged,
                    _ => Exit::Failed,
                };
            }
            if let Some(error) = cause.downcast_ref::<dump::Error>() {
                return of_dump(error);
            }
            if let Some(error) = cause.downcast_ref::<follow::Error>() {
                return of_follow(error);
            }
            if let Some(error) = cause.downcast_ref::<server::Error>() {
                return of_server(error);
            }
            if let Some(error) = cause.downcast_ref::<broker::Error>() {
                return of_broker(error);
            }
            if let Some(sandbox::Error::Name { .. }) = cause.downcast_ref() {
                return Exit::Usage;
            }
        }
        Exit::Failed
    }
}

fn of_dump(error: &dump::Error) -> Exit {
    use dump::Error as E;
    match error {
        E::Corrupt { .. } | E::Different { .. } => Exit::Damaged,
        E::File { source, .. } if source.kind() == io::ErrorKind::InvalidData => Exit::Damaged,
        E::Busy(_) => Exit::Busy,
        E::Stopped(_) => stopped(),
        // It had begun: that a session could not be opened any more does not mean that nothing was done.
        E::Interrupted { .. } => Exit::Failed,
        E::Server(error) => of_server(error),
        E::Object { source, .. } => of_server(source),
        _ => Exit::Failed,
    }
}

fn of_follow(error: &follow::Error) -> Exit {
    use follow::Error as E;
    match error {
        E::Different { .. } | E::Corrupt { .. } => Exit::Damaged,
        E::Usage(_) => Exit::Usage,
        E::Busy => Exit::Busy,
        E::Server(error) => of_server(error),
        E::Dump(error) => of_dump(error),
        _ => Exit::Failed,
    }
}

fn of_server(error: &server::Error) -> Exit {
    use server::Error as E;
    match error {
        E::OptionFile { .. } | E::BadUrl { .. } | E::BadOption { .. } => Exit::Usage,
        E::Unreachable { .. }
        | E::Refused { .. }
        | E::Privilege { .. }
        | E::Tls { .. }
        | E::SameNumber { .. } => Exit::Server,
        _ => Exit::Failed,
    }
}

fn of_broker(error: &broker::Error) -> Exit {
    use broker::Error as E;
    match error {
        E::BadUrl(_) => Exit::Usage,
        E::Io { .. } | E::Refused { .. } | E::Tls { .. } => Exit::Server,
        _ => Exit::Failed,
    }
}

impl From<screen::End> for Exit {
    fn from(end: screen::End) -> Exit {
        match end {
            screen::End::Done => Exit::Done,
            screen::End::HungUp => Exit::HungUp,
            screen::End::Stopped => stopped(),
        }
    }
}

/// The exit code after a signal.
pub(crate) fn stopped() -> Exit {
    stopped_by(stop::signal())
}

fn stopped_by(signal: i32) -> Exit {
    match signal {
        SIGHUP => Exit::HungUp,
        SIGTERM => Exit::Terminated,
        _ => Exit::Interrupted,
    }
}

/// Whether something could not be read because somebody else holds the lock.
fn is_held(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>());
    matches!(inner, Some(Failure::Busy(_)))
}

/// The reader of our output is gone: `remora ... | head` is not a failure. A broken pipe anywhere else is.
#[derive(Debug)]
struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of the output went away")
    }
}

impl std::error::Error for ReaderGone {}

/// Standard output. It is locked only while something is written: other threads may have messages.
pub(crate) struct Stdout(io::Stdout);

/// Standard output.
pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout())
}

fn without_reader(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { io::Error::new(error.kind(), ReaderGone) } else { error }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(without_reader)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).map_err(without_reader)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(without_reader)
    }
}

/// Whether the program ends because nobody reads its output.
pub(crate) fn is_reader_gone(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<ReaderGone>())
    })
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn a_load_that_had_begun_has_failed_wherever_it_lost_its_server() {
        let gone = || {
            let [target, why, hint] =
                ["root@localhost", "there is no such socket", "start it"].map(str::to_owned);
            dump::Error::Server(server::Error::Unreachable { target, why, hint })
        };
        assert_eq!(Exit::of(&gone().into()).code(), 10);
        let begun = dump::Error::Interrupted { rows: 264, source: Box::new(gone()) };
        assert_eq!(Exit::of(&begun.into()).code(), 1);
    }
}
