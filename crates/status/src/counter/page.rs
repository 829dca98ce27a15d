//! A recording as one self-contained page of HTML: plots as SVG, and a script that shows their values.

mod plot;
mod reduce;

use super::change::Discontinuity;
use super::part::Digest;
use super::sample::Begin;
use super::series::{PLOTS, Series, Sum, column};
use super::view::Shape;

/// The most statements that are listed.
const ROWS_MAX: usize = 40;

/// A mark near the beginning of every page.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"remora stat\">";

/// The style sheet of [`page`], [`plots`] and [`statement_table`].
pub const STYLE: &str = include_str!("page/page.css");

/// The script of [`page`] and [`plots`]. `watchPlots(element)` shows values in plots that were added later.
pub const SCRIPT: &str = include_str!("page/page.js");

/// How to write times, which depends on the reader's time zone.
pub struct Times<'a> {
    /// Date and time of day.
    pub full: &'a dyn Fn(i64) -> String,
    /// The label below a plot, for a plot that covers this many milliseconds.
    pub tick: &'a dyn Fn(i64, i64) -> String,
}

/// The page for several servers, by name.
#[must_use]
pub fn page(title: &str, servers: &[(&str, &Series)], times: &Times<'_>) -> String {
    let mut html = String::new();
    put!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{2}\n<title>{0}</title>\n\
         <style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escaped(title),
        STYLE,
        GENERATOR
    );
    if servers.len() > 1 {
        html.push_str("<nav>");
        for (at, (name, _)) in servers.iter().enumerate() {
            put!(html, "<a href=\"#s{at}\">{}</a> ", escaped(name));
        }
        html.push_str("</nav>\n");
    }
    for (at, (name, series)) in servers.iter().enumerate() {
        server(&mut html, at, name, series, times);
    }
    put!(html, "<script>\n{}</script>\n</body>\n</html>\n", SCRIPT);
    html
}

fn server(html: &mut String, at: usize, name: &str, series: &Series, times: &Times<'_>) {
    put!(html, "<section id=\"s{at}\">\n<h2>{}</h2>\n", escaped(name));
    let version = series.settings.get("version").map_or("", String::as_str);
    let (first, last) = (series.times.first(), series.times.last());
    if let (Some(first), Some(last)) = (first, last) {
        let (first, last) = ((times.full)(*first), (times.full)(*last));
        put_line!(
            html,
            "<p class=\"about\">{} &middot; {first} to {last} &middot; {} points</p>",
            escaped(version),
            series.times.len()
        );
    }
    for (when, what) in &happened(series) {
        put_line!(html, "<p class=\"mark\">{}: {}</p>", (times.full)(*when), escaped(what));
    }
    replicas(html, series);
    plots(html, series, times);
    statements(html, series);
    counters(html, series);
    html.push_str("</section>\n");
}

/// Appends the plots of a series, and the titles of those that are zero all the time.
pub fn plots(html: &mut String, series: &Series, times: &Times<'_>) {
    let begin = series.times.first().copied().unwrap_or_default();
    let marks: Vec<i64> = happened(series).iter().map(|(when, _)| begin.max(*when)).collect();
    html.push_str("<div class=\"plots\">\n");
    let group = reduce::samples_per_group(series.times.len());
    let points_at = reduce::times(&series.times, group);
    let mut idle = Vec::new();
    for (number, plot) in PLOTS.iter().enumerate() {
        let lines = series.lines.get(number).map_or(&[][..], Vec::as_slice);
        let points = || lines.iter().flatten().flatten();
        if points().next().is_none() {
            continue;
        }
        if points().all(|point| *point == 0.0) {
            // Nothing is known at a mark. Elsewhere it was not zero, but unknown.
            let unknown = |line: &Vec<Option<f64>>| line.iter().filter(|point| point.is_none()).count();
            let is_known = lines.iter().all(|line| unknown(line) <= series.marks.len());
            idle.push(format!("{}{}", plot.title, if is_known { "" } else { " (unknown at times)" }));
            continue;
        }
        let names: Vec<&str> = plot.lines.iter().map(|(_, _, name)| *name).collect();
        let shape = plot.lines.first().and_then(|(view, key, _)| column(view, key));
        let shape = shape.map_or(Shape::Count, |column| column.shape);
        let lines: Vec<_> = lines.iter().map(|line| reduce::line(line, group)).collect();
        let drawn = plot::Drawing {
            title: plot.title,
            names: &names,
            shape,
            times: &points_at,
            lines: &lines,
            marks: &marks,
        };
        plot::draw(html, &drawn, times);
    }
    html.push_str("</div>\n");
    if group > 1 {
        put_line!(
            html,
            "<p class=\"about\">Each {group} samples are drawn as two points: the lowest and the highest value.</p>"
        );
    }
    if !idle.is_empty() {
        put_line!(html, "<p class=\"about\">Zero all the time: {}.</p>", idle.join("; "));
    }
}

