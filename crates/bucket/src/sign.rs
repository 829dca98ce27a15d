//! Signed requests: AWS Signature Version 4, with the hash of the body, so that the store rejects a damaged
//! one.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use ring::{digest, hmac};

use crate::Settings;

/// The signed parts of a request.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    /// Encoded.
    pub(crate) path: &'a str,
    /// Encoded, and sorted by name.
    pub(crate) query: &'a str,
    /// Additional headers, with lower-case names.
    pub(crate) headers: &'a [(&'a str, String)],
    pub(crate) body: &'a [u8],
    /// `20130524T000000Z`
    pub(crate) now: &'a str,
}

/// All headers of a signed request except `host`.
pub(crate) fn headers(settings: &Settings, request: &Request<'_>) -> Vec<(String, String)> {
    let sum = hex(digest::digest(&digest::SHA256, request.body).as_ref());
    let mut all: Vec<(String, String)> =
        request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    all.push(("host".into(), request.host.into()));
    all.push(("x-amz-content-sha256".into(), sum.clone()));
    all.push(("x-amz-date".into(), request.now.into()));
    all.extend(settings.session_token.clone().map(|token| ("x-amz-security-token".into(), token)));
    all.sort();
    let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (name, value) in &all {
        canonical.push_str(&format!("{name}:{}\n", value.trim()));
    }
    canonical.push_str(&format!("\n{names}\n{sum}"));

    let day = request.now.get(..8).unwrap_or(request.now);
    let scope = format!("{day}/{}/s3/aws4_request", settings.region);
    let canonical = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{canonical}", request.now);
    let mut key = format!("AWS4{}", settings.secret_key).into_bytes();
    for part in [day, &settings.region, "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    let signature = hex(&mac(&key, &text));
    let access = &settings.access_key;
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={access}/{scope},SignedHeaders={names},Signature={signature}");
    all.retain(|(name, _)| name != "host");
    all.push(("authorization".into(), authorization));
    all
}

/// The Content-MD5 header, which stores require in requests about retained files.
pub(crate) fn md5(body: &[u8]) -> String {
    STANDARD.encode(Md5::digest(body))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        // Writing to a String does not fail.
        write!(out, "{byte:02x}").unwrap_or_default();
    }
    out
}

/// Percent-encoded text for a path or a query: in a path, slashes are kept.
pub(crate) fn encoded(text: &str, is_path: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (is_path && byte == b'/');
        if plain {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the documentation of Signature Version 4, "GET Object".
    #[test]
    fn the_published_example_has_the_published_signature() {
        let settings = Settings {
            endpoint: String::new(),
            path_style: false,
            region: "us-east-1".into(),
            bucket: "examplebucket".into(),
            prefix: String::new(),
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session_token: None,
            authorities: None,
            holder: String::new(),
            retain_s: None,
            wait: std::time::Duration::ZERO,
        };
        let request = Request {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            query: "",
            headers: &[("range", "bytes=0-9".into())],
            body: b"",
            now: "20130524T000000Z",
        };
        let all = headers(&settings, &request);
        let signed = &all.iter().find(|(name, _)| name == "authorization").unwrap().1;
        assert!(
            signed.ends_with("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
            "{signed}"
        );
    }

    #[test]
    fn reserved_characters_are_percent_encoded() {
        assert_eq!(encoded("a/b c+\u{e9}~", true), "a/b%20c%2B%C3%A9~");
        assert_eq!(encoded("a/b=", false), "a%2Fb%3D");
    }
}
