//! The table that is made for files.

use rows::{Column, ColumnStats, Findings, Habits, Limits, Schema};
use server::{Flavour, Session, TableName, error_code};

use crate::Error;
use crate::mapping::{self, Mapping, NewColumns};
use crate::request::{FieldTarget, Request};
use crate::survey::SurveyedTypes;
use progress::Progress;

/// The most columns of an InnoDB table: `REC_MAX_N_USER_FIELDS`, 1023 minus twice its own three.
const COLUMNS_MAX: usize = 1017;

/// A table to create.
pub(crate) struct Create {
    schema: Schema,
    limits: Limits,
}

impl Create {
    /// The statement, for any name.
    pub(crate) fn sql(&self, name: &TableName) -> String {
        rows::create_table(&name.to_string(), &self.schema, self.limits)
    }

    /// Explains a failure to create it in the user's terms.
    pub(crate) fn explain(&self, error: server::Error) -> Error {
        if error.code() != Some(error_code::TOO_BIG_ROWSIZE) {
            return error.into();
        }
        Error::Target(format!(
            "{} columns of these types are more than one row of InnoDB takes ({} bytes, of which a TEXT needs {}): \
             leave some out with --columns, split them over two tables, or give smaller types with --type",
            self.schema.columns.len(),
            self.limits.page_bytes,
            self.limits.text_bytes()
        ))
    }
}

/// The limits of a table on this server.
pub(super) fn limits(session: Option<&Session>) -> Limits {
    let Some(about) = session.map(|session| &session.about) else { return Limits::default() };
    let mysql = about.flavour == Flavour::MySql;
    let old = mysql && (about.version.major, about.version.minor) < (5, 7);
    let mut limits = Limits::of_page(about.innodb_page_size);
    if mysql {
        limits = limits.of_mysql();
    }
    if old {
        limits.index_bytes = 767;
    }
    limits
}

/// The table for what the survey found, and which field goes into which of its columns.
pub(super) fn new_table(
    request: &Request,
    findings: &Findings,
    found: &SurveyedTypes,
    (limits, progress): (Limits, &dyn Progress),
) -> Result<(Create, Mapping), Error> {
    let names = rows::column_names(&findings.names, findings.columns);
    let habits = mapping::habits(request, findings, &found.columns);
    let tight: Vec<_> = found.columns.iter().map(|stats| stats.decide_by(&habits.tight())).collect();
    let types: Vec<_> = found.columns.iter().map(|stats| stats.decide_by(&habits)).collect();
    let columns = NewColumns { names: &names, types: &types, stats: &found.columns };
    let mapping = mapping::onto_new(request, findings, &columns, progress)?;
    let mut columns = Vec::new();
    let decided = types.iter().zip(&tight).zip(&found.columns);
    for (field, ((column_type, tight), stats)) in mapping.fields.iter().zip(decided) {
        let given =
            |name: &str| request.types.iter().find(|(typed, _)| typed == name).map(|(_, sql)| sql.clone());
        match &field.target {
            FieldTarget::Column(name) => {
                let given = given(name);
                if given.is_none() {
                    tell_few_texts(name, stats, &habits, progress);
                }
                columns.push(Column::new(name, *column_type, tight.kind, given));
            }
            FieldTarget::Variable(name) if given(name).is_some() => {
                columns.push(Column::new(name, *column_type, tight.kind, given(name)));
            }
            FieldTarget::Skip => {}
            FieldTarget::Variable(name) => {
                return Err(Error::Mismatch(format!(
                    "no --set uses @{name}, and the table is being created"
                )));
            }
        }
    }
    if columns.len() > COLUMNS_MAX {
        return Err(Error::Mismatch(format!(
            "the file has {} columns, and an InnoDB table holds at most {COLUMNS_MAX}; remove some first, for example with cut(1)",
            columns.len()
        )));
    }
    for (name, _) in &request.types {
        if !columns.iter().any(|column| column.name == *name) {
            return Err(Error::Mismatch(format!("--type {name}=...: there is no such column")));
        }
    }
    // A given type says nothing about the values.
    let first_is_column = matches!(mapping.fields.first().map(|field| &field.target), Some(FieldTarget::Column(name))
            if !request.types.iter().any(|(typed, _)| typed == name));
    let keyed = request.types.iter().any(|(_, sql)| sql.to_ascii_uppercase().contains("PRIMARY KEY"));
    let key = match &request.key {
        Some(key) => {
            for name in key {
                if !columns.iter().any(|column| column.name == *name) {
                    return Err(Error::Mismatch(format!("--key {name}: there is no such column")));
                }
            }
            key.clone()
        }
        None if first_is_column && !keyed && found.rows > 0 && found.key.unique() && suits(&tight) => {
            columns.first().map(|column| column.name.clone()).into_iter().collect()
        }
        None => Vec::new(),
    };
    Ok((Create { schema: Schema { columns, key }, limits }, mapping))
}

/// Tells of a column that a few values have made text: these are more often mistakes than meant.
fn tell_few_texts(name: &str, stats: &ColumnStats, habits: &Habits, progress: &dyn Progress) {
    let Some(few) = stats.few_texts(habits) else { return };
    progress.note(&format!(
        "column {name} is text because of {} of {} values, such as {:?}; without them it would be {}: --type '{name}={}' \
         with --max-rejects N rejects them instead",
        few.texts,
        few.values,
        String::from_utf8_lossy(&few.first),
        few.others,
        few.others,
    ));
}

/// Whether the first column may be a primary key.
fn suits(types: &[rows::ColumnType]) -> bool {
    types.first().is_some_and(rows::ColumnType::suits_key)
}
