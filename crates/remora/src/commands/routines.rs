//! `remora routines`

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use failure::usage;
use humanize::text;
use progress::{Progress, count};
use routines::{ALL, Kind, MARK, Routine};
use serde_json::json;
use server::{Grants, Scope, Session, TableName, quote_name};

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora routines list                         what there is, and how to call it
  remora routines install                      all of them, into the database m
  remora routines install --db dba --only gstatus,report
  remora routines install --print | less       the statements for MariaDB, for a client with DELIMITER
  remora routines install --print=mysql-8      the same for MySQL 8 and later
  remora routines list --installed             which of them this server has
  remora routines remove
Then, in any client:  CALL m.report(1);   SELECT m.gstatus('questions');   CALL m.blockers();";

/// Install SQL routines for administrators: who blocks whom, long transactions, replication, sizes
///
/// The routines only read. They write nothing, not even to the binary log, so they work on replicas and in
/// READ ONLY transactions. They run with the privileges of whoever calls them. Installing them again keeps
/// the grants on them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Install the routines, or bring them up to date
    Install(Box<Install>),
    /// List the routines, or which of them a server has
    List(Box<List>),
    /// Drop the routines; the database stays
    Remove(Box<Remove>),
}

/// The kinds of servers whose statements are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Servers {
    /// MariaDB
    #[value(name = "mariadb")]
    MariaDb,
    /// MySQL before 8.0
    #[value(name = "mysql-5")]
    MySql5,
    /// MySQL 8.0 and later
    #[value(name = "mysql-8")]
    MySql8,
}

impl From<Servers> for Kind {
    fn from(servers: Servers) -> Kind {
        match servers {
            Servers::MariaDb => Kind::MariaDb,
            Servers::MySql5 => Kind::MySql5,
            Servers::MySql8 => Kind::MySql8,
        }
    }
}

#[derive(Debug, Args)]
struct Install {
    /// Print the statements for this kind of servers instead of running them
    #[arg(long, value_name = "SERVERS", num_args = 0..=1, require_equals = true, default_missing_value = "mariadb")]
    print: Option<Servers>,

    /// Write the statements to the binary log, so that replicas get the routines too [default: this server
    /// alone]
    #[arg(long)]
    binlog: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct List {
    /// Ask the server which of them it has
    #[arg(long)]
    installed: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Remove {
    /// Write the statements to the binary log, so that replicas lose the routines too [default: this server
    /// alone]
    #[arg(long)]
    binlog: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Place {
    /// The database for the routines; install creates it if it does not exist
    #[arg(long, value_name = "NAME", default_value = "m")]
    db: String,

    /// Only these routines, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    match arguments.action {
        Action::Install(arguments) => install(&arguments, password, report),
        Action::List(arguments) => list(&arguments, password, report),
        Action::Remove(arguments) => remove(&arguments, password, report),
    }
}

impl Place {
    fn chosen(&self) -> anyhow::Result<Vec<&'static Routine>> {
        let known = |name: &String| ALL.iter().any(|routine| routine.name == name.as_str());
        if let Some(wrong) = self.only.iter().find(|name| !known(name)) {
            let names: Vec<_> = ALL.iter().map(|routine| routine.name).collect();
            return Err(usage(format!(
                "--only {wrong}: there is no such routine; choose from {}",
                names.join(", ")
            )));
        }
        let is_chosen =
            |routine: &&Routine| self.only.is_empty() || self.only.iter().any(|name| name == routine.name);
        Ok(ALL.iter().filter(is_chosen).collect())
    }

    fn session(&self, password: Option<String>) -> anyhow::Result<Session> {
        let mut session = self.server.target(password)?.connect()?;
        session.execute(MODE)?;
        Ok(session)
    }
}

/// A routine keeps the SQL mode in which it was created, so the mode must not be whatever the server happens
/// to have.
const MODE: &str = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES'";

/// The state of a routine that the account would not see if it were there.
const NOT_SEEN: &str = "can't be seen";

/// Keeps what follows out of the binary log, if there is one and the user does not want it there.
fn keep_out_of_binlog(binlog: bool, session: &mut Session) -> anyhow::Result<()> {
    if session.about.log_bin && !binlog {
        session
            .execute("SET SESSION sql_log_bin = 0")
            .context("the binary log can't be switched off for this session; --binlog leaves it on")?;
    }
    Ok(())
}

/// The routines of a database: the comment of each, by kind and name.
fn present(session: &mut Session, db: &str) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let rows = session.strings(&format!(
        "SELECT routine_type, routine_name, routine_comment FROM information_schema.routines \
         WHERE routine_schema = {}",
        session.quote(db)
    ))?;
    let row = |row: Vec<Option<String>>| match <[Option<String>; 3]>::try_from(row) {
        Ok([Some(kind), Some(name), comment]) => {
            Some(((kind, name.to_ascii_lowercase()), comment.unwrap_or_default()))
        }
        _ => None,
    };
    Ok(rows.into_iter().filter_map(row).collect())
}

