//! Starts a server on a copy of another server's data, on the same machine and with the same program, to see
//! whether it finds the data sound. Only we can reach it, and it ends with us.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use crossbeam_channel::{RecvTimeoutError, bounded};
use host::Machine;
use instance::table_check::{self, Checked};
use progress::Progress;
use server::{Overrides, Session, Target};

use crate::start_options::Start;

/// How long to wait before checking again whether it answers.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Creates a folder for the socket, the log and temporary files; its name is short, because a socket's name
/// must be.
const FOLDER: &str = "umask 077; mktemp -d -p /tmp";

/// `is STATES PROCESS FOLDER`: whether the process is in one of the states. It `runs` as the server of the
/// folder, is an `other` program, has `ended`, or `loads` a program: then it has no command line, as a zombie
/// has none.
const IS: &str = r#"is() {
    case $(tr '\0' ' ' <"/proc/$2/cmdline") in
    *"$3/socket"*) set -- "$1" runs ;;
    ?*) set -- "$1" other ;;
    *) case $(sed 's/.*) //' "/proc/$2/stat") in
        [!ZX]*) set -- "$1" loads ;;
        *) set -- "$1" ended ;;
        esac ;;
    esac
    case $1 in *"$2"*) ;; *) return 1 ;; esac
} 2>/dev/null
"#;

