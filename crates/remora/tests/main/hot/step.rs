//! Everybody who takes part in a copy is killed at each of its steps.

use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::Product;

use super::Scene;
use crate::gate::{Gate, PARTS, Step, Way};
use crate::ssh;
use crate::support::{Ended, Running, connect, part_of_today, remora, tell, until};

/// Who is killed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Remora,
    /// The connection with the stages.
    Connection,
    /// The server, before it gets the statement.
    Server,
    /// The server, while it has the statement.
    ServerAtWork,
    /// What works for remora on the server's machine.
    Helper,
    /// What connects the two.
    Ssh,
}

/// A server behind a gate, and how to copy it.
pub(super) struct Behind<'a> {
    pub(super) scene: &'a Scene,
    pub(super) there: Option<&'a ssh::Server>,
}

impl Behind<'_> {
    /// Begins a copy behind a gate.
    pub(super) fn begin(&self, stops: impl IntoIterator<Item = Step>) -> (Gate, Running) {
        let socket = self.scene.folder.path().join("gate.sock");
        let gate = Gate::open(&socket, self.scene.server.socket(), stops);
        let repository = self.scene.folder.path().join("repo").display().to_string();
        let source =
            self.there.map_or_else(|| "mysql:".to_owned(), |there| format!("mysql:{}", there.machine()));
        let socket = socket.display().to_string();
        let line = ["backup", &source, "--socket", &socket, "--no-defaults", "-uroot", "--to", &repository];
        let line = [&line[..], &["--way", "copy", "--name", "mysql"]].concat();
        let mut command = match self.there {
            Some(there) => there.command(&line),
            None => {
                let mut command = remora(self.scene.folder.path());
                command.args(&line).stdin(Stdio::null());
                command
            }
        };
        (gate, Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// The statements of a copy that hold something or ask where the server is, in their order.
    fn steps(&self) -> Vec<Step> {
        let (gate, running) = self.begin(None);
        running.end().exits(0);
        let all = gate.steps.lock().unwrap().clone();
        let counts = ["BACKUP STAGE", "FLUSH", "SHOW MASTER", "SHOW BINARY"];
        let steps: Vec<Step> =
            all.into_iter().filter(|step| counts.iter().any(|word| step.0.starts_with(word))).collect();
        for word in ["START", "STAGE FLUSH", "BLOCK_DDL", "BLOCK_COMMIT", "ENGINE LOGS", "STAGE END"] {
            assert!(steps.iter().any(|step| step.0.contains(word)), "no {word} in {steps:?}");
        }
        steps
    }

    fn copies(&self) -> usize {
        self.scene.run(&["list", "repo"]).exits(0).out.matches("mysql@").count()
    }

    /// Nobody has to wait any more.
    fn is_free(&self) {
        let mut session = connect(self.scene.server.socket());
        session.execute("SET SESSION lock_wait_timeout = 20").unwrap();
        until("the server knows that it is over", || session.execute("BACKUP STAGE START").is_ok());
        session.execute("BACKUP STAGE END").unwrap();
        session.execute("CREATE OR REPLACE TABLE app.fresh (id INT) ENGINE=MyISAM").unwrap();
        session.execute("REPLACE INTO app.fresh VALUES (1)").unwrap();
    }
}

fn kill(processes: &[u32]) {
    assert!(!processes.is_empty());
    let killed = Command::new("kill").arg("-9").args(processes.iter().map(ToString::to_string)).status();
    assert!(killed.unwrap().success());
}

fn children(process: u32) -> Vec<u32> {
    let told = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    told.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Kills somebody at a step. Returns how remora ended, if it was not the one.
fn kill_at(scene: &mut Scene, there: Option<&ssh::Server>, step: &Step, victim: Victim) -> Option<Ended> {
    let (gate, mut running) = Behind { scene, there }.begin(Some(step.clone()));
    let way = gate.wait(&mut running);
    match victim {
        Victim::Remora => {
            running.kill();
            way.send(Way::Cut).unwrap();
            return None;
        }
        Victim::Connection => way.send(Way::Cut).unwrap(),
        Victim::Server | Victim::ServerAtWork => {
            way.send(if victim == Victim::ServerAtWork { Way::Alone } else { Way::Cut }).unwrap();
            scene.server.kill().unwrap();
            let ended = running.end();
            scene.server.restart().unwrap();
            return Some(ended);
        }
        Victim::Helper => kill(&there.unwrap().helpers()),
        Victim::Ssh => kill(&children(running.pid())),
    }
    if victim != Victim::Connection {
        way.send(Way::Cut).unwrap();
    }
    Some(running.end())
}

fn whoever_is_killed(product: Product, there: Option<&ssh::Server>, victims: &[Victim]) {
    let mut scene = Scene::new(product, &[]);
    let steps = Behind { scene: &scene, there }.steps();
    let mut copies = 1;
    let cases = steps.iter().flat_map(|step| victims.iter().map(move |victim| (step, *victim))).collect();
    for (step, victim) in part_of_today(cases, PARTS) {
        tell(format!("{product}: {victim:?} at {step:?}"));
        let ended = kill_at(&mut scene, there, step, victim);
        let behind = Behind { scene: &scene, there };
        behind.is_free();
        let made = behind.copies() - copies;
        // With its last statement the server has told everything that a copy needs.
        let may = victim == Victim::ServerAtWork && step.0.contains("STAGE END");
        assert!(made == 0 || made == 1 && may, "{made} copies");
        copies += made;
        if let Some(ended) = ended.filter(|_| made == 0) {
            assert_ne!(ended.code, 0, "{}", ended.err);
            ended.says(&["no backup was made"]);
        }
        let names = std::fs::read_dir(scene.folder.path().join("repo/mysql")).unwrap();
        let left =
            names.filter(|name| Path::new(&name.as_ref().unwrap().path()).extension().is_none()).count();
        assert!(left <= 1, "spools have no names");
    }
    let line = ["--way", "copy", "--name", "mysql"];
    scene.backup(&line).exits(0);
    scene.is_exact();
}

/// REMORA_TEST_SERVERS chooses others.
fn oldest_and_newest() -> impl Iterator<Item = Product> {
    let servers = super::servers();
    let newest = servers.last().copied().filter(|_| servers.len() > 1);
    servers.into_iter().take(1).chain(newest)
}

/// Facts: `connection_lost_each`, `kill_frees_locks`.
#[test]
fn connection_lost_each_step_there_is_a_copy_or_none() {
    for product in oldest_and_newest() {
        let victims = [Victim::Remora, Victim::Connection, Victim::Server, Victim::ServerAtWork];
        whoever_is_killed(product, None, &victims);
    }
}

/// Facts: `connection_lost_each`, `kill_frees_locks`.
#[test]
fn connection_lost_each_step_on_the_way_to_another_machine() {
    let there = ssh::Server::start();
    // How a server is killed makes no difference on the way: on this machine each is killed in both ways.
    for (product, server) in oldest_and_newest().zip([Victim::Server, Victim::ServerAtWork]) {
        let victims = [Victim::Helper, Victim::Ssh, Victim::Remora, server];
        whoever_is_killed(product, Some(&there), &victims);
    }
    until("nobody works for it any more", || there.helpers().is_empty());
}