/// Why routines of a database may be there and not be seen: a server lists only those that the account may
/// execute or change, or all if it may read the table that has them.
fn unseen(session: &mut Session, db: &str) -> anyhow::Result<Option<server::Error>> {
    let grants = Grants::of(session)?;
    let listed = TableName { schema: "mysql".to_owned(), table: "proc".to_owned() };
    let on_db = ["EXECUTE", "ALTER ROUTINE", "CREATE ROUTINE"];
    let sees = grants.has_global(&["SHOW_ROUTINE"])
        || grants.has("SELECT", Scope::Table(&listed))
        || on_db.iter().any(|right| grants.has(right, Scope::Schema(db)));
    Ok(if sees { None } else { grants.missing(&[(Scope::Schema(db), &["EXECUTE"])]) })
}

fn key(routine: &Routine) -> (String, String) {
    (routine.kind().to_owned(), routine.name.to_owned())
}

fn install(arguments: &Install, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let place = &arguments.place;
    let chosen = place.chosen()?;
    let db = quote_name(&place.db);
    if let Some(kind) = arguments.print.map(Kind::from) {
        report.data(&format!("{MODE};\nCREATE DATABASE IF NOT EXISTS {db};\nDELIMITER //"))?;
        for routine in chosen.into_iter().filter(|routine| routine.is_for(kind)) {
            report.data(&format!("{}\n//", routine.statement(&db, kind)))?;
        }
        report.data("DELIMITER ;")?;
        return Ok(Exit::Done);
    }
    let mut session = place.session(password)?;
    let kind = Kind::of(&session.about);
    let before = present(&mut session, &place.db)?;
    let foreign: Vec<&str> = chosen
        .iter()
        .filter(|routine| before.get(&key(routine)).is_some_and(|comment| !comment.starts_with(MARK)))
        .map(|routine| routine.name)
        .collect();
    if !foreign.is_empty() {
        bail!(
            "{db} has routines with these names that are not remora's: {}; choose another database with --db, or \
             leave them out with --only. Nothing was changed",
            foreign.join(", ")
        );
    }
    keep_out_of_binlog(arguments.binlog, &mut session)?;
    session.execute(&format!("CREATE DATABASE IF NOT EXISTS {db}"))?;
    let (mut made, mut same, mut left_out, mut failed) = (0u32, 0u32, Vec::new(), Vec::new());
    for routine in chosen {
        if !routine.is_for(kind) {
            left_out.push(routine.name);
            continue;
        }
        if before.get(&key(routine)).is_some_and(|comment| *comment == routine.comment(kind)) {
            same += 1;
            continue;
        }
        match install_one(&mut session, &place.db, routine, kind) {
            Ok(()) => made += 1,
            Err(error) if is_refused(&error) => failed.push((routine.name, error)),
            Err(error) => return Err(error),
        }
    }
    report.end();
    if made + same == 0 && !failed.is_empty() {
        return Err(failed.remove(0).1);
    }
    failed.iter().for_each(|(_, error)| report.warn(&format!("{error:#}")));
    let exit = if failed.is_empty() && left_out.is_empty() { Exit::Done } else { Exit::Partial };
    if report.is_json() {
        let failed: Vec<_> = failed.iter().map(|(name, _)| name).collect();
        report.message(&json!({
            "message_type": "summary", "db": place.db, "installed": made, "up_to_date": same, "left_out": left_out,
            "failed": failed,
        }))?;
        return Ok(exit);
    }
    report.note(&format!("{} installed into {db}, {same} up to date already", count(made, "routine")));
    if !left_out.is_empty() {
        report.note(&format!("left out, because this server lacks what they read: {}", left_out.join(", ")));
    }
    Ok(exit)
}

/// Whether the server refused a statement, so that the next one may still succeed.
fn is_refused(error: &anyhow::Error) -> bool {
    let refused = |error: &server::Error| error.code().is_some() && !error.is_connection_lost();
    error.downcast_ref::<server::Error>().is_some_and(refused)
}

