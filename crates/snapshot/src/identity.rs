//! Whose backups a name has: those of one source on one machine. Generations of two sources would push each
//! other out when old ones are forgotten.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use block::Generation;
use host::Machine;
use progress::{Progress, count};
use serde_json::{Value, json};

use crate::Source;
use crate::server::Login;

/// Tells machines of one name from each other.
const MACHINE_ID: &str = "/etc/machine-id";
/// More bytes than it has.
const LEN_MAX: u64 = 256;
/// The number itself must not be told to others (machine-id(5)).
const CONTEXT: &str = "remora 2026-11-28 the machine of a source";

/// How many digits of what is made of it are enough.
const MARK: usize = 16;

/// A source and its machine, as far as they are known: what is empty is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The machine's name.
    pub host: String,
    /// Derived from the machine's id.
    machine: String,
    /// The source on that machine: `file:/vm/disk.img`, or a server's data folder.
    at: String,
    /// A server's own name for itself.
    server: String,
}

impl Identity {
    /// That of a source on a machine.
    pub fn new(source: &Source, machine: &Machine, login: &Login<'_>) -> Result<Identity, block::Error> {
        let (at, server) = source.own(machine, login)?;
        // Without one the name must do.
        let id = machine_id(machine).unwrap_or_default();
        let hash = blake3::Hash::from(blake3::derive_key(CONTEXT, id.trim().as_bytes())).to_hex();
        let known = if id.trim().is_empty() { 0 } else { MARK };
        Ok(Identity { host: machine.name(), machine: hash.chars().take(known).collect(), at, server })
    }

    /// That of the source of a generation. Older ones have only noted what was on the command line.
    pub fn of(generation: &Generation) -> Identity {
        let note: Value = serde_json::from_str(&generation.note).unwrap_or_default();
        let text = |path: &str| note.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let source = || text("/source").parse::<Source>().ok()?.at();
        let at = Some(text("/identity/at")).filter(|at| !at.is_empty()).or_else(source);
        Identity {
            host: text("/host"),
            machine: text("/identity/machine"),
            at: at.unwrap_or_default(),
            server: text("/identity/server"),
        }
    }

    /// What a generation notes besides the name of its machine.
    pub fn noted(&self) -> Value {
        json!({"machine": self.machine, "at": self.at, "server": self.server})
    }

    /// Whether it is certain that these are two sources.
    pub fn differs(&self, other: &Identity) -> bool {
        let pairs = [
            (&self.host, &other.host),
            (&self.machine, &other.machine),
            (&self.at, &other.at),
            (&self.server, &other.server),
        ];
        pairs.iter().any(|(one, two)| !one.is_empty() && !two.is_empty() && one != two)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "a source" } else { &self.at };
        write!(f, "{at} on {}", self.host)?;
        let marks = [("machine", &self.machine), ("server", &self.server)];
        let known = marks.iter().filter(|(_, mark)| !mark.is_empty());
        let known: Vec<String> =
            known.map(|(what, mark)| format!("{what} {}", mark.get(..8).unwrap_or(mark))).collect();
        if known.is_empty() { Ok(()) } else { write!(f, " ({})", known.join(", ")) }
    }
}

