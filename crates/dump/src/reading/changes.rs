//! What DDL changed on a server while it was read.

use std::collections::{BTreeMap, BTreeSet};

use server::TableName;
use server::catalogue::{Catalogue, Kind, Object, Table};
use server::definition::without_counter;

use crate::manifest::TableEntry;

/// What was created, changed or removed while a server was read. Tables that were read were compared before.
///
/// `what` is what was made of the server: a dump or a copy.
pub(crate) fn changes(
    what: &str,
    (tables, before): (&[TableEntry], &Catalogue),
    after: &Catalogue,
) -> Vec<String> {
    let read = || tables.iter().map(|entry| &entry.table);
    let mut lines = Vec::new();
    let names: BTreeSet<&TableName> = read().map(|table| &table.name).collect();
    let unread = |title: &str| {
        let mut omitted = before.omitted.iter().chain(&after.omitted);
        omitted.any(|line| line.starts_with(&format!("{title}: ")))
    };
    for table in after.tables.iter().filter(|table| !names.contains(&table.name)) {
        let title = format!("table {}", table.name);
        if !unread(&title) {
            lines.push(format!("{title}: created while the {what} ran"));
        }
    }
    let now: BTreeMap<&TableName, &Table> = after.tables.iter().map(|table| (&table.name, table)).collect();
    for table in read() {
        match now.get(&table.name) {
            None if unread(&format!("table {}", table.name)) => {}
            None => {
                lines.push(format!("table {}: dropped after it was read; it is in the {what}", table.name))
            }
            Some(now) if without_counter(&now.definition) != without_counter(&table.definition) => {
                lines.push(format!(
                    "table {}: altered after it was read; the {what} has it as it was before",
                    table.name
                ));
            }
            Some(_) => {}
        }
    }
    // A sequence's position changes all the time.
    let plain = |objects: &'_ [Object]| -> BTreeMap<(Kind, String, String), Object> {
        let plain = objects.iter().filter(|object| object.kind != Kind::Sequence);
        plain
            .map(|object| ((object.kind, object.schema.clone(), object.name.clone()), object.clone()))
            .collect()
    };
    let (before_by_name, after_by_name) = (plain(&before.objects), plain(&after.objects));
    for (key, object) in &before_by_name {
        if !after_by_name.contains_key(key) && !unread(&object.title()) {
            lines.push(format!("{}: dropped while the {what} ran; it is in the {what}", object.title()));
        }
    }
    for (key, object) in &after_by_name {
        let title = object.title();
        match before_by_name.get(key) {
            Some(known) if known == object => {}
            Some(_) => lines
                .push(format!("{title}: changed while the {what} ran; the {what} has it as it was before")),
            None if unread(&title) => {}
            None => lines.push(format!("{title}: created while the {what} ran")),
        }
    }
    lines
}
