//! How to start a server a second time, on a copy of its data, with the program that it runs.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use host::Machine;
use instance::settings::ELSEWHERE;
use server::Session;

use crate::server_files::setting;

/// Settings without which the data can't be read. A `path` may be in the data folder.
const SETTINGS: [&str; 18] = [
    "basedir",
    "lc_messages_dir",
    "character_sets_dir",
    "plugin_dir",
    "lower_case_table_names",
    "innodb_page_size",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "innodb_log_group_home_dir",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "innodb_undo_directory",
    "innodb_undo_tablespaces",
    "innodb_checksum_algorithm",
    "innodb_file_format",
    "innodb_doublewrite_dir",
    "aria_log_dir_path",
    "aria_log_file_size",
];
/// Options that make the server do nothing but what we ask, with little memory.
const OPTIONS: [&str; 11] = [
    "--skip-networking",
    "--skip-grant-tables",
    "--skip-slave-start",
    "--skip-log-bin",
    "--loose-event-scheduler=OFF",
    "--loose-performance-schema=OFF",
    "--loose-innodb-buffer-pool-load-at-startup=OFF",
    "--loose-innodb-buffer-pool-dump-at-shutdown=OFF",
    "--loose-feedback=OFF",
    "--innodb-buffer-pool-size=128M",
    "--max-connections=10",
];

/// The program of a server, and the options that it needs.
#[derive(Debug)]
pub struct Start {
    /// Its process, whose program is to be started.
    pub process: u32,
    /// The data folder, as the options name it.
    data: PathBuf,
    options: Vec<(String, String)>,
    plugins: Vec<String>,
}

impl Start {
    /// Asks a server how it was started. An error says why it can't be started on a copy.
    pub fn of(session: &mut Session, process: io::Result<u32>, data: &Path) -> Result<Start, String> {
        let process = process.map_err(|error| error.to_string())?;
        let said = |error: io::Error| error.to_string();
        let mut options = Vec::new();
        for name in SETTINGS {
            if let Some(value) = setting(session, name).map_err(said)?.filter(|value| !value.is_empty()) {
                options.push((name.to_owned(), value));
            }
        }
        let query = "SELECT DISTINCT plugin_type, plugin_name, plugin_library FROM information_schema.plugins \
                     WHERE plugin_status = 'ACTIVE' AND plugin_library IS NOT NULL";
        let mut plugins = Vec::new();
        for row in session.strings(query).map_err(|error| error.to_string())? {
            let [Some(kind), Some(name), Some(library)] = &*row else { continue };
            match kind.as_str() {
                "ENCRYPTION" | "KEYRING" => return Err(format!("its tables may be encrypted ({name})")),
                "STORAGE ENGINE" if !ELSEWHERE.iter().any(|known| known.eq_ignore_ascii_case(name)) => {
                    plugins.push(library.clone());
                }
                _ => {}
            }
        }
        plugins.sort();
        plugins.dedup();
        Ok(Start { process, data: data.to_owned(), options, plugins })
    }

    /// The options for a server on a copy.
    pub fn options(&self, copy: &Path) -> Vec<String> {
        let mut options = vec!["--no-defaults".to_owned(), format!("--datadir={}", copy.display())];
        options.extend(OPTIONS.map(str::to_owned));
        for (name, value) in &self.options {
            // Paths in the data folder are changed to the copy, so that nothing of the original is touched.
            let value =
                value.split(';').map(|part| moved(part, &self.data, copy)).collect::<Vec<_>>().join(";");
            options.push(format!("--loose-{}={value}", name.replace('_', "-")));
        }
        options.extend(self.plugins.iter().map(|library| format!("--plugin-load-add={library}")));
        options
    }
}

fn moved(value: &str, from: &Path, to: &Path) -> String {
    match Path::new(value).strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.display().to_string(),
        Ok(rest) => to.join(rest).display().to_string(),
        Err(_) => value.to_owned(),
    }
}

/// The process id of a server.
pub fn process(session: &mut Session, machine: &Machine, data: &Path) -> io::Result<u32> {
    let file = setting(session, "pid_file")?.unwrap_or_default();
    let path = data.join(file);
    let text = text(machine, &path)?;
    let process: u32 =
        text.trim().parse().map_err(|_| io::Error::other(format!("{}: no number", path.display())))?;
    let name = self::text(machine, &Path::new("/proc").join(process.to_string()).join("comm"))?;
    // An outdated file must not make us stop somebody else's process.
    if name.starts_with("mariadbd") || name.starts_with("mysqld") {
        Ok(process)
    } else {
        Err(io::Error::other(format!(
            "{} names process {process}, which is {}",
            path.display(),
            name.trim_end()
        )))
    }
}

fn text(machine: &Machine, path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = machine.disk().open(path).and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_back_to_the_original() {
        let options =
            [("innodb_data_file_path", "/data/db/a/ibdata1:12M;ibdata2:1M:autoextend"), ("basedir", "/usr")];
        let start = Start {
            process: 1,
            data: "/data/db".into(),
            options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            plugins: vec!["ha_x.so".to_owned()],
        };
        let options = start.options(Path::new("/copy")).join(" ");
        assert!(options.ends_with(
            "--loose-innodb-data-file-path=/copy/a/ibdata1:12M;ibdata2:1M:autoextend --loose-basedir=/usr \
             --plugin-load-add=ha_x.so"
        ));
        assert!(
            options.starts_with("--no-defaults --datadir=/copy ") && !options.contains("/data/db"),
            "{options}"
        );
    }
}