fn install_one(session: &mut Session, db: &str, routine: &Routine, kind: Kind) -> anyhow::Result<()> {
    let quoted = quote_name(db);
    // Replacing a routine keeps its grants.
    let replaces = kind == Kind::MariaDb;
    let grants = if replaces { Vec::new() } else { grants(session, db, routine)? };
    if !replaces {
        session.execute(&format!("DROP {} IF EXISTS {quoted}.`{}`", routine.kind(), routine.name))?;
    }
    let done = session.execute(&routine.statement(&quoted, kind));
    done.with_context(|| match grants.as_slice() {
        [] => format!("{} is not installed", routine.name),
        lost => format!("{} was dropped, and with it: {}", routine.name, lost.join("; ")),
    })?;
    for (number, grant) in grants.iter().enumerate() {
        let left = || grants.get(number..).unwrap_or_default().join("; ");
        session.execute(grant).with_context(|| format!("grants are missing; run these: {}", left()))?;
    }
    Ok(())
}

/// The grants on a routine as statements: MySQL can't replace a routine, and dropping it drops its grants.
fn grants(session: &mut Session, db: &str, routine: &Routine) -> anyhow::Result<Vec<String>> {
    let rows = session.strings(&format!(
        "SELECT user, host, proc_priv FROM mysql.procs_priv \
         WHERE db = {} AND routine_name = {} AND routine_type = '{}'",
        session.quote(db),
        session.quote(routine.name),
        routine.kind()
    ))?;
    let mut grants = Vec::new();
    for row in rows {
        let Ok([Some(user), Some(host), Some(rights)]) = <[Option<String>; 3]>::try_from(row) else {
            continue;
        };
        let rights: Vec<&str> = rights.split(',').collect();
        let with_grant = if rights.contains(&"Grant") { " WITH GRANT OPTION" } else { "" };
        let plain: Vec<&str> = rights.into_iter().filter(|right| *right != "Grant").collect();
        let plain = if plain.is_empty() { "USAGE".to_owned() } else { plain.join(", ") };
        grants.push(format!(
            "GRANT {plain} ON {} {}.`{}` TO {}@{}{with_grant}",
            routine.kind(),
            quote_name(db),
            routine.name,
            session.quote(&user),
            session.quote(&host)
        ));
    }
    Ok(grants)
}

fn list(arguments: &List, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let chosen = arguments.place.chosen()?;
    let (mut installed, mut unseen_because) = (None, None);
    if arguments.installed {
        let mut session = arguments.place.session(password)?;
        unseen_because = unseen(&mut session, &arguments.place.db)?;
        installed = Some((Kind::of(&session.about), present(&mut session, &arguments.place.db)?));
    }
    let mut is_partial = false;
    for routine in chosen {
        let state = installed.as_ref().map(|(kind, installed)| match installed.get(&key(routine)) {
            None if unseen_because.is_some() => NOT_SEEN,
            None => "absent",
            Some(comment) if *comment == routine.comment(*kind) => "up to date",
            Some(comment) if comment.starts_with(MARK) => "of another version",
            Some(_) => "not remora's",
        });
        is_partial |= state == Some(NOT_SEEN);
        if report.is_json() {
            report.message(&json!({
                "message_type": "routine", "name": routine.name, "kind": routine.kind(), "about": routine.about(),
                "state": state,
            }))?;
            continue;
        }
        let line = match state {
            Some(state) => format!("{:<20} {state}", routine.name),
            None => format!("{:<20} {}", routine.name, routine.about()),
        };
        report.data(&text::plain(&line))?;
    }
    if let Some(why) = unseen_because.filter(|_| is_partial) {
        report.warn(&format!("whether these routines are there can't be seen: {why}"));
        return Ok(Exit::Partial);
    }
    Ok(Exit::Done)
}

fn remove(arguments: &Remove, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let place = &arguments.place;
    let chosen = place.chosen()?;
    let mut session = place.session(password)?;
    let before = present(&mut session, &place.db)?;
    keep_out_of_binlog(arguments.binlog, &mut session)?;
    let mut gone = 0u32;
    let mut exit = Exit::Done;
    for routine in chosen {
        match before.get(&key(routine)) {
            Some(comment) if comment.starts_with(MARK) => {
                let name = format!("{}.`{}`", quote_name(&place.db), routine.name);
                session.execute(&format!("DROP {} {name}", routine.kind()))?;
                gone += 1;
            }
            Some(_) => {
                report.warn(&format!("{}.{} is not remora's and stays", place.db, routine.name));
                exit = Exit::Partial;
            }
            None => {}
        }
    }
    report.end();
    if report.is_json() {
        report.message(&json!({"message_type": "summary", "db": place.db, "removed": gone}))?;
    } else {
        report.note(&format!("{} removed from {}", count(gone, "routine"), quote_name(&place.db)));
    }
    Ok(exit)
}
