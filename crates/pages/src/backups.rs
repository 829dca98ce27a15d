//! The page of backups.

use std::sync::Arc;
use std::time::Instant;

use block::verify::NotedDamage;
use humanize::date_time;
use humanize::shell::quoted;
use web::Html;

use crate::archive::{Archive, GenerationState, LogState, NameState, State, since};
use crate::layout::{Tone, age, cell, command, old_note, part, state, table_end, table_head, text_cell};
use crate::watch::{Freshness, freshness};
use progress::size;
use repository::state::{self as known_state, Evidence};

/// The most generations of a name that are listed, the newest ones.
const GENERATIONS_MAX: usize = 100;

/// The page's contents.
pub(crate) fn body(archives: &[Arc<Archive>]) -> Html {
    let mut body = Html::new();
    if archives.is_empty() {
        body.raw("<p>No repository was named: ");
        command(&mut body, "remora web --repository REPO");
        body.raw("</p>\n");
        return body;
    }
    let mut all = Html::new();
    for archive in archives {
        let known = archive.state();
        let fresh = freshness(known.seen, Instant::now(), archive.interval);
        all.raw("<h2>").text(&archive.address).raw("</h2>\n");
        repository(&mut all, (&archive.address, &known), fresh);
    }
    part(&mut body, "backups", &all);
    body
}

fn repository(html: &mut Html, (address, known): (&str, &State), fresh: Freshness) {
    if let Some(why) = &known.trouble {
        html.raw("<p>");
        state(html, Tone::Bad, &format!("can't be read: {why}"));
        html.raw("</p>\n");
    } else if fresh == Freshness::Never {
        html.raw("<p>It is being read.</p>\n");
    } else if known.names.is_empty() && known.locked.is_empty() {
        html.raw("<p>There is no backup in it.</p>\n");
    }
    old_note(html, fresh);
    html.raw("<p class=\"about\">");
    command(html, &format!("remora list {}", quoted(address)));
    html.raw("</p>\n");
    // What was read long ago, or can't be read now, proves nothing.
    let is_current = fresh == Freshness::Fresh && known.trouble.is_none();
    for name in &known.names {
        one_name(html, address, name, is_current);
    }
    for locked in &known.locked {
        html.raw("<h3>").text(locked).raw("</h3>\n<p>");
        state(html, Tone::Unknown, "encrypted: --key names the key that shows more");
        html.raw("</p>\n");
    }
}

fn one_name(html: &mut Html, address: &str, name: &NameState, is_current: bool) {
    html.raw("<h3>").text(&name.name).raw("</h3>\n<ul class=\"facts\">\n");
    let good = if is_current { Tone::Good } else { Tone::Unknown };
    fact(html, &newest(name));
    fact(html, &proven(name, good));
    fact(html, &archived(name.log));
    for damage in &name.damages {
        fact(html, &(Tone::Bad, damage.clone()));
    }
    if let Some(noted) = noted(&name.noted) {
        fact(html, &noted);
    }
    html.raw("</ul>\n");
    if name.generations.is_empty() {
        return;
    }
    line(html, name, good);
    let caption = format!("Generations of {}", name.name);
    let heads = [
        ("Generation", false),
        ("Made", true),
        ("Age", false),
        ("Kind", true),
        ("Size", false),
        ("Stored", false),
        ("State", true),
        ("Of", true),
        ("Restore it", true),
    ];
    table_head(html, &caption, &heads);
    for one in name.generations.iter().rev().take(GENERATIONS_MAX) {
        html.raw("<tr><th scope=\"row\">").text(&one.number.to_string()).raw("</th>");
        text_cell(html, &date_time::shown(one.taken_s));
        cell(html, &since(one.taken_s).map_or_else(|| "in the future".to_owned(), age));
        text_cell(html, &kind(one));
        cell(html, &size(one.bytes));
        cell(html, &size(one.bytes_stored));
        html.raw("<td class=\"text\">");
        let (tone, word) = judged(one, good);
        state(html, tone, word);
        html.raw("</td>");
        text_cell(html, &one.host);
        html.raw("<td class=\"text\">");
        let place = format!("{}/{}@{}", address.trim_end_matches('/'), name.name, one.number);
        command(html, &format!("remora restore {} --to PATH", quoted(&place)));
        html.raw("</td></tr>\n");
    }
    table_end(html);
}

