//! The machine that something is on: this one, or another one, reached with the system's ssh.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block::tree::{ConcurrentUse, Layout, Part, TreeSource};
use block::{ChunkSource, Scan};
use crossbeam_channel::{Receiver, bounded};
use disk::{Disk, Files, RealDisk, Tree};
use far::{CloneReport, CloneRequest, CommandOutput, Connection};
use tempfile::TempDir;

/// The static programs for the remote side: for each architecture that this build has one for, as `uname -m`
/// and Rust name it, the program, compressed with zstd.
const FAR: &[(&str, &[u8])] = include!(env!("REMORA_FAR"));
/// The longest line by which a machine may tell its system and architecture, in bytes.
const MACHINE_MAX: u64 = 256;
/// Starts a program of the system: programs for administrators are not on everybody's path, and their output
/// must be in English.
const TOOL: &str = "PATH=$PATH:/usr/sbin:/sbin LC_ALL=C exec \"$@\"";
/// A shell's exit code when it does not find a program.
const NO_PROGRAM: u8 = 127;
/// Kinds of errors that mean that a connection is gone.
const BROKEN: [io::ErrorKind; 3] =
    [io::ErrorKind::ConnectionAborted, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];
/// How many bytes of ssh's messages are kept.
const SAID_MAX: usize = 4 << 10;

/// Where to connect: `user@host:port`; user and port are optional, as for ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `user@host`, as ssh takes it.
    destination: String,
    port: Option<u16>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let bad = |why: &str| Err(format!("'{text}' is no machine: {why}"));
        let (before, host_port) = text.rsplit_once('@').map_or(("", text), |(user, rest)| (user, rest));
        let (host, port) = match host_port.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some("?"))),
            None => host_port.split_once(':').map_or((host_port, None), |(host, port)| (host, Some(port))),
        };
        let plain = |name: &str| {
            !name.starts_with('-') && name.chars().all(|c| c.is_alphanumeric() || "._-%:\\".contains(c))
        };
        if host.is_empty() || !plain(host) || (text.contains('@') && before.is_empty()) || !plain(before) {
            return bad("write user@host or host, and then :port if needed");
        }
        let port = match port.map(str::parse) {
            None => None,
            Some(Ok(port)) => Some(port),
            Some(Err(_)) => return bad("its port is not a number"),
        };
        let destination = if before.is_empty() { host.to_owned() } else { format!("{before}@{host}") };
        Ok(Address { destination, port })
    }
}

impl Address {
    /// The machine's name, without user and port.
    pub fn host(&self) -> &str {
        self.destination.rsplit_once('@').map_or(&self.destination, |(_, host)| host)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.destination)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// How to connect to a machine.
#[derive(Clone, Copy, Default)]
pub struct Call<'a> {
    /// For ssh's `-o`, before ours.
    pub options: &'a [String],
    /// Give all other programs of that machine priority.
    pub nice: bool,
    /// Places there to reach through the same connection: sockets, or `host:port`.
    pub places: &'a [String],
}

/// Local sockets that lead to places on another machine.
struct Sockets {
    folder: TempDir,
    count: usize,
}

impl Sockets {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.count).map(|number| self.folder.path().join(number.to_string()))
    }
}

/// A machine.
pub enum Machine {
    /// This one.
    Here,
    /// Another one.
    There(Host),
}

impl Machine {
    /// Connects to the machine at an address, or stays on this one.
    pub fn reach(address: Option<&Address>, call: &Call<'_>) -> io::Result<Machine> {
        Ok(match address {
            None => Machine::Here,
            Some(address) => Machine::There(Host::call(address, call)?),
        })
    }

    /// Local sockets that lead to the places in [`Call::places`], in the same order; none for this machine
    /// itself.
    pub fn sockets(&self) -> Vec<PathBuf> {
        match self {
            Machine::Here => Vec::new(),
            Machine::There(host) => host.sockets.iter().flat_map(|sockets| sockets.paths()).collect(),
        }
    }

    /// Its name, as it calls itself.
    pub fn name(&self) -> String {
        match self {
            Machine::Here => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            Machine::There(host) => host.connection.greeting().host.to_string_lossy().into_owned(),
        }
    }

