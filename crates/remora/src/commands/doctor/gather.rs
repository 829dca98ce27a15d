//! Asks the server, and looks into the repository. Nothing is changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use disk::{RealDisk, Tree};
use doctor::facts::{Archive, Encryption, Facts, Newest, Proof, Repository, Rights, Server, Tables};
use host::{Call, Machine};
use hotcopy::HotCopy;
use humanize::{date_time, text};
use instance::server_folders::server_folders;
use repository::location::Location;
use repository::log_archive::{self, Archive as Archived};
use repository::{Named, address};
use sandbox::{Family, Product};
use seal::Key;
use server::required_privileges::{self, Task};
use server::{Flavour, Grants, Session, Target};
use snapshot::Source;
use snapshot::server::{Connect, Login, has_snapshots};

use super::Arguments;
use crate::args::{Account, ServerArgs};
use crate::commands;
use crate::commands::backup::server_of;
use crate::report::Report;
use repository::state::{self, Evidence, KnownDamage};

/// How many tables of a kind are named.
const NAMED_MAX: u64 = 3;
/// Variables that are looked at.
const VARIABLES: [&str; 13] = [
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_expire_logs_seconds",
    "expire_logs_days",
    "max_binlog_total_size",
    "sync_binlog",
    "innodb_flush_log_at_trx_commit",
    "log_slave_updates",
    "local_infile",
    "max_allowed_packet",
    "datadir",
];
/// Tables that are not the user's.
const OWN: &str = "t.table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

pub(super) fn facts(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Facts> {
    let server = match &arguments.source {
        Some(source) => server_of(source, &arguments.server)?,
        None => arguments.server.clone(),
    };
    let stop = commands::stop_flag(report)?;
    let (wait, still) = (Duration::from_secs(1), Duration::ZERO);
    let account = Account { server: &server, password };
    let login = Login { server: &account, wait, still, stop: Arc::clone(&stop), report: report.shared() };
    let machine = arguments.source.as_ref().map(|source| reach(source, &server, arguments)).transpose()?;
    let mut session = match (&arguments.source, &machine) {
        (Some(source), Some(machine)) => login.connect(machine).map_err(|error| source.failed(error))?.1,
        _ => Target::connect(&account.target(None)?)?,
    };
    let mut facts = Facts {
        server: of_server(&mut session)?,
        rights: rights(&mut session)?,
        tables: tables(&mut session)?,
        now_s: date_time::now_s(),
        ..Facts::default()
    };
    let data = Path::new(facts.server.text("datadir")).to_owned();
    let here = machine.as_ref().filter(|machine| matches!(machine, Machine::Here));
    facts.copy = machine.as_ref().map(|machine| copy(machine, &login));
    facts.repository =
        arguments.to.as_ref().map(|root| repository(root, arguments, here.map(|_| &*data))).transpose()?;
    Ok(facts)
}

fn reach(source: &Source, server: &ServerArgs, arguments: &Arguments) -> Result<Machine, block::Error> {
    let places = server.places();
    source.reach(Call { options: &arguments.ssh_option, nice: false, places: &places })
}

fn of_server(session: &mut Session) -> Result<Server> {
    let about = session.about.clone();
    let names = VARIABLES.map(|name| session.quote(name)).join(", ");
    let rows = session.strings(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))?;
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().flatten();
        Some((cells.next()?.to_lowercase(), cells.next()?))
    };
    let settings: BTreeMap<String, String> = rows.into_iter().filter_map(pair).collect();
    let family = match about.flavour {
        Flavour::MariaDb => Family::MariaDb,
        Flavour::MySql => Family::MySql,
    };
    let state = session.binary_log_status().unwrap_or_default().into_iter().next().unwrap_or_default();
    let filters = ["binlog_do_db", "binlog_ignore_db"].iter().zip(state.into_iter().skip(2));
    let filters = filters
        .filter_map(|(name, value)| Some(format!("{name}={}", value.filter(|value| !value.is_empty())?)));
    let filters = filters.collect();
    let is_replica = session.replica_status().ok().map(|rows| !rows.is_empty());
    let mut number = |sql: &str| session.value(sql).ok().flatten().and_then(|value| value.parse().ok());
    let receivers = "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";
    Ok(Server {
        shown: format!("{family} {}", about.version),
        settings,
        no_private: private(family, (about.version.major, about.version.minor)),
        filters,
        is_replica,
        receivers: number(receivers),
        zones: number("SELECT COUNT(*) FROM mysql.time_zone_name"),
    })
}

