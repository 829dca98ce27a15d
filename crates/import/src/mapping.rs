//! Maps the fields of a record to table columns.

use rows::{
    ColumnKind, ColumnStats, ColumnType, Exact, FieldRule, Findings, Format, Habits, ValueForm, Written,
};

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
    /// Session time zone for loading, if the files say which zone their times are in.
    pub time_zone: Option<String>,
    /// TIMESTAMP columns: the name, whether their times say that they are UTC, and whether there are any
    /// times.
    stamps: Vec<(String, bool, bool)>,
    /// How values are written.
    habits: Habits,
}

/// Where the fields come from.
struct FieldSource<'a> {
    request: &'a Request,
    findings: &'a Findings,
    progress: &'a dyn Progress,
}

/// How the values of these files are written: what the user says, and what the files show.
pub(crate) fn habits(request: &Request, findings: &Findings, columns: &[ColumnStats]) -> Habits {
    let nulls = request.nulls.as_ref().unwrap_or(&findings.nulls);
    findings.habits(request.habits, nulls, columns)
}

/// Maps the fields of sniffed files to the columns of an existing table. `sample` has statistics of the first
/// values of each field, which show times in UTC and words for true and false.
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
    let habits = habits(request, findings, sample);
    let mut mapping = Mapping { set: request.set.clone(), habits, ..Mapping::default() };
    let fields = FieldSource { request, findings, progress };
    for (at, target) in targets.into_iter().enumerate() {
        mapping.push(&fields, table, target, sample.get(at))?;
    }
    for (column, _) in &request.set {
        settable(table, column)?;
    }
    twice(&mapping)?;
    mapping.find_zone(request, progress)?;
    Ok(mapping)
}

/// What a survey found of each column.
pub(crate) struct NewColumns<'a> {
    pub(crate) names: &'a [String],
    pub(crate) types: &'a [ColumnType],
    pub(crate) stats: &'a [ColumnStats],
    /// The types as SQL, if the files say what their columns are.
    pub(crate) declared: Option<&'a [String]>,
}

/// Maps the fields of surveyed files to the table that is created for them.
pub(crate) fn onto_new(
    request: &Request,
    findings: &Findings,
    columns: &NewColumns<'_>,
    progress: &dyn Progress,
) -> Result<Mapping, Error> {
    let NewColumns { names, types, stats, declared } = *columns;
    let habits = habits(request, findings, stats);
    let mut mapping = Mapping { habits, ..Mapping::default() };
    let fields = FieldSource { request, findings, progress };
    if let Some((column, _)) = request.set.first() {
        return Err(Error::Mismatch(format!(
            "--set {column}=... needs a table that exists: the type of an expression can't be inferred. \
             Make the table first (--dry-run prints a CREATE TABLE to start from)"
        )));
    }
    let targets = new_targets(request, names);
    count(&targets, findings)?;
    for (at, (target, (decided, stats))) in targets.into_iter().zip(types.iter().zip(stats)).enumerate() {
        let name = match &target {
            FieldTarget::Column(name) => name.clone(),
            FieldTarget::Variable(_) | FieldTarget::Skip => {
                let rule = if target == FieldTarget::Skip { FieldRule::Skip } else { FieldRule::Copy };
                mapping.fields.push(Field::new(target, rule));
                continue;
            }
        };
        let given = request.types.iter().find(|(typed, _)| *typed == name).map(|(_, sql)| sql);
        if let Some(sql) = given.or_else(|| declared.and_then(|declared| declared.get(at))) {
            let column = Column::declared(&name, sql);
            mapping.push_column(&fields, &column, Some(stats));
            continue;
        }
        if request.habits.date_order.is_none() && stats.is_ambiguous_date() {
            progress.note(&format!(
                "{name}: these may be dates, but day and month can't be told apart: it stays text, \
                 unless --date-order dmy or mdy says which comes first"
            ));
        }
        if stats.is_ambiguous_comma(&habits) {
            progress.note(&format!(
                "{name}: these may be numbers with a decimal comma, or not: it stays text, unless --decimal-comma is \
                 given"
            ));
        }
        let rule = match (decided.kind, decided.written) {
            (ColumnKind::Boolean, _) => FieldRule::Boolean,
            (ColumnKind::DateTime { utc: true, .. }, _) => FieldRule::UtcDateTime,
            (_, Written::DecimalComma) => FieldRule::DecimalComma,
            (_, Written::Dates(order)) => FieldRule::LocalDate(order),
            _ if stats.reads_empty_as_null(&habits) => FieldRule::EmptyIsNull,
            _ => FieldRule::Copy,
        };
        tell(&name, rule, progress);
        mapping.fields.push(Field::new(target, rule));
    }
    twice(&mapping)?;
    mapping.find_zone(request, progress)?;
    Ok(mapping)
}

/// Reports how the values of a column are changed.
fn tell(name: &str, rule: FieldRule, progress: &dyn Progress) {
    let what = match rule {
        FieldRule::UtcDateTime => "times marked Z or with an offset are stored as UTC".to_owned(),
        FieldRule::Boolean => "true and false are stored as 1 and 0".to_owned(),
        FieldRule::DecimalComma => "numbers have a decimal comma".to_owned(),
        FieldRule::LocalDate(order) => format!("dates are {order}"),
        _ => return,
    };
    progress.note(&format!("{name}: {what}"));
}

/// Where the fields go in a table that is created: as `--columns` says, or each into a column of its name.
pub(crate) fn new_targets(request: &Request, names: &[String]) -> Vec<FieldTarget> {
    match &request.columns {
        Some(columns) => columns.clone(),
        None => names.iter().cloned().map(FieldTarget::Column).collect(),
    }
}