    /// Its files, for reading and writing.
    pub fn disk(&self) -> Arc<dyn Disk> {
        self.files()
    }

    /// Its files, for who reads them as they are.
    pub fn files(&self) -> Arc<dyn Files> {
        match self {
            Machine::Here => Arc::new(RealDisk),
            Machine::There(host) => Arc::new(host.connection.disk()),
        }
    }

    /// Its folders.
    pub fn tree(&self) -> Box<dyn Tree> {
        match self {
            Machine::Here => Box::new(RealDisk),
            Machine::There(host) => Box::new(host.connection.disk()),
        }
    }

    /// Reads the files below `top` as the volume of a layout, in order.
    pub fn scan_tree(&self, layout: &Layout, top: &Path) -> io::Result<Box<dyn ChunkSource>> {
        Ok(match self {
            Machine::Here => Box::new(Scan::new(Box::new(TreeSource::of(Arc::new(RealDisk), layout, top)))),
            Machine::There(host) => {
                Box::new(host.connection.scan_tree(layout, top).map_err(|error| self.explain(error))?)
            }
        })
    }

    /// Reads parts of a volume of `len` bytes, in order. `find`: where the file with a path in the volume is,
    /// and what others do to it meanwhile.
    pub fn scan_parts(
        &self,
        len: u64,
        parts: Vec<(Range<u64>, Part<'_>)>,
        find: &dyn Fn(&Path) -> (PathBuf, ConcurrentUse),
    ) -> io::Result<Box<dyn ChunkSource>> {
        let parts = parts.into_iter();
        Ok(match self {
            Machine::Here => {
                let reader =
                    TreeSource::checked(Arc::new(RealDisk), len, Arc::new(far::InnodbPages::default()));
                Box::new(Scan::new(Box::new(reader.with(parts, find))))
            }
            Machine::There(host) => {
                let feed = host.connection.scan_parts(len, parts, find);
                Box::new(feed.map_err(|error| self.explain(error))?)
            }
        })
    }

    /// Reads a file or device in order.
    pub fn scan(&self, path: &Path) -> io::Result<Box<dyn ChunkSource>> {
        Ok(match self {
            Machine::Here => Box::new(Scan::new(RealDisk.open(path)?)),
            Machine::There(host) => {
                Box::new(host.connection.scan(path).map_err(|error| self.explain(error))?)
            }
        })
    }

    /// Runs a command. Returns its output if it succeeded.
    pub fn run(&self, command: &[&OsStr]) -> io::Result<Vec<u8>> {
        let ran = self.ran(command)?;
        if ran.code == 0 { Ok(ran.output) } else { Err(failed(command, &ran)) }
    }

    /// Runs a program for administrators, such as lvs.
    pub fn tool(&self, command: &[&OsStr]) -> io::Result<Vec<u8>> {
        let shell = ["sh", "-c", TOOL, "sh"].map(OsStr::new);
        let ran = self.ran(&[&shell, command].concat())?;
        match ran.code {
            0 => Ok(ran.output),
            NO_PROGRAM => {
                let program = command.first().copied().unwrap_or_default().display();
                let text = format!("{program} is not on {}; install it there", self.name());
                Err(io::Error::new(io::ErrorKind::NotFound, text))
            }
            code => {
                let errors = String::from_utf8_lossy(&ran.errors);
                let lines: Vec<&str> =
                    errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                let program = command.first().copied().unwrap_or_default().display();
                Err(io::Error::other(format!("{program}: {} (exit code {code})", lines.join("; "))))
            }
        }
    }

    /// The same, run through a command of the user that holds a lock, if there is one.
    pub fn tool_locked(&self, command: &[&OsStr], lock: Option<&str>) -> io::Result<Vec<u8>> {
        let Some(lock) = lock else { return self.tool(command) };
        let line = format!("{lock} \"$@\"");
        let shell = ["sh", "-c", &line, "sh"].map(OsStr::new);
        self.tool(&[&shell, command].concat())
    }

    /// Copies a folder; the files share their blocks with the original.
    pub fn clone_folder(&self, cloning: &CloneRequest) -> io::Result<CloneReport> {
        match self {
            Machine::Here => far::clone(cloning),
            Machine::There(host) => {
                host.connection.clone_folder(cloning).map_err(|error| self.explain(error))
            }
        }
    }

    /// Whether an error says that the connection is gone, so that another one may help.
    pub fn is_gone(error: &io::Error) -> bool {
        BROKEN.contains(&error.kind())
    }

    fn ran(&self, command: &[&OsStr]) -> io::Result<CommandOutput> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        match self {
            Machine::Here => far::run(&command),
            Machine::There(host) => host.connection.run(&command).map_err(|error| self.explain(error)),
        }
    }

