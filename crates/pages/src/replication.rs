//! The sources that a server follows, with all that the screen knows of them.

use status::counter::part::Replica;
use status::counter::sample::Sample;
use web::Html;

use crate::layout::{Tone, state};
use crate::watch::Freshness;
use monitor::replication::{State, facts, title};

/// The part of a server's page.
pub(crate) fn sources(sample: Option<&Sample>, fresh: Freshness) -> Html {
    let mut html = Html::new();
    match sample.map(|sample| (sample.unix_ms, sample.replicas.as_deref())) {
        None => html.raw("<p>Nothing is known yet.</p>\n"),
        Some((_, None)) => html.raw("<p>This account may not see it.</p>\n"),
        Some((_, Some([]))) => html.raw("<p>This server follows no source.</p>\n"),
        Some((now_ms, Some(all))) => {
            html.raw("<ul class=\"tree\">");
            all.iter().for_each(|replica| source(&mut html, (replica, now_ms), fresh));
            html.raw("</ul>\n")
        }
    };
    html
}

fn source(html: &mut Html, (replica, now_ms): (&Replica, i64), fresh: Freshness) {
    let how = State::of(replica);
    let tone = match how {
        State::Stopped => Tone::Bad,
        State::Connecting => Tone::Warning,
        State::Runs if fresh == Freshness::Fresh => Tone::Good,
        // What is old proves nothing.
        State::Runs => Tone::Unknown,
    };
    html.raw("<li><strong>").text(&title(replica)).raw("</strong> ");
    state(html, tone, how.word());
    for (name, text) in facts(replica, now_ms) {
        html.raw("<div>").text(&format!("{name}: {text}")).raw("</div>");
    }
    if let Some(trouble) = replica.trouble() {
        html.raw("<p class=\"bad\">").text(&trouble).raw("</p>");
    }
    html.raw("</li>\n");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stopped_source_is_bad_and_an_old_one_not_good() {
        let runs = Replica {
            io: "Yes".into(),
            sql: "Yes".into(),
            source: "<db1>:3306".into(),
            ..Replica::default()
        };
        let stopped = Replica {
            channel: "eu".into(),
            sql: "No".into(),
            errno: Some(1062),
            error: "<b>".into(),
            ..runs.clone()
        };
        let connecting = Replica { io: "Connecting".into(), ..runs.clone() };
        let shown = |replica: &Replica, fresh| {
            let mut html = Html::new();
            source(&mut html, (replica, 0), fresh);
            html.into_string()
        };
        let text = shown(&stopped, Freshness::Fresh);
        for word in [
            "from &lt;db1&gt;:3306  channel eu</strong> <span class=\"state bad\">STOPPED",
            "<div>delay: unknown</div>",
            "the thread that applies does not run; error 1062: &lt;b&gt;",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(shown(&runs, Freshness::Fresh).contains("state good\">runs"));
        assert!(shown(&runs, Freshness::Old(Duration::from_secs(90))).contains("state unknown\">runs"));
        assert!(shown(&connecting, Freshness::Fresh).contains("state warning\">connecting"));
    }
}
