//! A sandbox: its folder, its server, and how it is started and ended.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::error::At;
use crate::galera_node::GaleraNode;
use crate::greeting::is_greeted;
use crate::process::{Launch, Process, STOP_WAIT};
use crate::state::{self, State};
use crate::{
    Error, Installation, Places, Product, Settings, data_template, folder, plugin, sandbox_folder,
    test_servers,
};

/// How long a server that starts may neither answer nor write to its log. Recovery from a crash may take
/// hours, but says how far it is every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// How long to wait before checking again whether the server answers.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The longest path of a unix socket in bytes: `sun_path` has 108, the last one is the terminator (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// The name of the socket in its folder.
const SOCKET: &str = "server.sock";

/// How often to choose another port when somebody else has taken it meanwhile.
const PORT_TRIES: u32 = 5;

/// A private server. When dropped it is stopped if it is tied to this process, and its temporary folder is
/// removed; otherwise it keeps running.
#[derive(Debug)]
pub struct Sandbox {
    folder: PathBuf,
    data: PathBuf,
    state: State,
    process: Option<Process>,
    tied: bool,
    /// Whether the folder is removed when a tied server ends, because it is temporary or was meant to be.
    is_removed: bool,
    /// Set when the folder is temporary.
    temporary: Option<TempDir>,
    /// Set when the socket's path would be too long in the folder.
    socket_folder: Option<TempDir>,
}

impl Sandbox {
    /// Starts a server and returns when it answers.
    ///
    /// # Errors
    ///
    /// [`Error::Running`] and [`Error::Occupied`] when the folder can't be used, [`Error::Name`],
    /// [`Error::Initialise`] on the first start of a version, [`Error::Start`] with the server's reason.
    pub fn start(
        installation: &Installation,
        places: &Places,
        settings: &Settings,
    ) -> Result<Sandbox, Error> {
        Sandbox::start_as(installation, places, settings, None, None)
    }

    /// The same, as a member of a cluster.
    pub(crate) fn start_as(
        installation: &Installation,
        places: &Places,
        settings: &Settings,
        member: Option<GaleraNode>,
        fill: Option<&Fill<'_>>,
    ) -> Result<Sandbox, Error> {
        let (mut sandbox, is_new) = Sandbox::prepared(installation, places, settings, member, fill)?;
        let _lock = sandbox_folder::lock(&sandbox.folder)?;
        if let Err(failed) = sandbox.launch() {
            if is_new {
                // A server that never ran is not a sandbox, and would be listed as a stopped one. Its output
                // is in the error.
                sandbox_folder::clear(&sandbox.folder, places, settings.name.as_deref())?;
            }
            return Err(failed);
        }
        Ok(sandbox)
    }

    /// Does everything but the start. Also returns whether the sandbox is new. `fill` creates the data folder
    /// of a new sandbox if it must contain other data than usual.
    pub(crate) fn prepared(
        installation: &Installation,
        places: &Places,
        settings: &Settings,
        member: Option<GaleraNode>,
        fill: Option<&Fill<'_>>,
    ) -> Result<(Sandbox, bool), Error> {
        let (folder, temporary) = sandbox_folder::choose(places, settings)?;
        folder::create_private(&folder)?;
        let folder = folder.canonicalize().at("cannot enter", &folder)?;
        let _lock = sandbox_folder::lock(&folder)?;
        let before = State::read(&folder).ok();
        // The settings of an earlier start apply until others are given.
        let is_new = before.is_none();
        let state = State {
            installation: installation.clone(),
            options: settings.options.clone(),
            socket: PathBuf::new(),
            port: settings.port.or(before.as_ref().and_then(|before| before.port)),
            member: member.or(before.and_then(|before| before.member)),
            pid: 0,
        };
        let pristine = |to: &Path| data_template::copy(installation, places, to);
        sandbox_folder::prepare(&folder, &state, settings.data.as_deref(), fill.unwrap_or(&pristine))?;
        plugin::lay_out(&folder, installation, &settings.plugins)?;
        let sandbox = Sandbox {
            data: state::data(&folder),
            folder,
            state,
            process: None,
            tied: settings.tie_to_parent,
            is_removed: temporary.is_some() || is_new && settings.remove_at_end && settings.folder.is_none(),
            temporary,
            socket_folder: None,
        };
        if let Some(name) = &settings.name {
            sandbox_folder::enlist(places, name, &sandbox.folder)?;
        }
        Ok((sandbox, is_new))
    }

