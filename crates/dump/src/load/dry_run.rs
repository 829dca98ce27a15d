//! Creates all objects in scratch databases before the target is changed. What the server does not
//! understand, or what this account may not create, is reported at the start, in the server's words.

use std::collections::{BTreeMap, BTreeSet};

use server::catalogue::{Kind, Object};
use server::{Session, quote_name};

use super::object::{enter, leave};
use super::schema_names::{Strings, moved, names};
use super::{Ledger, WriteRequest};
use crate::Error;
use crate::definer::definer_of;
use crate::manifest::Manifest;

/// These errors do not count: something is missing, perhaps not for long (tables and routines that the dump
/// does not have, tables of a MERGE table, accounts), or a trigger names the database of its table.
const LACKS: [u16; 8] = [1049, 1146, 1168, 1305, 1356, 1435, 1449, 4089];
/// A function does not exist.
const NO_FUNCTION: u16 = 1305;
/// A statement can't be prepared; it was parsed nevertheless.
const NOT_PREPARED: u16 = 1295;
/// How many refusals are reported.
const TOLD_MAX: usize = 10;

/// Creates the objects of the dump, without rows, in temporary databases. On a server of the same version
/// only the right to set another definer can be missing. What is resumed was tried before.
pub(super) fn run(
    session: &mut Session,
    request: &WriteRequest,
    manifest: &Manifest,
    ledger: &Ledger,
) -> Result<(), Error> {
    if request.resume {
        return Ok(());
    }
    if session.about.release() == manifest.source.release() {
        return definers(session, manifest, ledger);
    }
    let names = names(manifest);
    let mut trial = DryRun { session, schemas: BTreeMap::new(), names, refused: Vec::new() };
    let tried = trial.everything(manifest);
    let gone = trial.end();
    let refused = std::mem::take(&mut trial.refused);
    tried.and(gone)?;
    if refused.is_empty() {
        return Ok(());
    }
    let more = match refused.len().checked_sub(TOLD_MAX) {
        None | Some(0) => String::new(),
        Some(count) => format!("; and {count} more"),
    };
    let first: Vec<_> = refused.into_iter().take(TOLD_MAX).collect();
    Err(Error::Mismatch(format!(
        "{} does not understand {}{more}; leave tables, with their triggers, and views out with --exclude db.name, the \
         routines and events of a database with --exclude '/^db\\.$/'",
        trial.session.about.version_text,
        first.join("; ")
    )))
}

/// Creates a view for each definer who is not the current user.
fn definers(session: &mut Session, manifest: &Manifest, ledger: &Ledger) -> Result<(), Error> {
    let mut definers = BTreeMap::new();
    for object in manifest.objects.iter().filter(|object| object.kind < Kind::Role) {
        for statement in &object.statements {
            if let Some((from, to)) = definer_of(statement) {
                definers.entry(&statement[from..to]).or_insert(object);
            }
        }
    }
    let own = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
    definers.retain(|definer, _| definer.replace('`', "") != own);
    if definers.is_empty() {
        return Ok(());
    }
    ledger.create_database(session)?;
    let view = ledger.trial();
    let mut tried = Ok(());
    for (definer, object) in definers {
        let made =
            session.execute(&format!("CREATE OR REPLACE DEFINER={definer} VIEW {view} AS SELECT 1 AS a"));
        if let Err(source) = made {
            tried = Err(Error::Object { object: object.title(), source: Box::new(source) });
            break;
        }
    }
    if session.execute("DO 0").is_ok() {
        session.execute(&format!("DROP VIEW IF EXISTS {view}"))?;
        ledger.remove(session)?;
    }
    tried
}

struct DryRun<'a> {
    session: &'a mut Session,
    /// The temporary database for each of the dump's.
    schemas: BTreeMap<String, String>,
    /// Tables, views, sequences and routines of the dump.
    names: BTreeSet<(String, String)>,
    refused: Vec<String>,
}

