//! The page of queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use web::Html;

use super::super::queue::status::Sample;
use super::layout::{
    Tone, age, cell, command, old_note, part, quoted, state, table_end, table_head, text_cell,
};
use super::queue_watch::{Failures, Queues};
use super::server_list::{with_address, with_url};
use super::watch::{Freshness, Watched, freshness};
use crate::report::short;

/// The page's contents.
pub(super) fn body(servers: &[Arc<Watched>], interval: Duration) -> Html {
    let (mut all, mut body) = (Html::new(), Html::new());
    for watched in servers {
        let known = watched.known();
        let fresh = freshness(known.seen, Instant::now(), interval);
        if fresh != Freshness::Never {
            one_server(&mut all, watched, &known.queues, fresh);
        }
    }
    if all.is_empty() {
        all.raw("<p>No server here is known to have queues (ENGINE=QUEUE).</p>\n");
    }
    part(&mut body, "queues", &all);
    body
}

fn one_server(html: &mut Html, watched: &Watched, queues: &Queues, fresh: Freshness) {
    let why = match queues {
        Queues::Unasked | Queues::NoEngine => return,
        Queues::Unseen(why) => Some(why),
        Queues::Here(..) => None,
    };
    html.raw("<h2>").text(&watched.name).raw("</h2>\n");
    if let Some(why) = why {
        html.raw("<p>");
        state(html, Tone::Unknown, &format!("its queues can't be seen: {why}"));
        html.raw("</p>\n");
    }
    if let Queues::Here(samples, failures) = queues {
        old_note(html, fresh);
        html.raw("<p class=\"about\">");
        command(html, &with_address("remora queue status --every 1", watched));
        html.raw("</p>\n");
        here(html, watched, samples, failures);
    }
}

fn here(html: &mut Html, watched: &Watched, samples: &[Sample], failures: &[Failures]) {
    if samples.is_empty() {
        html.raw("<p>It has no queue.</p>\n");
        return;
    }
    let heads = [
        ("Queue", true),
        ("State", true),
        ("Waiting", false),
        ("Owned", false),
        ("Leased", false),
        ("Due later", false),
        ("Dead", false),
        ("To dead letters", false),
        ("Oldest", false),
        ("In/s", false),
        ("Out/s", false),
        ("Its rows", true),
    ];
    table_head(html, "Queues", &heads);
    for Sample { line, rates, .. } in samples {
        html.raw("<tr><th scope=\"row\" class=\"text\">").text(&line.name).raw("</th><td class=\"text\">");
        let (tone, word) = judged(line.dead, line.in_doubt);
        state(html, tone, &word);
        html.raw("</td>");
        for count in [line.waiting, line.owned, line.leased, line.later, line.dead, line.buried] {
            cell(html, &count.to_string());
        }
        cell(html, &line.oldest_s.map_or_else(|| "-".to_owned(), |s| age(Duration::from_secs(s))));
        for rate in [rates.map(|rates| rates.0), rates.map(|rates| rates.1)] {
            cell(html, &rate.map_or_else(|| "-".to_owned(), short));
        }
        html.raw("<td class=\"text\">");
        command(html, &with_url(&format!("remora queue peek {}", quoted(&line.name)), watched));
        html.raw("</td></tr>\n");
    }
    table_end(html);
    for Failures { queue, reasons } in failures {
        html.raw("<h3>Why rows of ").text(queue).raw(" failed</h3>\n");
        match reasons {
            Err(why) => {
                html.raw("<p>This can't be read: ").text(why).raw("</p>\n");
            }
            Ok(reasons) if reasons.is_empty() => {
                html.raw("<p>None of its first rows has failed.</p>\n");
            }
            Ok(reasons) => {
                let caption = format!("Why rows of {queue} failed");
                table_head(html, &caption, &[("Of its first 1000 rows", false), ("Reason", true)]);
                for (why, count) in reasons {
                    html.raw("<tr>");
                    cell(html, &count.to_string());
                    text_cell(html, why);
                    html.raw("</tr>\n");
                }
                table_end(html);
            }
        }
    }
}

/// What stands against a queue. How many rows may wait nobody knows here, so nothing is good.
fn judged(dead: u64, in_doubt: u64) -> (Tone, String) {
    match (dead, in_doubt) {
        (0, 0) => (Tone::Unknown, "open".to_owned()),
        (0, doubt) => (Tone::Bad, format!("{doubt} in doubt: somebody must decide")),
        (dead, _) => (Tone::Bad, format!("{dead} without tries left")),
    }
}

#[cfg(test)]
mod tests {
    use server::{Environment, Overrides, Target};

    use super::super::super::queue::overview::Line;
    use super::*;

    #[test]
    fn names_and_reasons_stay_text() {
        let failures = [
            Failures { queue: "d.<b>".into(), reasons: Ok(vec![("<script>".into(), 7)]) },
            Failures { queue: "d.q".into(), reasons: Err("<denied>".into()) },
        ];
        let line = Line { name: "d.<i>".into(), dead: 3, oldest_s: Some(150), ..Default::default() };
        let target =
            Target::resolve(&Overrides { no_defaults: true, ..Default::default() }, &Environment::default());
        let watched = Watched::new("db1".into(), "sandbox:a".into(), target.unwrap(), false);
        let mut html = Html::new();
        here(
            &mut html,
            &watched,
            &[Sample { line, rates: Some((2500.0, 0.0)), spans: Default::default() }],
            &failures,
        );
        let html = html.into_string();
        for text in [
            "d.&lt;i&gt;",
            "state bad\">3 without tries left",
            "2 min",
            "2.50 k",
            "remora queue peek &#39;d.&lt;i&gt;&#39; --url sandbox:a",
            "<td>7</td><td class=\"text\">&lt;script",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
        assert!(["<b>", "<i>", "<script", "<denied"].iter().all(|text| !html.contains(text)), "{html}");
        assert_eq!([judged(0, 0).0, judged(0, 1).0], [Tone::Unknown, Tone::Bad]);
    }
}
