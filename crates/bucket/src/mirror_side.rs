//! A store as a side of a mirror: list, read, add.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use block::mirror::{self, MirrorSide, NewFile, ReadPart};
use disk::Guard;

use crate::client::{Bucket, StoreRequest, StoreResponse};
use crate::{lease, xml};

/// Files above this length are uploaded in parts.
pub(crate) const PART: u64 = 16 << 20;
/// Maximum number of parts.
pub(crate) const PARTS_MAX: u64 = 10_000;

/// The headers for writing a file only if none of its name exists.
pub(crate) fn condition(only_new: bool) -> Vec<(&'static str, String)> {
    if only_new { vec![("if-none-match", "*".to_owned())] } else { Vec::new() }
}

impl Bucket {
    /// Checks that the store refuses a second file of a name, with a single request and with a multipart
    /// upload, using a file that exists.
    pub(crate) fn check_conditional_writes(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let ignores = |how: &str| {
            let text = format!(
                "{}: this store ignores If-None-Match in {how}: two runs could write the same file, and \
                 one of them would be lost; use a store that honors it",
                self.shown("")
            );
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        };
        let second = self.put(name, text, true)?;
        match second.status() {
            412 => {}
            200 => return ignores("a PUT"),
            _ => return Err(self.failure("write", name, second)),
        }
        let upload = self.begin(name, &[])?;
        let part = self.part(name, &upload, 1, text)?;
        let answer = self.complete(name, &upload, &[part], true)?;
        let status = answer.status();
        if status != 200 {
            self.abort(name, &upload)?;
        }
        match status {
            412 => Ok(()),
            200 => ignores("the completion of a multipart upload"),
            _ => Err(self.failure("write in parts", name, answer)),
        }
    }

