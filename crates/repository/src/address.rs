//! Where a repository is: a folder, or a place in an object store with what is known about who asks.
//!
//! Keys and endpoints come from where the tools of object stores look for them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bucket::{Authorities, Bucket, Settings};
use failure::usage;

const SCHEME: &str = "s3://";

/// A repository.
pub enum Address {
    /// A folder.
    Folder(PathBuf),
    /// A place in an object store.
    Bucket(Bucket),
}

impl Address {
    /// What an argument names.
    pub fn new(argument: &str) -> Result<Address> {
        let Some(place) = argument.strip_prefix(SCHEME) else { return Ok(Address::Folder(argument.into())) };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() {
            return Err(usage(format!("{argument}: write {SCHEME}BUCKET/PREFIX")));
        }
        let prefix = match prefix.trim_end_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let own = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        if let Some(own) = own.as_ref().filter(|own| !own.starts_with("http")) {
            return Err(usage(format!("AWS_ENDPOINT_URL {own}: write http://HOST:PORT or https://HOST")));
        }
        // The certificate of Amazon's hosts covers no name with one more dot.
        let path_style = own.is_some() || bucket.contains('.');
        let endpoint = own.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let authorities = if endpoint.starts_with("https") { authorities()? } else { None };
        let (access_key, secret_key, session_token) = match variable("AWS_ACCESS_KEY_ID") {
            Some(access) => {
                let secret = variable("AWS_SECRET_ACCESS_KEY")
                    .ok_or_else(|| usage("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not"))?;
                (access, secret, variable("AWS_SESSION_TOKEN"))
            }
            None => from_file(
                variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from),
                &variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()),
            )?,
        };
        Ok(Address::Bucket(Bucket::new(Settings {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            path_style,
            region,
            bucket: bucket.to_owned(),
            prefix,
            access_key,
            secret_key,
            session_token,
            authorities,
            holder: holder(),
            retain_s: None,
            wait: Duration::from_millis(100),
        })))
    }
}

/// The authorities that a variable names, as other tools of stores and of TLS read them. They take the place
/// of those that are built in.
fn authorities() -> Result<Option<Authorities>> {
    for name in ["AWS_CA_BUNDLE", "SSL_CERT_FILE"] {
        let Some(path) = std::env::var_os(name).filter(|value| !value.is_empty()) else { continue };
        let path = Path::new(&path);
        let read = std::fs::read(path).and_then(|pem| Authorities::parse(&pem));
        return read.map(Some).map_err(|error| usage(format!("{name} {}: {error}", path.display())));
    }
    Ok(None)
}

/// This run, as others see it that find its lock in a store.
fn holder() -> String {
    let system = rustix::system::uname();
    format!("{}, process {}", system.nodename().to_string_lossy(), std::process::id())
}

/// What a path that is an argument names.
pub fn of(path: &Path) -> Result<Address> {
    match path.to_str() {
        Some(text) => Address::new(text),
        None => Ok(Address::Folder(path.to_owned())),
    }
}

/// Whether it is the address of a place in a store.
pub fn is_in_store(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(SCHEME))
}

/// The address of the bucket that a place in a store is in.
pub(crate) fn bucket_of(path: &Path) -> Option<String> {
    let place = path.to_str()?.strip_prefix(SCHEME)?;
    Some(format!("{SCHEME}{}", place.split('/').next().unwrap_or_default()))
}

/// The keys of a profile in the file that other tools of object stores read.
fn from_file(path: Option<PathBuf>, profile: &str) -> Result<(String, String, Option<String>)> {
    let home = || std::env::home_dir().map(|home| home.join(".aws/credentials"));
    let missing = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    let path = path.or_else(home).with_context(|| format!("there is no key for the store: {missing}"))?;
    let text = std::fs::read_to_string(&path).map_err(|error| {
        usage(format!("there is no key for the store: {missing}, or write {} ({error})", path.display()))
    })?;
    let value = |name: &str| find(&text, profile, name);
    match (value("aws_access_key_id"), value("aws_secret_access_key")) {
        (Some(access), Some(secret)) => Ok((access, secret, value("aws_session_token"))),
        _ => Err(usage(format!(
            "{}: the profile [{profile}] has no aws_access_key_id and aws_secret_access_key; choose one with AWS_PROFILE",
            path.display()
        ))),
    }
}

fn find(text: &str, profile: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    let head = format!("[{profile}]");
    lines.find(|line| *line == head)?;
    let own = lines.take_while(|line| !line.starts_with('['));
    let mut pairs = own.filter_map(|line| line.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_profile_ends_where_the_next_begins() {
        let text = "[a]\nk = 1\n\n[b]\n# k = 2\nl=3=3\n[c]\nk=4\n";
        assert_eq!(find(text, "a", "k").as_deref(), Some("1"));
        assert_eq!(find(text, "b", "k"), None);
        assert_eq!(find(text, "b", "l").as_deref(), Some("3=3"));
        assert_eq!(find(text, "d", "k"), None);
    }
}