/// Starts the program of process $1 as the owner of the data $2, with the folder $3 and the options after it.
/// It ends when the folder or the caller is gone. Settings that tell a replica where its source is would lead
/// it to files of the original.
const START: &str = r#"pid=$1 data=$2 folder=$3 parent=$PPID; shift 3
libraries=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^LD_LIBRARY_PATH=//p') 2>/dev/null
[ -z "$libraries" ] || export LD_LIBRARY_PATH="$libraries"
rm -f "$data"/*master*.info "$data"/*relay*.index "$data"/*relay*.info
mkdir "$folder/tmp" || exit 1
set -- "$@" --socket="$folder/socket" --pid-file="$folder/pid-file" --tmpdir="$folder/tmp"
if [ "$(id -u)" = 0 ]; then
    owner=$(stat -c %u "$data")
    chown -R "$owner" "$folder" && set -- "$@" --user="$(id -nu "$owner" 2>/dev/null || echo "$owner")"
fi
exec </dev/null
(
    trap '' HUP
    nice "/proc/$pid/exe" "$@" >"$folder/log" 2>&1 &
    server=$!
    # Until its program is loaded, it looks like this shell.
    while is "other loads" "$server" "$folder"; do sleep 0.02; done
    echo "$server" >"$folder/server"
    while kill -0 "$parent" && [ -e "$folder/server" ]; do sleep 0.2; done
    ! is "runs loads" "$server" "$folder" || kill -9 "$server"
    rm -rf "$folder"
) >/dev/null 2>&1 &
while ! [ -s "$folder/server" ]; do sleep 0.02; done"#;

/// Whether it is running.
const RUNS: &str = r#"is "runs loads" "$(cat "$1/server")" "$1""#;

/// Ends it, and waits until nobody writes to its data any more. Removes the folder if $2 says so.
const END: &str = r#"server=$(cat "$1/server") || server=none
while is "runs loads" "$server" "$1"; do kill -9 "$server"; sleep 0.02; done 2>/dev/null
[ "$2" != too ] || rm -rf "$1""#;

/// The result of a trial.
#[derive(Debug)]
pub struct Tried {
    /// The version of the server.
    pub version: String,
    /// What was found.
    pub checked: Checked,
    /// How long it took.
    pub seconds: f64,
}

/// Creates the folder on a machine. [`Trial::go`] connects to its socket.
pub fn folder(machine: &Machine) -> io::Result<PathBuf> {
    let said = machine.run(&["sh", "-c", FOLDER].map(OsStr::new))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&said).trim_end()))
}

/// The socket in it.
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// How to try a copy.
pub struct Trial<'a> {
    /// Where the copy is.
    pub machine: &'a Machine,
    /// The program and its options.
    pub start: &'a Start,
    /// The copy, which the server writes to.
    pub data: &'a Path,
    /// The folder of [`folder`].
    pub folder: &'a Path,
    /// A local socket that leads to the folder's socket.
    pub socket: &'a Path,
    /// How long tables may be checked.
    pub time: Duration,
}

impl Trial<'_> {
    /// Starts a server, checks its data, and ends it. The folder is removed afterwards.
    ///
    /// # Errors
    /// [`block::Error::Stopped`]; other errors when nothing can be said about the data.
    pub fn go(&self, stop: &AtomicBool, progress: &dyn Progress) -> Result<Tried> {
        let tried = self.start().and_then(|()| self.look(stop, progress));
        // Errors here are reported when the copy is removed.
        let ended = self.end("too");
        let tried = tried?;
        ended.context("the server that was started on a copy can't be ended")?;
        Ok(tried)
    }

    fn end(&self, folder: &str) -> io::Result<()> {
        self.script(END, &[self.folder.as_os_str(), OsStr::new(folder)])
    }

    fn start(&self) -> Result<()> {
        let process = self.start.process.to_string();
        let options = self.start.options(self.data);
        let mut words = vec![OsStr::new(&process), self.data.as_os_str(), self.folder.as_os_str()];
        words.extend(options.iter().map(OsStr::new));
        self.script(START, &words).context("a server can't be started on a copy")?;
        Ok(())
    }

    fn look(&self, stop: &AtomicBool, progress: &dyn Progress) -> Result<Tried> {
        progress.phase("recovering", None);
        let began = Instant::now();
        let mut session = match self.connect(stop) {
            Ok(Some(session)) => session,
            Ok(None) => {
                let log = self.log()?;
                let mut damages = table_check::errors(&log);
                if damages.is_empty() {
                    let last = log.lines().last().unwrap_or("nothing at all").to_owned();
                    bail!("a server does not start on a copy, and says no error: {last}");
                }
                has_room(&log)?;
                damages.insert(0, table_check::NO_START.to_owned());
                let checked = Checked { damages, ..Checked::default() };
                return Ok(Tried { version: String::new(), checked, seconds: began.elapsed().as_secs_f64() });
            }
            Err(error) => return Err(error),
        };
        let version = session.value("SELECT VERSION()")?.unwrap_or_default();
        let tables = table_check::tables(&mut session, true)?;
        let (done, over) = bounded::<()>(0);
        let mut checked = std::thread::scope(|scope| {
            scope.spawn(move || {
                if over.recv_timeout(self.time) == Err(RecvTimeoutError::Timeout) {
                    // Its work for us is useless then.
                    self.end("").ok();
                }
            });
            let checked = table_check::check(&mut session, &tables, Some(self.time), stop, progress);
            drop(done);
            checked
        })?;
        let log = self.log()?;
        has_room(&log)?;
        checked.damages.extend(table_check::errors(&log));
        Ok(Tried { version, checked, seconds: began.elapsed().as_secs_f64() })
    }

    /// None when the server has ended.
    fn connect(&self, stop: &AtomicBool) -> Result<Option<Session>> {
        let overrides = Overrides {
            socket: Some(self.socket.to_owned()),
            user: Some("root".to_owned()),
            no_defaults: true,
            ..Overrides::default()
        };
        let target = Target::resolve(&overrides, &server::Environment::default())?;
        loop {
            if let Ok(session) = target.connect() {
                return Ok(Some(session));
            }
            match self.script(RUNS, &[self.folder.as_os_str()]) {
                Ok(()) => {}
                Err(error) if Machine::is_gone(&error) => return Err(error.into()),
                Err(_) => return Ok(None),
            }
            if !progress::pause(LOOK_AGAIN, stop) {
                return Err(block::Error::Stopped.into());
            }
        }
    }

    fn log(&self) -> Result<String> {
        let mut bytes = Vec::new();
        self.machine.disk().open(&self.folder.join("log"))?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn script(&self, script: &str, words: &[&OsStr]) -> io::Result<()> {
        let script = [IS, script].concat();
        let shell = ["sh", "-c", &script, "sh"].map(OsStr::new);
        self.machine.run(&[&shell, words].concat()).map(drop)
    }
}

fn has_room(log: &str) -> Result<()> {
    ensure!(!table_check::lacks_room(log), "there is not enough room for a server to recover in");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::IS;

    /// The states of a process, of those that are asked for.
    fn states(process: u32) -> String {
        let script =
            [IS, r#"for state in runs other loads ended; do ! is "$state" "$1" /f/1 || echo "$state"; done"#];
        let words = ["-c", &script.concat(), "sh", &process.to_string()];
        String::from_utf8(Command::new("sh").args(words).output().unwrap().stdout).unwrap()
    }

    fn started(words: &[&str]) -> Child {
        let mut child =
            Command::new("sh").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // A program that has said something is loaded.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        child
    }

    fn ended(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_server_is_known_by_its_socket() {
        let (ours, other) =
            (["-c", "echo; read line", "--socket=/f/1/socket"], ["-c", "echo; read line", "/f/2/socket"]);
        let (ours, other) = (started(&ours), started(&other));
        assert_eq!(states(ours.id()), "runs\n");
        assert_eq!(states(other.id()), "other\n");
        ended(other);
        ended(ours);
        // A thread of the kernel has no command line either, and is no zombie. A container has none.
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert_eq!(states(2), "loads\n");
        }
        let mut zombie = started(&["-c", "echo"]);
        assert!((0..10_000).any(|_| states(zombie.id()) == "ended\n"));
        zombie.wait().unwrap();
        assert_eq!(states(zombie.id()), "ended\n");
    }
}
