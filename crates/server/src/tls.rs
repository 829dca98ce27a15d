//! TLS: how it is used, in the spelling of both families of clients.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// How TLS is used, in MySQL's words. A connection through a socket never uses TLS: it does not leave the
/// machine, and servers consider it a secure transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    /// Never.
    Disabled,
    /// If the server offers it; the certificate is not checked.
    #[default]
    Preferred,
    /// Always; the certificate is not checked.
    Required,
    /// Always, and the certificate must lead to the given CA, or to one of the built-in public CAs.
    VerifyCa,
    /// Like `VerifyCa`, and the certificate must name the requested host.
    VerifyIdentity,
}

impl fmt::Display for SslMode {
    /// As it is written on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SslMode::Disabled => "disabled",
            SslMode::Preferred => "preferred",
            SslMode::Required => "required",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyIdentity => "verify-identity",
        })
    }
}

impl FromStr for SslMode {
    type Err = Error;

    /// Reads `DISABLED`, `PREFERRED`, `REQUIRED`, `VERIFY_CA` or `VERIFY_IDENTITY`, in any case, with
    /// `-` for `_`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_uppercase().replace('-', "_").as_str() {
            "DISABLED" => Ok(SslMode::Disabled),
            "PREFERRED" => Ok(SslMode::Preferred),
            "REQUIRED" => Ok(SslMode::Required),
            "VERIFY_CA" => Ok(SslMode::VerifyCa),
            "VERIFY_IDENTITY" => Ok(SslMode::VerifyIdentity),
            _ => Err(Error::BadOption {
                option: "ssl-mode".into(),
                why: format!("{text:?} is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY"),
            }),
        }
    }
}

/// The TLS settings of a [`crate::Target`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// How TLS is used.
    pub mode: SslMode,
    /// PEM or DER file with the CA certificates to trust, for the two `Verify` modes.
    pub ca: Option<PathBuf>,
    /// PEM or DER file with our own certificate chain. Requires `key`.
    pub cert: Option<PathBuf>,
    /// PEM or DER file with the private key of `cert`.
    pub key: Option<PathBuf>,
}

/// TLS options as they were given, before they are interpreted together.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsOptions {
    pub(crate) mode: Option<SslMode>,
    pub(crate) ssl: Option<bool>,
    pub(crate) verify: Option<bool>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsOptions {
    /// What the options mean together. MySQL's `ssl-mode` decides if it is present; else MariaDB's rules:
    /// `ssl-verify-server-cert` checks CA and name, `ssl-ca` alone checks the CA, any other `ssl` option
    /// requires TLS.
    pub(crate) fn resolve(self) -> Result<Tls, Error> {
        let mode = self.mode.unwrap_or(match (self.ssl, self.verify) {
            (Some(false), _) => SslMode::Disabled,
            (_, Some(true)) => SslMode::VerifyIdentity,
            (_, None) if self.ca.is_some() => SslMode::VerifyCa,
            (Some(true), _) => SslMode::Required,
            _ if self.cert.is_some() || self.key.is_some() || self.ca.is_some() => SslMode::Required,
            _ => SslMode::Preferred,
        });
        if self.cert.is_some() != self.key.is_some() {
            let (given, missing) =
                if self.cert.is_some() { ("ssl-cert", "ssl-key") } else { ("ssl-key", "ssl-cert") };
            let why = format!("needs {missing} beside it: a certificate and its key come together");
            return Err(Error::BadOption { option: given.into(), why });
        }
        if mode == SslMode::VerifyCa && self.ca.is_none() {
            let why = "VERIFY_CA needs ssl-ca, the file with the CA to trust".into();
            return Err(Error::BadOption { option: "ssl-mode".into(), why });
        }
        Ok(Tls { mode, ca: self.ca, cert: self.cert, key: self.key })
    }
}
