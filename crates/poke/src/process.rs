//! A server's process on this machine, from /proc.

use std::fs::read_to_string;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// The names of server programs.
const PROGRAMS: [&str; 2] = ["mariadbd", "mysqld"];
/// The text that /proc appends to the name of a removed file.
const REMOVED: &str = " (deleted)";
/// Who may look at a server's process.
const MAY: &str =
    "run this as root, or as the user that the server runs as; a container needs CAP_SYS_PTRACE too";
/// The flag of a listening socket in the table of sockets.
const LISTENING: u32 = 0x0001_0000;

/// A server.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The server's program, as named in the table of its memory.
    pub program: String,
    /// Where to read the running program, whatever file has its name by now.
    pub file: PathBuf,
}

/// A part of a process's memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub place: Range<u64>,
    /// Whether the process may write there.
    pub is_writable: bool,
    /// Whether writes to it stay within this process.
    pub is_private: bool,
    /// Its offset in the file.
    pub offset: u64,
    /// Empty for memory without a file.
    pub path: String,
}

impl Process {
    /// The server with this process id.
    pub fn of_pid(pid: u32) -> Result<Process> {
        let folder = folder(pid);
        let status =
            read_to_string(folder.join("status")).map_err(|_| anyhow!("there is no process {pid}"))?;
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map(str::trim);
        ensure!(group == Some(&*pid.to_string()), "{pid} is a thread of process {}", group.unwrap_or("?"));
        let file = folder.join("exe");
        let exe = match std::fs::read_link(&file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                bail!("no permission to look at process {pid}: {MAY}")
            }
            exe => exe.with_context(|| format!("process {pid} has no program"))?,
        };
        let exe = exe.display().to_string();
        if is_server(&exe) {
            return Ok(Process { pid, program: exe, file });
        }
        // A server with its own C library is started by that library's loader.
        let name = name_of(&exe);
        let loaded = mappings(pid)?.into_iter().map(|mapping| mapping.path).find(|path| is_server(path));
        let loaded = loaded.filter(|_| name.starts_with("ld-"));
        match loaded {
            Some(program) if program.ends_with(REMOVED) => bail!(
                "the program of process {pid} was replaced or removed since it started: {program}; what runs can't be read any more"
            ),
            Some(program) => Ok(Process { pid, file: PathBuf::from(&program), program }),
            None => bail!("process {pid} is no MariaDB server: it runs {exe}"),
        }
    }

    /// The server that listens on a local socket.
    pub fn of_socket(socket: &Path) -> Result<Process> {
        let real = socket.canonicalize().with_context(|| format!("no socket {}", socket.display()))?;
        let sockets = listening()?;
        let inodes: Vec<u64> = sockets
            .into_iter()
            .filter(|(_, path)| *path == real || path == socket)
            .map(|(inode, _)| inode)
            .collect();
        let inode = match *inodes {
            [inode] => inode,
            [] => bail!("nobody listens at {}; --pid names the server's process", socket.display()),
            // Clients reach one of them, but nothing here tells which.
            [..] => bail!(
                "{} sockets are called {}: another server has taken the name, or runs in a container; give this one a socket of another name",
                inodes.len(),
                socket.display()
            ),
        };
        let mut hidden = 0;
        for pid in pids()? {
            match inodes_of(pid) {
                Ok(open) if open.contains(&inode) => return Process::of_pid(pid),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => hidden += 1,
                _ => {}
            }
        }
        ensure!(
            hidden == 0,
            "no permission to look at the process that listens at {}: {MAY}",
            socket.display()
        );
        bail!("no process of this machine listens at {}; --pid names the server's process", socket.display())
    }

    /// The named sockets on which it listens, if no other socket has the same name.
    pub fn sockets(&self) -> Result<Vec<PathBuf>> {
        let (open, all) = (inodes_of(self.pid)?, listening()?);
        let is_alone = |path: &PathBuf| all.iter().filter(|(_, other)| other == path).count() == 1;
        let own = all.iter().filter(|(inode, path)| open.contains(inode) && is_alone(path));
        Ok(own.map(|(_, path)| path.clone()).collect())
    }

    /// The mappings of its memory.
    pub fn mappings(&self) -> Result<Vec<Mapping>> {
        mappings(self.pid)
    }

    /// How many files it has open, and how many it may have open.
    pub fn files(&self) -> Result<(u64, u64)> {
        let folder = folder(self.pid);
        let open = std::fs::read_dir(folder.join("fd"))?.count() as u64;
        let limits = read_to_string(folder.join("limits"))?;
        let most = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let most = most.and_then(|line| line.split_whitespace().next());
        Ok((open, most.and_then(|most| most.parse().ok()).unwrap_or(u64::MAX)))
    }
}

fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn is_server(path: &str) -> bool {
    PROGRAMS.contains(&name_of(path.strip_suffix(REMOVED).unwrap_or(path)))
}

fn pids() -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").context("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Named sockets on which somebody listens.
fn listening() -> Result<Vec<(u64, PathBuf)>> {
    let table = read_to_string("/proc/net/unix").context("/proc/net/unix")?;
    Ok(table.lines().skip(1).filter_map(listener).collect())
}

/// `0000000000000000: 00000002 00000000 00010000 0001 01 20613 /run/mysqld/mysqld.sock`
fn listener(line: &str) -> Option<(u64, PathBuf)> {
    let mut fields = line.split_whitespace();
    let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
    let inode = fields.nth(2)?;
    // The path is the rest of the line, and may contain spaces.
    let (_, path) = line.split_once(&format!(" {inode} "))?;
    (flags & LISTENING != 0 && path.starts_with('/')).then_some((inode.parse().ok()?, PathBuf::from(path)))
}

/// The sockets that a process has open.
fn inodes_of(pid: u32) -> io::Result<Vec<u64>> {
    let links = std::fs::read_dir(folder(pid).join("fd"))?.flatten();
    let inode = |entry: std::fs::DirEntry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(links.filter_map(inode).collect())
}

fn mappings(pid: u32) -> Result<Vec<Mapping>> {
    let table = read_to_string(folder(pid).join("maps")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            anyhow!("no permission to look at the memory of process {pid}: {MAY}")
        }
        _ => anyhow!("the memory of process {pid}: {error}"),
    })?;
    table.lines().map(|line| mapping(line).with_context(|| format!("/proc/{pid}/maps: {line}"))).collect()
}

/// `55e5c8000000-55e5c8200000 r--p 00000000 fe:00 123456    /usr/sbin/mariadbd`
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        place: hex(start)?..hex(end)?,
        is_writable: rights.get(1) == Some(&b'w'),
        is_private: rights.get(3) == Some(&b'p'),
        offset: hex(fields.next()?)?,
        path: fields.nth(2).unwrap_or_default().trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read() {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 20613 /run/a b/mysqld.sock";
        assert_eq!(listener(line), Some((20613, PathBuf::from("/run/a b/mysqld.sock"))));
        assert_eq!(listener("0000000000000000: 00000003 00000000 00000000 0001 03 20613 /run/s"), None);
        assert_eq!(listener("0000000000000000: 00000002 00000000 00010000 0001 01 20613 @hidden"), None);
        let found = mapping("7f00-7f10 rw-p 00001000 fe:00 77       /usr/sbin/mariadbd (deleted)").unwrap();
        assert_eq!((found.place.clone(), found.offset), (0x7f00..0x7f10, 0x1000));
        assert!(found.is_writable && found.is_private && is_server(&found.path));
        assert_eq!(mapping("7f00-7f10 ---p 00000000 00:00 0 ").unwrap().path, "");
        assert!(!is_server("/usr/bin/mariadb") && !is_server("/usr/sbin/mariadbd-safe"));
    }

    #[test]
    fn a_socket_whose_name_was_taken_is_refused() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let refusal = || Process::of_socket(&path).unwrap_err().to_string();
        let _first = UnixListener::bind(&path).unwrap();
        assert!(refusal().contains("is no MariaDB server"), "{}", refusal());
        let own = Process { pid: std::process::id(), program: String::new(), file: PathBuf::new() };
        assert!(own.sockets().unwrap().contains(&path));
        #[expect(clippy::disallowed_methods, reason = "a name in a folder of this test's own")]
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        assert!(refusal().contains("2 sockets are called"), "{}", refusal());
        assert!(!own.sockets().unwrap().contains(&path));
    }

    #[test]
    fn we_are_no_server() {
        let pid = std::process::id();
        assert!(Process::of_pid(pid).unwrap_err().to_string().contains("is no MariaDB server"));
        assert!(!mappings(pid).unwrap().is_empty());
        assert!(Process::of_pid(u32::MAX).unwrap_err().to_string().contains("no process"));
    }
}