/// The generations as a line, the oldest first: a full one begins, each other one follows its parent.
fn line(html: &mut Html, name: &NameState, good: Tone) {
    html.raw("<ol class=\"line\"").attribute("aria-label", &format!("{} in order", name.name)).raw(">");
    let skipped = name.generations.len().saturating_sub(GENERATIONS_MAX);
    for one in &name.generations[skipped..] {
        let (tone, word) = judged(one, good);
        html.raw(if one.parent == 0 { "<li class=\"full\">" } else { "<li>" });
        state(html, tone, &one.number.to_string());
        html.raw("<span class=\"unseen\"> ").text(&kind(one)).raw(", ").text(word).raw("</span></li>");
    }
    html.raw("</ol>\n");
}

fn fact(html: &mut Html, (tone, text): &(Tone, String)) {
    html.raw("<li>");
    state(html, *tone, text);
    html.raw("</li>\n");
}

fn kind(one: &GenerationState) -> String {
    if one.parent == 0 { "full".to_owned() } else { format!("changes to {}", one.parent) }
}

/// What is known of a generation. `good`: how something good is shown.
fn judged(one: &GenerationState, good: Tone) -> (Tone, &'static str) {
    match one.known {
        _ if !one.is_whole => (Tone::Bad, "damaged: what it builds on is missing"),
        _ if one.is_damaged => (Tone::Bad, "damaged: remora verify noted it"),
        Evidence::Unsound => (Tone::Bad, "NOT SOUND"),
        Evidence::Proven => (good, "proven"),
        Evidence::Booted => (good, "booted"),
        Evidence::NeverRecovered => (Tone::Warning, "never recovered"),
        Evidence::Nothing => (Tone::Unknown, "not tried"),
    }
}

/// When something was, and how long ago.
fn when(then_s: i64) -> String {
    let age = since(then_s).map_or_else(|| "in the future".to_owned(), |since| format!("{} ago", age(since)));
    format!("{age}, {}", date_time::shown(then_s))
}

/// Nobody knows here how old a backup may be, so its age has no colour.
fn newest(name: &NameState) -> (Tone, String) {
    match name.generations.last() {
        Some(last) => (Tone::Unknown, format!("newest backup: {}", when(last.taken_s))),
        None => (Tone::Bad, "no backup".to_owned()),
    }
}

fn proven(name: &NameState, good: Tone) -> (Tone, String) {
    let is_proven = |one: &&GenerationState| one.known == Evidence::Proven && one.is_whole && !one.is_damaged;
    match name.generations.iter().rev().find(is_proven) {
        Some(one) => {
            (good, format!("newest one on which a server was sound: {}, {}", one.number, when(one.taken_s)))
        }
        None => {
            // Only of what a server was tried on, or should be, that is worth a warning.
            let is_servers = name.generations.iter().any(|one| one.known != Evidence::Nothing);
            let tone = if is_servers { Tone::Warning } else { Tone::Unknown };
            (tone, "on none of them a server was started and found sound".to_owned())
        }
    }
}

/// What the last verification noted: what it costs, or that it costs nothing.
fn noted(noted: &NotedDamage) -> Option<(Tone, String)> {
    let (is_lost, text) = known_state::told(noted, when)?;
    Some((if is_lost { Tone::Bad } else { Tone::Warning }, text))
}

