//! A gate between remora and a server: something can be done at any statement.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Running, until};

/// The first byte of a packet with a statement.
const COM_QUERY: u8 = 3;

/// A statement, and how many of the same text were before it.
pub(crate) type Step = (String, usize);

/// What becomes of the statement at which the gate stops.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// The connection ends.
    Cut,
    /// The server gets it.
    On,
    /// The server gets it, and nothing that comes after it.
    Alone,
}

/// In how many parts tests that kill at any step divide the steps and those who are killed: a check takes
/// another part each day, and `ci --full` takes all.
pub(crate) const PARTS: usize = 5;

/// Who is killed, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Victim {
    /// The server, before it gets the statement.
    Server,
    /// The server, while it has the statement.
    ServerAtWork,
    /// Remora, when it sends the statement.
    Remora,
}

impl Victim {
    /// How a server is killed at a step: before the statement on one of two servers, and during it on the
    /// other.
    pub(crate) fn of_servers(step: usize, is_first: bool) -> Victim {
        if step.is_multiple_of(2) == is_first { Victim::Server } else { Victim::ServerAtWork }
    }
}

/// Stands between remora and a server: passes everything on, and stops at some statements.
pub(crate) struct Gate {
    pub(crate) steps: Arc<Mutex<Vec<Step>>>,
    reached: Receiver<Sender<Way>>,
}

impl Gate {
    /// At each of the statements `stops` it is asked what becomes of it.
    pub(crate) fn open(socket: &Path, server: &Path, stops: impl IntoIterator<Item = Step>) -> Gate {
        std::fs::remove_file(socket).ok();
        let listener = UnixListener::bind(socket).unwrap();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (tell, reached) = channel();
        let (server, seen) = (server.to_owned(), Arc::clone(&steps));
        let stops: Arc<[Step]> = stops.into_iter().collect();
        let is_shut = Arc::new(AtomicBool::new(false));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The server may be gone.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    std::io::copy(&mut answers, &mut back).ok();
                    back.shutdown(std::net::Shutdown::Both).ok();
                });
                let (seen, stops, tell) = (Arc::clone(&seen), Arc::clone(&stops), tell.clone());
                let is_shut = Arc::clone(&is_shut);
                std::thread::spawn(move || pass(client, server, &seen, (&*stops, &tell), &is_shut));
            }
        });
        Gate { steps, reached }
    }

    /// Waits until a program is at the next of them. What is sent then says what becomes of it.
    #[track_caller]
    pub(crate) fn wait(&self, running: &mut Running) -> Sender<Way> {
        let mut way = None;
        until("the step", || {
            way = self.reached.recv_timeout(Duration::from_millis(50)).ok();
            running.must_run();
            way.is_some()
        });
        way.unwrap()
    }
}

/// Passes on what a client sends, packet by packet.
fn pass(
    mut client: UnixStream,
    mut server: UnixStream,
    seen: &Mutex<Vec<Step>>,
    (stops, tell): (&[Step], &Sender<Sender<Way>>),
    is_shut: &AtomicBool,
) {
    let mut head = [0; 4];
    while client.read_exact(&mut head).is_ok() {
        let mut packet =
            vec![0; usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16];
        if client.read_exact(&mut packet).is_err() {
            break;
        }
        if is_shut.load(Ordering::SeqCst) {
            break;
        }
        if head[3] == 0 && packet.first() == Some(&COM_QUERY) {
            let statement = String::from_utf8_lossy(&packet[1..]).into_owned();
            let step = {
                let mut seen = seen.lock().unwrap();
                let before = seen.iter().filter(|step| step.0 == statement).count();
                seen.push((statement, before));
                seen.last().unwrap().clone()
            };
            if stops.contains(&step) {
                let (answer, way) = channel();
                tell.send(answer).ok();
                match way.recv().unwrap_or(Way::Cut) {
                    Way::Cut => break,
                    Way::On => {}
                    Way::Alone => is_shut.store(true, Ordering::SeqCst),
                }
            }
        }
        if server.write_all(&head).and_then(|()| server.write_all(&packet)).is_err() {
            break;
        }
    }
    server.shutdown(std::net::Shutdown::Both).ok();
}
