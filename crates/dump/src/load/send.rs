//! Sends the text of a chunk to the server: by LOAD DATA LOCAL, or by INSERT where that is not allowed.

use std::io::{self, Write};
use std::sync::{Arc, PoisonError};

use server::{Session, Source, TableName};

use super::origin::SourceSession;
use super::rows::Sessions;
use super::{ChunkText, Origin, Sent, Verify};
use crate::manifest::{Chunk, TableEntry};
use crate::{Error, select};
use progress::count;

impl Sessions<'_> {
    /// The text of a chunk, from a file or from the session of a source.
    pub(super) fn text(&self, source: Option<&SourceSession>, at: usize, chunk: &Chunk) -> ChunkText {
        let (entry, tally) = (&self.load.manifest.tables[at], Arc::clone(&self.tallies[at]));
        match (&self.load.origin, source) {
            (Origin::Files(files), _) => files.text(self.load, entry, chunk, tally),
            (Origin::Server(rows), source) => rows.text(source, at, chunk, tally),
        }
    }

    /// Sends a chunk. Returns what was read of it, and the number of rows that the server accepted.
    pub(super) fn send(
        &self,
        session: &mut Session,
        entry: &TableEntry,
        chunk: &Chunk,
        text: &mut ChunkText,
    ) -> Result<(Sent, u64), Error> {
        let statement = select::load_data(entry, &entry.table.name, self.load.manifest.data_format);
        match statement.filter(|_| self.local_infile) {
            Some(statement) => self.load_data(session, &statement, (entry, chunk), text),
            None => self.insert(session, (entry, chunk), text),
        }
    }

    fn load_data(
        &self,
        session: &mut Session,
        statement: &str,
        (entry, chunk): (&TableEntry, &Chunk),
        text: &mut ChunkText,
    ) -> Result<(Sent, u64), Error> {
        let name = &entry.table.name;
        // The driver keeps the source for longer than a borrow could last.
        let nothing: Box<dyn FnMut(super::OnBlock<'_>) -> io::Result<Sent> + Send> =
            Box::new(|_| Ok(Sent::default()));
        let mut read = std::mem::replace(&mut text.read, nothing);
        let (tell, told) = crossbeam_channel::bounded(1);
        let source: Source = Box::new(move |to: &mut dyn Write| {
            let sent = read(&mut |block| to.write_all(block))?;
            tell.send(sent).ok();
            Ok(())
        });
        let report = session.load(statement, source).map_err(|error| match error {
            server::Error::Source(error) => (text.explain)(error),
            source => Error::Object {
                object: format!("table {name}, chunk {}", chunk.number),
                source: Box::new(source),
            },
        })?;
        if report.warnings > 0 {
            let first = session.warnings()?.into_iter().next();
            let words = first.map(|warning| warning.message).unwrap_or_default();
            self.warned(
                name,
                format!(
                    "table {name}, chunk {}: {}, the first: {words}",
                    chunk.number,
                    count(report.warnings, "warning")
                ),
            );
        }
        // Without an answer the server has not asked for the text, and has no rows.
        let sent = told.try_recv().unwrap_or_default();
        Ok((sent, report.records.saturating_sub(report.skipped).saturating_sub(report.deleted)))
    }

    /// The server warned about rows. That is no failure in itself: it also warns about values that it stores
    /// unchanged, like the empty ENUM. So if the rows are read back, that decides whether it is shown.
    fn warned(&self, table: &TableName, text: String) {
        if self.load.request.verify == Verify::Rows {
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.push((table.clone(), text));
        } else {
            self.load.context.progress.note(&text);
        }
    }

    /// Sends a chunk without LOAD DATA LOCAL.
    fn insert(
        &self,
        session: &mut Session,
        (entry, chunk): (&TableEntry, &Chunk),
        text: &mut ChunkText,
    ) -> Result<(Sent, u64), Error> {
        let columns = select::literals(entry);
        let mut encoder = crate::format::hexadecimal(&entry.table.name, &columns);
        let mut statements = Statements { session, text: Vec::new(), rows: 0, failed: None };
        let sent = (text.read)(&mut |piece| {
            encoder.encode(piece, &mut statements.text);
            statements.send();
            Ok(())
        });
        encoder.finish(&mut statements.text);
        statements.send();
        if let Some(source) = statements.failed {
            return Err(Error::Object {
                object: format!("table {}, chunk {}", entry.table.name, chunk.number),
                source: Box::new(source),
            });
        }
        let sent = sent.map_err(&text.explain)?;
        if !statements.text.is_empty() {
            return Err((text.explain)(io::Error::other("a statement without end")));
        }
        Ok((sent, statements.rows))
    }
}

/// Statements on their way to the server, one in each line.
struct Statements<'a> {
    session: &'a mut Session,
    text: Vec<u8>,
    rows: u64,
    /// After the first error the rest is only read: a source whose rows nobody takes would lose its session.
    failed: Option<server::Error>,
}

impl Statements<'_> {
    /// Sends the statements that are complete.
    fn send(&mut self) {
        while let Some(end) = memchr::memchr(b'\n', &self.text) {
            let rest = self.text.split_off(end + 1);
            // The encoder writes ASCII, and names.
            let statement = server::text::text(std::mem::replace(&mut self.text, rest));
            if self.failed.is_some() {
                continue;
            }
            match self.session.execute(statement.trim_end_matches(['\n', ';'])) {
                Ok(done) => self.rows += done.affected,
                Err(error) => self.failed = Some(error),
            }
        }
    }
}