    /// The sandbox in a folder, running or stopped. It is not tied to this process.
    ///
    /// # Errors
    ///
    /// [`Error::NoSandbox`] when there is none.
    pub fn open(folder: &Path) -> Result<Sandbox, Error> {
        let missing = |_| Error::NoSandbox { folder: folder.to_owned() };
        let folder = folder.canonicalize().map_err(missing)?;
        let state = State::read(&folder)?;
        let process = state.process(&folder);
        let data = state::data(&folder);
        Ok(Sandbox {
            folder,
            data,
            state,
            process,
            tied: false,
            is_removed: false,
            temporary: None,
            socket_folder: None,
        })
    }

    /// The unix socket; the user `root` needs no password.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.state.socket
    }

    /// The port on 127.0.0.1; none for a server without network.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.state.port
    }

    /// The folder with everything that belongs to the sandbox.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The server's data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The process id of the server; of its last run when it is stopped.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.state.pid
    }

    /// The folder from which the server loads plugins.
    #[must_use]
    pub fn plugin_dir(&self) -> PathBuf {
        let own = plugin::folder(&self.folder);
        if own.is_dir() { own } else { self.state.installation.plugin_dir.clone() }
    }

    /// The server's error log.
    #[must_use]
    pub fn error_log(&self) -> PathBuf {
        self.folder.join("error.log")
    }

    /// Its product, or the one that is most like it.
    #[must_use]
    pub fn product(&self) -> Product {
        self.state.installation.product
    }

    /// Its programs.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.state.installation
    }

    /// The complete command line of its server, without the program's name.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        self.arguments()
    }

    /// Whether the server's process exists.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_running)
    }

    /// Shuts the server down. Does nothing when it is stopped.
    ///
    /// # Errors
    ///
    /// [`Error::Stop`] when it crashed, or did not stop in a quarter of an hour and was killed; [`Error::Io`]
    /// when we may not stop it, [`Error::Unkillable`].
    pub fn stop(&mut self) -> Result<(), Error> {
        let log_start = folder::len(&self.error_log());
        match self.end(|process| process.stop(STOP_WAIT))?.flatten() {
            None => Ok(()),
            Some(why) => Err(Error::Stop {
                server: self.installation().title(),
                folder: self.folder.clone(),
                why,
                log: folder::read_log(&self.error_log(), log_start),
            }),
        }
    }

    /// Kills the server with SIGKILL and waits until it is gone. Does nothing when it is stopped.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when we may not kill it, [`Error::Unkillable`].
    pub fn kill(&mut self) -> Result<(), Error> {
        self.end(Process::kill).map(drop)
    }

    /// Ends the server, if there is one.
    fn end<T>(&mut self, how: impl FnOnce(&mut Process) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let Some(process) = &mut self.process else { return Ok(None) };
        let ended = how(process);
        if !process.is_running() {
            self.process = None;
        }
        ended.map(Some)
    }

    /// Stops the server if it runs and starts it with the same data, options and port.
    ///
    /// # Errors
    ///
    /// Those of [`Sandbox::stop`], and [`Error::Start`].
    pub fn restart(&mut self) -> Result<(), Error> {
        let _lock = sandbox_folder::lock(&self.folder)?;
        if self.process.is_none() {
            // Another handle may have started it.
            self.process = State::read(&self.folder)?.process(&self.folder);
        }
        self.stop()?;
        self.launch()
    }

    /// Kills the server and removes the folder with all its data.
    ///
    /// # Errors
    ///
    /// Those of [`Sandbox::kill`], and [`Error::Io`] when something can't be removed.
    pub fn remove(mut self) -> Result<(), Error> {
        self.kill()?;
        if let Some(short) = self.state.socket.parent().filter(|parent| *parent != self.folder) {
            folder::remove(short)?;
        }
        folder::remove(&self.folder)
    }

    /// Starts the server in a prepared folder, with another port if necessary.
    fn launch(&mut self) -> Result<(), Error> {
        let any_port = self.state.port == Some(0);
        let mut tries = 1;
        loop {
            if any_port {
                self.state.port = Some(free_port()?);
            }
            match self.launch_once() {
                Err(Error::Start { log, .. })
                    if any_port && tries < PORT_TRIES && log.contains("TCP/IP port") =>
                {
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    fn launch_once(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        self.choose_socket()?;
        folder::remove_file(&self.state.socket)?;
        let log = self.error_log();
        let log_start = folder::len(&log);
        let mut arguments = self.arguments();
        let mut programs = None;
        if let Some(member) = &self.state.member {
            arguments.extend(member.options(&self.state.installation, &self.folder, &self.data)?);
            programs = Some(member.script(&self.folder)?);
        }
        let scratch = self.is_removed.then(|| self.folder.clone());
        let process = Process::start(&Launch {
            line: &self.state.installation.line(),
            arguments: &arguments,
            libraries: self.state.installation.library_path(),
            programs: programs.as_deref(),
            log: &log,
            tie: self.tied.then_some(scratch),
        })?;
        let failed = |why: &str| Error::Start {
            server: self.state.installation.title(),
            folder: self.folder.clone(),
            why: why.to_owned(),
            log: folder::read_log(&log, log_start),
        };
        let Some(mut process) = process else { return Err(failed("it ended at once")) };
        let mut silence = Silence { since: Instant::now(), len: log_start };
        let is_member = self.state.member.is_some();
        while !is_greeted(&self.state.socket) || is_member && !GaleraNode::is_ready(&log, log_start) {
            if process.wait(LOOK_AGAIN) {
                process.kill()?;
                return Err(failed("it ended"));
            }
            if silence.of(folder::len(&log)) > SILENCE_MAX {
                process.kill()?;
                return Err(failed("it neither answered nor wrote to its log for three minutes"));
            }
        }
        test_servers::started(self.state.installation.product.id(), begin.elapsed());
        self.state.pid = process.pid();
        self.process = Some(process);
        if !self.tied {
            self.keep();
        }
        self.state.write(&self.folder)
    }

    /// The complete command line, without the program's name.
    fn arguments(&self) -> Vec<String> {
        let State { installation, options, socket, port, .. } = &self.state;
        let mut arguments = installation.options(&self.data, &sandbox_folder::temp(&self.folder));
        arguments.push(format!("--socket={}", socket.display()));
        arguments.push(format!("--pid-file={}", self.folder.join("server.pid").display()));
        arguments.push(format!("--log-error={}", self.error_log().display()));
        arguments.push(format!("--plugin-dir={}", self.plugin_dir().display()));
        match port {
            Some(port) => arguments.extend(["--bind-address=127.0.0.1".to_owned(), format!("--port={port}")]),
            None => arguments.push("--skip-networking".to_owned()),
        }
        arguments.extend(options.iter().cloned());
        arguments
    }

    /// Puts the socket into the folder, or into a short temporary folder if its path would be too long.
    fn choose_socket(&mut self) -> Result<(), Error> {
        let path = self.folder.join(SOCKET);
        if is_short(&path) {
            self.state.socket = path;
        } else if self.state.socket.parent().is_none_or(|parent| !parent.is_dir()) {
            let mut builder = tempfile::Builder::new();
            let builder = builder.prefix("remora-");
            let customary = builder.tempdir().ok().filter(|short| is_short(&short.path().join(SOCKET)));
            let short = customary.map_or_else(|| builder.tempdir_in("/tmp"), Ok);
            let short = short.at("cannot create a folder for the socket of", &self.folder)?;
            self.state.socket = short.path().join(SOCKET);
            self.socket_folder = Some(short);
        }
        Ok(())
    }

    /// Keeps the temporary folders.
    fn keep(&mut self) {
        for folder in [self.temporary.take(), self.socket_folder.take()].into_iter().flatten() {
            drop(folder.keep());
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !self.tied {
            return;
        }
        // Data that are removed with the folder need not be written out first. Nobody can be told of a
        // failure here, and the shell that supervises the server does the rest when this process ends.
        let ended = if self.is_removed { self.kill() } else { self.stop() };
        if ended.is_err() {
            self.keep();
        } else if self.is_removed {
            folder::remove(&self.folder).ok();
        }
    }
}

/// Since when a log has not grown.
struct Silence {
    since: Instant,
    len: u64,
}

impl Silence {
    /// How long the log has had this length.
    fn of(&mut self, len: u64) -> Duration {
        if len != self.len {
            *self = Silence { since: Instant::now(), len };
        }
        self.since.elapsed()
    }
}

fn is_short(socket: &Path) -> bool {
    socket.as_os_str().as_bytes().len() <= SOCKET_PATH_MAX
}

/// Fills a data folder.
pub(crate) type Fill<'a> = dyn Fn(&Path) -> Result<(), Error> + 'a;

/// A port that nobody listens on now.
fn free_port() -> Result<u16, Error> {
    Ok(free_ports(1)?[0])
}

/// Different ports that nobody listens on now.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = (0..count).map(listen).collect::<Result<Vec<_>, _>>();
    let port = |listener: &TcpListener| Ok(listener.local_addr()?.port());
    listeners
        .and_then(|listeners| listeners.iter().map(port).collect())
        .at("cannot find a free port on", Path::new("127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Silence;

    #[test]
    fn a_log_that_grows_is_not_silent() {
        let minute = Duration::from_secs(60);
        let mut silence = Silence { since: Instant::now().checked_sub(minute).unwrap(), len: 7 };
        assert!(silence.of(7) >= minute);
        assert!(silence.of(8) < minute);
        assert!(silence.of(8) < minute);
    }
}