    /// The folders directly below the prefix, with their files; files outside of folders are listed under an
    /// empty name.
    ///
    /// # Errors
    /// Those of the store.
    pub fn folders(&self) -> io::Result<BTreeMap<String, Vec<String>>> {
        let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, _) in self.files("")? {
            let (folder, file) = name.split_once('/').unwrap_or(("", &name));
            folders.entry(folder.to_owned()).or_default().push(file.to_owned());
        }
        Ok(folders)
    }

    /// All files below the prefix whose names begin like this, including those in folders, with their
    /// lengths.
    pub(crate) fn files(&self, begin: &str) -> io::Result<BTreeMap<String, u64>> {
        let mut files = BTreeMap::new();
        self.pages(begin, None, &mut |text| {
            for entry in xml::all(text, "Contents") {
                let key = xml::first(entry, "Key").unwrap_or_default();
                let len = xml::first(entry, "Size").and_then(|len| len.parse().ok());
                let name = key.strip_prefix(&self.settings.prefix);
                files.extend(name.map(str::to_owned).zip(len));
            }
        })?;
        Ok(files)
    }

    /// The names of files and folders directly in a folder, which is empty or ends with a slash; without
    /// locks.
    pub(crate) fn directly_in(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = BTreeSet::new();
        let begin = format!("{}{folder}", self.settings.prefix);
        self.pages(folder, Some("/"), &mut |text| {
            let files = xml::all(text, "Contents").into_iter().filter_map(|entry| xml::first(entry, "Key"));
            let folders = xml::all(text, "CommonPrefixes").into_iter();
            let folders = folders.filter_map(|entry| xml::first(entry, "Prefix"));
            let name = |key: String| Some(key.strip_prefix(&begin)?.trim_end_matches('/').to_owned());
            names.extend(files.chain(folders).filter_map(name));
        })?;
        // Some programs write an empty object for a folder.
        names.retain(|name| !name.is_empty() && !name.starts_with(lease::BEGIN));
        Ok(names.into_iter().collect())
    }

    /// The pages of a listing.
    fn pages(&self, begin: &str, delimiter: Option<&str>, each: &mut dyn FnMut(&str)) -> io::Result<()> {
        let prefix = format!("{}{begin}", self.settings.prefix);
        let mut token = None;
        loop {
            let mut query = Vec::new();
            query.extend(token.as_deref().map(|token| ("continuation-token", token)));
            query.extend(delimiter.map(|delimiter| ("delimiter", delimiter)));
            query.extend([("list-type", "2"), ("prefix", &*prefix)]);
            let ask = StoreRequest { method: "GET", name: None, query: &query, headers: &[], body: b"" };
            let (answer, text) = self.send_text(&ask)?;
            if answer.status() != 200 {
                return Err(self.failure("list", "", answer));
            }
            each(&text);
            token = xml::first(&text, "NextContinuationToken");
            if token.is_none() {
                return Ok(());
            }
        }
    }

    /// The files of a repository directly below the prefix.
    pub(crate) fn own_files(&self) -> io::Result<BTreeMap<String, u64>> {
        let is_file = |name: &String| !name.contains('/') && !name.starts_with(lease::BEGIN);
        Ok(self.files("")?.into_iter().filter(|(name, _)| is_file(name)).collect())
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8], only_new: bool) -> io::Result<StoreResponse> {
        let headers = [condition(only_new), self.retention(name)?].concat();
        self.send(&StoreRequest { headers: &headers, body: bytes, ..StoreRequest::about("PUT", name) })
    }

    /// Begins a multipart upload.
    pub(crate) fn begin(&self, name: &str, headers: &[(&str, String)]) -> io::Result<String> {
        self.abort_unfinished(name, None)?;
        let headers = [headers, &self.retention(name)?].concat();
        let query = [("uploads", "")];
        let mut answer = self.send(&StoreRequest {
            query: &query,
            headers: &headers,
            ..StoreRequest::about("POST", name)
        })?;
        if answer.status() != 200 {
            return Err(self.failure(
                "begin an upload (s3:PutObject, with --retain also s3:PutObjectRetention)",
                name,
                answer,
            ));
        }
        let text = answer.text()?;
        let upload = xml::first(&text, "UploadId")
            .ok_or_else(|| io::Error::other("the store returned no upload ID"))?;
        if answer.was_retried {
            // An upload whose ID was lost with the response.
            self.abort_unfinished(name, Some(&upload))?;
        }
        Ok(upload)
    }

    /// Aborts unfinished uploads of a file: their parts cost money, and no listing shows them.
    fn abort_unfinished(&self, name: &str, but: Option<&str>) -> io::Result<()> {
        for (found, id) in self.uploads(name)?.0 {
            if found == name && but != Some(&id) {
                tracing::warn!("{}: removed the parts of an unfinished upload", self.shown(name));
                self.abort(name, &id)?;
            }
        }
        Ok(())
    }

    /// Aborts all uploads below the prefix, so that nobody can complete them any more.
    pub(crate) fn abort_all_unfinished(&self) -> io::Result<()> {
        loop {
            let (uploads, is_all) = self.uploads("")?;
            for (name, id) in &uploads {
                tracing::warn!("{}: removed the parts of an unfinished upload", self.shown(name));
                self.abort(name, id)?;
            }
            if is_all || uploads.is_empty() {
                return Ok(());
            }
        }
    }

    /// Unfinished uploads of files whose names begin like this, and whether these are all.
    fn uploads(&self, begin: &str) -> io::Result<(Vec<(String, String)>, bool)> {
        let prefix = format!("{}{begin}", self.settings.prefix);
        let query = [("prefix", &*prefix), ("uploads", "")];
        let ask = StoreRequest { method: "GET", name: None, query: &query, headers: &[], body: b"" };
        let (answer, text) = self.send_text(&ask)?;
        if answer.status() != 200 {
            return Err(self.failure(
                "list unfinished uploads (s3:ListBucketMultipartUploads)",
                begin,
                answer,
            ));
        }
        let found = xml::all(&text, "Upload").into_iter().filter_map(|upload| {
            let name = xml::first(upload, "Key")?.strip_prefix(&self.settings.prefix)?.to_owned();
            Some((name, xml::first(upload, "UploadId")?))
        });
        Ok((found.collect(), xml::first(&text, "IsTruncated").is_none_or(|more| more != "true")))
    }

    /// Uploads a part; returns its ETag.
    pub(crate) fn part(&self, name: &str, upload: &str, number: u64, bytes: &[u8]) -> io::Result<String> {
        let number = number.to_string();
        let query = [("partNumber", &*number), ("uploadId", upload)];
        let answer =
            self.send(&StoreRequest { query: &query, body: bytes, ..StoreRequest::about("PUT", name) })?;
        if answer.status() != 200 {
            return Err(self.failure("write a part", name, answer));
        }
        Ok(answer.header("etag").unwrap_or_default().to_owned())
    }

    pub(crate) fn complete(
        &self,
        name: &str,
        upload: &str,
        tags: &[String],
        only_new: bool,
    ) -> io::Result<StoreResponse> {
        let mut body = String::from("<CompleteMultipartUpload>");
        for (number, tag) in (1..).zip(tags) {
            let tag = xml::escaped(tag);
            body.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
        }
        body.push_str("</CompleteMultipartUpload>");
        let (headers, query) = (&condition(only_new), [("uploadId", upload)]);
        self.send(&StoreRequest {
            query: &query,
            headers,
            body: body.as_bytes(),
            ..StoreRequest::about("POST", name)
        })
    }

    pub(crate) fn abort(&self, name: &str, upload: &str) -> io::Result<()> {
        let answer = self
            .send(&StoreRequest { query: &[("uploadId", upload)], ..StoreRequest::about("DELETE", name) })?;
        match answer.status() {
            200 | 204 | 404 => Ok(()),
            _ => Err(self.failure("abort an upload (s3:AbortMultipartUpload)", name, answer)),
        }
    }

    /// Uploads a long file; it exists once the last request is answered.
    fn send_parts(
        &self,
        file: &NewFile<'_>,
        upload: &str,
        piece: &mut ReadPart<'_>,
    ) -> io::Result<StoreResponse> {
        let part = PART.max(file.len.div_ceil(PARTS_MAX));
        let (mut at, mut tags) = (0, Vec::new());
        while at < file.len {
            let len = part.min(file.len - at);
            let bytes = piece(at, usize::try_from(len).map_err(io::Error::other)?)?;
            tags.push(self.part(file.name, upload, tags.len() as u64 + 1, &bytes)?);
            at += len;
        }
        self.complete(file.name, upload, &tags, !file.replaces)
    }

    /// Whether a file of the store equals the one that was to be added.
    fn is_same_file(&self, file: &NewFile<'_>, piece: &mut ReadPart<'_>) -> io::Result<bool> {
        if self.len(file.name)? != Some(file.len) {
            return Ok(false);
        }
        let mut at = 0;
        while at < file.len {
            let len = usize::try_from(PART.min(file.len - at)).map_err(io::Error::other)?;
            if self.read(file.name, at, len)? != piece(at, len)? {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }

    pub(crate) fn len(&self, name: &str) -> io::Result<Option<u64>> {
        let answer = self.head(name)?;
        Ok(answer.and_then(|answer| answer.header("content-length")?.parse().ok()))
    }

    /// The store's metadata of a file, if it exists.
    pub(crate) fn head(&self, name: &str) -> io::Result<Option<StoreResponse>> {
        let answer = self.send(&StoreRequest::about("HEAD", name))?;
        match answer.status() {
            200 => Ok(Some(answer)),
            404 => Ok(None),
            _ => Err(self.failure("look at", name, answer)),
        }
    }
}

impl MirrorSide for Bucket {
    fn list(&self) -> io::Result<BTreeMap<String, u64>> {
        self.own_files()
    }

    fn read(&self, name: &str, at: u64, len: usize) -> io::Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let range = [("range", format!("bytes={at}-{}", at + len as u64 - 1))];
        let mut cut = None;
        // A response may break off.
        for _ in 0..3 {
            let answer = self.send(&StoreRequest { headers: &range, ..StoreRequest::about("GET", name) })?;
            match answer.status() {
                // 200: the part is all of the file. If it is not, the length shows that.
                206 | 200 => {}
                416 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => return Err(self.failure("read", name, answer)),
            }
            let mut bytes = Vec::with_capacity(len);
            let read = answer.response.into_body().into_reader().take(len as u64 + 1).read_to_end(&mut bytes);
            match read {
                Ok(_) if bytes.len() == len => return Ok(bytes),
                Ok(_) => cut = Some(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => cut = Some(error),
            }
        }
        Err(cut.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }

    fn add(&self, file: &NewFile<'_>, piece: &mut ReadPart<'_>) -> io::Result<()> {
        let answer = if file.len <= PART {
            let bytes = piece(0, usize::try_from(file.len).map_err(io::Error::other)?)?;
            self.put(file.name, &bytes, !file.replaces)?
        } else {
            let upload = self.begin(file.name, &[])?;
            let sent = self.send_parts(file, &upload, piece);
            if !matches!(&sent, Ok(answer) if answer.status() == 200) {
                // The first error is the one that is reported.
                if let Err(error) = self.abort(file.name, &upload) {
                    tracing::warn!("{error}");
                }
            }
            sent?
        };
        match answer.status() {
            // An earlier attempt, whose response was lost, may have written it: 412 for a PUT, 404 for an
            // upload that is complete. Or another run has written the same.
            404 | 412 if self.is_same_file(file, piece)? => Ok(()),
            412 => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another file of this name has appeared meanwhile; another run is writing to this place",
            )),
            200 => {
                let mut answer = answer;
                let text = answer.text()?;
                match xml::first(&text, "Code") {
                    // A completion can fail after its response has begun.
                    Some(code) if text.contains("<Error>") => {
                        Err(io::Error::other(format!("cannot write: the store says {code}; run it again")))
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(self.failure("write", file.name, answer)),
        }
    }

    fn retain(&self, name: &str) -> io::Result<()> {
        self.extend_retention(name)
    }

    fn hold(&self, writes: bool) -> io::Result<Option<Box<dyn Guard>>> {
        mirror::hold(self, writes)
    }

    fn shown(&self, name: &str) -> String {
        Bucket::shown(self, name)
    }
}
