//! Status variables as a list.

use anyhow::Result;
use humanize::text;
use monitor::number::short;
use progress::Progress;
use status::counter::change::{Interval, Row};
use status::counter::kind::Kind;
use status::counter::sample::Sample;

use super::output::{Named, Output};
use crate::report::Report;
use monitor::time::clock;

/// Which status variables to show.
#[derive(Debug)]
pub(crate) struct Filter {
    patterns: Vec<String>,
    top: Option<usize>,
    changed: bool,
}

impl Filter {
    /// The filter for these options; none when views are shown instead.
    pub(crate) fn new(all: bool, like: &[String], top: Option<u32>, changed: bool) -> Option<Filter> {
        let patterns: Vec<String> = like.iter().map(|pattern| pattern.to_lowercase()).collect();
        let top = top.and_then(|top| usize::try_from(top).ok());
        (all || !patterns.is_empty() || top.is_some()).then_some(Filter { patterns, top, changed })
    }

    /// Whether to show a name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| is_like(pattern, &name))
    }

    /// The rows to show, in order: by name, or the fastest-growing counters first.
    pub(crate) fn rows<'a>(&self, interval: &Interval<'a>) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = interval.rows().filter(|row| self.takes(&row.name.text)).collect();
        if self.changed {
            let value =
                |row: &Row<'_>| interval.earlier().and_then(|then| then.value(&row.name.text).cloned());
            rows.retain(|row| match row.name.ty.kind {
                Kind::Counter => row.fell || row.change.is_some_and(|change| !change.is_zero()),
                _ => value(row).as_ref() != interval.now.value(&row.name.text),
            });
        }
        match self.top {
            Some(top) => {
                rows.retain(|row| row.change.is_some_and(|change| !change.is_zero()));
                rows.sort_by(|a, b| b.change.cmp(&a.change).then_with(|| a.name.text.cmp(&b.name.text)));
                rows.truncate(top);
            }
            None => rows.sort_by_key(|row| row.name.text.to_lowercase()),
        }
        rows
    }
}

/// Whether a text matches a pattern in which `%` stands for anything. (`_` is a plain underscore, because
/// names are full of them.)
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((front, rest)) = pattern.split_once('%') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(front) else { return false };
    let Some((middle, back)) = rest.rsplit_once('%') else {
        return text.ends_with(rest);
    };
    // The first match is as good as any, except for the last piece, which must be at the end.
    for piece in middle.split('%') {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(back)
}

pub(crate) struct List {
    filter: Filter,
}

impl List {
    pub(crate) fn new(filter: Filter) -> List {
        List { filter }
    }
}

/// The text after the name.
fn line(row: &Row<'_>, seconds: f64) -> String {
    let name = &row.name.text;
    let shown = match row.name.ty.kind {
        _ if row.fell => format!("{:>10}  fell to {}: it was reset", "-", row.value),
        Kind::Counter => {
            let rate = row.per_s(seconds).map_or_else(|| "-".to_owned(), |rate| format!("{}/s", short(rate)));
            let change = row.change.map_or_else(String::new, |change| format!("+{change}"));
            format!("{rate:>10} {change:>16} {:>22}", row.value.to_string())
        }
        Kind::Untyped => format!("{:>10} {:>16} {:>22}", "untyped", "", row.value.to_string()),
        kind => format!("{:>10} {:>16} {:>22}", kind.name(), "", row.value.to_string()),
    };
    format!("{name:<48} {shown}")
}

impl Output for List {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        let name = server.width.map_or_else(String::new, |_| format!("  {}", server.name));
        let what = match interval.mark {
            Some(mark) => format!("-- {}", mark.meaning()),
            None => format!("over {:.3} s", interval.seconds),
        };
        report.data(&format!("{}{name}  {what}", clock(interval.now)))?;
        if interval.is_whole() {
            report.data(&format!("{:<48} {:>10} {:>16} {:>22}", "", "per second", "change", "value"))?;
            for row in self.filter.rows(interval) {
                report.data(line(&row, interval.seconds).trim_end())?;
            }
        }
        report.data("")?;
        Ok(())
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        let name = server.width.map_or_else(String::new, |_| format!("  {}", server.name));
        report.data(&text::plain(&format!("{}{name}  -- {event}\n", clock(now))))?;
        Ok(())
    }
}

/// Warns of patterns that match no status variable. Shows nothing else.
pub(crate) struct Patterns {
    above: Box<dyn Output>,
    patterns: Vec<String>,
}

impl Patterns {
    pub(crate) fn new(above: Box<dyn Output>, like: &[String]) -> Patterns {
        Patterns { above, patterns: like.to_vec() }
    }
}

impl Output for Patterns {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        // Once: every interval of a server has the same names.
        for pattern in std::mem::take(&mut self.patterns) {
            let lower = pattern.to_lowercase();
            if !interval.now.names.all().iter().any(|name| is_like(&lower, &name.text.to_lowercase())) {
                report.warn(&format!(
                    "--like '{pattern}': no status variable has such a name; % stands for anything"
                ));
            }
        }
        self.above.show(server, interval, report)
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        self.above.event(server, now, event, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_like_but_for_the_underscore() {
        let takes = |pattern: &str, name: &str| {
            Filter::new(false, &[pattern.to_owned()], None, false).unwrap().takes(name)
        };
        assert!(takes("com_insert", "Com_insert") && !takes("com_insert", "Com_insert_select"));
        assert!(takes("Com%", "Com_select") && takes("%WAIT%", "Innodb_row_lock_waits") && takes("%", ""));
        assert!(takes("inno%row%waits", "Innodb_row_lock_waits") && takes("a%b%c%d", "a_b_b_c_d"));
        assert!(!takes("a%a", "a") && !takes("%ab%b", "ab") && !takes("Com_", "Comx"));
    }
}