    /// An error of the connection, with ssh's messages.
    pub fn explain(&self, error: io::Error) -> io::Error {
        let Machine::There(host) = self else { return error };
        match words(&host.said).as_str() {
            said if Machine::is_gone(&error) && !said.is_empty() => {
                io::Error::new(error.kind(), format!("{error}; ssh: {said}"))
            }
            _ => error,
        }
    }
}

fn failed(command: &[&OsStr], ran: &CommandOutput) -> io::Error {
    let (words, errors) = (command.join(OsStr::new(" ")), String::from_utf8_lossy(&ran.errors));
    io::Error::other(format!("{} ended with {}: {}", words.display(), ran.code, errors.trim_end()))
}

/// A connection with our program at its other end. It ends when this is dropped.
pub struct Host {
    connection: Connection,
    ssh: Child,
    said: Arc<Mutex<Vec<u8>>>,
    /// Removed when nobody can use them any more.
    sockets: Option<Sockets>,
}

impl Host {
    /// Connects, and sends the program there.
    fn call(address: &Address, call: &Call<'_>) -> io::Result<Host> {
        let mut ssh = Command::new("ssh");
        for option in call.options {
            ssh.arg("-o").arg(option);
        }
        // Nobody can answer a question, a machine that is gone must not be waited for, and this cipher is the
        // fastest on processors with AES.
        for option in [
            "BatchMode=yes",
            "ServerAliveInterval=15",
            "ServerAliveCountMax=4",
            "Ciphers=^aes128-gcm@openssh.com",
            "Compression=no",
            "LogLevel=ERROR",
        ] {
            ssh.args(["-o", option]);
        }
        let mut sockets = None;
        if !call.places.is_empty() {
            // Only we can enter it.
            let folder = tempfile::Builder::new().prefix("remora-").tempdir()?;
            let forwarded = Sockets { folder, count: call.places.len() };
            for (socket, place) in forwarded.paths().zip(call.places) {
                ssh.arg("-L").arg(format!("{}:{place}", socket.display()));
            }
            sockets = Some(forwarded);
        }
        if let Some(port) = address.port {
            ssh.arg("-p").arg(port.to_string());
        }
        ssh.args(["-T", "-e", "none", "--", &address.destination]);
        ssh.arg(format!("exec sh -c '{}'", far::bootstrap_script(call.nice)));
        // Signals to our process group must not reach ssh; we decide what to do.
        ssh.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = ssh
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("ssh can't be started: {error}")))?;
        let said = Arc::default();
        let (greeted, listened) = greet(&mut ssh, &said)?;
        let (connection, sent) = match greeted {
            Ok(greeted) => greeted,
            Err(error) => {
                let status = ssh.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                // The last messages may still be on their way; a shared connection would keep the pipe open
                // for ever.
                listened.recv_timeout(Duration::from_secs(1)).ok();
                let said = words(&said);
                let why = if said.is_empty() { format!("{error} (ssh: {status})") } else { said };
                return Err(io::Error::new(error.kind(), format!("{address} can't be reached: {why}")));
            }
        };
        let host = Host { connection, ssh, said, sockets };
        if host.connection.greeting().program != *sent.as_bytes() {
            return Err(io::Error::other(format!("{address} does not run the program that was sent")));
        }
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.ssh.kill().ok();
        self.ssh.wait().ok();
    }
}

/// A connection, and the hash of the program that was sent for it.
type Greeted = (Connection, blake3::Hash);

