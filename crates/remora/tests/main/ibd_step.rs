//! Remora and the server are killed at each statement that changes something while a written file gets its
//! place.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox::{Family, Sandbox};

use crate::ibd::{TABLE, files, same, text};
use crate::support::{Place, Running, on_products, products, start, tell, until};

/// The first byte of a packet with a statement.
const COM_QUERY: u8 = 3;

/// Who is killed, and when.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The server, before it gets the statement.
    Server,
    /// The server, while it has the statement.
    ServerAtWork,
    /// Remora, when it sends the statement.
    Remora,
}

/// A statement, and how many of the same text were before it.
type Step = (String, usize);

/// Stands between remora and the server: passes everything on, and stops at one statement.
struct Gate {
    steps: Arc<Mutex<Vec<Step>>>,
    reached: Receiver<Sender<bool>>,
}

impl Gate {
    /// At the statement `stop` the way on is asked for: whether the server gets it.
    fn open(socket: &Path, server: &Path, stop: Option<Step>) -> Gate {
        std::fs::remove_file(socket).ok();
        let listener = UnixListener::bind(socket).unwrap();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (tell, reached) = channel();
        let (server, seen) = (server.to_owned(), Arc::clone(&steps));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The server may be gone.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    std::io::copy(&mut answers, &mut back).ok();
                    back.shutdown(std::net::Shutdown::Both).ok();
                });
                let (seen, stop, tell) = (Arc::clone(&seen), stop.clone(), tell.clone());
                std::thread::spawn(move || pass(client, server, &seen, stop.as_ref(), &tell));
            }
        });
        Gate { steps, reached }
    }
}

/// Passes on what a client sends, packet by packet.
fn pass(
    mut client: UnixStream,
    mut server: UnixStream,
    seen: &Mutex<Vec<Step>>,
    stop: Option<&Step>,
    tell: &Sender<Sender<bool>>,
) {
    let mut head = [0; 4];
    while client.read_exact(&mut head).is_ok() {
        let mut packet =
            vec![0; usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16];
        if client.read_exact(&mut packet).is_err() {
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
            if stop == Some(&step) {
                let (answer, way) = channel();
                tell.send(answer).ok();
                if !way.recv().unwrap_or(false) {
                    break;
                }
            }
        }
        if server.write_all(&head).and_then(|()| server.write_all(&packet)).is_err() {
            break;
        }
    }
    server.shutdown(std::net::Shutdown::Both).ok();
}

/// Starts the import behind a gate.
fn begin(place: &Place, stop: Option<Step>) -> (Gate, Running) {
    let socket = place.path("gate.sock");
    let gate = Gate::open(&socket, &place.socket, stop);
    let import = ["rows.csv", "--into", "t", "--physical", "--time-zone", "+00:00"];
    (gate, place.spawn_at(&socket, &import))
}

/// The steps that change something, from the empty twin of the table on.
fn steps(place: &Place) -> Vec<Step> {
    let (gate, running) = begin(place, None);
    running.end().exits(0);
    let all = gate.steps.lock().unwrap().clone();
    let is_first = |(text, _): &Step| text.starts_with("CREATE TABLE") && text.contains("`_remora_ibd_");
    let first = all.iter().rposition(is_first).unwrap();
    let only_reads = |text: &str| ["SELECT", "SHOW"].iter().any(|word| text.starts_with(word));
    let steps: Vec<Step> = all.into_iter().skip(first).filter(|step| !only_reads(&step.0)).collect();
    for word in ["FOR EXPORT", "IMPORT TABLESPACE", "CHECK TABLE", "ADD KEY", "ANALYZE", "RENAME"] {
        assert!(steps.iter().any(|step| step.0.contains(word)), "no {word} in {steps:?}");
    }
    steps
}

/// Kills somebody at a step.
fn kill(place: &Place, server: &mut Sandbox, step: &Step, victim: Victim) {
    let (gate, mut running) = begin(place, Some(step.clone()));
    let mut way = None;
    until("the step", || {
        way = gate.reached.recv_timeout(Duration::from_millis(50)).ok();
        running.must_run();
        way.is_some()
    });
    let way = way.unwrap();
    // Others commit until the last moment.
    place.sql(&["INSERT INTO others VALUES ()"]);
    match victim {
        Victim::Remora => {
            running.kill();
            way.send(false).unwrap();
        }
        Victim::Server | Victim::ServerAtWork => {
            way.send(matches!(victim, Victim::ServerAtWork)).unwrap();
            server.kill().unwrap();
            running.end();
            server.restart().unwrap();
        }
    }
}

#[test]
fn whoever_is_killed_at_whichever_step_the_table_is_the_old_one_or_the_new_one() {
    let here: Vec<_> = products().into_iter().filter(|one| one.family() == Family::MariaDb).collect();
    // The oldest puts the file in place of one that is discarded, the newest takes a stranger's table.
    let ends: Vec<_> =
        here.first().into_iter().chain(here.last().filter(|_| here.len() > 1)).copied().collect();
    on_products(&ends, |product| {
        let mut server = start(product, &[]);
        let place = Place::new(&server);
        place.file("rows.csv", text(1..3000));
        place.sql(&[
            &format!("CREATE TABLE t {TABLE}"),
            "CREATE TABLE others (id INT AUTO_INCREMENT PRIMARY KEY)",
        ]);
        let steps = steps(&place);
        place.sql(&["CREATE TABLE straight LIKE t", "TRUNCATE TABLE t"]);
        place.import(&["rows.csv", "--into", "straight", "--time-zone", "+00:00"]).exits(0);
        let folder = server.data().join(&place.schema);
        let mut commits = 0;
        for step in &steps {
            for victim in [Victim::Server, Victim::ServerAtWork, Victim::Remora] {
                tell(format!("{product}: {victim:?} at {step:?}"));
                kill(&place, &mut server, step, victim);
                commits += 1;
                assert_eq!(place.count("others"), commits);
                // The server may still work for the one who was killed.
                let working = "info LIKE '%remora%' AND info NOT LIKE '%processlist%'";
                place.until(&format!(
                    "SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE {working}"
                ));
                let is_in = place.count("t") > 0;
                if is_in {
                    same(&place, "t", "straight");
                    place.sql(&["TRUNCATE TABLE t"]);
                }
                let import = ["rows.csv", "--into", "t", "--physical", "--time-zone", "+00:00"];
                let mut ended = place.import(&import);
                if ended.code == 11 {
                    let way = if is_in { "--restart" } else { "--resume" };
                    ended = place.import(&[&import[..], &[way]].concat());
                }
                ended.exits(0);
                same(&place, "t", "straight");
                assert_eq!((place.leftovers(), files(&folder)), (Vec::new(), Vec::new()));
                place.sql(&["TRUNCATE TABLE t"]);
            }
        }
    });
}
