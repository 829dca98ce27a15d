//! The table that is made for files.

use rows::{Column, ColumnStats, Findings, Habits, Limits, Schema};
use server::{Flavour, Session, TableName, error_code};

use crate::Error;
use crate::mapping::{self, Mapping, NewColumns};
use crate::request::{FieldTarget, Request};
use crate::source::Files;
use crate::survey::SurveyedTypes;
use progress::Progress;

use super::typed::{Declaration, Declared};

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

/// Whether a server has the type UUID: MariaDB since 10.7. Without a server it is thought to be a new one.
fn has_uuid(session: Option<&Session>) -> bool {
    session.is_none_or(|session| {
        let version = &session.about.version;
        session.about.flavour == Flavour::MariaDb && (version.major, version.minor) >= (10, 7)
    })
}

/// What a table is made from.
pub(super) struct NewTable<'a> {
    pub(super) request: &'a Request,
    pub(super) files: &'a Files<'a>,
    pub(super) findings: &'a Findings,
    pub(super) progress: &'a dyn Progress,
}

impl NewTable<'_> {
    /// The table for what the survey found, and which field goes into which of its columns.
    pub(super) fn table(
        &self,
        found: &SurveyedTypes,
        session: Option<&Session>,
    ) -> Result<(Create, Mapping), Error> {
        let NewTable { request, findings, progress, .. } = *self;
        let names = rows::column_names(&findings.names, findings.columns);
        let habits = mapping::habits(request, findings, &found.columns);
        let mut tight: Vec<_> = found.columns.iter().map(|stats| stats.decide_by(&habits.tight())).collect();
        let mut types: Vec<_> = found.columns.iter().map(|stats| stats.decide_by(&habits)).collect();
        let (declared, tighter) = (self.declared(found, &habits, session)?, habits.tight());
        if let (Some(declared), Some(tighter)) = (&declared, self.declared(found, &tighter, session)?) {
            types = declared.iter().map(|declared| declared.column_type).collect();
            tight = tighter.iter().map(|declared| declared.column_type).collect();
        }
        let texts: Option<Vec<String>> =
            declared.as_ref().map(|declared| declared.iter().map(Declared::text).collect());
        let columns =
            NewColumns { names: &names, types: &types, stats: &found.columns, declared: texts.as_deref() };
        let mapping = mapping::onto_new(request, findings, &columns, progress)?;
        let own = |at: usize| declared.as_ref()?.get(at)?.sql.clone();
        let mut columns = Vec::new();
        let decided = types.iter().zip(&tight).zip(&found.columns);
        for (at, (field, ((column_type, tight), stats))) in mapping.fields.iter().zip(decided).enumerate() {
            // A column that is converted on the way has a field that goes into a variable of its name.
            let (name, is_set) = match &field.target {
                FieldTarget::Column(name) => (name, true),
                FieldTarget::Variable(name) => (name, mapping.set.iter().any(|(column, _)| column == name)),
                FieldTarget::Skip => continue,
            };
            let given = request.types.iter().find(|(typed, _)| typed == name).map(|(_, sql)| sql.clone());
            if given.is_none() && !is_set {
                return Err(Error::Mismatch(format!(
                    "no --set uses @{name}, and the table is being created"
                )));
            }
            if given.is_none() && declared.is_none() {
                tell_few_texts(name, stats, &habits, progress);
            }
            columns.push(Column::new(name, *column_type, tight.kind, given.or_else(|| own(at))));
        }
        self.check(&columns)?;
        let key = self.key(found, (&mapping, &columns), &tight)?;
        if declared.is_some() {
            columns.iter_mut().for_each(|column| say_null(column, request, &key));
        }
        let limits = limits(session);
        Ok((Create { schema: Schema { columns, key }, limits }, mapping))
    }

    /// The types that the files declare.
    fn declared(
        &self,
        found: &SurveyedTypes,
        habits: &Habits,
        session: Option<&Session>,
    ) -> Result<Option<Vec<Declared>>, Error> {
        let NewTable { request, files, progress, .. } = *self;
        let has_uuid = has_uuid(session);
        Declaration { request, files, stats: &found.columns, habits, has_uuid, progress }.types()
    }

    fn check(&self, columns: &[Column]) -> Result<(), Error> {
        if columns.len() > COLUMNS_MAX {
            return Err(Error::Mismatch(format!(
                "the file has {} columns, and an InnoDB table holds at most {COLUMNS_MAX}; remove some first, for example with cut(1)",
                columns.len()
            )));
        }
        for (name, _) in &self.request.types {
            if !columns.iter().any(|column| column.name == *name) {
                return Err(Error::Mismatch(format!("--type {name}=...: there is no such column")));
            }
        }
        Ok(())
    }

    /// The columns of the primary key.
    fn key(
        &self,
        found: &SurveyedTypes,
        (mapping, columns): (&Mapping, &[Column]),
        tight: &[rows::ColumnType],
    ) -> Result<Vec<String>, Error> {
        let types = &self.request.types;
        // A given type says nothing about the values.
        let first_is_column = matches!(mapping.fields.first().map(|field| &field.target), Some(FieldTarget::Column(name))
                if !types.iter().any(|(typed, _)| typed == name));
        let keyed = types.iter().any(|(_, sql)| sql.to_ascii_uppercase().contains("PRIMARY KEY"));
        match &self.request.key {
            Some(key) => {
                for name in key {
                    if !columns.iter().any(|column| column.name == *name) {
                        return Err(Error::Mismatch(format!("--key {name}: there is no such column")));
                    }
                }
                Ok(key.clone())
            }
            None if first_is_column && !keyed && found.rows > 0 && found.key.unique() && suits(tight) => {
                Ok(columns.first().map(|column| column.name.clone()).into_iter().collect())
            }
            None => Ok(Vec::new()),
        }
    }
}

/// Adds whether it may be NULL to a type that a file declares. TIMESTAMP says so always: without it some
/// servers would take NULL for the current time.
fn say_null(column: &mut Column, request: &Request, key: &[String]) {
    let is_given = request.types.iter().any(|(name, _)| *name == column.name);
    let nullable = column.column_type.nullable && !key.contains(&column.name);
    if let Some(sql) = column.sql.as_mut().filter(|_| !is_given) {
        sql.push_str(if nullable { " NULL" } else { " NOT NULL" });
    }
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
