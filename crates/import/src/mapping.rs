//! Which field of a record goes where.

use rows::{ColumnKind, ColumnStats, FieldRule, Findings};

use crate::Error;
use crate::job::Field;
use crate::request::{FieldTarget, Request};
use crate::target::{Column, Table};
use progress::Progress;

/// Fields of a record and computed columns.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    /// Where each field goes.
    pub fields: Vec<Field>,
    /// Columns computed from `@field` variables.
    pub set: Vec<(String, String)>,
}

/// Maps the fields of files that were sniffed onto the columns of a table that exists. `sample` holds
/// statistics of the first values of each field: times in UTC and words for truth are recognised by them.
pub(crate) fn onto_table(
    request: &Request,
    findings: &Findings,
    table: &Table,
    sample: &[ColumnStats],
    progress: &dyn Progress,
) -> Result<Mapping, Error> {
    let targets = match &request.columns {
        Some(columns) => columns.clone(),
        None if findings.header => by_header(request, findings, table)?,
        None => by_position(request, findings, table)?,
    };
    count(&targets, findings)?;
    let mut mapping = Mapping { fields: Vec::new(), set: request.set.clone() };
    for (at, target) in targets.into_iter().enumerate() {
        mapping.push(request, findings, table, (target, sample.get(at), progress))?;
    }
    for (column, _) in &request.set {
        settable(table, column)?;
    }
    twice(&mapping)?;
    Ok(mapping)
}

/// Maps the fields of files that were surveyed onto the table that is made for them.
pub(crate) fn onto_new(
    request: &Request,
    findings: &Findings,
    names: &[String],
    kinds: &[ColumnKind],
) -> Result<Mapping, Error> {
    let mut mapping = Mapping { fields: Vec::new(), set: Vec::new() };
    if let Some((column, _)) = request.set.first() {
        return Err(Error::Mismatch(format!(
            "--set {column}=... needs a table that exists: the type of an expression can't be inferred. \
             Make the table first (--dry-run prints a CREATE TABLE to start from)"
        )));
    }
    let targets = new_targets(request, names);
    count(&targets, findings)?;
    for (target, kind) in targets.into_iter().zip(kinds) {
        let rule = match (&target, kind) {
            (FieldTarget::Skip, _) => FieldRule::Skip,
            (_, ColumnKind::Boolean) => FieldRule::Boolean,
            (_, ColumnKind::DateTime { utc: true, .. }) => FieldRule::UtcDateTime,
            _ => FieldRule::Copy,
        };
        mapping.fields.push(Field { target, rule });
    }
    twice(&mapping)?;
    Ok(mapping)
}

/// Where the fields go in a table that is made: by `--columns`, or each into a column of its name.
pub(crate) fn new_targets(request: &Request, names: &[String]) -> Vec<FieldTarget> {
    match &request.columns {
        Some(columns) => columns.clone(),
        None => names.iter().cloned().map(FieldTarget::Column).collect(),
    }
}

impl Mapping {
    fn push(
        &mut self,
        request: &Request,
        findings: &Findings,
        table: &Table,
        (target, sample, progress): (FieldTarget, Option<&ColumnStats>, &dyn Progress),
    ) -> Result<(), Error> {
        let name = match target {
            FieldTarget::Column(name) => name,
            FieldTarget::Variable(name) => {
                self.fields.push(Field { target: FieldTarget::Variable(name), rule: FieldRule::Copy });
                return Ok(());
            }
            FieldTarget::Skip => {
                self.fields.push(Field { target, rule: FieldRule::Skip });
                return Ok(());
            }
        };
        let column = settable(table, &name)?;
        let nulls = request.nulls.as_ref().unwrap_or(&findings.nulls);
        let rule = rule(column, nulls.empty, sample);
        match rule {
            FieldRule::UtcDateTime => progress.note(&format!("{name}: times marked Z are stored as UTC")),
            FieldRule::Boolean => progress.note(&format!("{name}: true and false are stored as 1 and 0")),
            _ => {}
        }
        // `--set col=f(@col)` takes the field of that name, so the field goes to the variable instead.
        let computed = self.set.iter().any(|(set, _)| set.eq_ignore_ascii_case(&name));
        let target = if computed {
            FieldTarget::Variable(name)
        } else if let Some(conversion) = column.conversion(
            &format!("@{}", server::quote_name(&name)),
            findings.encoding == rows::Encoding::Binary,
        ) {
            self.set.push((column.name.clone(), conversion));
            FieldTarget::Variable(name)
        } else {
            FieldTarget::Column(column.name.clone())
        };
        self.fields.push(Field { target, rule });
        Ok(())
    }
}

