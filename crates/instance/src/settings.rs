//! Settings of a server that change what a statement makes. Each generation notes them, and a private server
//! that replays a log gets them: a log has what its statements say, and not what the server made of that.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use progress::{Progress, Shared};
use serde_json::{Value, json};
use server::Session;

/// Those that a server takes only when it starts. Some of them it needs to read the data.
pub const AT_START: [&str; 11] = [
    "aria_block_size",
    "ft_max_word_len",
    "ft_min_word_len",
    "ft_query_expansion_limit",
    "ft_stopword_file",
    "innodb_autoinc_lock_mode",
    "innodb_ft_max_token_size",
    "innodb_ft_min_token_size",
    "lower_case_table_names",
    "myisam_block_size",
    "plugin_maturity",
];

/// Those that it takes at any time. The events of a log have some more settings with them, such as
/// `sql_mode`.
pub const AT_ANY_TIME: [&str; 47] = [
    "analyze_max_length",
    "analyze_sample_percentage",
    "aria_encrypt_tables",
    "aria_page_checksum",
    "automatic_sp_privileges",
    "block_encryption_mode",
    "character_set_collations",
    "character_set_filesystem",
    "collation_server",
    "default_password_lifetime",
    "default_regex_flags",
    "default_storage_engine",
    "default_tmp_storage_engine",
    "default_week_format",
    "div_precision_increment",
    "enforce_storage_engine",
    "explicit_defaults_for_timestamp",
    "ft_boolean_syntax",
    "group_concat_max_len",
    "histogram_size",
    "histogram_type",
    "innodb_compression_default",
    "innodb_default_encryption_key_id",
    "innodb_default_row_format",
    "innodb_encrypt_tables",
    "innodb_file_per_table",
    "innodb_ft_enable_stopword",
    "innodb_ft_server_stopword_table",
    "innodb_ft_user_stopword_table",
    "innodb_read_only_compressed",
    "innodb_strict_mode",
    "max_heap_table_size",
    "max_recursive_iterations",
    "max_sort_length",
    "max_sp_recursion_depth",
    "mhnsw_default_distance",
    "mhnsw_default_m",
    "myisam_data_pointer_size",
    "mysql56_temporal_format",
    "new_mode",
    "old_mode",
    "old_passwords",
    "partial_revokes",
    "restrict_fk_on_non_standard_key",
    "standard_compliant_cte",
    "time_zone",
    "use_stat_tables",
];

/// Engines whose tables are elsewhere: a server of ours must not go there.
pub const ELSEWHERE: [&str; 6] = ["FEDERATED", "SPIDER", "CONNECT", "S3", "Columnstore", "SPHINX"];

/// The setting whose value is a file, or says that there is none.
const FILE: &str = "ft_stopword_file";

/// What the local time is in winter and in summer, as far as a server takes it from its machine.
const ZONE: &str = "SELECT CONCAT(FROM_UNIXTIME(1767225600), ' ', FROM_UNIXTIME(1782864000))";

/// What is noted of a server.
///
/// # Errors
/// Errors of the server.
pub fn note(session: &mut Session) -> Result<Value, server::Error> {
    let version = session.value("SELECT VERSION()")?.unwrap_or_default();
    let name = session.value("SELECT @@system_time_zone")?;
    let zone = zone(session)?;
    let mut settings = values(session)?;
    settings.retain(|name, _| AT_START.contains(&name.as_str()) || AT_ANY_TIME.contains(&name.as_str()));
    Ok(json!({"version": version, "settings": settings, "zone": {"name": name, "times": zone}}))
}

/// What [`ZONE`] gives in the time zone that a server takes from its machine.
fn zone(session: &mut Session) -> Result<Option<String>, server::Error> {
    session.execute("SET @remora_zone = @@SESSION.time_zone, time_zone = 'SYSTEM'")?;
    let zone = session.value(ZONE);
    session.execute("SET time_zone = @remora_zone")?;
    zone
}

/// All settings, by their names in lower case.
fn values(session: &mut Session) -> Result<BTreeMap<String, String>, server::Error> {
    let rows = session.strings("SHOW GLOBAL VARIABLES")?;
    let pair = |row: Vec<Option<String>>| match <[Option<String>; 2]>::try_from(row) {
        Ok([Some(name), value]) => Some((name.to_lowercase(), value.unwrap_or_default())),
        _ => None,
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// The options of a server that needs what was noted.
pub fn options(noted: &Value) -> Vec<String> {
    let of = |name: &&str| noted.pointer(&format!("/settings/{name}")).and_then(Value::as_str);
    let known = AT_START.iter().filter_map(|name| Some((name, of(name)?)));
    // A file of the original's machine may not be here.
    let is_here = |(name, value): &(&&str, &str)| **name != FILE || Path::new(value).is_file();
    known.filter(is_here).map(|(name, value)| format!("--loose-{}={value}", name.replace('_', "-"))).collect()
}

/// Gives a server the settings that it takes at any time, for sessions that begin later.
///
/// # Errors
/// Errors of the server, other than that it does not take a setting: that is told.
pub fn apply(session: &mut Session, noted: &Value, report: &Shared) -> Result<()> {
    let now = values(session)?;
    for name in AT_ANY_TIME {
        let Some(value) = noted.pointer(&format!("/settings/{name}")).and_then(Value::as_str) else {
            continue;
        };
        if now.get(name).is_some_and(|now| now == value) {
            continue;
        }
        let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
        let quoted = if is_number { value.to_owned() } else { session.quote(value) };
        if let Err(error) = session.execute(&format!("SET GLOBAL {name} = {quoted}")) {
            report.warn(&format!(
                "the original server had {name} = {value}, and the private one does not take that: {error}. What depends on it may \
                 become other than it was"
            ));
        }
    }
    Ok(())
}

/// Warns if statements of the log took the local time of another time zone than that of this machine.
///
/// # Errors
/// Errors of the server.
pub fn tell_zone(session: &mut Session, noted: &Value, report: &Shared) -> Result<()> {
    let text = |path: &str| noted.pointer(path).and_then(Value::as_str);
    let (Some(times), Some("SYSTEM")) = (text("/zone/times"), text("/settings/time_zone")) else {
        return Ok(());
    };
    let here = zone(session)?.unwrap_or_default();
    if here != times {
        let name = text("/zone/name").unwrap_or_default();
        report.warn(&format!(
            "the original server took its time zone from its machine ({name}), and this machine has another one: a statement in the \
             log that asks for the local time gets another one. TZ=ZONE before the command, such as TZ=Europe/Berlin, gives the \
             private server the right one"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_it_takes_only_at_its_start() {
        let here = tempfile::NamedTempFile::new().unwrap();
        let file = here.path().display().to_string();
        let noted = |file: &str| json!({"settings": {"lower_case_table_names": "1", "innodb_strict_mode": "OFF", "ft_stopword_file": file}});
        let wanted =
            [format!("--loose-ft-stopword-file={file}"), "--loose-lower-case-table-names=1".to_owned()];
        assert_eq!(options(&noted(&file)), wanted);
        assert_eq!(options(&noted("(built-in)")), wanted[1..]);
        assert_eq!(options(&Value::Null), Vec::<String>::new());
    }
}
