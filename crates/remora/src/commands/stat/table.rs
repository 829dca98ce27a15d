//! Views as lines below a header, one line for each interval.

use anyhow::Result;
use status::counter::change::Interval;
use status::counter::view::{Column, View};

use super::number::shaped;
use super::output::{Named, Output, clock, meaning};
use crate::report::Report;

/// Lines between two headers.
const PAGE: u32 = 20;
/// The width of the narrowest column.
const WIDTH_MIN: usize = 6;

pub(crate) struct Table {
    views: Vec<&'static View>,
    lines: u32,
}

impl Table {
    pub(crate) fn new(views: Vec<&'static View>) -> Table {
        Table { views, lines: 0 }
    }

    fn columns(&self) -> impl Iterator<Item = &'static Column> + '_ {
        self.views.iter().flat_map(|view| view.columns)
    }

    /// Prints the names of the columns, and, with several views, the views' names above them.
    fn head(&self, server: Named<'_>, report: &Report) -> Result<()> {
        let front = front("", server, "");
        if self.views.len() > 1 {
            let mut line = front.clone();
            for view in &self.views {
                let width: usize = view.columns.iter().map(|column| width(column) + 1).sum();
                line.push_str(&format!(" {:-<1$}", format!("{} ", view.name), width - 1));
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
            Some(mark) => line.push_str(&format!(" -- {}", meaning(mark))),
            None => self.columns().for_each(|column| {
                let shown = shaped(column.of(interval), column.shape);
                line.push_str(&format!(" {shown:>0$}", width(column)));
            }),
        }
        report.data(&line)?;
        Ok(())
    }
}