fn rule(column: &Column, empty_is_null: bool, sample: Option<&ColumnStats>) -> FieldRule {
    if column.is_text() {
        return if column.nullable { FieldRule::Copy } else { FieldRule::KeepEmpty };
    }
    let time = matches!(column.data_type.as_str(), "datetime" | "timestamp");
    let whole = column.data_type.ends_with("int");
    match sample.map(|stats| stats.decide().kind) {
        Some(ColumnKind::DateTime { utc: true, .. }) if time => FieldRule::UtcDateTime,
        Some(ColumnKind::Boolean) if whole => FieldRule::Boolean,
        _ if empty_is_null && column.nullable => FieldRule::EmptyIsNull,
        _ => FieldRule::Copy,
    }
}

fn settable<'t>(table: &'t Table, name: &str) -> Result<&'t Column, Error> {
    let found = table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    match found {
        None => Err(Error::Mismatch(format!(
            "the table has no column {name}; it has {}",
            table.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
        ))),
        Some(column) if column.generated => Err(Error::Mismatch(format!(
            "column {name} is generated and can't be given a value; skip the field with - in --columns"
        ))),
        Some(column) => Ok(column),
    }
}

fn by_header(request: &Request, findings: &Findings, table: &Table) -> Result<Vec<FieldTarget>, Error> {
    let known =
        |name: &str| table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name.trim()));
    let used = |name: &str| {
        let plain = format!("@{name}");
        let quoted = format!("@`{name}`");
        request.set.iter().any(|(_, expression)| expression.contains(&plain) || expression.contains(&quoted))
    };
    let mut unknown = Vec::new();
    let targets = findings.names.iter().map(|name| match known(name) {
        Some(column) => FieldTarget::Column(column.name.clone()),
        None if used(name.trim()) => FieldTarget::Variable(name.trim().to_owned()),
        None => {
            unknown.push(name.as_str());
            FieldTarget::Skip
        }
    });
    let targets: Vec<_> = targets.collect();
    if unknown.is_empty() {
        return Ok(targets);
    }
    let list: Vec<_> =
        findings.names.iter().map(|name| if known(name).is_some() { name } else { "-" }).collect();
    Err(Error::Mismatch(format!(
        "the header names {} which the table has not; say where each field goes, \
         for example --columns '{}' to leave them out, or --no-header if this is a row",
        unknown.join(", "),
        list.join(",")
    )))
}

fn by_position(request: &Request, findings: &Findings, table: &Table) -> Result<Vec<FieldTarget>, Error> {
    let all = table.columns.iter().filter(|column| !column.generated && !column.invisible);
    let computed = |name: &str| request.set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    let targets: Vec<_> = all.clone().map(|column| FieldTarget::Column(column.name.clone())).collect();
    if targets.len() != findings.columns {
        // A column that is computed from others need not be in the file.
        let without: Vec<_> = all
            .filter(|column| !computed(&column.name))
            .map(|column| FieldTarget::Column(column.name.clone()))
            .collect();
        if without.len() == findings.columns {
            return Ok(without);
        }
    }
    if targets.len() == findings.columns {
        return Ok(targets);
    }
    Err(Error::Mismatch(format!(
        "the file has {} columns ({}), the table takes {}; if the file was read wrongly, give its form with \
         --delimiter, --quote or --escape, otherwise say where each field goes with --columns",
        findings.columns,
        findings.dialect,
        targets.len()
    )))
}

fn count(targets: &[FieldTarget], findings: &Findings) -> Result<(), Error> {
    if targets.len() == findings.columns {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "--columns names {} fields, but the file has {} ({})",
        targets.len(),
        findings.columns,
        findings.dialect
    )))
}

fn twice(mapping: &Mapping) -> Result<(), Error> {
    let mut names: Vec<String> = Vec::new();
    for field in &mapping.fields {
        if let FieldTarget::Column(name) = &field.target {
            let lower = name.to_lowercase();
            if names.contains(&lower) {
                return Err(Error::Mismatch(format!("two fields go into column {name}")));
            }
            names.push(lower);
        }
    }
    if names.is_empty() && mapping.set.is_empty() {
        return Err(Error::Mismatch("no field goes into any column".to_owned()));
    }
    Ok(())
}
