//! Trying definitions on another server before anything is changed: whatever it does not understand is refused up front,
//! in the server's own words, and not halfway.

use server::catalogue::{Kind, Object};
use server::{Session, quote_name};

use super::object::{enter, leave};
use crate::Error;
use crate::manifest::Manifest;

/// What is not there yet is no reason: sequences, tables that a MERGE table is on.
const LACKS: [u16; 4] = [1049, 1146, 1168, 4089];
/// How many refusals are told.
const TOLD_MAX: usize = 10;

/// Makes tables and routines, without rows, in a database of its own that goes again.
pub(super) fn run(session: &mut Session, manifest: &Manifest) -> Result<(), Error> {
    if session.about.version_text == manifest.source.server_version {
        return Ok(());
    }
    let schema = format!("_remora_trial_{}", manifest.id);
    let quoted = quote_name(&schema);
    // One that was killed may have left it.
    session.execute(&format!("DROP DATABASE IF EXISTS {quoted}"))?;
    session.execute(&format!("CREATE DATABASE {quoted} CHARACTER SET utf8"))?;
    let tried = all(session, manifest, &schema);
    if session.execute("DO 0").is_ok() {
        session.execute(&format!("DROP DATABASE {quoted}"))?;
    }
    let refused = tried?;
    if refused.is_empty() {
        return Ok(());
    }
    let more = match refused.len().checked_sub(TOLD_MAX) {
        None | Some(0) => String::new(),
        Some(count) => format!("; and {count} more"),
    };
    let first: Vec<_> = refused.into_iter().take(TOLD_MAX).collect();
    Err(Error::Mismatch(format!(
        "{} does not understand {}{more}; leave tables out with --exclude db.table, the routines of a database with \
         --exclude '/^db\\.$/'",
        session.about.version_text,
        first.join("; ")
    )))
}

fn all(session: &mut Session, manifest: &Manifest, schema: &str) -> Result<Vec<String>, Error> {
    let mut refused = Vec::new();
    let mut note = |title: String, tried: Result<(), server::Error>| match tried {
        Ok(()) => Ok(()),
        Err(error) if error.code().is_some_and(|code| LACKS.contains(&code)) => Ok(()),
        Err(server::Error::Sql { message, .. }) => {
            refused.push(format!("{title} ({message})"));
            Ok(())
        }
        Err(error) => Err(Error::Server(error)),
    };
    session.execute(&format!("USE {}", quote_name(schema)))?;
    for entry in &manifest.tables {
        let name = &entry.table.name;
        let tried = session
            .execute(&entry.table.definition)
            .and_then(|_| session.execute(&format!("DROP TABLE {}", quote_name(&name.table))))
            .map(drop);
        note(format!("table {name}"), tried)?;
    }
    let routine = |object: &&Object| matches!(object.kind, Kind::Function | Kind::Procedure);
    for object in manifest.objects.iter().filter(routine) {
        let mut copy = object.clone();
        copy.schema = schema.to_owned();
        let tried = routine_once(session, &copy);
        note(object.title(), tried)?;
    }
    Ok(refused)
}

fn routine_once(session: &mut Session, object: &Object) -> Result<(), server::Error> {
    let collation = match enter(session, object) {
        Ok(collation) => collation,
        Err(error) => {
            leave(session, object, None)?;
            return Err(error);
        }
    };
    let made = object.statements.iter().try_for_each(|sql| session.execute(sql).map(drop));
    leave(session, object, collation.as_deref())?;
    made?;
    session.execute(&format!("DROP {} {}", object.kind.word(), quote_name(&object.name))).map(drop)
}
