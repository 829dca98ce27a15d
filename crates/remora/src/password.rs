//! Keeps a password that was typed on the command line out of the process list.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Passes the password to the program that replaces this one. Only the same user can read it there, as with
/// MYSQL_PWD.
const VARIABLE: &str = "REMORA_TYPED_PASSWORD";

/// The command line without a password, and the password.
pub(crate) struct Line {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) password: Option<String>,
}

/// Removes the password from the arguments. If there is one, the program starts itself again without it, so
/// `ps` shows it only until then.
pub(crate) fn hide(arguments: Vec<OsString>) -> anyhow::Result<Line> {
    let (clean, typed) = split(arguments)?;
    if let Some(password) = typed {
        let program = std::env::current_exe()?;
        let error = Command::new(program).args(clean.iter().skip(1)).env(VARIABLE, password).exec();
        return Err(anyhow::Error::new(error).context("can't start again without the password in sight"));
    }
    Ok(Line { arguments: clean, password: std::env::var(VARIABLE).ok() })
}

/// The arguments without a password, and the password.
pub(crate) fn split(arguments: Vec<OsString>) -> anyhow::Result<(Vec<OsString>, Option<OsString>)> {
    let mut clean = Vec::new();
    let mut typed = None;
    let mut options = true;
    let mut after_url = false;
    for argument in arguments {
        let bytes = argument.as_bytes();
        options &= bytes != b"--";
        if !options {
            clean.push(argument);
            continue;
        }
        if bytes == b"-p" || bytes == b"--password" {
            return Err(failure::usage(
                "a password is never asked for: put it into an option file, into MYSQL_PWD, \
                 or type it as -pPASSWORD, which is kept out of the process list",
            ));
        }
        let attached = bytes.strip_prefix(b"--password=").or_else(|| bytes.strip_prefix(b"-p"));
        if let Some(password) = attached {
            typed = Some(OsString::from_vec(password.to_vec()));
            continue;
        }
        let url = bytes.strip_prefix(b"--url=").or(after_url.then_some(bytes));
        let url = url.and_then(|url| std::str::from_utf8(url).ok());
        after_url = bytes == b"--url";
        match url.and_then(without_password) {
            Some((url, password)) => {
                typed = Some(OsString::from_vec(password));
                clean.push(if after_url || !bytes.starts_with(b"--url=") {
                    OsString::from(url)
                } else {
                    OsString::from(format!("--url={url}"))
                });
            }
            None => clean.push(argument),
        }
    }
    Ok((clean, typed))
}

/// Splits `scheme://user:password@rest` into `scheme://user@rest` and the password, with its percent signs
/// decoded.
pub(crate) fn without_password(url: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (account, _) = rest.get(..end)?.rsplit_once('@')?;
    let (user, password) = account.split_once(':')?;
    let tail = rest.get(account.len()..)?;
    Some((format!("{scheme}://{user}{tail}"), percent_decoded(password)))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut out = Vec::new();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[&str], clean: &[&str], password: Option<&str>) {
        let (rest, typed) = split(line.iter().map(OsString::from).collect()).unwrap();
        assert_eq!(rest, clean.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(typed, password.map(OsString::from));
    }

    #[test]
    fn a_typed_password_is_taken_out() {
        check(&["remora", "undo", "-psecret"], &["remora", "undo"], Some("secret"));
        check(&["remora", "undo", "--password=a b"], &["remora", "undo"], Some("a b"));
        check(
            &["remora", "--url", "mysql://u:p%40w@h/db"],
            &["remora", "--url", "mysql://u@h/db"],
            Some("p@w"),
        );
        check(&["remora", "--url=mysql://u:pw@h"], &["remora", "--url=mysql://u@h"], Some("pw"));
        check(&["remora", "--url", "mysql://u@h:3307/db"], &["remora", "--url", "mysql://u@h:3307/db"], None);
        check(&["remora", "shell", "--", "-px"], &["remora", "shell", "--", "-px"], None);
        check(&["remora", "--port", "1"], &["remora", "--port", "1"], None);
    }

    #[test]
    fn a_password_is_never_asked_for() {
        assert!(split(vec!["remora".into(), "-p".into()]).is_err());
    }
}