/// Why no server of a version can be started here.
fn private(family: Family, series: (u16, u16)) -> Option<(String, Option<String>)> {
    let places = match server_folders() {
        Ok(places) => places,
        Err(error) => return Some((error.to_string(), None)),
    };
    let Some(product) = Product::for_data(family, series) else {
        return Some((
            "remora knows no server that reads data of this version; --server PATH names your own".to_owned(),
            None,
        ));
    };
    match sandbox::find(&places, product) {
        Ok(_) => None,
        Err(sandbox::Error::Missing { why, command, .. }) => {
            Some((format!("{product} is not here, {why}"), Some(command)))
        }
        Err(error) => Some((error.to_string(), None)),
    }
}

fn rights(session: &mut Session) -> Result<Rights> {
    let grants = Grants::of(session)?;
    let lacks = required_privileges::missing(
        &grants,
        &session.about,
        &[Task::Dump, Task::Copy, Task::Archive, Task::Source],
    );
    let grant = grants.statement(&lacks);
    Ok(Rights { lacks, grant })
}

fn tables(session: &mut Session) -> Result<Tables> {
    let own = format!("{OWN} AND t.table_type = 'BASE TABLE' AND t.engine <> 'QUEUE'");
    // Whoever may SELECT sees indexes, and table_constraints only whoever may do more.
    let without_key = format!(
        "{own} AND NOT EXISTS (SELECT 1 FROM information_schema.statistics c WHERE c.index_name = 'PRIMARY' \
         AND c.table_schema = t.table_schema AND c.table_name = t.table_name)"
    );
    let without_transactions = format!(
        "{own} AND t.engine NOT IN (SELECT engine FROM information_schema.engines WHERE transactions = 'YES')"
    );
    let mut found = |condition: &str, shown: &str| -> Result<(Vec<String>, u64)> {
        let from = format!("FROM information_schema.tables t WHERE {condition}");
        let names = session.strings(&format!("SELECT {shown} {from} LIMIT {NAMED_MAX}"))?;
        let count = session.value(&format!("SELECT COUNT(*) {from}"))?.unwrap_or_default();
        Ok((names.into_iter().flatten().flatten().collect(), count.parse().unwrap_or(0)))
    };
    let name = "CONCAT(t.table_schema, '.', t.table_name)";
    let (_, seen) = found(&own, name)?;
    let without_key = found(&without_key, name)?;
    let engine = format!("CONCAT({name}, ' (', t.engine, ')')");
    let without_transactions = found(&without_transactions, &engine)?;
    let bytes =
        format!("SELECT SUM(t.data_length + t.index_length) FROM information_schema.tables t WHERE {OWN}");
    let bytes = session.value(&bytes)?.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    Ok(Tables { seen, without_key, without_transactions, bytes })
}

/// Whether the server can be copied, found out with the first steps of a backup.
fn copy(machine: &Machine, login: &Login<'_>) -> Result<String, String> {
    let by_snapshot = has_snapshots(machine, login);
    let by_copy = HotCopy::find(machine, login).map(drop);
    match (by_snapshot, by_copy) {
        (Ok(true), _) => Ok("its data folder can be read, and a snapshot of it can be made".to_owned()),
        (_, Ok(())) => {
            Ok("its data folder can be read; no snapshot can be made, so it is copied while it runs (--way copy)".to_owned())
        }
        (Ok(false), Err(error)) => Err(format!("no snapshot of its data can be made, and: {error}")),
        (Err(error), Err(_)) => Err(error.to_string()),
    }
}

