//! What it means when a statement or the connection fails, and what to do about it.

use mysql::prelude::Queryable;

use super::Session;
use crate::access_denied::{self, Denial};
use crate::load::{SinkFailed, SourceFailed};
use crate::{Error, error_code, redact};

impl Session {
    /// The server counts the command byte too, and the statement must be shorter than the limit, not equal to
    /// it.
    pub(super) fn check_size(&self, sql: &str) -> Result<(), Error> {
        let size_bytes = sql.len() as u64 + 1;
        let limit_bytes = self.about.max_allowed_packet;
        if limit_bytes > 0 && size_bytes >= limit_bytes {
            let hint = raise_limit(size_bytes);
            return Err(Error::PacketTooLarge { what: "a statement".into(), size_bytes, limit_bytes, hint });
        }
        Ok(())
    }

    /// Turns the server's rejection of `sql` into an error that says what to do.
    pub(super) fn explain(&mut self, said: mysql::error::MySqlError, sql: &str) -> Error {
        if matches!(said.code, 1153 | 1301) {
            let limit_bytes = self.about.max_allowed_packet;
            return Error::PacketTooLarge {
                what: "a value or statement".into(),
                size_bytes: 0,
                limit_bytes,
                hint: raise_limit(limit_bytes.saturating_mul(2)),
            };
        }
        if ends_connection(said.code) {
            return self.lost(&said.message, sql);
        }
        if error_code::is_read_only(said.code, &said.message) {
            return Error::ReadOnly { target: self.target.clone(), code: said.code };
        }
        if said.code == error_code::MUST_CHANGE_PASSWORD {
            // The server lets such an account in, and then does nothing for it.
            let account = self.target.split('@').next().unwrap_or_default().to_owned();
            let hint = "the password has expired: set a new one with ALTER USER".to_owned();
            return Error::Refused {
                target: self.target.clone(),
                account,
                code: said.code,
                why: said.message,
                hint,
            };
        }
        if access_denied::is_denial(said.code)
            && let Some(error) = self.missing_privilege(&said, sql)
        {
            return error;
        }
        Error::Sql {
            code: said.code,
            message: redact::message(&said.message, sql),
            state: said.state,
            statement: redact::statement(sql),
        }
    }

    fn missing_privilege(&mut self, said: &mysql::error::MySqlError, sql: &str) -> Option<Error> {
        let conn = self.conn.as_mut()?;
        let (account, database): (String, Option<String>) =
            conn.query_first("SELECT CURRENT_USER(), DATABASE()").ok().flatten()?;
        let missing = access_denied::missing(&Denial {
            code: said.code,
            message: &said.message,
            statement: sql,
            account: &account,
            database: database.as_deref(),
        })?;
        Some(Error::Privilege { what: missing.what, grant: missing.grant, code: said.code })
    }

    /// The error for an exchange that broke the protocol. The connection was already dropped.
    pub(super) fn broken(&self, error: mysql::Error, sql: &str) -> Error {
        use mysql::Error as E;
        let what = match error {
            E::IoError(error) => match error.downcast::<SourceFailed>() {
                Ok(SourceFailed(error)) => return Error::Source(error),
                Err(error) => match error.downcast::<SinkFailed>() {
                    Ok(SinkFailed(error)) => return Error::Sink(error),
                    Err(error) => error.to_string(),
                },
            },
            E::CodecError(error) => error.to_string(),
            E::DriverError(error) => error.to_string(),
            other => return Error::Protocol { what: other.to_string() },
        };
        self.lost(&what, sql)
    }

    pub(super) fn lost(&self, why: &str, sql: &str) -> Error {
        Error::LostConnection {
            target: self.target.clone(),
            why: why.to_owned(),
            statement: redact::statement(sql),
        }
    }
}

/// Codes after which the server closes the connection: shutdown, packet errors, killed, idle too long.
pub(super) fn ends_connection(code: u16) -> bool {
    matches!(code, 1053 | 1077 | 1152..=1161 | 1184 | 1927 | 3169 | 4031)
}

fn raise_limit(bytes: u64) -> String {
    let wanted = (bytes.min((1 << 30) - 1) + 1).next_multiple_of(1 << 20);
    format!("let an administrator run: SET GLOBAL max_allowed_packet = {wanted}, then connect again")
}
