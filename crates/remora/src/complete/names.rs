//! Names that are asked for while the user types. Whatever goes wrong, there are none.

use std::path::Path;

use anyhow::Result;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use instance::server_folders::server_folders;
use repository::names;
use server::{Session, Target};

use super::paths;
use crate::args::{SANDBOX, ServerArgs};
use crate::command_line::Cli;
use crate::password;

/// The most names of tables that anybody looks through.
const TABLES_MAX: usize = 500;

/// Tables as `db.table`, or as the default database has them.
pub(super) fn tables(text: &str) -> Vec<String> {
    ask(|target, session| {
        let like = |text: &str| session.quote(&format!("{}%", escaped(text)));
        let (name, wanted) = match &target.database {
            Some(database) if !text.contains('.') => {
                let database = session.quote(database);
                ("table_name", format!("table_schema = {database} AND table_name LIKE {}", like(text)))
            }
            _ => {
                // The server finds tables of a known database without looking at all others.
                let (database, table) = text.split_once('.').unwrap_or((text, ""));
                let schema = match text.contains('.') {
                    true => format!("table_schema = {}", session.quote(database)),
                    false => format!("table_schema LIKE {}", like(database)),
                };
                (
                    "CONCAT(table_schema, '.', table_name)",
                    format!("{schema} AND table_name LIKE {}", like(table)),
                )
            }
        };
        column(
            session,
            &format!(
                "SELECT {name} FROM information_schema.tables WHERE {wanted} AND table_schema NOT IN ({OWN}) \
             ORDER BY 1 LIMIT {TABLES_MAX}"
            ),
        )
    })
}

pub(super) fn databases(text: &str) -> Vec<String> {
    ask(|_, session| {
        let like = session.quote(&format!("{}%", escaped(text)));
        column(
            session,
            &format!(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE {like} AND \
             schema_name NOT IN ({OWN}) ORDER BY 1"
            ),
        )
    })
}

/// Databases that are not the user's.
const OWN: &str = "'mysql', 'sys', 'information_schema', 'performance_schema'";

/// The text as it stands in a pattern of LIKE.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn column(session: &mut Session, sql: &str) -> Result<Vec<String>> {
    let rows = session.strings(sql)?.into_iter();
    let mut names: Vec<String> = rows.filter_map(|row| row.into_iter().next().flatten()).collect();
    // The server sorts as its collation says, which differs from one to the next.
    names.sort();
    Ok(names)
}

pub(super) fn sandboxes(text: &str) -> Vec<String> {
    let all = server_folders().map(|places| sandbox::list(&places)).unwrap_or_default();
    all.into_iter().map(|listed| listed.name).filter(|name| name.starts_with(text)).collect()
}

/// Addresses of sandboxes. Where a path can stand too, those of the files that begin so.
pub(super) fn servers(text: &str) -> Vec<String> {
    let all = sandboxes("").into_iter().map(|name| format!("{SANDBOX}{name}"));
    let found: Vec<String> = all.filter(|address| address.starts_with(text)).collect();
    if found.is_empty() { paths(text) } else { found }
}

/// Repositories and their names, which are folders; and the generations of a name after an `@`.
pub(super) fn backups(text: &str) -> Vec<String> {
    let Some((place, number)) = text.rsplit_once('@') else { return paths(text) };
    let generations = || -> Result<Vec<String>> {
        let mut found = Vec::new();
        for named in names::some(Path::new(place), None)? {
            let all = named.repository.list()?.generations.into_iter().rev();
            found.extend(all.map(|generation| generation.number.to_string()));
        }
        Ok(found)
    };
    let found = generations().unwrap_or_default().into_iter().filter(|found| found.starts_with(number));
    found.map(|found| format!("{place}@{found}")).collect()
}

/// Asks the server that the words so far lead to.
fn ask(question: impl FnOnce(&Target, &mut Session) -> Result<Vec<String>>) -> Vec<String> {
    let ask = || {
        let words = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
        let line = password::split(words)?;
        let found = Cli::command().ignore_errors(true).try_get_matches_from(line.0)?;
        let server = ServerArgs::from_arg_matches(last(&found))?;
        let target = server.target(line.1.and_then(|typed| typed.into_string().ok()))?;
        // The database may be the word that is being typed.
        let mut place = target.clone();
        place.database = None;
        let mut session = place.connect()?;
        question(&target, &mut session)
    };
    ask().unwrap_or_default()
}

/// The arguments of the last subcommand.
fn last(found: &ArgMatches) -> &ArgMatches {
    found.subcommand().map_or(found, |(_, below)| last(below))
}
