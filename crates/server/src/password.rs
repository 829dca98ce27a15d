//! A password that can't be printed by accident.

use std::{fmt, io};

use sha1::{Digest, Sha1};

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

    /// Its hash as the plugin `mysql_native_password` stores it: an asterisk, and SHA1(SHA1(password)) in
    /// hexadecimal digits. A server takes it after `IDENTIFIED BY PASSWORD`.
    pub fn native_hash(&self) -> String {
        let hash = Sha1::digest(Sha1::digest(self.0.as_bytes()));
        let digits: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("*{digits}")
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

#[cfg(test)]
mod tests {
    use super::Password;

    #[test]
    fn a_hash_is_that_of_the_servers() {
        // SELECT PASSWORD('password') on any server that has mysql_native_password.
        let hash = Password::from("password").native_hash();
        assert_eq!(hash, "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
    }
}
