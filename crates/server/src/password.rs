//! A password that can't be printed by accident.

use std::{fmt, io};

/// Random bytes of a new password.
const RANDOM_BYTES: usize = 24;

/// A password. `Debug` shows three stars; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A new one. It has letters of both kinds, digits and a sign, which servers' rules for passwords ask
    /// for, and nothing that has to be quoted.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn random() -> io::Result<Password> {
        let mut bytes = [0; RANDOM_BYTES];
        let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
        if filled < RANDOM_BYTES {
            return Err(io::Error::other("the system has too few random bytes"));
        }
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Password(format!("{digits}-Rm1")))
    }

    /// The password itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Password(text)
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Password(text.to_owned())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