fn archived(log: LogState) -> (Tone, String) {
    match log {
        LogState::Archived(Some(then_s)) => {
            (Tone::Unknown, format!("the archive of the binary log last had everything {}", when(then_s)))
        }
        LogState::Archived(None) => (Tone::Bad, "the binary log was never archived whole".to_owned()),
        LogState::Missing => (Tone::Warning, "the binary log is not archived".to_owned()),
        LogState::Unneeded => (Tone::Unknown, "no position in a binary log is known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn generation(number: u64, parent: u64, known: Evidence) -> GenerationState {
        GenerationState {
            number,
            parent,
            taken_s: 1_700_000_000,
            bytes: 1000,
            bytes_stored: 10,
            known,
            is_whole: true,
            is_damaged: false,
            host: "<h>".into(),
        }
    }

    fn shown(is_current: bool) -> String {
        let generations = vec![
            generation(1, 0, Evidence::Proven),
            generation(2, 1, Evidence::NeverRecovered),
            GenerationState { is_whole: false, ..generation(3, 2, Evidence::Proven) },
        ];
        let name = NameState {
            name: "<db1>".into(),
            generations,
            damages: vec!["3.blk is <gone>".into()],
            noted: NotedDamage::default(),
            log: LogState::Archived(None),
        };
        let mut html = Html::new();
        one_name(&mut html, "/back up/", &name, is_current);
        html.into_string()
    }

    #[test]
    fn a_name_is_a_line_of_generations() {
        let html = shown(true);
        for text in [
            "<h3>&lt;db1&gt;</h3>",
            "<li class=\"full\"><span class=\"state good\">1</span>",
            "<li><span class=\"state bad\">3</span>",
            "state bad\">3.blk is &lt;gone&gt;",
            "newest one on which a server was sound: 1, ",
            "changes to 1",
            "never recovered",
            "damaged: what it builds on is missing",
            "the binary log was never archived whole",
            "remora restore &#39;/back up/&lt;db1&gt;@2&#39; --to PATH",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
    }

    #[test]
    fn what_was_read_long_ago_is_not_good() {
        assert!(shown(true).contains("state good"));
        assert!(!shown(false).contains("state good"));
        let known = State { trouble: Some("gone".into()), ..State::default() };
        let mut html = Html::new();
        repository(&mut html, ("/r", &known), Freshness::Old(std::time::Duration::from_secs(300)));
        let html = html.into_string();
        assert!(
            html.contains("can&#39;t be read: gone") && html.contains("What follows is 5 min old"),
            "{html}"
        );
    }

    #[test]
    fn noted_damage_is_never_good() {
        let one = GenerationState { is_damaged: true, ..generation(1, 0, Evidence::Proven) };
        assert_eq!(judged(&one, Tone::Good), (Tone::Bad, "damaged: remora verify noted it"));
        let files: BTreeSet<String> = ["1.blk".to_owned()].into();
        let mut damage = NotedDamage { since_s: Some(0), files: files.clone(), generations: BTreeMap::new() };
        let (tone, text) = noted(&damage).unwrap();
        assert!(
            text.contains(" ago, 1970-01-01 ")
                && text.contains(" in 1.blk; every generation that is listed can still"),
            "{text}"
        );
        assert_eq!(tone, Tone::Warning);
        damage.generations = [(1, files.clone()), (3, files)].into();
        let (tone, text) = noted(&damage).unwrap();
        assert!(text.ends_with("in 1.blk; generations 1, 3 can't be restored whole"), "{text}");
        assert_eq!((tone, noted(&NotedDamage::default())), (Tone::Bad, None));
        let name = NameState {
            name: "a".into(),
            generations: vec![one],
            damages: Vec::new(),
            noted: damage,
            log: LogState::Unneeded,
        };
        let mut html = Html::new();
        one_name(&mut html, "/r", &name, true);
        let html = html.into_string();
        assert!(!html.contains("state good") && html.contains("on none of them a server"), "{html}");
    }

    #[test]
    fn a_log_that_is_not_archived_is_told() {
        let tones =
            [LogState::Missing, LogState::Unneeded, LogState::Archived(Some(0))].map(|log| archived(log).0);
        assert_eq!(tones, [Tone::Warning, Tone::Unknown, Tone::Unknown]);
    }
}
