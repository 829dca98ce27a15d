//! The target as a replica of the source: the servers' own replication applies what the source commits.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use server::{About, Flavour, Position, ReplicaState, Session, SslMode, Target, Version, quote_name};

use crate::{Error, check, connect};

/// How long a replica may take to log in to its source.
const LOGIN: Duration = Duration::from_secs(30);
/// How often to look whether it has.
const LOOK: Duration = Duration::from_millis(100);
/// Before it, MySQL has the older words for replication.
const NEW_WORDS: Version = Version { major: 8, minor: 0, patch: 23 };
/// Before it, MySQL has the older word in the definition of an event.
const NEW_EVENTS: Version = Version { major: 8, minor: 2, patch: 0 };

/// Two servers, the second of which is to be a replica of the first.
#[derive(Clone, Copy)]
pub struct Replica<'a> {
    /// The source.
    pub from: &'a Target,
    /// The server that becomes its replica.
    pub to: &'a Target,
    /// The source as the target reaches it, and the account that the target uses.
    pub source: &'a Target,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

impl Replica<'_> {
    /// Why the target can't be a replica of the source, a line for each reason.
    ///
    /// # Errors
    /// Those of the servers.
    pub fn refusals(&self) -> Result<Vec<String>, Error> {
        let (mut source, mut target) = (self.from.connect()?, self.to.connect()?);
        let [a, b] = [&source, &target].map(|session| (session.about.flavour, session.about.version));
        let mut why: Vec<String> = families(a, b).into_iter().collect();
        why.extend(check::log(&mut source)?);
        if self.source.socket.is_some() {
            why.push(
                "B reaches A through TCP: --source mysql://user:password@host:port is A's address as B sees it"
                    .to_owned(),
            );
        }
        if matches!(self.source.tls.mode, SslMode::VerifyCa | SslMode::VerifyIdentity) {
            why.push("which certificates B trusts is set on B: use ssl-mode=required in --source".to_owned());
        }
        let (a, b) = (&source.about, &target.about);
        if a.server_id == b.server_id || b.server_id == 0 {
            why.push(format!(
                "server_id of A is {}, of B {}: B needs one of its own",
                a.server_id, b.server_id
            ));
        }
        if a.lower_case_table_names != b.lower_case_table_names {
            why.push("lower_case_table_names of A and B differ".to_owned());
        }
        if target.replica_state()?.is_some() {
            why.push("B is a replica already; STOP REPLICA and RESET REPLICA ALL end that".to_owned());
        }
        let modes = [&mut source, &mut target].map(|session| session.value("SELECT @@GLOBAL.gtid_mode"));
        // MariaDB has no such variable.
        if let [Ok(Some(a)), Ok(Some(b))] = modes
            && [("ON", "OFF"), ("OFF", "ON")].contains(&(&a, &b))
        {
            why.push(format!("gtid_mode of A is {a}, of B {b}"));
        }
        let events = enabled_events(&mut source)?;
        let scheduler = target.value("SELECT @@GLOBAL.event_scheduler")?;
        if !events.is_empty() && scheduler.is_some_and(|value| ["ON", "1"].contains(&&*value)) {
            why.push(
                "A has events, and the event scheduler of B runs: it would execute them, too, until replication begins. SET \
                 GLOBAL event_scheduler = OFF on B; afterwards it may run again"
                    .to_owned(),
            );
        }
        Ok(why)
    }

    /// Tries whether the target can log in to the source and receive its log, so that it is known before
    /// anything is copied. Nothing is applied, and nothing is left. Returns whether it is with TLS.
    ///
    /// # Errors
    /// [`Error::Refused`] with what the target says.
    pub fn try_login(&self) -> Result<bool, Error> {
        let position = self.from.connect()?.position()?;
        let position = position.ok_or_else(|| Error::Refused("A has no binary log (log_bin)".to_owned()))?;
        let file = Position { gtid: String::new(), ..position };
        let mut session = connect(self.to, true)?;
        let ways: &[bool] = match self.source.tls.mode {
            SslMode::Disabled => &[false],
            SslMode::Preferred => &[true, false],
            _ => &[true],
        };
        let mut tried = Ok(());
        for with_tls in ways {
            tried = self.try_once(&mut session, &file, *with_tls);
            if tried.is_ok() {
                return Ok(*with_tls);
            }
        }
        tried.map(|()| false)
    }

    fn try_once(&self, session: &mut Session, position: &Position, with_tls: bool) -> Result<(), Error> {
        let words = Words::of(&session.about);
        self.change(session, position, with_tls)?;
        let tried = match session.execute(&format!("START {} IO_THREAD", words.replica)) {
            Ok(_) => self.wait(session, |state| state.receives),
            Err(error) => Err(error.into()),
        };
        session.execute(&format!("STOP {}", words.replica))?;
        session.execute(&format!("RESET {} ALL", words.replica))?;
        tried
    }

    /// Begins to replicate at the position of the copy's snapshot. Events that A has don't run on B from then
    /// on: what they do on A is replicated.
    ///
    /// # Errors
    /// [`Error::Refused`] with what the target says, if it does not replicate within half a minute.
    pub fn begin(&self, position: &Position, with_tls: bool) -> Result<(), Error> {
        let mut session = connect(self.to, true)?;
        let words = Words::of(&session.about);
        quiet_events(&mut self.from.connect()?, &mut session)?;
        if session.about.flavour == Flavour::MariaDb && !position.gtid.is_empty() {
            let gtid = session.quote(&position.gtid);
            session.execute(&format!("SET GLOBAL gtid_slave_pos = {gtid}"))?;
        }
        self.change(&mut session, position, with_tls)?;
        session.execute(&format!("START {}", words.replica))?;
        self.wait(&mut session, |state| state.receives && state.applies)
    }

    /// Tells the target its source.
    fn change(&self, session: &mut Session, position: &Position, with_tls: bool) -> Result<(), Error> {
        let words = Words::of(&session.about);
        let Target { host, port, user, password, .. } = self.source;
        let password = password.as_ref().map_or("", |password| password.expose());
        let Position { file, offset, gtid } = position;
        let text = |text: &str| session.quote(text);
        let mut options = vec![
            ("HOST", text(host)),
            ("PORT", port.to_string()),
            ("USER", text(user)),
            ("PASSWORD", text(password)),
            ("SSL", u8::from(with_tls).to_string()),
        ];
        let is_mariadb = session.about.flavour == Flavour::MariaDb;
        if with_tls {
            // From 11.4 on MariaDB would want a certificate that leads to a CA which the target trusts.
            options.push(("SSL_VERIFY_SERVER_CERT", "0".to_owned()));
        }
        if is_mariadb && !gtid.is_empty() {
            options.push(("USE_GTID", "slave_pos".to_owned()));
        } else {
            options.extend([("LOG_FILE", text(file)), ("LOG_POS", offset.to_string())]);
        }
        if is_mariadb && gtid.is_empty() {
            options.push(("USE_GTID", "no".to_owned()));
        }
        let named = options.iter().map(|(name, value)| format!("{}_{name} = {value}", words.source));
        let mut sql = format!("{} {}", words.change, named.collect::<Vec<_>>().join(", "));
        if words.source == "SOURCE" {
            // Else accounts of caching_sha2_password can't log in without TLS.
            sql.push_str(", GET_SOURCE_PUBLIC_KEY = 1");
        }
        session.execute(&sql)?;
        Ok(())
    }

    /// Waits until the replica is so far.
    fn wait(&self, session: &mut Session, is_ready: impl Fn(&ReplicaState) -> bool) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let state = session.replica_state()?;
            let Some(state) = state else {
                return Err(Error::Refused("B is no replica any more".to_owned()));
            };
            if let Some(error) = state.error {
                return Err(Error::Refused(format!("B can't replicate from A: {error}")));
            }
            if is_ready(&state) {
                return Ok(());
            }
            if begin.elapsed() > LOGIN {
                let why = format!("B has not begun to replicate after {} s", LOGIN.as_secs());
                return Err(Error::Refused(why));
            }
            if !progress::pause(LOOK, self.stop) {
                return Err(dump::Error::Stopped("B does not replicate yet").into());
            }
        }
    }
}