/// Marks and events with their times, in order.
fn happened(series: &Series) -> Vec<(i64, &str)> {
    let marks = series.marks.iter().map(|(when, mark)| (*when, meaning(*mark)));
    let events = series.events.iter().map(|(when, event)| (*when, event.as_str()));
    let mut all: Vec<_> = marks.chain(events).collect();
    all.sort_by_key(|(when, _)| *when);
    all
}

fn meaning(mark: Discontinuity) -> &'static str {
    match mark {
        Discontinuity::Begin(Begin::First) => "another recording began",
        Discontinuity::Begin(Begin::Restarted) => "the server was restarted",
        Discontinuity::Begin(Begin::Reconnected) => "the connection broke",
        Discontinuity::Reset => "the counters were reset",
    }
}

fn replicas(html: &mut String, series: &Series) {
    for replica in &series.replicas {
        let delay = replica.delay_s.map_or("unknown".to_owned(), |seconds| format!("{seconds} s"));
        if let Some(trouble) = replica.trouble() {
            put_line!(html, "<p class=\"stopped\">At the end {}</p>", escaped(&trouble));
        }
        put_line!(
            html,
            "<p class=\"about\">Replicates from {} {}: reading {}, applying {}, behind {delay}. {}</p>",
            escaped(&replica.source),
            escaped(&replica.channel),
            escaped(&replica.io),
            escaped(&replica.sql),
            escaped(&replica.error)
        );
    }
}

fn statements(html: &mut String, series: &Series) {
    let all: Vec<&Digest> = series.digests.values().collect();
    if all.is_empty() {
        return;
    }
    html.push_str("<h3>Statements that took most of the time</h3>\n");
    statement_table(html, all, series.seconds);
}

/// Appends a table of the statements that took most of the time, those of so many seconds.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub fn statement_table(html: &mut String, mut all: Vec<&Digest>, seconds: f64) {
    all.sort_by_key(|digest| std::cmp::Reverse(digest.time_us));
    let whole: u64 = all.iter().map(|digest| digest.time_us).sum::<u64>().max(1);
    html.push_str("<table><tr>");
    for head in ["share", "per second", "time each", "rows read each", "failed"] {
        put!(html, "<th scope=\"col\">{head}");
    }
    html.push_str(
        "<th scope=\"col\" class=\"text\">database<th scope=\"col\" class=\"text\">statement</tr>\n",
    );
    for digest in all.into_iter().take(ROWS_MAX) {
        let count = digest.count.max(1) as f64;
        put_line!(
            html,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td class=\"text\">{}<td class=\"text\">{}</tr>",
            plot::shown(digest.time_us as f64 / whole as f64, Shape::Share),
            plot::shown(count / seconds.max(1e-9), Shape::PerSecond),
            plot::shown_time(digest.time_us as f64 / 1000.0 / count),
            plot::shown(digest.examined as f64 / count, Shape::Count),
            digest.errors,
            escaped(&digest.schema),
            escaped(&digest.text),
        );
    }
    html.push_str("</table>\n");
}

fn counters(html: &mut String, series: &Series) {
    let mut all: Vec<(&str, &Sum)> = series.sums.iter().map(|(name, sum)| (&**name, sum)).collect();
    all.retain(|(_, sum)| !sum.change.is_zero());
    all.sort_by(|a, b| a.0.cmp(b.0));
    html.push_str(
        "<h3>Counters that changed</h3>\n<input class=\"filter\" placeholder=\"filter\" aria-label=\"filter counters\">\n\
         <table class=\"counters\"><tr><th class=\"text\">counter<th>change<th>per second<th>most</tr>\n",
    );
    for (name, sum) in all {
        put_line!(
            html,
            "<tr><td class=\"text\">{}<td>{}<td>{}<td>{}</tr>",
            escaped(name),
            sum.change,
            plot::shown(sum.change.as_f64() / series.seconds.max(1e-9), Shape::PerSecond),
            plot::shown(sum.most_per_s, Shape::PerSecond)
        );
    }
    html.push_str("</table>\n");
}

