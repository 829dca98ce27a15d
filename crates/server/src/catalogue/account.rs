//! Roles, users and grants.

use std::collections::BTreeMap;

use super::table::text;
use super::{Catalogue, Kind, Object, Settings};
use crate::access_denied::is_denial;
use crate::definition::closing;
use crate::{Error, Flavour, Session};

/// Accounts that a server creates for itself.
const OWN: [&str; 4] = ["mariadb.sys", "mysql.sys", "mysql.session", "mysql.infoschema"];

/// Reads them; an account that may not see them adds a line to what is omitted.
pub(super) fn read(session: &mut Session, catalogue: &mut Catalogue) -> Result<(), Error> {
    let mariadb = session.about.flavour == Flavour::MariaDb;
    let roles = if mariadb { "is_role" } else { "'N'" };
    let rows =
        match session.strings(&format!("SELECT User, Host, {roles} FROM mysql.user ORDER BY 3 DESC, 1, 2")) {
            Ok(rows) => rows,
            Err(error) if error.code().is_some_and(is_denial) => {
                catalogue.omitted.push(format!("roles and users: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
    let mut grants = Vec::new();
    for row in &rows {
        let (user, host, role) = (text(row, 0), text(row, 1), text(row, 2) == "Y");
        if OWN.contains(&user.as_str()) {
            continue;
        }
        let name = if role { quoted(&user) } else { format!("{}@{}", quoted(&user), quoted(&host)) };
        let public = role && user == "PUBLIC";
        let mut default_roles = None;
        if !public {
            let kind = if role { Kind::Role } else { Kind::User };
            let made = catalogue.one(session, (kind, &name), &mut |session| making(session, kind, &name))?;
            let Some(made) = made else { continue };
            let (statement, roles) = without_default_roles(&made);
            default_roles = roles;
            catalogue.objects.push(object(kind, &name, vec![statement]));
        }
        let show = format!("SHOW GRANTS FOR {}", if public { "PUBLIC" } else { &name });
        let shown = catalogue.one(session, (Kind::Grant, &name), &mut |session| session.strings(&show))?;
        let shown = shown.unwrap_or_default();
        let own = |line: &String| !role || public || grantee_is(line, &user);
        let lines = shown.into_iter().filter_map(|row| row.into_iter().next().flatten()).filter(own);
        let active = default_roles.map(|roles| format!("SET DEFAULT ROLE {roles} TO {name}"));
        let lines: Vec<_> = lines.chain(active).collect();
        grants.push(object(Kind::Grant, &name, lines));
    }
    catalogue.objects.extend(grants.into_iter().filter(|object| !object.statements.is_empty()));
    others(session, catalogue)
}

/// The statement that creates a role or a user.
fn making(session: &mut Session, kind: Kind, name: &str) -> Result<String, Error> {
    if kind == Kind::Role {
        return Ok(format!("CREATE ROLE {name}"));
    }
    // MySQL has it since 5.7, MariaDB since 10.2; before that, GRANT contains the password.
    match session.value(&format!("SHOW CREATE USER {name}")) {
        Ok(Some(statement)) => Ok(statement),
        Ok(None) => Err(Error::Protocol { what: format!("SHOW CREATE USER {name} says nothing") }),
        Err(error) if error.code() == Some(1064) => Ok(format!("CREATE USER {name}")),
        Err(error) => Err(error),
    }
}

/// A CREATE USER of MySQL without its default roles, and these: the roles may not exist yet where it is run.
#[must_use]
pub fn without_default_roles(statement: &str) -> (String, Option<String>) {
    const CLAUSE: &str = " DEFAULT ROLE ";
    let (mut at, mut from) = (0, None);
    while let Some(first) = statement[at..].chars().next() {
        let rest = &statement[at..];
        match from {
            None if rest.starts_with(CLAUSE) => from = Some(at),
            Some(from) if rest.starts_with(" REQUIRE ") => {
                let roles = statement[from + CLAUSE.len()..at].to_owned();
                return (format!("{}{rest}", &statement[..from]), Some(roles));
            }
            _ => {}
        }
        at += if matches!(first, '\'' | '"' | '`') { closing(rest, first) } else { first.len_utf8() };
    }
    (statement.to_owned(), None)
}

/// A role's grants include those of the roles that it was granted.
fn grantee_is(line: &str, role: &str) -> bool {
    let to = line.rfind(" TO ").map_or("", |at| &line[at + 4..]);
    to.starts_with(&quoted(role))
        || to.starts_with(&format!("'{}'", role.replace('\'', "''")))
        || to.split(' ').next() == Some(role)
}

/// remora's own libraries, and the statements that create their functions.
const REMORAS: [(&str, &str); 2] =
    [("liburlpack_udf.so", "sql/urlpack.sql"), ("ha_queue.so", "sql/queue.sql")];

/// Lists what no statement shows: loadable functions, with their libraries.
fn others(session: &mut Session, catalogue: &mut Catalogue) -> Result<(), Error> {
    let mut libraries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in seen(session, "SELECT dl, name FROM mysql.func ORDER BY name")? {
        libraries.entry(text(&row, 0)).or_default().push(text(&row, 1));
    }
    for (library, names) in libraries {
        let what = format!("functions {} of library {library}", names.join(", "));
        match REMORAS.iter().find(|(own, _)| *own == library) {
            Some((_, file)) => catalogue.own.push(format!(
                "{what}: they are remora's, and no part of the dump; where they are used, put this library into the \
                 folder that SELECT @@plugin_dir names on the target, then run {file} of remora there"
            )),
            None => catalogue
                .omitted
                .push(format!("{what}: make them on the target yourself, by CREATE FUNCTION ... SONAME")),
        }
    }
    for row in seen(session, "SELECT Server_name FROM mysql.servers")? {
        catalogue.omitted.push(format!("server {}: make it on the target yourself", text(&row, 0)));
    }
    Ok(())
}

/// The rows of a query; none if this account may not see them.
fn seen(session: &mut Session, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
    match session.strings(sql) {
        Err(error) if error.code().is_some_and(is_denial) => Ok(Vec::new()),
        rows => rows,
    }
}

fn object(kind: Kind, name: &str, statements: Vec<String>) -> Object {
    Object {
        kind,
        schema: String::new(),
        name: name.to_owned(),
        table: None,
        statements,
        settings: Settings::default(),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_roles_are_set_apart() {
        let user = r"CREATE USER `a`@`%` IDENTIFIED WITH 'x' AS 'b\' DEFAULT ROLE `no` REQUIRE '";
        let rest = "REQUIRE NONE ATTRIBUTE '{\"comment\": \" DEFAULT ROLE x REQUIRE y\"}'";
        let (statement, roles) =
            without_default_roles(&format!("{user} DEFAULT ROLE `r`@`%`,` REQUIRE `@`%` {rest}"));
        assert_eq!(statement, format!("{user} {rest}"));
        assert_eq!(roles.as_deref(), Some("`r`@`%`,` REQUIRE `@`%`"));
        assert_eq!(without_default_roles(&statement), (statement.clone(), None));
    }
}
