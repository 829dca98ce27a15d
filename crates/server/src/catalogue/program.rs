//! Routines, packages, views, triggers and events: the programs that the server runs.

use std::collections::{BTreeMap, BTreeSet};

use super::table::{Tables, text};
use super::{Catalogue, Kind, Object, Settings, Wanted, list};
use crate::{Error, Session, TableName};

/// Functions and procedures come before views, which may call them; packages before their bodies.
pub(super) fn routines(
    session: &mut Session,
    schemas: &BTreeSet<String>,
    wanted: &dyn Wanted,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let within = list(session, schemas);
    let rows = session.strings(&format!(
        "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES \
         WHERE ROUTINE_SCHEMA IN ({within}) ORDER BY 1, 2"
    ))?;
    let mut found = Vec::new();
    for row in &rows {
        let kind = match text(row, 2).as_str() {
            "FUNCTION" => Kind::Function,
            "PROCEDURE" => Kind::Procedure,
            "PACKAGE" => Kind::Package,
            "PACKAGE BODY" => Kind::PackageBody,
            other => {
                catalogue.omitted.push(format!(
                    "{} {}.{}: of a kind that is not known",
                    other,
                    text(row, 0),
                    text(row, 1)
                ));
                continue;
            }
        };
        let (schema, name) = (text(row, 0), text(row, 1));
        if wanted.programs(&schema) && wanted.program(&schema, &name) {
            found.extend(shown(session, catalogue, kind, &TableName { schema, table: name })?);
        }
    }
    found.sort_by_key(|object| object.kind);
    catalogue.objects.extend(found);
    Ok(())
}

/// Reads views; a view comes after the views that it uses.
pub(super) fn views(
    session: &mut Session,
    names: &[TableName],
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let mut views = BTreeMap::new();
    for name in names {
        let shown = catalogue.one(session, (Kind::View, &name.to_string()), &mut |session| {
            session.strings(&format!("SHOW CREATE VIEW {name}"))
        })?;
        let Some(rows) = shown else { continue };
        if let Some(warning) = session.warnings()?.into_iter().find(|warning| warning.code == 1356) {
            catalogue.omitted.push(format!("view {name}: it does not work ({})", warning.message));
            continue;
        }
        let Some(row) = rows.first() else { continue };
        let settings = Settings {
            character_set: Some(text(row, 2)),
            collation: Some(text(row, 3)),
            ..Settings::default()
        };
        views.insert(name.clone(), object(Kind::View, &name.schema, &name.table, text(row, 1), settings));
    }
    let all: Vec<TableName> = views.keys().cloned().collect();
    let mut used = BTreeMap::new();
    for (name, view) in &views {
        let sql = view.statements.first().map_or("", String::as_str);
        let body = sql.find(" AS ").map_or(sql, |at| &sql[at..]);
        let uses: Vec<_> =
            all.iter().filter(|other| *other != name && body.contains(&other.to_string())).cloned().collect();
        used.insert(name.clone(), uses);
    }
    for name in in_order(&all, &used) {
        catalogue.objects.extend(views.remove(&name));
    }
    Ok(())
}

/// Sorts names so that each comes after those it uses. Views that use each other, which the server does not
/// allow, come in any order.
fn in_order(names: &[TableName], used: &BTreeMap<TableName, Vec<TableName>>) -> Vec<TableName> {
    let mut order = Vec::with_capacity(names.len());
    let mut entered = BTreeSet::new();
    let mut done = BTreeSet::new();
    // Without recursion, because a chain of views may be of any length.
    let mut stack: Vec<&TableName> = names.iter().rev().collect();
    while let Some(name) = stack.last().copied() {
        let mut open: Vec<&TableName> = Vec::new();
        if entered.insert(name) {
            open.extend(used.get(name).into_iter().flatten().filter(|other| !entered.contains(*other)));
        }
        if open.is_empty() {
            stack.pop();
            if done.insert(name) {
                order.push(name.clone());
            }
        }
        stack.extend(open);
    }
    order
}

