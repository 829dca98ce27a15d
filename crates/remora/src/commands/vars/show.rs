//! Differences, for people and programs.

use humanize::text;
use progress::Progress;
use serde_json::json;
use status::variable::Snapshot;
use status::variable::compare::{Difference, Kind};

use crate::report::Report;

/// If two values are together longer than this, each gets its own line.
const LINE_MAX: usize = 90;

pub(super) fn show(
    (a, b): (&Snapshot, &Snapshot),
    found: &[&Difference],
    left_out: usize,
    report: &Report,
) -> anyhow::Result<()> {
    if report.is_json() {
        for difference in found {
            report.message(&json!({
                "message_type": "difference", "kind": word(difference.kind), "name": difference.name,
                "a": difference.a, "b": difference.b, "a_from": difference.a_from, "b_from": difference.b_from,
                "note": difference.note, "administrative": difference.is_administrative,
            }))?;
        }
        report.message(&json!({
            "message_type": "summary", "a": a.title, "b": b.title, "differences": found.len(), "left_out": left_out,
        }))?;
        return Ok(());
    }
    report.data(&text::plain(&format!("A: {}\nB: {}", a.title, b.title)))?;
    for kind in Kind::ALL {
        let these: Vec<_> = found.iter().filter(|difference| difference.kind == kind).collect();
        if these.is_empty() {
            continue;
        }
        report.data(&format!("\n{} ({})", head(kind, a, b), these.len()))?;
        for difference in these {
            report.data(&text::plain(&lines(difference)))?;
        }
    }
    let all = if left_out > 0 {
        format!("; {left_out} in names, paths and computed values are left out (--all shows them)")
    } else {
        String::new()
    };
    report.note(&format!("{}{all}", progress::count(found.len(), "difference")));
    Ok(())
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Value => "value",
        Kind::Default => "default",
        Kind::Added => "added",
        Kind::Removed => "removed",
        Kind::Ignored => "ignored",
        Kind::Deprecated => "deprecated",
        Kind::Narrowed => "narrowed",
        Kind::Dynamic => "dynamic",
    }
}

fn head(kind: Kind, a: &Snapshot, b: &Snapshot) -> &'static str {
    match kind {
        Kind::Value => "Other values: A -> B",
        Kind::Default => "Other defaults: A -> B",
        Kind::Removed if a.is_partial() && b.is_partial() => "Set in A only",
        Kind::Added if a.is_partial() && b.is_partial() => "Set in B only",
        Kind::Removed => "Removed: B does not have it, and does not start with it in an option file",
        Kind::Added => "New in B",
        Kind::Ignored => "Without effect: B accepts it and ignores it",
        Kind::Deprecated => "Deprecated in B, and not yet in A",
        Kind::Narrowed => "B takes less",
        Kind::Dynamic => "How it is changed: A -> B",
    }
}

fn lines(difference: &Difference) -> String {
    let name = &difference.name;
    let text = |value: &Option<String>| match value.as_deref() {
        None => "(unknown)".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(value) => value.to_owned(),
    };
    let from = |from: &Option<String>| {
        let from = from.as_deref().filter(|from| *from != "COMPILE-TIME");
        from.map(|from| format!("   [{from}]")).unwrap_or_default()
    };
    let (a, b) = (text(&difference.a), text(&difference.b));
    let (a_from, b_from) = (from(&difference.a_from), from(&difference.b_from));
    let note = difference.note.as_deref().map(|note| format!("   ({note})")).unwrap_or_default();
    match difference.kind {
        Kind::Removed | Kind::Ignored => format!("  {name:<44} {a}{a_from}{note}"),
        Kind::Added => format!("  {name:<44} {b}{b_from}{note}"),
        Kind::Deprecated | Kind::Narrowed => {
            format!("  {name:<44} {}", difference.note.as_deref().unwrap_or_default())
        }
        _ => match changed_words(&a, &b) {
            Some(changed) => format!("  {name:<44} {changed}{a_from}{b_from}"),
            None if a.len() + b.len() + a_from.len() + b_from.len() > LINE_MAX => {
                format!("  {name}\n      A: {a}{a_from}\n      B: {b}{b_from}")
            }
            None => format!("  {name:<44} {a}{a_from} -> {b}{b_from}"),
        },
    }
}

/// For two long lists, the words that were removed and added.
fn changed_words(a: &str, b: &str) -> Option<String> {
    if a.matches(',').count() < 3 || b.matches(',').count() < 3 {
        return None;
    }
    let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (words(a), words(b));
    let gone = before.iter().filter(|word| !after.contains(word)).map(|word| format!("-{word}"));
    let new = after.iter().filter(|word| !before.contains(word)).map(|word| format!("+{word}"));
    Some(gone.chain(new).collect::<Vec<_>>().join(" "))
}