/// What is known of the repository. `data`: the data folder, if it is on this machine.
fn repository(root: &Path, arguments: &Arguments, data: Option<&Path>) -> Result<Repository> {
    let name = name(root, arguments);
    let home = Location::new(root, &name)?;
    let place = match &arguments.source {
        Some(source) => source.to_string(),
        None => "mysql:".to_owned(),
    };
    let key = arguments.key.path().map(|path| format!(" --key {}", text::path(&path))).unwrap_or_default();
    let mut found = Repository {
        shown: home.shown(),
        command: format!("remora backup {place} --to {} --name {name}{key}", root.display()),
        ..Repository::default()
    };
    if !address::is_in_store(root) {
        let there = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        found.free = RealDisk.free(there).ok();
        let device = |path: &Path| RealDisk.entry(path).ok().map(|entry| entry.device);
        found.is_beside_data = data.and_then(|data| Some(device(data)? == device(there)?));
    }
    if let Err(error) = look_into(&mut found, (name, home), arguments) {
        found.error = Some(format!("{error:#}"));
    }
    Ok(found)
}

/// The name to look at: the given one, or the only one, or the one that a backup would get.
fn name(root: &Path, arguments: &Arguments) -> String {
    if let Some(name) = &arguments.name {
        return name.clone();
    }
    let names = repository::places(root).unwrap_or_default();
    if let [(name, _)] = names.as_slice() {
        return name.clone();
    }
    let source = arguments.source.as_ref();
    let default = source.and_then(|source| source.default_name(&Machine::Here.name()));
    default.unwrap_or_else(|| "mysql".to_owned())
}

fn look_into(found: &mut Repository, (name, home): (String, Location), arguments: &Arguments) -> Result<()> {
    if home.folder().is_some_and(|folder| !folder.is_dir()) {
        return Ok(());
    }
    if home.is_encrypted()? {
        let file = arguments.key.path();
        let is_beside = |file: &Path| {
            let device = |path: &Path| RealDisk.entry(path).ok().map(|entry| entry.device);
            home.folder().is_some_and(|folder| device(folder).is_some() && device(folder) == device(file))
        };
        found.encryption = Encryption::Unopened;
        let Some(file) = file else { return Ok(()) };
        let (is_beside, file) = (is_beside(&file), text::path(&file));
        let key = arguments.key.read()?;
        found.encryption = match key {
            Some(Key::Put(_)) => Encryption::PutKey(file),
            _ => Encryption::FullKey(file, is_beside),
        };
        return look_at(found, &Named::open((name, home), key.as_ref())?);
    }
    look_at(found, &Named::open((name, home), None)?)
}

/// The generations and the archive of a name.
fn look_at(found: &mut Repository, named: &Named) -> Result<()> {
    let listing = named.repository.list()?;
    found.broken = listing.broken.iter().map(ToString::to_string).collect();
    let damage = KnownDamage::of(named, &listing);
    let lost = damage.lost(&listing);
    found.noted = state::told(&damage.noted, date_time::shown).map(|(_, text)| text);
    found.newest = listing.generations.last().map(|newest| Newest {
        is_damaged: lost.contains(&newest.number),
        number: newest.number,
        taken_s: newest.taken_s,
        bytes: newest.file_bytes,
        proof: proof(&listing.generations),
    });
    found.archive = match log_archive::find(&named.home, named.key.as_ref())? {
        None => Archive::None,
        Some(Archived::Files(folder)) => Archive::There(binlog::archive::caught_up(&RealDisk, &folder)?),
        Some(Archived::Segments(segments)) => {
            found.broken.extend(segments.damages().iter().map(ToString::to_string));
            Archive::There(segments.caught_up())
        }
    };
    Ok(())
}

fn proof(generations: &[block::Generation]) -> Proof {
    let is_sound = |generation: &block::Generation| {
        matches!(Evidence::of(generation), Evidence::Proven | Evidence::Booted)
    };
    match generations.last() {
        Some(newest) if Evidence::of(newest) == Evidence::Unsound => Proof::Unsound,
        Some(newest) if is_sound(newest) => Proof::Sound,
        _ => generations
            .iter()
            .rev()
            .find(|generation| is_sound(generation))
            .map_or(Proof::Never, |generation| Proof::Earlier(generation.number)),
    }
}