/// Triggers; those of one table and event in the order in which they fire.
pub(super) fn triggers(
    session: &mut Session,
    tables: &Tables,
    wanted: &dyn Wanted,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let mut rows = Vec::new();
    for one in tables.conditions(session, "TRIGGER_SCHEMA", "EVENT_OBJECT_TABLE") {
        rows.extend(session.strings(&format!(
            "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE {one} \
             ORDER BY 1, 3, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER, TRIGGER_NAME"
        ))?);
    }
    for row in &rows {
        if wanted.table(&text(row, 0), &text(row, 2)) {
            let name = TableName { schema: text(row, 0), table: text(row, 1) };
            let trigger = shown(session, catalogue, Kind::Trigger, &name)?;
            catalogue.objects.extend(trigger.map(|trigger| Object { table: Some(text(row, 2)), ..trigger }));
        }
    }
    Ok(())
}

/// Events.
pub(super) fn events(
    session: &mut Session,
    schemas: &BTreeSet<String>,
    wanted: &dyn Wanted,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let within = list(session, schemas);
    let rows = session.strings(&format!(
        "SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA IN ({within}) ORDER BY 1, 2"
    ))?;
    for row in &rows {
        let name = TableName { schema: text(row, 0), table: text(row, 1) };
        if wanted.programs(&name.schema) && wanted.program(&name.schema, &name.table) {
            let event = shown(session, catalogue, Kind::Event, &name)?;
            catalogue.objects.extend(event);
        }
    }
    Ok(())
}

/// The answer of `SHOW CREATE` for a program: name, `sql_mode`, for events `time_zone`, the statement, and,
/// but for libraries, character set, collation, and the database's collation.
pub(super) fn shown(
    session: &mut Session,
    catalogue: &mut Catalogue,
    kind: Kind,
    name: &TableName,
) -> Result<Option<Object>, Error> {
    let word = kind.word().to_ascii_uppercase();
    let answer = catalogue.one(session, (kind, &name.to_string()), &mut |session| {
        session.strings(&format!("SHOW CREATE {word} {name}"))
    })?;
    let Some(rows) = answer else { return Ok(None) };
    let row = rows.first().cloned().unwrap_or_default();
    let zone = usize::from(kind == Kind::Event);
    let Some(statement) = row.get(2 + zone).cloned().flatten() else {
        return Err(Error::Privilege {
            what: format!("the server does not show the text of {word} {name} to this account"),
            grant: "GRANT SELECT ON mysql.proc TO the account (or, since MySQL 8.0.20 and MariaDB 11.3, \
                    SHOW_ROUTINE or SHOW CREATE ROUTINE)"
                .to_owned(),
            code: 1370,
        });
    };
    let client = |at: usize| (kind != Kind::Library).then(|| text(&row, at + zone));
    let settings = Settings {
        sql_mode: Some(text(&row, 1)),
        time_zone: (zone == 1).then(|| text(&row, 2)),
        character_set: client(3),
        collation: client(4),
        database_collation: client(5),
    };
    Ok(Some(object(kind, &name.schema, &name.table, statement, settings)))
}

fn object(kind: Kind, schema: &str, name: &str, statement: String, settings: Settings) -> Object {
    Object {
        kind,
        schema: schema.to_owned(),
        name: name.to_owned(),
        table: None,
        statements: vec![statement],
        settings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(table: &str) -> TableName {
        TableName { schema: "d".into(), table: table.into() }
    }

    #[test]
    fn views_come_behind_those_they_use() {
        let names: Vec<_> = ["a", "b", "c", "x", "y"].map(name).into();
        let used = BTreeMap::from([
            (name("a"), vec![name("b"), name("c")]),
            (name("b"), vec![name("c")]),
            (name("x"), vec![name("y")]),
            (name("y"), vec![name("x")]),
        ]);
        let order: Vec<_> = in_order(&names, &used).into_iter().map(|name| name.table).collect();
        assert_eq!(order, ["c", "b", "a", "y", "x"]);
    }
}
