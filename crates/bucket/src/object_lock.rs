//! Object lock: files that nobody can remove for a time.
//!
//! docs/decisions/0524-nobody-can-remove-it.md gives the reasons.

use std::io;
use std::sync::atomic::Ordering;

use block::mirror::is_lasting;
use jiff::Timestamp;

use crate::client::{Bucket, StoreRequest, StoreResponse};
use crate::xml;

/// Nobody can end it early, whatever their permissions.
const MODE: &str = "COMPLIANCE";
/// The header with the end of a file's retention.
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
/// An answer that is longer is no retention.
const RETENTION_BYTES: u64 = 64 << 10;
/// Error codes for files without a retention, and for buckets without object lock.
const NONE: [&str; 3] =
    ["NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRequest"];

/// `2026-12-26T16:05:00Z`, without fractions of a second.
fn written(until: Timestamp) -> String {
    until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time in a store's response.
fn time_s(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(|until| until.as_second())
}

impl Bucket {
    /// The same bucket, retaining everything that is written from then on for this many seconds.
    #[must_use]
    pub fn retaining(&self, seconds: u64) -> Bucket {
        self.with_settings(|settings| settings.retain_s = Some(seconds))
    }

    /// The end of the retention of what is written now.
    fn until(&self) -> io::Result<Option<Timestamp>> {
        let Some(seconds) = self.settings.retain_s else { return Ok(None) };
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let until = Timestamp::from_second(Timestamp::now().as_second().saturating_add(seconds));
        until.map(Some).map_err(io::Error::other)
    }

    /// The headers that set a file's retention.
    pub(crate) fn retention(&self, name: &str) -> io::Result<Vec<(&'static str, String)>> {
        let until = self.until()?.filter(|_| is_lasting(name));
        let headers = |until| vec![("x-amz-object-lock-mode", MODE.to_owned()), (UNTIL, written(until))];
        Ok(until.map(headers).unwrap_or_default())
    }

    /// Fails if files are to be retained but the bucket has no object lock. The store is asked once.
    pub(crate) fn require_object_lock(&self) -> io::Result<()> {
        if self.settings.retain_s.is_none() || self.state.retains.load(Ordering::Acquire) {
            return Ok(());
        }
        let query = [("object-lock", "")];
        let ask = StoreRequest { method: "GET", name: None, query: &query, headers: &[], body: b"" };
        let (answer, text) = self.send_text(&ask)?;
        match answer.status() {
            200 if xml::first(&text, "ObjectLockEnabled").as_deref() == Some("Enabled") => {
                self.state.retains.store(true, Ordering::Release);
                Ok(())
            }
            403 | 500.. => {
                let what = "ask whether the bucket has object lock (s3:GetBucketObjectLockConfiguration)";
                Err(self.failure(what, "", answer))
            }
            _ => {
                let text = "files can't be retained in this bucket, because it has no object lock; create \
                            a bucket with object lock (most stores can't enable \
                            it later), or leave out --retain";
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }

    /// Retains an existing file.
    pub(crate) fn extend_retention(&self, name: &str) -> io::Result<()> {
        let Some(until) = self.until()? else { return Ok(()) };
        let body = format!(
            "<Retention><Mode>{MODE}</Mode><RetainUntilDate>{}</RetainUntilDate></Retention>",
            written(until)
        );
        let query = [("retention", "")];
        let answer = self.send(&StoreRequest {
            query: &query,
            body: body.as_bytes(),
            ..StoreRequest::about("PUT", name)
        })?;
        if answer.status() == 200 {
            return Ok(());
        }
        // No store shortens a retention, and which error it returns for that differs.
        let refused = self.failure("retain (s3:PutObjectRetention)", name, answer);
        let asked = match self.retention_of(name) {
            // It was not refused because of the existing retention: the permission to read that is missing.
            Err(error) if refused.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            asked => asked.unwrap_or_default(),
        };
        let is_later = |(mode, until_s): &(String, i64)| mode == MODE && *until_s >= until.as_second();
        if asked.as_ref().is_some_and(is_later) { Ok(()) } else { Err(refused) }
    }

    /// A file's retention: the mode, and until when.
    pub(crate) fn retention_of(&self, name: &str) -> io::Result<Option<(String, i64)>> {
        let mut answer =
            self.send(&StoreRequest { query: &[("retention", "")], ..StoreRequest::about("GET", name) })?;
        // A store that does not know the question answers with the file itself.
        let is_file = answer.status() == 200
            && answer.header("content-length").and_then(|len| len.parse().ok()) > Some(RETENTION_BYTES);
        let is_told = !is_file && matches!(answer.status(), 200 | 400 | 404);
        let text = if is_told { answer.text()? } else { String::new() };
        let code = xml::first(&text, "Code").unwrap_or_default();
        match answer.status() {
            200 if !text.contains("<Retention") => {
                let text = "the store does not say until when files are retained";
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
            200 => {
                let until_s = xml::first(&text, "RetainUntilDate").and_then(|until| time_s(&until));
                Ok(xml::first(&text, "Mode").zip(until_s))
            }
            400 | 404 if NONE.contains(&&*code) => Ok(None),
            _ => Err(self.failure("ask until when it is retained (s3:GetObjectRetention)", name, answer)),
        }
    }
}

/// Until when a file is retained, if the response says so, which requires a permission.
pub(crate) fn retained_until(answer: &StoreResponse) -> Option<i64> {
    answer.header(UNTIL).and_then(time_s)
}