fn machine_id(machine: &Machine) -> io::Result<String> {
    let mut text = String::new();
    machine.disk().open(Path::new(MACHINE_ID))?.take(LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Whether this generation was made although the one before is of another source.
fn is_adopted(generation: &Generation) -> bool {
    let note: Value = serde_json::from_str(&generation.note).unwrap_or_default();
    note.get("adopted").and_then(Value::as_bool) == Some(true)
}

/// The generations of a name, those of each source by themselves, in order. There is one source, unless
/// several were mixed before that was refused. Who adopts a name adopts all that it has.
pub fn sources(all: &[Generation]) -> Vec<Vec<&Generation>> {
    let mut sources: Vec<Vec<&Generation>> = Vec::new();
    for generation in all {
        if is_adopted(generation) {
            let mut merged: Vec<&Generation> = sources.drain(..).flatten().collect();
            merged.sort_by_key(|one| one.number);
            sources.extend(Some(merged).filter(|merged| !merged.is_empty()));
        }
        let own = Identity::of(generation);
        let agrees = |source: &&mut Vec<&Generation>| {
            is_adopted(generation) || source.last().is_some_and(|last| !Identity::of(last).differs(&own))
        };
        let last = |source: &&mut Vec<&Generation>| source.last().map(|last| last.number);
        match sources.iter_mut().filter(agrees).max_by_key(last) {
            Some(source) => source.push(generation),
            None => sources.push(vec![generation]),
        }
    }
    sources
}

/// Names the sources of a name if it has several. Returns whether that is so.
pub fn warn_of_mixed(name: &str, all: &[Generation], report: &dyn Progress) -> bool {
    let sources = sources(all);
    if sources.len() < 2 {
        return false;
    }
    let shown = sources.iter().filter_map(|source| {
        let newest = source.last()?;
        let generations = count(source.len(), "generation");
        Some(format!("{} ({generations}, the newest {name}@{})", Identity::of(newest), newest.number))
    });
    report.warn(&format!(
        "{name} has backups of {} sources: {}; give each a name of its own with 'remora backup --name'. Until then prune keeps of \
         each what the options name",
        sources.len(),
        shown.collect::<Vec<_>>().join("; ")
    ));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(number: u64, note: Value) -> Generation {
        Generation {
            number,
            parent: 0,
            content: [0; 32],
            taken_s: 0,
            len: 0,
            blocks: 0,
            stored: 0,
            file_bytes: 0,
            file: String::new(),
            note: note.to_string(),
            is_whole: true,
            booted: None,
        }
    }

    fn of(host: &str, at: &str) -> Value {
        json!({"host": host, "source": "mysql:", "identity": {"machine": "", "at": at, "server": ""}})
    }

    #[test]
    fn two_sources_are_distinguished_by_what_is_known_of_both() {
        let whole = ["db1", "m1", "mysql:/var/lib/mysql", "u1"].map(str::to_owned);
        let identity = |[host, machine, at, server]: [String; 4]| Identity { host, machine, at, server };
        for part in 0..4 {
            let (mut other, mut unknown) = (whole.clone(), whole.clone());
            other[part] = "other".to_owned();
            unknown[part] = String::new();
            assert!(identity(whole.clone()).differs(&identity(other)), "{part}");
            assert!(!identity(whole.clone()).differs(&identity(unknown)), "{part}");
        }
        // What is known of backups that were made before.
        let old = |source: &str| Identity::of(&generation(1, json!({"source": source, "host": "db1"})));
        assert_eq!(old("file:ssh://root@db1/vm/disk.img").at, "file:/vm/disk.img");
        assert_eq!([old("file:disk.img").at, old("mysql:").at], [String::new(), String::new()]);
        assert!(old("file:/a/disk.img").differs(&old("file:/b/disk.img")));
        assert!(!old("file:disk.img").differs(&old("file:/b/disk.img")));
    }

    #[test]
    fn mixed_generations_are_distinguished_until_one_source_adopts_them() {
        let [one, two] = [of("db1", "mysql:/data"), of("db2", "mysql:/data")];
        let mut adopted = two.clone();
        adopted["adopted"] = json!(true);
        let numbers = |notes: &[&Value]| -> Vec<Vec<u64>> {
            let all: Vec<Generation> =
                (1..).zip(notes).map(|(number, note)| generation(number, (*note).clone())).collect();
            let sources = sources(&all);
            sources.iter().map(|source| source.iter().map(|one| one.number).collect()).collect()
        };
        assert_eq!(numbers(&[&one, &one]), [[1, 2]]);
        assert_eq!(numbers(&[&one, &two, &one, &two]), [[1, 3], [2, 4]]);
        assert_eq!(numbers(&[&one, &adopted, &two]), [[1, 2, 3]]);
        assert_eq!(numbers(&[&one, &two, &one, &adopted, &two]), [[1, 2, 3, 4, 5]]);
        // One of which nothing is known counts with those before it.
        assert_eq!(numbers(&[&one, &two, &json!({}), &two]), [vec![1], vec![2, 3, 4]]);
        assert_eq!(numbers(&[]), Vec::<Vec<u64>>::new());
    }
}
