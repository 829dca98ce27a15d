//! The account in the server: made once, with the privileges that its version calls so.

use std::path::Path;

use anyhow::{Context, Result};
use failure::usage;
use server::required_privileges::{Task, missing};
use server::{Environment, Flavour, Grants, Overrides, Password, Session, Target, quote_name};

use crate::step::{Step, What};

/// What the units do: back up, archive, and note where a replica is.
const TASKS: [Task; 3] = [Task::Copy, Task::Archive, Task::Source];

/// What is shown of a password that was written.
pub(crate) const MASK: &str = "***";

/// The password in an option file, or a new one.
pub(crate) fn password(option_file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(option_file).unwrap_or_default();
    if let Some(known) = text.lines().find_map(|line| line.strip_prefix("password=")) {
        return Ok(known.to_owned());
    }
    Ok(Password::random()?.expose().to_owned())
}

/// The statements that make the account, or give it what it lacks.
pub(crate) fn step(name: &str, option_file: &Path, password: &str, session: &mut Session) -> Result<Step> {
    let account = format!("{}@`localhost`", quote_name(name));
    let known = format!(
        "SELECT COUNT(*) FROM mysql.user WHERE user = {} AND host = 'localhost'",
        session.quote(name)
    );
    let is_there = session.value(&known)?.as_deref() != Some("0");
    let grants = match (is_there, option_file.exists()) {
        (false, _) => Grants::default(),
        (true, true) => Grants::of(&mut login(option_file)?)?,
        (true, false) => {
            let file = option_file.display();
            return Err(usage(format!(
                "there is an account {account}, but no {file} with its password: give another --account, or drop it first"
            )));
        }
    };
    let lacks = missing(&grants, &session.about, &TASKS);
    // If it lacks nothing, all that it needs is shown.
    let granted =
        if lacks.is_empty() { missing(&Grants::default(), &session.about, &TASKS) } else { lacks.clone() };
    let grant = format!("GRANT {} ON *.* TO {account}", granted.join(", "));
    // MariaDB writes statements into its binary log as they are, so it gets the hash. MySQL writes the hash
    // itself.
    let (by, secret) = match session.about.flavour {
        Flavour::MariaDb => ("PASSWORD ", Password::from(password).native_hash()),
        Flavour::MySql => ("", password.to_owned()),
    };
    let create = |secret: &str| format!("CREATE USER {account} IDENTIFIED BY {by}'{secret}'");
    let lines = |secret| if is_there { vec![grant.clone()] } else { vec![create(secret), grant.clone()] };
    Ok(Step::of(What::Sql(lines(&secret), lines(MASK)), lacks.is_empty()))
}

/// Connects as the account.
fn login(option_file: &Path) -> Result<Session> {
    let overrides = Overrides { defaults_file: Some(option_file.to_owned()), ..Overrides::default() };
    let connected = Target::resolve(&overrides, &Environment::default()).and_then(|target| target.connect());
    connected.with_context(|| format!("with the password in {}", option_file.display()))
}

/// Fails unless the account can do what the units do.
///
/// # Errors
/// If it can't log in, or lacks a privilege.
pub fn check(option_file: &Path) -> Result<()> {
    Ok(server::required_privileges::require(&mut login(option_file)?, &TASKS)?)
}
