//! The text of CREATE TABLE for a definition, as SHOW CREATE TABLE of MySQL 8 and later prints it.
//!
//! Facts: `store_create_info()` in `sql/sql_show.cc` of MySQL's source, and what a server printed.

mod partition;

use super::{
    Definition, DictColumn, DictIndex, HIDDEN_BY_ENGINE, HIDDEN_BY_SERVER, Object, bytes_of_base64, corrupt,
};
use crate::Error;
use crate::table::collation::Collation;

/// A column that only statements which name it see.
const INVISIBLE: u8 = 4;
/// Numbers of types whose text depends on them.
const TIMESTAMP: u8 = 18;
const BIT: u8 = 17;
const BLOBS: std::ops::RangeInclusive<u8> = 24..=27;
/// The algorithm of a key that may be said.
const BTREE: u8 = 2;
/// The state of a check that is not made.
const NOT_ENFORCED: u8 = 1;
/// The kinds of actions of foreign keys, from 1; the first one is not printed.
const ACTIONS: [&str; 5] = ["", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"];
/// The row formats that a definition may ask for, by number.
const ROW_FORMATS: [&str; 6] = ["", "FIXED", "DYNAMIC", "COMPRESSED", "REDUNDANT", "COMPACT"];
/// The option of each number that may be said, in the order of the text.
const NUMBERS: [(&str, &str); 3] =
    [("min_rows", "MIN_ROWS"), ("max_rows", "MAX_ROWS"), ("avg_row_length", "AVG_ROW_LENGTH")];

impl Definition {
    /// The CREATE TABLE that makes this table. The next AUTO_INCREMENT value is not in it.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for collations that are not known.
    pub fn create_table(&self) -> Result<String, Error> {
        let object = &self.dd_object;
        let table = collation(object.collation_id)?;
        let mut lines = Vec::new();
        let is_shown = |column: &&DictColumn| ![HIDDEN_BY_ENGINE, HIDDEN_BY_SERVER].contains(&column.hidden);
        for column in object.columns.iter().filter(is_shown) {
            lines.push(column.text(table)?);
        }
        for index in object.indexes.iter().filter(|index| !index.hidden) {
            lines.push(index.text(object)?);
        }
        for key in &object.foreign_keys {
            lines.push(key.text(object)?);
        }
        for check in &object.check_constraints {
            let clause =
                bytes_of_base64(&check.check_clause).and_then(|clause| String::from_utf8(clause).ok());
            let clause = clause.ok_or_else(|| corrupt(format!("check {} is invalid", check.name)))?;
            let end = if check.state == NOT_ENFORCED { " /*!80016 NOT ENFORCED */" } else { "" };
            lines.push(format!("CONSTRAINT {} CHECK ({clause}){end}", name(&check.name)));
        }
        let mut text = format!("CREATE TABLE {} (\n  {}\n)", name(&object.name), lines.join(",\n  "));
        if object.options.get("explicit_tablespace") == Some("1") {
            text.push_str(&format!(" /*!50100 TABLESPACE {} */", name(&object.tablespace_ref)));
        }
        text.push_str(&object.options_text(table));
        if object.partition_type != 0 {
            text.push_str(&object.partitions_text()?);
        }
        Ok(text)
    }
}

impl Object {
    fn options_text(&self, table: Collation) -> String {
        let mut text = format!(" ENGINE={} DEFAULT CHARSET={}", self.engine, table.charset().name);
        // MySQL always says which one utf8mb4 has, because that of MySQL 5.7 was another.
        if !is_usual(table) || table.charset().name == "utf8mb4" {
            text.push_str(&format!(" COLLATE={}", table.name()));
        }
        let option = |name: &str| self.options.number::<u64>(name).unwrap_or(0);
        for (own, word) in NUMBERS {
            if option(own) > 0 {
                text.push_str(&format!(" {word}={}", option(own)));
            }
        }
        // Bits that an option has for yes and no.
        match self.options.number::<u8>("pack_keys") {
            Some(2) => text.push_str(" PACK_KEYS=1"),
            Some(4) => text.push_str(" PACK_KEYS=0"),
            _ => {}
        }
        match option("stats_persistent") {
            0x1000 => text.push_str(" STATS_PERSISTENT=1"),
            0x2000 => text.push_str(" STATS_PERSISTENT=0"),
            _ => {}
        }
        match option("stats_auto_recalc") {
            1 => text.push_str(" STATS_AUTO_RECALC=1"),
            2 => text.push_str(" STATS_AUTO_RECALC=0"),
            _ => {}
        }
        if option("stats_sample_pages") > 0 {
            text.push_str(&format!(" STATS_SAMPLE_PAGES={}", option("stats_sample_pages")));
        }
        if option("checksum") > 0 {
            text.push_str(" CHECKSUM=1");
        }
        if option("delay_key_write") > 0 {
            text.push_str(" DELAY_KEY_WRITE=1");
        }
        if option("row_type") > 0
            && let Some(format) =
                ROW_FORMATS.get(usize::from(self.row_format)).filter(|name| !name.is_empty())
        {
            text.push_str(&format!(" ROW_FORMAT={format}"));
        }
        if !self.comment.is_empty() {
            text.push_str(&format!(" COMMENT={}", quoted(&self.comment)));
        }
        text
    }
}

impl DictColumn {
    fn text(&self, table: Collation) -> Result<String, Error> {
        let mut text = format!("{} {}", name(&self.name), self.column_type_utf8);
        let own = collation(self.collation_id)?;
        let is_text = !matches!(self.kind, 29 | 16 | 22..=27) || own == Collation::BINARY;
        if !is_text {
            if own != table || self.is_explicit_collation {
                text.push_str(&format!(" CHARACTER SET {}", own.charset().name));
            }
            if !is_usual(own) || self.is_explicit_collation {
                text.push_str(&format!(" COLLATE {}", own.name()));
            }
        }
        let is_generated = !self.generation_expression.is_empty();
        if is_generated {
            let kind = if self.is_virtual { "VIRTUAL" } else { "STORED" };
            text.push_str(&format!(" GENERATED ALWAYS AS ({}) {kind}", self.generation_expression));
        }
        if !self.is_nullable {
            text.push_str(" NOT NULL");
        } else if self.kind == TIMESTAMP {
            text.push_str(" NULL");
        }
        if !self.srs_id_null {
            text.push_str(&format!(" /*!80003 SRID {} */", self.srs_id));
        }
        match self.options.number::<u8>("storage") {
            Some(1) => text.push_str(" /*!50606 STORAGE DISK */"),
            Some(2) => text.push_str(" /*!50606 STORAGE MEMORY */"),
            _ => {}
        }
        match self.options.number::<u8>("column_format") {
            Some(1) => text.push_str(" /*!50606 COLUMN_FORMAT FIXED */"),
            Some(2) => text.push_str(" /*!50606 COLUMN_FORMAT DYNAMIC */"),
            _ => {}
        }
        if !is_generated {
            self.default_text(&mut text);
        }
        if !self.update_option.is_empty() {
            text.push_str(&format!(" ON UPDATE {}", self.update_option));
        }
        if self.is_auto_increment {
            text.push_str(" AUTO_INCREMENT");
        }
        if self.hidden == INVISIBLE {
            text.push_str(" /*!80023 INVISIBLE */");
        }
        if !self.comment.is_empty() {
            text.push_str(&format!(" COMMENT {}", quoted(&self.comment)));
        }
        Ok(text)
    }

    fn default_text(&self, text: &mut String) {
        let is_null = self.is_nullable && !BLOBS.contains(&self.kind);
        let value = match (&self.default_option, &self.default_value_utf8) {
            (expression, _) if expression.starts_with("CURRENT_TIMESTAMP") => expression.clone(),
            (expression, _) if !expression.is_empty() => format!("({expression})"),
            _ if self.has_no_default => return,
            _ if self.default_value_utf8_null && is_null => "NULL".to_owned(),
            _ if self.default_value_utf8_null => return,
            (_, value) if self.kind == BIT => value.clone(),
            (_, value) if self.collation_id == Collation::BINARY.number() => self.bytes_text(value),
            (_, value) => quoted(value),
        };
        text.push_str(" DEFAULT ");
        text.push_str(&value);
    }

    /// A default of bytes, which is given in hexadecimal, as a text if it is one.
    fn bytes_text(&self, hex: &str) -> String {
        let bytes = hex.strip_prefix("0x").and_then(super::bytes_of_hex);
        let text = bytes.and_then(|mut bytes| {
            // A BINARY value is as long as its column.
            if self.column_type_utf8.starts_with("binary") {
                bytes.resize((self.char_length as usize).clamp(bytes.len(), 255), 0);
            }
            String::from_utf8(bytes).ok()
        });
        text.map_or_else(|| hex.to_owned(), |text| quoted(&text))
    }
}

impl DictIndex {
    fn text(&self, object: &Object) -> Result<String, Error> {
        let kind = ["PRIMARY KEY", "UNIQUE KEY", "KEY", "FULLTEXT KEY", "SPATIAL KEY"];
        let kind = kind.get(usize::from(self.kind).wrapping_sub(1));
        let kind = kind.ok_or_else(|| corrupt("it has a key of a type that there is not"))?;
        let mut text = (*kind).to_owned();
        if self.kind != 1 {
            text.push_str(&format!(" {}", name(&self.name)));
        }
        let mut parts = Vec::new();
        for part in self.elements.iter().filter(|part| !part.hidden) {
            let column = object.columns.get(part.column_opx);
            let column = column.ok_or_else(|| corrupt("a key has a column that there is not"))?;
            let mut shown = match column.hidden {
                HIDDEN_BY_SERVER => format!("({})", column.generation_expression),
                _ => name(&column.name),
            };
            // FULLTEXT and SPATIAL keys have whole columns.
            let has_prefix = self.kind < 4 && column.hidden != HIDDEN_BY_SERVER;
            if let Some(bytes) = super::prefix(&column.kind()?, part.length).filter(|_| has_prefix) {
                let char_bytes = u32::from(collation(column.collation_id)?.charset().max);
                shown.push_str(&format!("({})", bytes / char_bytes));
            }
            if part.order == super::DESCENDING {
                shown.push_str(" DESC");
            }
            parts.push(shown);
        }
        text.push_str(&format!(" ({})", parts.join(",")));
        if self.is_algorithm_explicit && self.algorithm == BTREE {
            text.push_str(" USING BTREE");
        }
        if !self.comment.is_empty() {
            text.push_str(&format!(" COMMENT {}", quoted(&self.comment)));
        }
        if let Some(parser) = self.options.get("parser_name") {
            text.push_str(&format!(" /*!50100 WITH PARSER {} */ ", name(parser)));
        }
        if !self.is_visible {
            text.push_str(" /*!80000 INVISIBLE */");
        }
        Ok(text)
    }
}

impl super::ForeignKey {
    fn text(&self, object: &Object) -> Result<String, Error> {
        let mut own = Vec::new();
        for part in &self.elements {
            let column = object.columns.get(part.column_opx);
            own.push(name(
                &column.ok_or_else(|| corrupt("a foreign key has a column that there is not"))?.name,
            ));
        }
        let other: Vec<String> =
            self.elements.iter().map(|part| name(&part.referenced_column_name)).collect();
        let mut table = name(&self.referenced_table_name);
        if self.referenced_table_schema_name != object.schema_ref {
            table = format!("{}.{table}", name(&self.referenced_table_schema_name));
        }
        let mut text = format!(
            "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {table} ({})",
            name(&self.name),
            own.join(", "),
            other.join(", ")
        );
        for (rule, word) in [(self.delete_rule, "DELETE"), (self.update_rule, "UPDATE")] {
            let action = ACTIONS.get(usize::from(rule).wrapping_sub(1)).copied();
            match action.ok_or_else(|| corrupt("a foreign key has an action that there is not"))? {
                "" => {}
                action => text.push_str(&format!(" ON {word} {action}")),
            }
        }
        Ok(text)
    }
}

fn collation(number: u16) -> Result<Collation, Error> {
    Collation::of_number(number)
        .ok_or_else(|| Error::unsupported(format!("the collation {number} is not known here")))
}

/// Whether it is the one of its character set that need not be said. MariaDB has another one for utf8mb4.
fn is_usual(collation: Collation) -> bool {
    match collation.charset().name {
        "utf8mb4" => collation.name() == "utf8mb4_0900_ai_ci",
        name => Collation::of_charset(name) == Some(collation),
    }
}

fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

fn quoted(text: &str) -> String {
    let mut out = "'".to_owned();
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("''"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}
