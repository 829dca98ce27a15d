//! The page of queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use humanize::shell::quoted;
use server::TableName;
use web::Html;

use crate::layout::{Tone, age, cell, command, old_note, part, state, table_end, table_head, text_cell};
use crate::queue_watch::{Failures, Known, Queues};
use crate::retry::{Retries, RetryContext};
use crate::server_list::{with_address, with_url};
use crate::watch::{Freshness, Watched, freshness};
use progress::short;
use queue_admin::overview::Line;
use queue_admin::watch::Sample;

/// What the page of queues needs.
pub(crate) struct View<'v> {
    pub(crate) servers: &'v [Arc<Watched>],
    pub(crate) interval: Duration,
    pub(crate) form_token: &'v str,
    /// The retries, if they are allowed.
    pub(crate) retries: Option<&'v Arc<Retries>>,
}

impl View<'_> {
    /// The page's contents.
    pub(crate) fn body(&self) -> Html {
        let (mut all, mut body) = (Html::new(), Html::new());
        for watched in self.servers {
            let known = watched.known();
            let fresh = freshness(known.seen, Instant::now(), self.interval);
            if fresh != Freshness::Never {
                self.server(&mut all, (watched, &known.queues), fresh);
            }
        }
        if all.is_empty() {
            all.raw("<p>No server here is known to have queues (ENGINE=QUEUE).</p>\n");
        }
        part(&mut body, "queues", &all);
        body
    }

    fn server(&self, html: &mut Html, (watched, queues): (&Watched, &Queues), fresh: Freshness) {
        let known = match queues {
            Queues::Unasked | Queues::NoEngine => return,
            Queues::Unseen(why) => Err(why),
            Queues::Here(known) => Ok(known),
        };
        html.raw("<h2>").text(&watched.name).raw("</h2>\n");
        if let Some((tone, text)) = self.retries.and_then(|retries| retries.told(&watched.name)) {
            html.raw("<p>");
            state(html, tone, &text);
            html.raw("</p>\n");
        }
        match known {
            Err(why) => {
                html.raw("<p>");
                state(html, Tone::Unknown, &format!("its queues can't be seen: {why}"));
                html.raw("</p>\n");
            }
            Ok(known) => {
                old_note(html, fresh);
                html.raw("<p class=\"about\">");
                command(html, &with_address("remora queue status --every 1", watched));
                html.raw("</p>\n");
                here(html, (watched, known), self.retry(watched, fresh));
            }
        }
    }

    /// What buttons need, if rows may be moved now. An old list must not be acted on.
    fn retry<'v>(&'v self, watched: &'v Watched, fresh: Freshness) -> Option<RetryContext<'v>> {
        let retries = self.retries.filter(|retries| !retries.is_running(&watched.name))?;
        let context = RetryContext { watched, form_token: self.form_token, retries };
        (fresh == Freshness::Fresh).then_some(context)
    }
}

fn here(html: &mut Html, (watched, known): (&Watched, &Known), retry: Option<RetryContext<'_>>) {
    let Known { samples, failures, dead_letters } = known;
    let retry_of = |queue: &String| Some((retry?, dead_letters.get(queue)?));
    let has_buttons = retry.is_some() && !dead_letters.is_empty();
    if samples.is_empty() {
        html.raw("<p>It has no queue.</p>\n");
        return;
    }
    let mut heads = vec![
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
    heads.extend(has_buttons.then_some(("Action", true)));
    table_head(html, "Queues", &heads);
    for Sample { line, rates, .. } in samples {
        html.raw("<tr><th scope=\"row\" class=\"text\">").text(&line.name).raw("</th><td class=\"text\">");
        let (tone, word) = judged(line);
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
        command(html, &with_url(&format!("remora queue peek {}", quoted(&line.plain_name())), watched));
        html.raw("</td>");
        if has_buttons {
            html.raw("<td class=\"text\">");
            if let Some((retry, queue)) = retry_of(&line.name).filter(|_| line.waiting > 0) {
                retry.button(html, queue, None);
            }
            html.raw("</td>");
        }
        html.raw("</tr>\n");
    }
    table_end(html);
    for failures in failures {
        why_failed(html, failures, retry_of(&failures.queue));
    }
}

/// Why rows of a queue failed. `retry`: what the buttons need of a dead-letter queue.
fn why_failed(html: &mut Html, failures: &Failures, retry: Option<(RetryContext<'_>, &TableName)>) {
    let Failures { queue, reasons } = failures;
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
            let mut heads = vec![("Of its first 1000 rows", false), ("Reason", true)];
            heads.extend(retry.map(|_| ("Action", true)));
            table_head(html, &caption, &heads);
            for (why, count) in reasons {
                html.raw("<tr>");
                cell(html, &count.to_string());
                text_cell(html, why);
                if let Some((retry, queue)) = retry {
                    html.raw("<td class=\"text\">");
                    retry.button(html, queue, Some(why));
                    html.raw("</td>");
                }
                html.raw("</tr>\n");
            }
            table_end(html);
        }
    }
}

