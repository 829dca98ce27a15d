//! Names of a server's log files.

/// Whether a file may have this name: what a server says must not lead out of the folder.
pub(crate) fn is_log(name: &str) -> bool {
    let number = name.rsplit_once('.').map(|(_, number)| number);
    !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || c.is_control())
        && number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
