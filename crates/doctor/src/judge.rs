//! What is good, what is not, and what fixes it. It knows only what was gathered.

use crate::facts::{Facts, Rights, Server, Tables};
use crate::finding::{Finding, Fix, bad, good, warning};
use crate::{archive, repository};

/// The smallest `max_allowed_packet` that is not named. It is MariaDB's default.
const PACKET_MIN: u64 = 16 << 20;

/// All lines, in the order in which they are read.
pub fn all(facts: &Facts) -> Vec<Finding> {
    let mut lines = vec![private(&facts.server), rights(&facts.rights)];
    lines.extend(facts.copy.as_ref().map(copy));
    lines.extend(archive::binary_log(facts));
    lines.push(durable(&facts.server));
    lines.extend(tables(&facts.tables, &facts.rights));
    lines.extend([local_infile(&facts.server), packet(&facts.server)]);
    lines.extend(zones(&facts.server));
    if let Some(found) = &facts.repository {
        lines.extend(repository::all(found, facts));
        lines.extend(archive::archived(found, facts));
    }
    lines
}

fn private(server: &Server) -> Finding {
    let shown = &server.shown;
    match &server.no_private {
        None => good("server", format!("{shown}; a private server of this version can be started here")),
        Some((why, command)) => warning(
            "server",
            format!(
                "{shown}; restore --until, restore --tables and verify --boot start a private server here: {why}"
            ),
            command.clone().map(Fix::Command),
        ),
    }
}

fn rights(rights: &Rights) -> Finding {
    const SUBJECT: &str = "rights";
    if rights.lacks.is_empty() {
        return good(SUBJECT, "this account may back up, archive and dump the whole server");
    }
    let what = format!("this account lacks {} for backup, binlog and dump", rights.lacks.join(", "));
    bad(SUBJECT, what, Some(Fix::Set { sql: rights.grant.clone(), option: None }))
}

fn copy(copy: &Result<String, String>) -> Finding {
    match copy {
        Ok(way) => good("backup", way.clone()),
        Err(why) => bad("backup", format!("remora backup would not work: {why}"), None),
    }
}

/// What a power cut leaves.
fn durable(server: &Server) -> Finding {
    const SUBJECT: &str = "durability";
    let lax =
        [("sync_binlog", "1"), ("innodb_flush_log_at_trx_commit", "1")].into_iter().find(|(name, safe)| {
            let is_logged = *name != "sync_binlog" || server.is_on("log_bin");
            is_logged && server.settings.get(*name).is_some_and(|value| value != safe)
        });
    let Some((name, safe)) = lax else {
        let log = if server.is_on("log_bin") { ", and in the binary log" } else { "" };
        return good(SUBJECT, format!("what is committed is on the disk{log}"));
    };
    let value = server.text(name);
    let what = format!(
        "{name} is {value}: after a power cut the last transactions are missing from the tables or from the binary log, and an \
         archive may have more than the server"
    );
    warning(SUBJECT, what, Fix::set(name, safe))
}

fn tables(tables: &Tables, rights: &Rights) -> Vec<Finding> {
    // A server does not list the tables of which an account may do nothing.
    let is_blind = rights.lacks.contains(&"SELECT");
    let none = |subject, every: &str| match tables.seen {
        _ if is_blind => {
            warning(subject, "not looked at: without SELECT this account does not see every table", None)
        }
        0 => good(subject, "this account sees no table"),
        _ => good(subject, every),
    };
    let named = |(names, count): &(Vec<String>, u64)| {
        let more = count.saturating_sub(names.len() as u64);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    };
    let first = |(names, _): &(Vec<String>, u64)| {
        names.first().map(|name| name.split(' ').next().unwrap_or(name).to_owned()).unwrap_or_default()
    };
    let keys = match &tables.without_key {
        (_, 0) => none("primary keys", "every table has one"),
        found => warning(
            "primary keys",
            format!(
                "no primary key: {}; replays and undo scripts look for each of their rows in the whole table",
                named(found)
            ),
            Some(Fix::Command(format!("ALTER TABLE {} ADD PRIMARY KEY (...)", first(found)))),
        ),
    };
    let engines = match &tables.without_transactions {
        (_, 0) => none("engines", "every table has transactions"),
        found => warning(
            "engines",
            format!(
                "no transactions: {}; a dump locks them, a crash may damage them, and remora reverse refuses them",
                named(found)
            ),
            Some(Fix::Command(format!("ALTER TABLE {} ENGINE=InnoDB", first(found)))),
        ),
    };
    vec![keys, engines]
}

fn local_infile(server: &Server) -> Finding {
    if server.is_on("local_infile") {
        return good("local_infile", "import and load send rows with LOAD DATA LOCAL");
    }
    let what =
        "it is OFF: import sends rows with INSERT, which takes several times as long, and load does not work";
    warning("local_infile", what, Fix::set("local_infile", "ON"))
}

fn packet(server: &Server) -> Finding {
    const NAME: &str = "max_allowed_packet";
    let shown = progress::size(server.number(NAME).unwrap_or_default());
    match server.number(NAME) {
        Some(bytes) if bytes < PACKET_MIN => warning(
            NAME,
            format!(
                "{shown}: rows that are longer can't be loaded, and undo scripts with such rows don't run"
            ),
            Fix::set(NAME, &PACKET_MIN.to_string()),
        ),
        _ => good(NAME, shown),
    }
}

fn zones(server: &Server) -> Option<Finding> {
    Some(match server.zones? {
        0 => warning(
            "time zones",
            "the tables of time zones are empty: CONVERT_TZ with names gives NULL, in import --set too",
            Some(Fix::Command("mariadb-tzinfo-to-sql /usr/share/zoneinfo | mariadb mysql".to_owned())),
        ),
        _ => good("time zones", "the server knows their names"),
    })
}

impl Server {
    /// A variable; empty if the server does not know it.
    pub fn text(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), "ON" | "1")
    }

    /// A variable that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}

#[cfg(test)]
mod tests;
