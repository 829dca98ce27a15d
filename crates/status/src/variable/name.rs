//! What is known from the names of variables and versions alone.

/// The name in lower case with underscores.
pub(crate) fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// The title and the version word for a version text: `MariaDB 10.11.19-MariaDB-0+deb12u1`,
/// `mariadb-10.11.19`.
pub(crate) fn version(text: &str, is_mariadb: bool) -> (String, String) {
    let (title, word) = if is_mariadb { ("MariaDB", "mariadb") } else { ("MySQL", "mysql") };
    let text = text.split_whitespace().next().unwrap_or_default();
    (format!("{title} {text}"), format!("{word}-{}", ::server::Version::parse(text)))
}

/// The deprecation message in an option's description.
pub(crate) fn deprecation(comment: &str) -> Option<String> {
    let sentences = comment.split_inclusive(". ").map(str::trim);
    let says = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["deprecated", "will be removed", "no effect"].iter().any(|word| text.contains(word))
    };
    let mut from = sentences.skip_while(|sentence| !says(sentence));
    let first = from.next()?;
    // `Deprecated. Use --x instead`: the next sentence says what to use.
    let is_bare = first.eq_ignore_ascii_case("deprecated.");
    let more = from.next().filter(|next| is_bare || next.to_ascii_lowercase().starts_with("use "));
    Some(more.map_or_else(|| first.to_owned(), |more| format!("{first} {more}")))
}

/// Names of variables that identify the server and its files, and do not affect how it works.
const ADMINISTRATIVE: &[&str] = &[
    "basedir",
    "bind_address",
    "character_sets_dir",
    "core_file",
    "datadir",
    "feedback_server_uid",
    "general_log_file",
    "hostname",
    "ignore_builtin_innodb",
    "init_file",
    "innodb_version",
    "language",
    "large_page_size",
    "lc_messages_dir",
    "license",
    "locked_in_memory",
    "log_basename",
    "log_bin_basename",
    "log_bin_index",
    "log_error",
    "log_slow_query_file",
    "log_tc",
    "lower_case_file_system",
    "pid_file",
    "plugin_dir",
    "port",
    "extra_port",
    "relay_log",
    "relay_log_basename",
    "relay_log_index",
    "relay_log_info_file",
    "server_id",
    "server_uid",
    "server_uuid",
    "slave_load_tmpdir",
    "replica_load_tmpdir",
    "slow_query_log_file",
    "socket",
    "system_time_zone",
    "tls_version",
    "tmpdir",
    "user",
    "version",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_tmpdir",
    "aria_log_dir_path",
    "wsrep_patch_version",
    "wsrep_start_position",
    "wsrep_data_home_dir",
    "wsrep_provider",
];

/// The same for prefixes of names.
const ADMINISTRATIVE_PREFIXES: &[&str] = &[
    "version_",
    "gtid_binlog_",
    "gtid_current_",
    "gtid_slave_pos",
    "gtid_executed",
    "gtid_purged",
    "report_",
    "ssl_",
    "wsrep_node_",
    "wsrep_cluster_address",
    "wsrep_sst_",
];

