//! Rows that a relay brings to a broker.

use anyhow::{Context, Result, bail};
use broker::{Address, Link, Stream, publish};

use super::column::Column;

/// How rows become messages.
pub(crate) struct Messages {
    /// Their subject.
    pub(crate) subject: String,
    /// The column that has the text of a message. Without one the row is the message, as an object of JSON.
    pub(crate) body: Option<String>,
}

/// A connection to a broker. Each message has an id that says which row it is, and the stream drops a message
/// whose id it knows.
pub(crate) struct Publisher {
    link: Link,
    subject: String,
    columns: Vec<Column>,
    /// Whether a message is the value of the only column, and not a row.
    is_value: bool,
    /// The id of the last message before this connection, until its row is here. A row that was sent and not
    /// ended comes again, perhaps behind rows that have come back or come first, and the server forgets ids
    /// after minutes.
    last: Option<String>,
}

impl Publisher {
    /// Connects, and refuses a subject that no stream keeps.
    pub(crate) fn connect(address: &Address, messages: &Messages, columns: Vec<Column>) -> Result<Publisher> {
        let columns = match &messages.body {
            None => columns,
            Some(name) => vec![column_named(columns, name)?],
        };
        let mut link = Link::connect(address)?;
        let last = Stream::of(&mut link, &messages.subject)?.last_id(&mut link)?;
        let is_value = messages.body.is_some();
        Ok(Publisher { link, subject: messages.subject.clone(), columns, is_value, last })
    }

    pub(crate) fn reads(&self) -> Vec<String> {
        let read = if self.is_value { Column::read_bytes } else { Column::read_json };
        self.columns.iter().map(read).collect()
    }

    pub(crate) fn send(&mut self, origin: &str, values: &[Option<String>]) -> Result<()> {
        // Without the lowest row that waits there: that one changes.
        let (id, _) = origin.rsplit_once(':').context("the server did not say where the row is from")?;
        if self.last.as_deref() == Some(id) {
            self.last = None;
            return Ok(());
        }
        let body = self.body(values)?;
        publish(&mut self.link, &self.subject, id, &body).with_context(|| format!("row {id}"))?;
        Ok(())
    }

    pub(crate) fn keep(&mut self) -> Result<()> {
        Ok(self.link.keep()?)
    }

    fn body(&self, values: &[Option<String>]) -> Result<Vec<u8>> {
        if self.is_value {
            let hex = values.first().and_then(Option::as_deref).unwrap_or_default();
            let byte = |at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16);
            return Ok((0..hex.len()).step_by(2).map(byte).collect::<Result<_, _>>()?);
        }
        let pairs = self.columns.iter().zip(values);
        let members: Vec<String> = pairs
            .map(|(column, value)| {
                format!("{}:{}", serde_json::json!(column.name), column.json(value.as_deref()))
            })
            .collect();
        Ok(format!("{{{}}}", members.join(",")).into_bytes())
    }
}

/// The column of this name.
pub(crate) fn column_named(columns: Vec<Column>, name: &str) -> Result<Column> {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let found = columns.into_iter().find(|column| column.name.to_lowercase() == name.to_lowercase());
    match found {
        Some(column) => Ok(column),
        None => bail!("--body: the queue has no column {name}; it has {}", names.join(", ")),
    }
}