/// Sends the program for the machine and waits for its greeting. The receiver is signalled when ssh has no
/// more messages.
fn greet(ssh: &mut Child, said: &Arc<Mutex<Vec<u8>>>) -> io::Result<(io::Result<Greeted>, Receiver<()>)> {
    let missing = || io::Error::other("a pipe to ssh is missing");
    let (input, output) = (ssh.stdin.take().ok_or_else(missing)?, ssh.stdout.take().ok_or_else(missing)?);
    let mut errors = ssh.stderr.take().ok_or_else(missing)?;
    let (ended, listened) = bounded(1);
    let said = Arc::clone(said);
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok(count @ 1..) = errors.read(&mut buffer) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let surplus = said.len().saturating_sub(SAID_MAX);
            said.drain(..surplus);
        }
        ended.send(()).ok();
    });
    Ok((send(output, input), listened))
}

/// Asks what machine is there, sends the program for it, and waits for its greeting.
fn send(mut output: ChildStdout, mut input: ChildStdin) -> io::Result<Greeted> {
    let mut machine = Vec::new();
    // Byte by byte: what follows is for the connection.
    while !machine.ends_with(b"\n") {
        if (&mut output).take(1).read_to_end(&mut machine)? == 0 || machine.len() as u64 > MACHINE_MAX {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended"));
        }
    }
    let program = program_for(String::from_utf8_lossy(&machine).trim_end())?;
    writeln!(input, "{}", program.len())?;
    input.write_all(&program)?;
    input.flush()?;
    Ok((Connection::new(Box::new(output), Box::new(input))?, blake3::hash(&program)))
}

/// The program for a machine, as `uname -sm` describes it.
fn program_for(machine: &str) -> io::Result<Vec<u8>> {
    let named = |arch: &str| machine.strip_prefix("Linux ") == Some(arch);
    let Some((_, packed)) = FAR.iter().find(|(arch, _)| named(arch)) else {
        let known: Vec<&str> = FAR.iter().map(|(arch, _)| *arch).collect();
        let text = format!("it is {machine}; this remora brings a program for Linux {}", known.join(" and "));
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    };
    let mut program = Vec::new();
    codec::decoder(Box::new(*packed))?.1.read_to_end(&mut program)?;
    Ok(program)
}

/// ssh's messages, in one line.
fn words(said: &Mutex<Vec<u8>>) -> String {
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = String::from_utf8_lossy(&said).replace('\r', "");
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_or_missed_and_its_failure_is_one_line() {
        let tool = |words: &[&str]| {
            Machine::Here
                .tool(&words.iter().map(OsStr::new).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(tool(&["printf", "%s", "$LC_ALL a b"]), Ok(b"$LC_ALL a b".to_vec()));
        assert_eq!(tool(&["sh", "-c", "echo $LC_ALL"]), Ok(b"C\n".to_vec()));
        let error = tool(&["no-such-program"]).unwrap_err();
        assert!(error.starts_with("no-such-program is not on "), "{error}");
        let error = tool(&["sh", "-c", "echo '  one' >&2; echo two >&2; exit 5"]).unwrap_err();
        assert_eq!(error, "sh: one; two (exit code 5)");
    }

    #[test]
    fn each_machine_gets_its_own_program_and_another_one_none() {
        let ours = std::env::consts::ARCH;
        let program = program_for(&format!("Linux {ours}")).unwrap();
        assert!(program.starts_with(b"\x7fELF"));
        for other in ["Linux riscv64".to_owned(), format!("Darwin {ours}"), ours.to_owned()] {
            let error = program_for(&other).unwrap_err().to_string();
            assert!(error.starts_with(&format!("it is {other};")) && error.contains(ours), "{error}");
        }
    }

    #[test]
    fn addresses() {
        for good in ["db1", "root@db1", "root@db1:2222", "10.0.0.1", "u.v-w@h.example.org", "db1:22"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        assert_eq!("a@[fe80::1%eth0]:7".parse::<Address>().unwrap().to_string(), "a@fe80::1%eth0:7");
        for bad in
            ["", "@h", "-oProxyCommand=x", "u@-h", "h:x", "h:70000", "a b", "h;x", "h'", "$(x)", "[::1]x"]
        {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
