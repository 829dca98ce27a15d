//! The backups of the server.

use humanize::date_time;

use crate::facts::{Encryption, Facts, Newest, Proof, Repository};
use crate::finding::{Finding, Fix, bad, good, warning};

/// How old the newest backup may be, in seconds: a night, and some time to make it.
const AGE_MAX_S: i64 = 26 * 3600;

pub(crate) fn all(found: &Repository, facts: &Facts) -> Vec<Finding> {
    if let Some(error) = &found.error {
        return vec![bad("repository", error.clone(), None)];
    }
    let mut lines = Vec::new();
    // Without a key nothing is known of them.
    if found.encryption != Encryption::Unopened {
        lines.push(newest(found, facts.now_s));
    }
    // Of a damaged one all has been said.
    if found.newest.as_ref().is_none_or(|newest| !newest.is_damaged) {
        lines.extend(found.newest.as_ref().map(|newest| proof(found, newest)));
        lines.extend(found.noted.as_ref().map(|noted| bad("repository", noted.clone(), None)));
    }
    lines.extend(found.broken.first().map(|first| {
        let what = format!("{first} ({} of that kind)", found.broken.len());
        bad("repository", what, Some(Fix::Command(format!("remora verify {}", found.shown))))
    }));
    lines.extend(found.is_beside_data.map(|is_beside| place(found, is_beside)));
    lines.extend(room(found, facts));
    lines.push(keys(found));
    lines
}

fn newest(found: &Repository, now_s: i64) -> Finding {
    const SUBJECT: &str = "newest backup";
    let command = Some(Fix::Command(found.command.clone()));
    let Some(newest) = &found.newest else {
        return bad(SUBJECT, format!("there is none in {}", found.shown), command);
    };
    let mut what = format!("{}@{} of {}", found.shown, newest.number, date_time::shown(newest.taken_s));
    if newest.is_damaged {
        let why = found.noted.as_deref().unwrap_or("a file that it needs is missing");
        return bad(SUBJECT, format!("{what} can't be restored whole: {why}"), command);
    }
    if !found.broken.is_empty() {
        what.push_str(", the newest that can be read");
    }
    match now_s - newest.taken_s {
        ..=AGE_MAX_S => good(SUBJECT, what),
        _ => warning(SUBJECT, format!("{what}: older than a day"), command),
    }
}

fn proof(found: &Repository, newest: &Newest) -> Finding {
    const SUBJECT: &str = "proof";
    let command = Some(Fix::Command(format!("remora verify {}@{} --boot", found.shown, newest.number)));
    match newest.proof {
        Proof::Sound => good(SUBJECT, "a server was started on the newest backup and found it sound"),
        Proof::Earlier(number) => {
            good(SUBJECT, format!("a server was started on generation {number} and found it sound"))
        }
        Proof::Unsound => {
            bad(SUBJECT, "a server that was started on the newest backup found it NOT SOUND", command)
        }
        Proof::Never => warning(SUBJECT, "no server was started on any of these backups yet", command),
    }
}

fn place(found: &Repository, is_beside: bool) -> Finding {
    const SUBJECT: &str = "another disk";
    if !is_beside {
        return good(SUBJECT, "the repository is in another file system than the data");
    }
    let what = "the repository is in the file system of the data: what breaks this disk takes both";
    let repository = found.shown.rsplit_once('/').map_or(found.shown.as_str(), |(above, _)| above);
    warning(
        SUBJECT,
        what,
        Some(Fix::Command(format!("remora mirror {repository} /another/disk (or s3://BUCKET/PREFIX)"))),
    )
}

/// Whether the next backup fits.
fn room(found: &Repository, facts: &Facts) -> Option<Finding> {
    const SUBJECT: &str = "free space";
    let free = found.free?;
    // The first one is of all data, and compressed.
    let next = found.newest.as_ref().map_or(facts.tables.bytes / 2, |newest| newest.bytes.saturating_mul(2));
    let what = format!("{} free in the repository", progress::size(free));
    Some(if free > next {
        good(SUBJECT, what)
    } else {
        let command = format!("remora prune {} --keep-daily 7, or a larger disk", found.shown);
        warning(
            SUBJECT,
            format!("{what}, and the next backup may take {}", progress::size(next)),
            Some(Fix::Command(command)),
        )
    })
}

fn keys(found: &Repository) -> Finding {
    const SUBJECT: &str = "encryption";
    match &found.encryption {
        Encryption::None => good(SUBJECT, "the backups are not encrypted, so there is no key to lose"),
        Encryption::FullKey(file, true) => warning(
            SUBJECT,
            format!(
                "the key {file} is on the disk of the repository: who loses this disk loses both, who has it reads all"
            ),
            Some(Fix::Command(format!("cp {file} ELSEWHERE, and keep a copy on paper"))),
        ),
        Encryption::PutKey(file) => good(
            SUBJECT,
            format!(
                "encrypted; {file} adds backups and reads none. Only the full key does: keep it elsewhere, twice"
            ),
        ),
        Encryption::FullKey(..) => good(
            SUBJECT,
            format!(
                "encrypted; the key is elsewhere. The backups need {}/*.keys too: 'remora mirror' copies these",
                found.shown
            ),
        ),
        Encryption::Unopened => warning(
            SUBJECT,
            "encrypted, and no key was given: what the backups are is not known",
            Some(Fix::Command("give the key with --key FILE".to_owned())),
        ),
    }
}
