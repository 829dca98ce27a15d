//! Views as lines below a header, one line for each interval.

use anyhow::Result;
use humanize::text;
use monitor::number::number;
use progress::Progress;
use status::counter::change::Interval;
use status::counter::sample::Sample;
use status::counter::view::{Column, View};

use super::output::{Named, Output};
use crate::report::Report;
use monitor::time::clock;

/// Lines between two headers.
const PAGE: u32 = 20;
/// The width of the narrowest column.
const WIDTH_MIN: usize = 6;

pub(crate) struct Table {
    views: Vec<&'static View>,
    lines: u32,
    /// The width of the terminal, if it is one.
    room: Option<usize>,
    /// How many columns are shown: those that the terminal has room for.
    shown: usize,
}

impl Table {
    pub(crate) fn new(views: Vec<&'static View>, room: Option<usize>) -> Table {
        Table { views, lines: 0, room, shown: usize::MAX }
    }

    fn columns(&self) -> impl Iterator<Item = &'static Column> + '_ {
        self.views.iter().flat_map(|view| view.columns).take(self.shown)
    }

    /// Leaves out the last columns if a line would be wider than the terminal, and says so.
    fn fit(&mut self, front: usize, report: &Report) {
        let Some(room) = self.room else { return };
        let all = self.columns().count();
        let ends = self.columns().scan(front, |end, column| {
            *end += width(column) + 1;
            Some(*end)
        });
        self.shown = ends.take_while(|end| *end <= room).count().max(1);
        if self.shown < all {
            let left_out = progress::count(all - self.shown, "column");
            report.note(&format!("{left_out} left out: the terminal is {room} wide; --json has all of them"));
        }
    }

    /// Prints the names of the columns, and, with several views, the views' names above them.
    fn head(&mut self, server: Named<'_>, report: &Report) -> Result<()> {
        let front = front("", server, "");
        if self.lines == 0 {
            self.fit(front.chars().count(), report);
        }
        if self.views.len() > 1 {
            let mut line = front.clone();
            let mut left = self.shown;
            for view in &self.views {
                let columns = view.columns.iter().take(left);
                left -= columns.len();
                let width: usize = columns.map(|column| width(column) + 1).sum();
                if width > 0 {
                    let name = format!("{} ", view.name);
                    line.push_str(&format!(" {name:-<0$.0$}", width - 1));
                }
            }
            report.data(line.trim_end())?;
        }
        let mut line = front;
        self.columns().for_each(|column| line.push_str(&format!(" {:>1$}", column.head, width(column))));
        report.data(&line)?;
        Ok(())
    }
}

fn width(column: &Column) -> usize {
    column.head.len().max(WIDTH_MIN)
}

fn front(time: &str, server: Named<'_>, name: &str) -> String {
    match server.width {
        Some(width) => format!("{time:<8} {name:<width$}"),
        None => format!("{time:<8}"),
    }
}

impl Output for Table {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        if self.lines.is_multiple_of(PAGE) {
            self.head(server, report)?;
        }
        self.lines += 1;
        let mut line = front(&clock(interval.now), server, server.name);
        match interval.mark {
            Some(mark) => line.push_str(&format!(" -- {}", mark.meaning())),
            None => self.columns().for_each(|column| {
                let shown = number(column, interval);
                line.push_str(&format!(" {shown:>0$}", width(column)));
            }),
        }
        report.data(&line)?;
        Ok(())
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        let line = format!("{} -- {event}", front(&clock(now), server, server.name));
        report.data(&text::plain(&line))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use status::counter::view;

    use super::*;

    #[test]
    fn a_narrow_terminal_gets_the_first_columns() {
        let views: Vec<&View> = ["overview", "redo"].into_iter().filter_map(view::of).collect();
        let all: usize = views.iter().map(|view| view.columns.len()).sum();
        let first = width(&views[0].columns[0]) + 1;
        for (room, shown) in [(None, all), (Some(1000), all), (Some(8 + first), 1), (Some(8 + first - 1), 1)]
        {
            let mut table = Table::new(views.clone(), room);
            table.fit(8, &Report::plain());
            assert_eq!(table.columns().count(), shown, "{room:?}");
        }
        let mut table = Table::new(views, Some(80));
        table.fit(8, &Report::plain());
        let shown: usize = table.columns().map(|column| width(column) + 1).sum();
        assert!((60..=72).contains(&shown), "{shown}");
    }
}
