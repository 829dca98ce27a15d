//! `remora-far FOLDER [--nice]`: the far side of a connection, transferred over it and started by our script.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use disk::{Disk, RealDisk, Tree};
use far::{CloneReport, CloneRequest, CommandOutput, Greeting, Machine, serve};

struct LocalMachine;

impl Machine for LocalMachine {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }

    fn tree(&self) -> &dyn Tree {
        &RealDisk
    }

    fn run(&self, command: &[OsString]) -> io::Result<CommandOutput> {
        far::run(command)
    }

    fn clone_folder(&self, cloning: &CloneRequest) -> io::Result<CloneReport> {
        far::clone(cloning)
    }
}

fn main() -> ExitCode {
    // Only the near side could be told: it sees the connection end, or ssh's own messages.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    let program = hash_of_myself()?;
    let folder = Path::new(&folder);
    // From here on nothing of ours is on this machine's disks. If this fails, the script that started us
    // tries again in the end.
    RealDisk.remove(&folder.join("far")).and_then(|()| RealDisk.remove_folder(folder)).ok();
    if arguments.next().is_some_and(|argument| argument == "--nice") {
        rustix::process::setpriority_process(None, 19)?;
    }
    let greeting = Greeting {
        program,
        uid: rustix::process::geteuid().as_raw(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned().into(),
    };
    serve(io::stdin(), io::stdout(), &greeting, &LocalMachine)
}

fn hash_of_myself() -> io::Result<[u8; 32]> {
    let mut myself = RealDisk.open(Path::new("/proc/self/exe"))?;
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut myself, &mut hasher)?;
    Ok(*hasher.finalize().as_bytes())
}
