//! What all pages have in common: frame, words and small parts.

use std::time::Duration;

use status::counter::page::Times;
use web::{Html, link};

use crate::watch::Freshness;
use monitor::time::{full, tick};

/// How to write times: in the zone of this machine.
pub(crate) const TIMES: Times<'static> = Times { full: &full, tick: &tick };

/// Pages that every page leads to: path and title.
const NAVIGATION: [(&str, &str); 3] = [("/", "Servers"), ("/backups", "Backups"), ("/queues", "Queues")];

/// How something is, which a word says and a colour repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    /// Nothing can be said.
    Unknown,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Good => "state good",
            Tone::Warning => "state warning",
            Tone::Bad => "state bad",
            Tone::Unknown => "state unknown",
        }
    }
}

/// A word with its colour.
pub(crate) fn state(html: &mut Html, tone: Tone, word: &str) {
    html.raw("<span").attribute("class", tone.class()).raw(">").text(word).raw("</span>");
}

/// A command that shows or does the same.
pub(crate) fn command(html: &mut Html, line: &str) {
    html.raw("<code class=\"command\">").text(line).raw("</code>");
}

/// A link to one of our pages.
pub(crate) fn anchor(html: &mut Html, (path, query): (&str, &[(&str, &str)]), text: &str) {
    html.raw("<a").attribute("href", &link(path, query)).raw(">").text(text).raw("</a>");
}

/// The head of a table, and its caption, which only screen readers read.
pub(crate) fn table_head(html: &mut Html, caption: &str, heads: &[(&str, bool)]) {
    html.raw("<div class=\"wide\" tabindex=\"0\" role=\"region\"").attribute("aria-label", caption);
    html.raw("><table><caption class=\"unseen\">").text(caption).raw("</caption><thead><tr>");
    for (head, is_text) in heads {
        html.raw(if *is_text { "<th scope=\"col\" class=\"text\">" } else { "<th scope=\"col\">" });
        html.text(head).raw("</th>");
    }
    html.raw("</tr></thead><tbody>\n");
}

/// The end of a table.
pub(crate) fn table_end(html: &mut Html) {
    html.raw("</tbody></table></div>\n");
}

/// A cell with a number.
pub(crate) fn cell(html: &mut Html, text: &str) {
    html.raw("<td>").text(text).raw("</td>");
}

/// A cell with words.
pub(crate) fn text_cell(html: &mut Html, text: &str) {
    html.raw("<td class=\"text\">").text(text).raw("</td>");
}

/// A part of a page that is renewed while somebody looks at it.
pub(crate) fn part(html: &mut Html, id: &'static str, content: &Html) {
    html.raw("<div data-part").attribute("id", id).raw(">\n").part(content).raw("</div>\n");
}

/// The same, for what a screen reader says when it changes.
pub(crate) fn live_part(html: &mut Html, id: &'static str, content: &Html) {
    html.raw("<div data-part aria-live=\"polite\"")
        .attribute("id", id)
        .raw(">\n")
        .part(content)
        .raw("</div>\n");
}

/// The same, for what is renewed seldom.
pub(crate) fn slow_part(html: &mut Html, id: &'static str, content: &Html) {
    html.raw("<div data-part=\"slow\"").attribute("id", id).raw(">\n").part(content).raw("</div>\n");
}

/// `5 s`, `3 min`, `2 h`, `4 d`
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// What is said above something old.
pub(crate) fn old_note(html: &mut Html, freshness: Freshness) {
    if let Freshness::Old(since) = freshness {
        html.raw("<p class=\"old\">What follows is ").text(&age(since)).raw(" old.</p>\n");
    }
}

/// A whole page.
pub(crate) struct Page<'p> {
    /// Its title.
    pub(crate) title: &'p str,
    /// The path of the page of [`NAVIGATION`] that it belongs to.
    pub(crate) at: &'p str,
    /// What the pages may do, for the foot.
    pub(crate) foot: &'p str,
    /// Its contents.
    pub(crate) body: Html,
}

impl Page<'_> {
    /// The page with everything around it.
    pub(crate) fn html(&self) -> Html {
        let mut html = Html::new();
        html.raw(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        );
        html.text(self.title).raw(
            " - remora</title>\n<link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"/style.css\">\n\
             <script src=\"/script.js\" defer></script>\n</head>\n<body class=\"window\">\n\
             <a class=\"skip\" href=\"#main\">Skip to the contents</a>\n<header><nav aria-label=\"Pages\"><ul>",
        );
        for (path, title) in NAVIGATION {
            html.raw("<li><a").attribute("href", path);
            if path == self.at {
                html.raw(" aria-current=\"page\"");
            }
            html.raw(">").text(title).raw("</a></li>");
        }
        html.raw("</ul></nav></header>\n<main id=\"main\" tabindex=\"-1\">\n<h1>").text(self.title);
        html.raw("</h1>\n<p id=\"connection\" class=\"old\" role=\"alert\" hidden></p>\n").part(&self.body);
        html.raw("</main>\n<footer><p>").text(self.foot).raw(" Made at <time id=\"made\">");
        html.text(&full(jiff::Timestamp::now().as_millisecond()));
        html.raw(
            "</time>. Without a script, load the page again to renew it.</p></footer>\n</body>\n</html>\n",
        );
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_the_largest_unit_that_says_enough() {
        let shown = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|s| age(Duration::from_secs(s)));
        assert_eq!(shown, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]);
    }

    #[test]
    fn hostile_titles_stay_titles() {
        let title = "</title><script>alert(1)</script>";
        let page = Page { title, at: "/", foot: "<b>", body: Html::new() }.html().into_string();
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;alert(1)").count(), 2);
        assert!(page.contains("href=\"/\" aria-current=\"page\">Servers"), "{page}");
    }
}