/// Whether a variable identifies the server, its files or what it has done so far, and does not affect how it
/// works.
#[must_use]
pub fn is_administrative(name: &str) -> bool {
    ADMINISTRATIVE.contains(&name) || ADMINISTRATIVE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an option may be given several times, and all its values count.
#[must_use]
pub fn is_list(name: &str) -> bool {
    const FRONTS: [&str; 4] = ["replicate_do_", "replicate_ignore_", "replicate_wild_", "replicate_rewrite_"];
    FRONTS.iter().any(|front| name.starts_with(front))
        || matches!(
            name,
            "binlog_do_db" | "binlog_ignore_db" | "plugin_load_add" | "ignore_db_dir" | "ignore_db_dirs"
        )
}

/// Whether the variable is a switch, but its option takes a name: `log_bin` is ON when there is a binary
/// log, and the line `log_bin = OFF` makes one that is called OFF.
#[must_use]
pub(crate) fn is_named_switch(name: &str) -> bool {
    name == "log_bin"
}

/// Whether an option, if it takes a text, takes the name of a file or a folder.
#[must_use]
pub(crate) fn is_path(name: &str) -> bool {
    const ENDS: [&str; 6] = ["_file", "_filename", "log_index", "bin_index", "_path", "dir"];
    const NAMES: [&str; 8] = [
        "innodb_undo_directory",
        "log_basename",
        "log_ddl_recovery",
        "log_error",
        "log_isam",
        "log_tc",
        "relay_log",
        "socket",
    ];
    NAMES.contains(&name) || !is_list(name) && ENDS.iter().any(|end| name.ends_with(end))
}

/// A value that may be stored and shown: passwords and keys are replaced by the same text. The name may be
/// unknown to all our servers, or abbreviated.
pub(crate) fn shown(name: &str, value: String) -> String {
    let name = plain(name);
    let last = name.rsplit('_').next().unwrap_or_default();
    let is_secret = ["pass", "pwd", "token", "filekey"].iter().any(|front| last.starts_with(front))
        || name.contains("secret")
        || name.ends_with("sst_auth");
    // These are about passwords, but do not contain one.
    let is_none = ["old_passwords", "disconnect_on_expired_password"].contains(&name.as_str());
    if is_secret && !is_none && !value.is_empty() { "***".to_owned() } else { value }
}

/// Variables whose default a server computes from processors, memory or open files. For servers that do not
/// tell this themselves (in MariaDB `GLOBAL_VALUE_ORIGIN` is `AUTO`).
pub(crate) fn is_by_machine(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "back_log",
        "host_cache_size",
        "innodb_open_files",
        "innodb_purge_threads",
        "log_tc_size",
        "lower_case_table_names",
        "max_relay_log_size",
        "open_files_limit",
        "table_definition_cache",
        "table_open_cache",
        "table_open_cache_instances",
        "thread_cache_size",
        "thread_pool_size",
        "innodb_log_write_ahead_size",
        "innodb_buffer_pool_size_auto_min",
    ];
    NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deprecation_says_what_to_use() {
        let said = |comment| deprecation(comment);
        assert_eq!(said("Use ANSI SQL. One of: A, B."), None);
        assert_eq!(
            said("Deprecated parameter with no effect"),
            Some("Deprecated parameter with no effect".into())
        );
        assert_eq!(
            said("Alias for alter_algorithm. Deprecated. Use --alter-algorithm instead."),
            Some("Deprecated. Use --alter-algorithm instead.".into())
        );
        let three = "Deprecated and old. Use --other instead. And more.";
        assert_eq!(said(three), Some("Deprecated and old. Use --other instead.".into()));
        assert_eq!(said("Deprecated and old. It was good."), Some("Deprecated and old.".into()));
        assert_eq!(said("Unused, will be removed."), Some("Unused, will be removed.".into()));
    }

    #[test]
    fn a_version_is_a_title_and_a_word() {
        let text = "10.11.6-MariaDB-0+deb12u1 for debian";
        assert_eq!(
            version(text, true),
            ("MariaDB 10.11.6-MariaDB-0+deb12u1".into(), "mariadb-10.11.6".into())
        );
        assert_eq!(version("5.6.51", false), ("MySQL 5.6.51".into(), "mysql-5.6.51".into()));
        assert!(is_by_machine("back_log") && !is_by_machine("max_connections"));
    }

    #[test]
    fn secrets_are_not_kept() {
        assert_eq!(shown("report_password", "x".into()), "***");
        assert_eq!(shown("report_password", String::new()), "");
        for name in ["wsrep_sst_auth", "file_key_management_filekey", "loose-report-passw", "s3_secret_key"] {
            assert_eq!(shown(name, "x".into()), "***", "{name}");
        }
        for name in ["old_passwords", "simple_password_check_digits", "innodb_ft_max_token_size"] {
            assert_eq!(shown(name, "1".into()), "1", "{name}");
        }
    }

    #[test]
    fn administrative_options_are_recognised_by_name() {
        for name in ["hostname", "version_comment", "report_host", "datadir", "gtid_binlog_pos"] {
            assert!(is_administrative(name), "{name}");
        }
        for name in
            ["innodb_buffer_pool_size", "sql_mode", "log_bin", "gtid_strict_mode", "port_open_timeout"]
        {
            assert!(!is_administrative(name), "{name}");
        }
    }
}