/// How a server calls replication.
struct Words {
    change: &'static str,
    source: &'static str,
    replica: &'static str,
}

impl Words {
    fn of(about: &About) -> Words {
        if about.flavour == Flavour::MySql && about.version >= NEW_WORDS {
            Words { change: "CHANGE REPLICATION SOURCE TO", source: "SOURCE", replica: "REPLICA" }
        } else {
            Words { change: "CHANGE MASTER TO", source: "MASTER", replica: "SLAVE" }
        }
    }
}

/// Why servers of these families and versions don't replicate.
fn families(a: (Flavour, Version), b: (Flavour, Version)) -> Option<String> {
    let ((a, from), (b, to)) = (a, b);
    let why = match (a, b) {
        (Flavour::MariaDb, Flavour::MySql) => {
            "MySQL leaves out MariaDB's DDL silently, and ends at the first row".to_owned()
        }
        (Flavour::MySql, Flavour::MariaDb) => {
            "MariaDB ends at what only MySQL has, such as its JSON, its default collation, and accounts"
                .to_owned()
        }
        _ if (to.major, to.minor) < (from.major, from.minor) => {
            format!("B is older ({to}) than A ({from}), and may not know what A logs")
        }
        _ => return None,
    };
    Some(format!("{why}; --follow apply goes between them"))
}

