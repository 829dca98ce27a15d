//! Folders of object stores that speak the protocol of S3: as repositories, and as places of a mirror.
//!
//! [`Bucket`] adds files that appear whole or not at all, and numbered ones only if there is none of that
//! name. It proves that the store keeps this promise when it takes the lock for writing: without it, two runs
//! could write one file.

mod client;
mod lease;
mod mirror_side;
mod object_lock;
mod read_cache;
mod reader;
mod sign;
mod store;
mod store_state;
mod upload;
mod xml;

use std::io;
use std::time::Duration;

use ureq::tls::{Certificate, PemItem, parse_pem};

use ring::rand::{SecureRandom, SystemRandom};

pub use client::Bucket;

/// Where a bucket is, and who asks.
#[derive(Clone)]
pub struct Settings {
    /// `https://s3.eu-west-1.amazonaws.com`, or the address of another store; without a slash at the end.
    pub endpoint: String,
    /// Whether the bucket is a part of the path, as most stores besides Amazon's want it, and not of the
    /// host's name.
    pub path_style: bool,
    /// The region that requests are signed for.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// What the keys of all files begin with; empty, or with a slash at the end.
    pub prefix: String,
    /// The name of the key that signs.
    pub access_key: String,
    /// The key.
    pub secret_key: String,
    /// Goes with keys that are valid for some hours only.
    pub session_token: Option<String>,
    /// Who may vouch for a store at https; none: the authorities that browsers know.
    pub authorities: Option<Authorities>,
    /// Who this run is, for others that find its lock: a line.
    pub holder: String,
    /// For how many seconds nobody may be able to remove what is written. None: as the bucket's rules say.
    pub retain_s: Option<u64>,
    /// The wait after a request that has failed; each further one is twice as long.
    pub wait: Duration,
}

/// Certificates of authorities that may vouch for a store.
#[derive(Clone)]
pub struct Authorities(Vec<Certificate<'static>>);

impl Authorities {
    /// Those in a file of PEM.
    ///
    /// # Errors
    /// `InvalidData` if a certificate in it is none, or there is none in it.
    pub fn parse(pem: &[u8]) -> io::Result<Authorities> {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut found = Vec::new();
        for item in parse_pem(pem) {
            match item.map_err(|error| wrong(error.to_string()))? {
                PemItem::Certificate(certificate) => found.push(certificate),
                _ => {
                    return Err(wrong(
                        "it contains a private key; only certificates belong there".to_owned(),
                    ));
                }
            }
        }
        if found.is_empty() {
            return Err(wrong("there is no certificate in it (-----BEGIN CERTIFICATE-----)".to_owned()));
        }
        Ok(Authorities(found))
    }
}

/// A word that nothing else has.
fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