impl Mapping {
    fn push(
        &mut self,
        fields: &FieldSource<'_>,
        table: &Table,
        target: FieldTarget,
        sample: Option<&ColumnStats>,
    ) -> Result<(), Error> {
        let name = match target {
            FieldTarget::Column(name) => name,
            FieldTarget::Variable(name) => {
                self.fields.push(Field::new(FieldTarget::Variable(name), FieldRule::Copy));
                return Ok(());
            }
            FieldTarget::Skip => {
                self.fields.push(Field::new(target, FieldRule::Skip));
                return Ok(());
            }
        };
        let column = settable(table, &name)?;
        self.push_column(fields, column, sample);
        Ok(())
    }

    /// Adds a field that goes into a column of known type.
    fn push_column(&mut self, fields: &FieldSource<'_>, column: &Column, sample: Option<&ColumnStats>) {
        let FieldSource { request, findings, progress } = *fields;
        let nulls = request.nulls.as_ref().unwrap_or(&findings.nulls);
        let rule = rule(column, nulls.empty, sample, &self.habits);
        let name = &column.name;
        let form = findings.format.form(self.fields.len());
        tell(name, rule, progress);
        if form == ValueForm::Utc && column.data_type == "datetime" {
            progress.note(&format!("{name}: times are stored as UTC"));
        }
        if column.data_type == "timestamp" {
            let is_typed = matches!(findings.format, Format::Typed(_));
            let has_values = is_typed || sample.is_some_and(ColumnStats::has_values);
            let is_utc = rule == FieldRule::UtcDateTime || form == ValueForm::Utc;
            self.stamps.push((name.clone(), is_utc, has_values));
        }
        // `--set col=f(@col)` uses the field of that name, so the field goes to the variable instead.
        let computed = self.set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
        let target = if computed {
            FieldTarget::Variable(name.clone())
        } else if let Some(conversion) = column.conversion(
            &format!("@{}", server::quote_name(name)),
            findings.encoding == rows::Encoding::Binary,
            form,
        ) {
            self.set.push((name.clone(), conversion));
            FieldTarget::Variable(name.clone())
        } else {
            FieldTarget::Column(name.clone())
        };
        let exact = match &target {
            FieldTarget::Column(_) if !request.round => Exact::of(&column.column_type),
            // The value of a variable depends on its expression.
            _ => Exact::Server,
        };
        self.fields.push(Field { exact, ..Field::new(target, rule) });
    }

    /// Times that say that they are UTC are loaded into TIMESTAMP columns in a session with the time zone
    /// UTC; any other session would take them for its own zone's.
    fn find_zone(&mut self, request: &Request, progress: &dyn Progress) -> Result<(), Error> {
        let Some((utc, ..)) = self.stamps.iter().find(|(_, utc, _)| *utc) else { return Ok(()) };
        let given = request.time_zone.as_deref();
        if given.is_some_and(|zone| UTC.iter().any(|name| zone.eq_ignore_ascii_case(name))) {
            return Ok(());
        }
        if let Some(zone) = given {
            return Err(Error::Mismatch(format!(
                "the times in column {utc} say that they are UTC or what their offset is, --time-zone says {zone}; \
                 leave it out"
            )));
        }
        if let Some((other, ..)) = self.stamps.iter().find(|(_, utc, has_values)| !utc && *has_values) {
            return Err(Error::Mismatch(format!(
                "the times in column {utc} are in UTC, those in column {other} say nothing: --time-zone +00:00 reads \
                 them as UTC too"
            )));
        }
        progress.note("the session time zone is UTC while loading");
        self.time_zone = Some("+00:00".to_owned());
        Ok(())
    }
}

/// Names of the zone UTC.
const UTC: [&str; 4] = ["+00:00", "-00:00", "UTC", "Etc/UTC"];

fn rule(column: &Column, empty_is_null: bool, sample: Option<&ColumnStats>, habits: &Habits) -> FieldRule {
    if column.is_text() {
        return if column.nullable { FieldRule::Copy } else { FieldRule::KeepEmpty };
    }
    let kind = column.data_type.as_str();
    let time = matches!(kind, "datetime" | "timestamp");
    let whole = kind.ends_with("int") || matches!(kind, "integer" | "bool" | "boolean");
    let number =
        whole || matches!(kind, "decimal" | "dec" | "numeric" | "fixed" | "float" | "double" | "real");
    let sample = sample.map(|stats| stats.decide_by(habits));
    match sample.map(|decided| (decided.kind, decided.written)) {
        Some((ColumnKind::DateTime { utc: true, .. }, _)) if time => FieldRule::UtcDateTime,
        Some((ColumnKind::Boolean, _)) if whole => FieldRule::Boolean,
        Some((_, Written::DecimalComma)) if number => FieldRule::DecimalComma,
        Some((_, Written::Dates(order))) if time || kind == "date" => FieldRule::LocalDate(order),
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
            "column {name} is generated and can't be set; skip the field with - in --columns"
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
        "the header names {}, which the table does not have; say where each field goes, \
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
        "the file has {} ({}), the table takes {}; if the file was read wrongly, give its form with \
         --delimiter, --quote or --escape, otherwise say where each field goes with --columns",
        columns(findings.columns),
        findings.dialect,
        targets.len()
    )))
}

fn columns(number: usize) -> String {
    progress::count(number, "column")
}

fn count(targets: &[FieldTarget], findings: &Findings) -> Result<(), Error> {
    if targets.len() == findings.columns {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "--columns names {}, but the file has {} ({})",
        progress::count(targets.len(), "field"),
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
                return Err(Error::Mismatch(format!("two fields are mapped to column {name}")));
            }
            names.push(lower);
        }
    }
    if names.is_empty() && mapping.set.is_empty() {
        return Err(Error::Mismatch("no field is mapped to a column".to_owned()));
    }
    Ok(())
}
