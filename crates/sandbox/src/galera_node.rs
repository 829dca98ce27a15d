//! A server that is a member of a Galera cluster on this machine.
//!
//! The members begin with the same data, so none ever needs a copy of another's. A member gets the changes
//! that it missed from the others' caches (IST). Even then Galera asks a script for a copy; ours says that no
//! copy follows, and refuses if one would be needed: a member that is too far behind does not start with
//! different data.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};

use crate::error::At;
use crate::{Error, Installation, folder};

/// What makes a server a member of a cluster.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// The file in a member's data folder that says how far it is.
const STATE: &str = "grastate.dat";

/// The line in a member's error log when it accepts statements.
const READY: &str = "Synchronized with group, ready for connections";

/// Called by the server, with `--role` and more; its name is `wsrep_sst_` followed by the method.
const SCRIPT: &str = r#"#!/bin/sh
role= address= data= gtid= bypass= parent=
while [ $# -gt 0 ]; do
    case $1 in
        --role) role=$2; shift ;;
        --address) address=$2; shift ;;
        --datadir) data=${2%/}; shift ;;
        --gtid) gtid=$2; shift ;;
        --parent) parent=$2; shift ;;
        --bypass) bypass=1 ;;
        --mysqld-args) break ;;
    esac
    shift
done
case $role in
    joiner)
        rm -f "$data/sst.gtid"
        echo "ready 127.0.0.1:1$data"
        while [ ! -s "$data/sst.gtid" ] && kill -0 "$parent"; do sleep 0.05; done
        cat "$data/sst.gtid"
        rm -f "$data/sst.gtid" ;;
    donor)
        [ "$bypass" ] || { echo "a member that is so far behind would need a copy of all data" >&2; exit 1; }
        echo continue
        target=/${address#*/}
        echo "$gtid" > "$target/sst.new" && mv "$target/sst.new" "$target/sst.gtid"
        echo "done $gtid" ;;
esac
"#;

/// Identifies a sandbox as a member of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct GaleraNode {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// From 0.
    pub(crate) number: usize,
    /// For each member the port for communication, and the port for changes that it missed.
    pub(crate) ports: Vec<(u16, u16)>,
}

/// How far a member is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct GaleraState {
    /// It was the last one to stop, so nobody has a later state.
    pub(crate) may_begin: bool,
    /// The number of its last change; -1 after a crash.
    pub(crate) change: i64,
}

impl GaleraNode {
    /// Checks whether there can be members here.
    pub(crate) fn check(installation: &Installation) -> Result<(), Error> {
        let missing = |why: String, command: &str| {
            Err(Error::Missing { product: installation.product, why, command: command.to_owned() })
        };
        if !installation.can(crate::Ability::Galera) {
            let able: Vec<&str> =
                crate::Product::that_can(crate::Ability::Galera).map(crate::Product::id).collect();
            let why = "it is not made a Galera cluster here".to_owned();
            return missing(why, &format!("remora sandbox start --galera --server {}", able.join(" or ")));
        }
        if !Path::new(PROVIDER).is_file() {
            return missing(format!("as a Galera cluster: no {PROVIDER}"), "apt-get install galera-4");
        }
        Ok(())
    }

    /// Puts the script into the sandbox. Returns the script's folder.
    pub(crate) fn script(&self, sandbox: &Path) -> Result<PathBuf, Error> {
        let programs = sandbox.join("bin");
        folder::create(&programs)?;
        let script = programs.join("wsrep_sst_sandbox");
        folder::write(&script, SCRIPT.as_bytes())?;
        fs::set_permissions(&script, Permissions::from_mode(0o755)).at("cannot make executable", &script)?;
        Ok(programs)
    }

    /// The options that make the server a member, or the first member of a cluster if no other is running.
    pub(crate) fn options(
        &self,
        installation: &Installation,
        sandbox: &Path,
        data: &Path,
    ) -> Result<Vec<String>, Error> {
        let (own, missed) = self.ports[self.number];
        let addresses: Vec<String> = self.ports.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        let mut options = vec![
            "--wsrep-on=ON".to_owned(),
            format!("--wsrep-provider={PROVIDER}"),
            format!("--wsrep-cluster-name={}", self.cluster),
            format!("--wsrep-cluster-address=gcomm://{}", addresses.join(",")),
            format!("--wsrep-node-name={}-{}", self.cluster, self.number + 1),
            format!("--wsrep-node-address=127.0.0.1:{own}"),
            "--wsrep-sst-method=sandbox".to_owned(),
            format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{own};ist.recv_addr=127.0.0.1:{missed}"
            ),
            "--binlog-format=ROW".to_owned(),
            "--innodb-autoinc-lock-mode=2".to_owned(),
        ];
        let saved = saved(data);
        if saved.is_none_or(|saved| saved.may_begin) && !self.is_anybody_there() {
            options.push("--wsrep-new-cluster".to_owned());
        }
        if saved.is_some_and(|saved| saved.change < 0) {
            let position = recover(installation, sandbox, data)?;
            options.extend(position.map(|position| format!("--wsrep-start-position={position}")));
        }
        Ok(options)
    }

    fn is_anybody_there(&self) -> bool {
        let others = self.ports.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.into_iter().any(|(_, (port, _))| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok())
    }

    /// Whether the server accepts statements, judged by its log since the start.
    pub(crate) fn is_ready(log: &Path, start_byte: u64) -> bool {
        let text = fs::read(log).unwrap_or_default();
        let start = usize::try_from(start_byte).unwrap_or(usize::MAX).min(text.len());
        String::from_utf8_lossy(&text[start..]).contains(READY)
    }
}

/// What a data folder says about its state; none before it belonged to a member.
pub(crate) fn saved(data: &Path) -> Option<GaleraState> {
    let text = fs::read_to_string(data.join(STATE)).ok()?;
    let value = |name: &str| Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim());
    Some(GaleraState {
        may_begin: value("safe_to_bootstrap:") == Some("1"),
        change: value("seqno:").and_then(|number| number.parse().ok()).unwrap_or(-1),
    })
}

/// Records in a data folder whether its server may begin the cluster.
pub(crate) fn let_begin(data: &Path, may: bool) -> Result<(), Error> {
    let path = data.join(STATE);
    let text = fs::read_to_string(&path).at("cannot read", &path)?;
    let line = |line: &str| match line.strip_prefix("safe_to_bootstrap:") {
        Some(_) => format!("safe_to_bootstrap: {}\n", u8::from(may)),
        None => format!("{line}\n"),
    };
    folder::write(&path, text.lines().map(line).collect::<String>().as_bytes())
}

/// How far a crashed server came: its engine recovers and tells. `UUID:NUMBER`.
pub(crate) fn recover(
    installation: &Installation,
    sandbox: &Path,
    data: &Path,
) -> Result<Option<String>, Error> {
    let mut command = installation.command();
    command.args(installation.options(data, &sandbox.join("tmp"))).stdin(Stdio::null());
    // It requires these options before it looks, and connects to nobody.
    command.args(["--wsrep-recover", "--wsrep-on=ON", "--wsrep-cluster-address=gcomm://"]);
    command.arg(format!("--wsrep-provider={PROVIDER}")).args(["--binlog-format=ROW", "--skip-networking"]);
    command.arg(format!("--socket={}", sandbox.join("recover.sock").display()));
    let said = command.output().at("cannot run", &installation.daemon)?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    let position = text.lines().find_map(|line| line.split_once("Recovered position: "));
    Ok(position.and_then(|(_, position)| position.split([',', ' ']).next()).map(str::to_owned))
}
