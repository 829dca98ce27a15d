//! Folders of object stores with the S3 protocol: as repositories, as sides of a mirror, and for dumps.
//!
//! [`Bucket`] adds files that appear whole or not at all, and numbered ones only if none of that name exists.
//! It checks that the store keeps this promise when it takes the lock for writing: otherwise two runs could
//! write the same file. [`BucketDisk`] is folders of a bucket for whoever writes files by a [`disk::Disk`].

mod bucket_disk;
mod client;
mod growing;
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

pub use bucket_disk::BucketDisk;
pub use client::Bucket;

/// Where a bucket is, and the credentials.
#[derive(Clone)]
pub struct Settings {
    /// `https://s3.eu-west-1.amazonaws.com`, or the address of another store; without a slash at the end.
    pub endpoint: String,
    /// Whether the bucket is a part of the path, as in most stores other than Amazon's, and not of the host
    /// name.
    pub path_style: bool,
    /// The region that requests are signed for.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// The prefix of all keys; empty, or with a slash at the end.
    pub prefix: String,
    /// The access key ID.
    pub access_key: String,
    /// The secret access key.
    pub secret_key: String,
    /// The session token of temporary credentials.
    pub session_token: Option<String>,
    /// Certificate authorities for https; `None`: those of the Mozilla root program.
    pub authorities: Option<Authorities>,
    /// A line that describes this run, for others that find its lock.
    pub holder: String,
    /// For how many seconds everything that is written is retained. `None`: the bucket's defaults apply.
    pub retain_s: Option<u64>,
    /// The wait after a failed request; it doubles each time.
    pub wait: Duration,
}

/// Certificate authorities for a store.
#[derive(Clone)]
pub struct Authorities(Vec<Certificate<'static>>);

impl Authorities {
    /// Reads the certificates in a PEM file.
    ///
    /// # Errors
    /// `InvalidData` if a certificate is invalid, or if there is none.
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

/// A unique random word.
fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