/// A text escaped for a page or an attribute's value.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::super::part::{Digest, Replica};
    use super::*;

    fn made(servers: &[(&str, &Series)]) -> String {
        let times = Times { full: &|time| format!("at {time}"), tick: &|time, _| time.to_string() };
        page("a & b", servers, &times)
    }

    #[test]
    fn a_page_shows_the_recorded_values() {
        let digest = |text: &str, time_us, count| Digest {
            schema: "app".into(),
            text: text.into(),
            count,
            time_us,
            examined: 40,
            errors: 7,
            ..Digest::default()
        };
        let sum = |change: u64| Sum { change: Number::from(change), most_per_s: 9.0 };
        let replica = |delay_s| Replica {
            source: "db1:3306".into(),
            io: "Yes".into(),
            sql: "No".into(),
            delay_s,
            ..Replica::default()
        };
        let mut series = Series {
            times: vec![1000, 3000],
            lines: vec![vec![vec![Some(1.0), Some(2.0)]], vec![vec![Some(0.0), None]]],
            marks: vec![(2000, Discontinuity::Begin(Begin::Restarted))],
            events: vec![(1500, "replication from <db1> is stopped".to_owned())],
            seconds: 4.0,
            sums: [
                ("Questions".into(), sum(12)),
                ("Aborted_clients".into(), sum(8)),
                ("Idle".into(), sum(0)),
            ]
            .into(),
            replicas: vec![replica(None), replica(Some(5))],
            ..Series::default()
        };
        series.settings.insert("version".into(), "<10.11>".into());
        for digest in [digest("SELECT 1", 1000, 4), digest("SELECT 2", 3000, 10)] {
            series.digests.insert((digest.schema.clone(), digest.text.clone()), digest);
        }
        let html = made(&[("one", &series)]);
        let has = |what: &str| assert!(html.contains(what), "{what} in {html}");
        has("<title>a &amp; b</title>");
        has("<p class=\"about\">&lt;10.11&gt; &middot; at 1000 to at 3000 &middot; 2 points</p>");
        has(
            "<p class=\"mark\">at 1500: replication from &lt;db1&gt; is stopped</p>\n<p class=\"mark\">at 2000: the server was restarted</p>",
        );
        has("Replicates from db1:3306 : reading Yes, applying No, behind unknown. ");
        has("behind 5 s. ");
        has("<p class=\"stopped\">At the end replication from db1:3306 is stopped: the thread that applies");
        // So is one that was unknown at times.
        let stopped =
            Series { times: vec![1000, 2000], lines: vec![vec![vec![Some(0.0), None]]], ..Series::default() };
        let idle = "Zero all the time: Statements per second (unknown at times).</p>";
        assert!(made(&[("one", &stopped)]).contains(idle));
        // A plot that is zero all the time is named, and one of which nothing is known is not.
        has("<figcaption>Statements per second");
        has("Zero all the time: Connections.</p>");
        has(
            "<tr><td>75 %<td>2.5<td>0.3 ms<td>4<td>7<td class=\"text\">app<td class=\"text\">SELECT 2</tr>\n\
             <tr><td>25 %<td>1<td>0.25 ms<td>10<td>7<td class=\"text\">app<td class=\"text\">SELECT 1</tr>\n",
        );
        has("<tr><td class=\"text\">Aborted_clients<td>8<td>2<td>9</tr>\n\
             <tr><td class=\"text\">Questions<td>12<td>3<td>9</tr>\n</table>");
        assert!(!html.contains("<nav>") && html.matches("<figure>").count() == 1, "{html}");
        let both = made(&[("one", &series), ("two\"", &Series::default())]);
        assert!(both.contains("<nav><a href=\"#s0\">one</a> <a href=\"#s1\">two&quot;</a> </nav>"), "{both}");
        assert_eq!(both.matches("Statements that took most of the time").count(), 1);
    }

    #[test]
    fn a_mark_has_words() {
        let marks = [
            Discontinuity::Begin(Begin::First),
            Discontinuity::Begin(Begin::Restarted),
            Discontinuity::Begin(Begin::Reconnected),
            Discontinuity::Reset,
        ];
        let words = [
            "another recording began",
            "the server was restarted",
            "the connection broke",
            "the counters were reset",
        ];
        assert_eq!(marks.map(meaning), words);
    }
}
