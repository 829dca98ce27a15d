//! What a server needs that is started on a generation, by what was noted when it was copied.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use anyhow::{Result, bail};
use block::Repository;
use serde_json::Value;

use crate::settings;

/// The plugin whose keys are known here, and the beginning of its settings.
pub const KEY_PLUGIN: &str = "file_key_management";
/// The ways in which it encrypts.
const ALGORITHMS: [&str; 2] = ["aes_cbc", "aes_ctr"];
/// How a server names what it can't decrypt.
const NOT_DECRYPTED: [&str; 3] = ["decrypt", "ncryption key", KEY_PLUGIN];

/// What was noted of a generation, or of the newest one.
#[derive(Debug)]
pub struct Requirements {
    note: Value,
}

/// What is known of data without a note.
pub static NOTHING: Requirements = Requirements { note: Value::Null };

impl Requirements {
    /// Reads it in a repository.
    pub fn of(repository: &Repository, generation: Option<u64>) -> Result<Requirements> {
        let all = repository.list()?.generations;
        let chosen = all.into_iter().rfind(|one| generation.is_none_or(|number| one.number == number));
        Ok(Requirements::noted(&chosen.map(|one| one.note).unwrap_or_default()))
    }

    /// The same by its note.
    pub fn noted(note: &str) -> Requirements {
        Requirements { note: serde_json::from_str(note).unwrap_or_default() }
    }

    /// The options of a server: what it needs, and then those that are `given`, which count more.
    ///
    /// # Errors
    /// Without the keys of encrypted tablespaces.
    pub fn options(&self, given: &[String]) -> Result<Vec<String>> {
        let mut all = self.without_keys();
        if let Some(keys) = self.keys() {
            all.extend(keys.options(given)?);
        }
        all.extend(given.iter().cloned());
        Ok(all)
    }

    /// The options of a server, but those for the keys of encrypted tablespaces.
    pub fn without_keys(&self) -> Vec<String> {
        let mut all = settings::options(self.server());
        all.extend(self.system().map(|files| format!("--innodb-data-file-path={files}")));
        all
    }

    /// What was noted of the server ([`settings::note`]); null before remora noted that.
    pub fn server(&self) -> &Value {
        self.note.get("server").unwrap_or(&Value::Null)
    }

    /// The size of the redo log with which a server recovers it, if it was copied while its server ran.
    pub fn redo_bytes(&self) -> Option<u64> {
        self.note.pointer("/log/size")?.as_u64()
    }

    /// The version of the server.
    pub fn version(&self) -> Option<&str> {
        self.server().get("version")?.as_str().filter(|version| !version.is_empty())
    }

    /// The file of the binary log that the server wrote; empty if it had none.
    pub fn log(&self) -> Option<&str> {
        self.note.pointer("/position/file")?.as_str()
    }

    /// The files of the system tablespace, as the server's setting has them. None if they are the usual ones,
    /// and for what would lead out of the data folder.
    pub fn system(&self) -> Option<&str> {
        let files = self.note.get("system")?.as_str()?;
        let is_inside = |file: &str| leads_inside(file.split(':').next().unwrap_or_default().as_bytes());
        files.split(';').all(is_inside).then_some(files)
    }

    /// Whether it has tables that were outside of the data folder.
    pub fn has_outside(&self) -> bool {
        self.note.pointer("/outside/tables").and_then(Value::as_u64).is_some_and(|tables| tables > 0)
    }

    /// The keys of its encrypted tablespaces.
    pub fn keys(&self) -> Option<Keys<'_>> {
        let keys = self.note.get("keys")?;
        let text = |name: &str| keys.get(name).and_then(Value::as_str).unwrap_or_default();
        Some(Keys { file: text("file"), algorithm: text("algorithm"), secret: text("secret") })
    }

    /// What of the damages that a server has found only says that it has other keys.
    pub fn not_decrypted<'a>(&self, damages: &'a [String]) -> Option<&'a String> {
        let is_of_key = |damage: &&String| NOT_DECRYPTED.iter().any(|word| damage.contains(word));
        damages.iter().find(is_of_key).filter(|_| self.keys().is_some())
    }
}

/// Where the keys are, which are in no backup.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// The file with the keys.
    pub file: &'a str,
    algorithm: &'a str,
    /// `FILE:` and the file with the key of that file; `given` if only the server's administrator has it;
    /// empty if there is none.
    secret: &'a str,
}