/// Schema, name and definer of each event that runs.
fn enabled_events(session: &mut Session) -> Result<Vec<[String; 3]>, server::Error> {
    let rows = session.strings(
        "SELECT event_schema, event_name, definer FROM information_schema.events WHERE status = 'ENABLED'",
    )?;
    Ok(rows
        .into_iter()
        .filter_map(|row| row.into_iter().collect::<Option<Vec<_>>>()?.try_into().ok())
        .collect())
}

/// Makes the events of the source such that don't run on the target, as those are that a replica receives.
fn quiet_events(source: &mut Session, target: &mut Session) -> Result<(), server::Error> {
    let replica = match &target.about {
        about if about.flavour == Flavour::MySql && about.version >= NEW_EVENTS => "REPLICA",
        _ => "SLAVE",
    };
    let of_source = enabled_events(source)?;
    for [schema, name, definer] in enabled_events(target)? {
        if !of_source.iter().any(|[its_schema, its_name, _]| *its_schema == schema && *its_name == name) {
            continue;
        }
        // Without it the event would run for this account from now on.
        let (user, host) = definer.rsplit_once('@').unwrap_or((&definer, "%"));
        target.execute(&format!(
            "ALTER DEFINER = {}@{} EVENT {}.{} DISABLE ON {replica}",
            target.quote(user),
            target.quote(host),
            quote_name(&schema),
            quote_name(&name),
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_family_replicates_and_only_to_the_same_or_a_newer_version() {
        let maria = |version| (Flavour::MariaDb, Version::parse(version));
        let mysql = |version| (Flavour::MySql, Version::parse(version));
        for (a, b, why) in [
            (maria("10.11.19"), maria("10.11.2"), None),
            (maria("10.11.19"), maria("11.8.1"), None),
            (maria("11.8.1"), maria("10.11.19"), Some("B is older (10.11.19) than A (11.8.1)")),
            (mysql("5.6.24"), mysql("9.7.0"), None),
            (mysql("9.7.0"), mysql("5.6.24"), Some("B is older")),
            (maria("10.11.19"), mysql("9.7.0"), Some("MariaDB's DDL")),
            (mysql("9.7.0"), maria("11.8.1"), Some("only MySQL has")),
        ] {
            let found = families(a, b);
            match why {
                None => assert_eq!(found, None, "{a:?} {b:?}"),
                Some(why) => assert!(found.unwrap().contains(why), "{a:?} {b:?}"),
            }
        }
    }
}