/// What stands against a queue. How many rows may wait nobody knows here, so nothing is good.
fn judged(line: &Line) -> (Tone, String) {
    match (line.dead, line.in_doubt, line.paused) {
        (0, 0, 0) if line.keys_paused > 0 => (Tone::Warning, format!("{} keys paused", line.keys_paused)),
        (0, 0, 0) => (Tone::Unknown, "open".to_owned()),
        (0, 0, _) => (Tone::Warning, "paused".to_owned()),
        (0, doubt, _) => (Tone::Bad, format!("{doubt} in doubt: somebody must decide")),
        (dead, ..) => (Tone::Bad, format!("{dead} without tries left")),
    }
}

#[cfg(test)]
mod tests {
    use server::{Environment, Overrides, Target};

    use super::*;

    fn named(schema: &str, table: &str) -> Line {
        let name = format!("{schema}.{table}");
        Line { name, schema: schema.into(), table: table.into(), ..Line::default() }
    }

    #[test]
    fn names_and_reasons_stay_text() {
        let failures = vec![
            Failures { queue: "d.<b>".into(), reasons: Ok(vec![("<script>".into(), 7)]) },
            Failures { queue: "d.q".into(), reasons: Err("<denied>".into()) },
        ];
        let line = Line { dead: 3, oldest_s: Some(150), ..named("d", "<i>") };
        let target =
            Target::resolve(&Overrides { no_defaults: true, ..Default::default() }, &Environment::default());
        let watched = Watched::new("db1".into(), "sandbox:a".into(), target.unwrap(), false);
        let mut html = Html::new();
        let samples = [line, named("my.db", "it's q")]
            .map(|line| Sample {
                line,
                rates: Some((2500.0, 0.0)),
                rows_per_sync: None,
                spans: Default::default(),
            })
            .into();
        let known = Known { samples, failures, ..Known::default() };
        here(&mut html, (&watched, &known), None);
        let html = html.into_string();
        for text in [
            "d.&lt;i&gt;",
            "state bad\">3 without tries left",
            "2 min",
            "2.50 k",
            "remora queue peek &#39;d.&lt;i&gt;&#39; --url sandbox:a",
            "remora queue peek &#39;`my.db`.`it&#39;\\&#39;&#39;s q`&#39; --url sandbox:a",
            "<td>7</td><td class=\"text\">&lt;script",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
        assert!(["<b>", "<i>", "<script", "<denied"].iter().all(|text| !html.contains(text)), "{html}");
        let of = |dead, in_doubt, paused| judged(&Line { dead, in_doubt, paused, ..Line::default() }).0;
        assert_eq!([of(0, 0, 0), of(0, 0, 1)], [Tone::Unknown, Tone::Warning]);
        let keys = judged(&Line { keys_paused: 2, ..Line::default() });
        assert_eq!(keys, (Tone::Warning, "2 keys paused".to_owned()));
        assert_eq!([of(0, 1, 1), of(1, 0, 0)], [Tone::Bad, Tone::Bad]);
    }
}