impl Keys<'_> {
    fn options(self, given: &[String]) -> Result<Vec<String>> {
        let Keys { file, algorithm, secret } = self;
        let name = |option: &str| option.trim_start_matches('-').replace('_', "-");
        let has = |wanted: &str| given.iter().any(|option| name(option).starts_with(wanted));
        if !has("file-key-management-filename") && !Path::new(file).is_file() {
            bail!(
                "its tablespaces are encrypted, and {file}, the file with their keys, is not on this machine; give it with \
                 --server-option=--file-key-management-filename=FILE"
            );
        }
        if secret == "given" && !has("file-key-management-filekey") {
            bail!(
                "its tablespaces are encrypted, and so is the file with their keys; give the key of that file with \
                 --server-option=--file-key-management-filekey=FILE:PATH"
            );
        }
        let mut all =
            vec![format!("--plugin-load-add={KEY_PLUGIN}"), format!("--file-key-management-filename={file}")];
        if ALGORITHMS.contains(&algorithm) {
            all.push(format!("--file-key-management-encryption-algorithm={algorithm}"));
        }
        if secret.starts_with("FILE:") {
            all.push(format!("--file-key-management-filekey={secret}"));
        }
        Ok(all)
    }
}

/// Whether what a link file or a setting says leads from the data folder only down.
pub fn leads_inside(link: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(link.trim_ascii()));
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::{Requirements, leads_inside};

    #[test]
    fn a_link_file_leads_out_of_the_data_folder_or_not() {
        assert!(leads_inside(b".x/d/t.ibd\n") && leads_inside(b"x"));
        for out in [&b"/x/d/t.ibd"[..], b"../t.ibd", b".x/../../t.ibd", b"./../t.ibd"] {
            assert!(!leads_inside(out), "{}", String::from_utf8_lossy(out));
        }
    }

    #[test]
    fn a_note_names_no_file_outside_of_the_data_folder() {
        let said = |files: &str| {
            Requirements::noted(&format!("{{\"system\":\"{files}\"}}")).system().map(str::to_owned)
        };
        for files in ["ibdata1:12M;more/ibdata2:8M:autoextend", "x"] {
            assert_eq!(said(files).as_deref(), Some(files));
        }
        for files in ["/x/ibdata1:12M", "ibdata1:12M;../ibdata2:8M", "a/../../b:8M", "./../b:1M"] {
            assert_eq!(said(files), None, "{files}");
        }
        assert_eq!(Requirements::noted("{}").system(), None);
        assert_eq!(Requirements::noted("no note").system(), None);
    }

    #[test]
    fn keys_are_found_or_asked_for() {
        let here = tempfile::NamedTempFile::new().unwrap();
        let here = here.path().display().to_string();
        let needs = |file: &str, secret: &str| {
            let keys = format!("{{\"file\":\"{file}\",\"algorithm\":\"aes_ctr\",\"secret\":\"{secret}\"}}");
            Requirements::noted(&format!("{{\"keys\":{keys}}}"))
        };
        let options = |needs: &Requirements, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|option| (*option).to_owned()).collect();
            needs.options(&given).map(|all| all.join(" ")).map_err(|error| error.to_string())
        };
        let all = options(&needs(&here, "FILE:/s"), &["--x"]).unwrap();
        let wanted = format!(
            "--plugin-load-add=file_key_management --file-key-management-filename={here} \
             --file-key-management-encryption-algorithm=aes_ctr --file-key-management-filekey=FILE:/s --x"
        );
        assert_eq!(all, wanted);
        assert!(!options(&needs(&here, ""), &[]).unwrap().contains("filekey"));
        assert!(options(&needs("/no/file", ""), &[]).unwrap_err().contains("/no/file"));
        let other = options(&needs("/no/file", ""), &["--file_key_management_filename=/y"]).unwrap();
        assert!(other.ends_with("=/y"), "{other}");
        assert!(options(&needs(&here, "given"), &[]).unwrap_err().contains("filekey"));
        let other = options(&needs(&here, "given"), &["--file-key-management-filekey=x"]).unwrap();
        assert!(other.matches("filekey").count() == 1, "{other}");
        assert_eq!(options(&Requirements::noted("{}"), &["--x"]).unwrap(), "--x");
    }

    #[test]
    fn other_keys_are_no_damage() {
        let said = |text: &str| vec!["the server says: x".to_owned(), text.to_owned()];
        let encrypted = Requirements::noted("{\"keys\":{\"file\":\"/k\"}}");
        for text in
            ["uncompress or decrypt failed", "Encryption key is not found", "Can't open file_key_management"]
        {
            assert!(encrypted.not_decrypted(&said(text)).is_some_and(|found| found == text));
            assert_eq!(Requirements::noted("{}").not_decrypted(&said(text)), None);
        }
        assert_eq!(encrypted.not_decrypted(&said("page 5 is corrupted")), None);
    }
}