impl DryRun<'_> {
    fn everything(&mut self, manifest: &Manifest) -> Result<(), Error> {
        let tables = manifest.tables.iter().map(|entry| &entry.table.name.schema);
        let objects = manifest.objects.iter().filter(|object| object.kind < Kind::Role);
        let used: BTreeSet<&String> = tables.chain(objects.map(|object| &object.schema)).collect();
        self.begin(used.into_iter().map(String::as_str), &manifest.id)?;
        let of = |wanted: &dyn Fn(Kind) -> bool| -> Vec<Object> {
            let objects = manifest.objects.iter().filter(|object| wanted(object.kind));
            objects.map(|object| self.moved(object)).collect()
        };
        let sequences = of(&|kind| kind == Kind::Sequence);
        let routines = of(&|kind| kind > Kind::Table && kind < Kind::View);
        let views = of(&|kind| kind == Kind::View);
        let programs = of(&|kind| matches!(kind, Kind::Trigger | Kind::Event));
        self.objects(manifest, &sequences)?;
        for entry in &manifest.tables {
            let name = &entry.table.name;
            let schema = self.schemas.get(&name.schema).cloned().unwrap_or_default();
            self.session.execute(&format!("USE {}", quote_name(&schema)))?;
            let tried = self.session.execute(&self.moved_text(&entry.table.definition)).map(drop);
            self.note(&format!("table {name}"), tried)?;
        }
        self.objects(manifest, &routines)?;
        self.objects(manifest, &views)?;
        self.objects(manifest, &programs)
    }

    /// Creates a temporary database for each of these.
    fn begin<'s>(&mut self, schemas: impl Iterator<Item = &'s str>, id: &str) -> Result<(), Error> {
        for (at, schema) in schemas.enumerate() {
            let own = format!("_remora_trial_{id}_{at}");
            // A killed run may have left it.
            self.session.execute(&format!("DROP DATABASE IF EXISTS {}", quote_name(&own)))?;
            self.session.execute(&format!("CREATE DATABASE {} CHARACTER SET utf8", quote_name(&own)))?;
            self.schemas.insert(schema.to_owned(), own);
        }
        Ok(())
    }

    /// Removes them.
    fn end(&mut self) -> Result<(), Error> {
        // Nothing can be removed once the connection is lost, and that is already reported.
        if self.session.execute("DO 0").is_ok() {
            for own in self.schemas.values() {
                self.session.execute(&format!("DROP DATABASE {}", quote_name(own)))?;
            }
        }
        Ok(())
    }

    /// The text with its databases replaced. A name may be found in a string or a comment too, but then the
    /// server understands the text just the same.
    fn moved_text(&self, text: &str) -> String {
        moved(text, Strings::HaveNames, &self.schemas, &self.names)
    }

    fn moved(&self, object: &Object) -> Object {
        let mut moved = object.clone();
        moved.schema = self.schemas.get(&object.schema).cloned().unwrap_or_default();
        moved.statements.iter_mut().for_each(|text| *text = self.moved_text(text));
        moved
    }

    /// Tries objects, again and again as long as some succeed, because views may need other views.
    fn objects(&mut self, manifest: &Manifest, objects: &[Object]) -> Result<(), Error> {
        let mut open: Vec<&Object> = objects.iter().collect();
        loop {
            let before = open.len();
            let mut again = Vec::new();
            for object in open {
                match self.one(object) {
                    Ok(()) => {}
                    Err(error) if self.is_lacking(&error, object) => again.push(object),
                    refused => self.note(&self.title(manifest, object), refused)?,
                }
            }
            if again.is_empty() || again.len() == before {
                return Ok(());
            }
            open = again;
        }
    }

    /// The title of the object for which this one stands.
    fn title(&self, manifest: &Manifest, object: &Object) -> String {
        let found = manifest.objects.iter().find(|known| {
            known.kind == object.kind
                && known.name == object.name
                && self.schemas.get(&known.schema) == Some(&object.schema)
        });
        found.map(Object::title).unwrap_or_default()
    }

    fn one(&mut self, object: &Object) -> Result<(), server::Error> {
        let session = &mut *self.session;
        let collation = match enter(session, object) {
            Ok(collation) => collation,
            Err(error) => {
                leave(session, object, None)?;
                return Err(error);
            }
        };
        let made = object.statements.iter().try_for_each(|sql| {
            // An event, once created, may fire.
            if object.kind != Kind::Event {
                return session.execute(sql).map(drop);
            }
            match session.execute(&format!("PREPARE remora FROM {}", session.quote(sql))) {
                Err(error) if error.code() == Some(NOT_PREPARED) => Ok(()),
                other => other.map(drop),
            }
        });
        leave(session, object, collation.as_deref())?;
        made
    }

    /// Whether an object only needs another one. A stored function is written with its database; a function
    /// without a database is built-in, and this server lacks it.
    fn is_lacking(&self, error: &server::Error, object: &Object) -> bool {
        let Some(code) = error.code().filter(|code| LACKS.contains(code)) else { return false };
        let server::Error::Sql { message, .. } = error else { return true };
        if code != NO_FUNCTION || object.kind != Kind::View {
            return true;
        }
        let Some((_, rest)) = message.split_once(&format!("{}.", object.schema)) else { return true };
        let name = rest.split_whitespace().next().unwrap_or_default();
        object.statements.iter().any(|text| text.contains(&format!("{}(", quote_name(name))))
    }

    fn note(&mut self, title: &str, tried: Result<(), server::Error>) -> Result<(), Error> {
        match tried {
            Ok(()) => {}
            Err(error) if error.code().is_some_and(|code| LACKS.contains(&code) && code != NO_FUNCTION) => {}
            Err(server::Error::Sql { message, .. }) => {
                self.refused.push(format!("{title} ({})", self.named_back(&message)));
            }
            Err(source) => return Err(Error::Object { object: title.to_owned(), source: Box::new(source) }),
        }
        Ok(())
    }

    /// The server's message, with the dump's names of databases.
    fn named_back(&self, message: &str) -> String {
        self.schemas.iter().fold(message.to_owned(), |text, (schema, own)| text.replace(own, schema))
    }
}
