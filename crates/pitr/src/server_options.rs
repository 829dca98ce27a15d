//! Options with which a private server would not replay what the log says.

use anyhow::Result;
use failure::usage;

/// Options of a server with which a replay is not what the log says, and those that it must have from us.
const SKIPPING: [&str; 27] = [
    "enforce-gtid-consistency",
    "event-scheduler",
    "gtid-ignore-duplicates",
    "gtid-mode",
    "init-file",
    "init-replica",
    "init-slave",
    "innodb-force-recovery",
    "innodb-read-only",
    "replica-exec-mode",
    "replica-skip-errors",
    "replicate-do-db",
    "replicate-do-table",
    "replicate-events-marked-for-skip",
    "replicate-ignore-db",
    "replicate-ignore-table",
    "replicate-rewrite-db",
    "replicate-same-server-id",
    "replicate-wild-do-table",
    "replicate-wild-ignore-table",
    "skip-grant-tables",
    "slave-ddl-exec-mode",
    "slave-exec-mode",
    "slave-run-triggers-for-rbr",
    "slave-skip-errors",
    "sql-replica-skip-counter",
    "sql-slave-skip-counter",
];

/// Whether an argument gives an option of a server. Servers take the beginning of its name too.
fn is_option(argument: &str, known: &str) -> bool {
    let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
    let name = name.replace('_', "-").to_lowercase();
    let name = ["loose-", "maximum-"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
    // The name of a connection may come first.
    let name = name.rsplit('.').next().unwrap_or(name);
    // What is shorter begins others too, and no server takes it.
    const SHORTEST: usize = 8;
    name == known || name.len() >= SHORTEST && known.starts_with(name)
}

/// Refuses such options.
///
/// # Errors
/// A wrong command line, if one is among them.
pub fn must_replay_all(options: &[String]) -> Result<()> {
    let Some(option) = options.iter().find(|option| SKIPPING.iter().any(|known| is_option(option, known)))
    else {
        return Ok(());
    };
    Err(usage(format!(
        "--server-option={option}: with that the private server would leave out or change a part of what it replays, or could not \
         replay at all: leave it out. If an event can't be applied, --before stops in front of it"
    )))
}

#[cfg(test)]
mod tests {
    use super::must_replay_all;

    #[test]
    fn options_that_skip_are_refused_however_they_are_written() {
        let is_refused = |option: &str| must_replay_all(&[option.to_owned()]).is_err();
        for option in [
            "--slave-skip-errors=all",
            "--slave_skip_errors=1032",
            "--loose-slave-skip-errors=all",
            "--slave-skip=all",
            "--sql-slave-skip-counter=1",
            "--replicate-do-db=app",
            "--REPLICATE-wild-ignore-table=app.%",
            "--c1.replicate-ignore-db=x",
            "--slave-exec-mode=IDEMPOTENT",
            "--skip-grant-tables",
            "--event-scheduler=ON",
            "--innodb-force-recovery=3",
            "--gtid_mode=OFF",
            "--replica-skip-errors=all",
        ] {
            assert!(is_refused(option), "{option}");
        }
        for option in [
            "--innodb-buffer-pool-size=1G",
            "--lower-case-table-names=1",
            "--slave-parallel-threads=4",
            "--plugin-load-add=ha_x",
            "--innodb-read-io-threads=2",
            "--secure-file-priv=/slave-skip-errors",
        ] {
            assert!(!is_refused(option), "{option}");
        }
    }
}
