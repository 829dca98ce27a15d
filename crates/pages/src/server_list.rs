//! The page of all servers.

use std::time::{Duration, Instant};

use humanize::shell::{quoted, with_option};
use web::Html;

use crate::layout::{
    TIMES, Tone, age, anchor, cell, command, live_part, part, state, table_end, table_head, text_cell,
};
use crate::watch::{Freshness, Happened, Known, LOAD, Watched, freshness};
use locks::text::waiters;

/// What can be said of a server in a few words.
pub(crate) fn judged(known: &Known, now: Instant, interval: Duration) -> (Tone, String) {
    match (freshness(known.seen, now, interval), &known.trouble) {
        (Freshness::Never, None) => return (Tone::Unknown, "not asked yet".to_owned()),
        (Freshness::Never, Some(why)) => return (Tone::Bad, format!("not reached: {why}")),
        (Freshness::Old(since), why) => {
            let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            return (Tone::Bad, format!("no answer for {}{why}", age(since)));
        }
        (Freshness::Fresh, Some(why)) => return (Tone::Bad, why.clone()),
        (Freshness::Fresh, None) => {}
    }
    if let Some(stopped) = known.replication.first() {
        return (Tone::Bad, stopped.clone());
    }
    let waiting = match &known.picture {
        Some(Ok(picture)) if picture.is_complete() => Some(picture.waiting().len()),
        Some(Ok(picture)) => Some(picture.waiting().len()).filter(|waiting| *waiting > 0),
        _ => None,
    };
    match waiting {
        Some(0) => (Tone::Good, "up".to_owned()),
        Some(waiting) => (Tone::Warning, format!("up; {}", waiters(waiting))),
        None => (Tone::Unknown, "up; who waits for locks can't be seen".to_owned()),
    }
}

/// The address of a server at the end of a command line.
pub(crate) fn with_address(line: &str, watched: &Watched) -> String {
    match watched.address.as_str() {
        "" => line.to_owned(),
        address => format!("{line} {}", quoted(address)),
    }
}

/// The same for a command whose words are no servers.
pub(crate) fn with_url(line: &str, watched: &Watched) -> String {
    match watched.address.as_str() {
        "" => line.to_owned(),
        address => with_option(line, "--url", address),
    }
}

/// The page's contents.
pub(crate) fn body(servers: &[std::sync::Arc<Watched>], interval: Duration) -> Html {
    let (mut list, mut body) = (Html::new(), Html::new());
    let now = Instant::now();
    let mut bad = 0;
    let mut happened: Vec<(Happened, &str)> = Vec::new();
    let load = LOAD.map(|(_, _, head)| (head, false));
    let heads: Vec<(&str, bool)> = [("Server", true), ("State", true), ("Version", true)]
        .into_iter()
        .chain(load)
        .chain([("The same in a terminal", true)])
        .collect();
    table_head(&mut list, "Servers", &heads);
    for watched in servers {
        let known = watched.known();
        let (tone, word) = judged(&known, now, interval);
        bad += usize::from(tone == Tone::Bad);
        list.raw("<tr><th scope=\"row\" class=\"text\">");
        anchor(&mut list, ("/server", &[("at", &watched.name)]), &watched.name);
        list.raw("</th><td class=\"text sentence\">");
        state(&mut list, tone, &word);
        list.raw("</td>");
        text_cell(&mut list, &known.version);
        // Numbers of a server that does not answer are those of another time.
        let is_fresh = freshness(known.seen, now, interval) == Freshness::Fresh;
        for at in 0..LOAD.len() {
            cell(&mut list, known.load.get(at).filter(|_| is_fresh).map_or("-", String::as_str));
        }
        list.raw("<td class=\"text\">");
        command(&mut list, &with_address("remora top", watched));
        list.raw("</td></tr>\n");
        happened.extend(known.events.iter().map(|event| (event.clone(), watched.name.as_str())));
    }
    table_end(&mut list);
    let mut summary = Html::new();
    summary.raw("<p>").text(&sum(servers.len(), bad)).raw("</p>\n");
    live_part(&mut body, "summary", &summary);
    part(&mut body, "servers", &list);
    let mut events = Html::new();
    happened.sort_by_key(|(event, _)| std::cmp::Reverse(event.unix_ms));
    happened.truncate(50);
    if happened.is_empty() {
        events.raw("<p>Nothing since these pages began.</p>\n");
    } else {
        table_head(&mut events, "Events", &[("Time", true), ("Server", true), ("What happened", true)]);
        for (event, name) in happened {
            events.raw("<tr>");
            text_cell(&mut events, &(TIMES.full)(event.unix_ms));
            text_cell(&mut events, name);
            text_cell(&mut events, &event.what);
            events.raw("</tr>\n");
        }
        table_end(&mut events);
    }
    body.raw("<h2>Events</h2>\n");
    part(&mut body, "events", &events);
    body
}

fn sum(servers: usize, bad: usize) -> String {
    let servers = progress::count(servers, "server");
    match bad {
        0 => servers,
        1 => format!("{servers}; 1 needs attention"),
        bad => format!("{servers}; {bad} need attention"),
    }
}

#[cfg(test)]
mod tests {
    use locks::{Gap, Picture};

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn only_what_is_new_and_whole_is_good() {
        let now = Instant::now() + Duration::from_secs(100);
        let seen = |seconds| Some(now - Duration::from_secs(seconds));
        let picture = |gaps: Vec<Gap>| Some(Ok(Picture { gaps, ..Picture::default() }));
        let known = |seconds, picture| Known { seen: seen(seconds), picture, ..Known::default() };
        let judge = |known: &Known| judged(known, now, INTERVAL);
        assert_eq!(judge(&known(1, picture(Vec::new()))), (Tone::Good, "up".to_owned()));
        assert_eq!(judge(&known(16, picture(Vec::new()))), (Tone::Bad, "no answer for 16 s".to_owned()));
        assert_eq!(judge(&Known::default()).0, Tone::Unknown);
        let hidden = Gap { what: "PROCESS".into(), hides_waiters: true };
        assert_eq!(judge(&known(1, picture(vec![hidden]))).0, Tone::Unknown);
        assert_eq!(judge(&known(1, Some(Err("refused".into())))).0, Tone::Unknown);
        assert_eq!(judge(&known(1, None)).0, Tone::Unknown);
        let stopped = Known { replication: vec!["stopped".into()], ..known(1, picture(Vec::new())) };
        assert_eq!(judge(&stopped), (Tone::Bad, "stopped".to_owned()));
        let away = Known { trouble: Some("gone".into()), ..known(1, picture(Vec::new())) };
        assert_eq!(judge(&away), (Tone::Bad, "gone".to_owned()));
    }
}
