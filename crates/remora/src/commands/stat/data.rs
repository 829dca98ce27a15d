//! Intervals for programs.

use anyhow::Result;
use serde_json::{Map, Value as Cell, json};
use status::counter::change::Interval;
use status::counter::digest::by_time;
use status::counter::kind::Kind;
use status::counter::number::Number;
use status::counter::sample::{Sample, Value};
use status::counter::view::{Column, View};

use super::list::Filter;
use super::output::{Named, Output};
use crate::report::Report;
use monitor::time::stamp;

/// A line of JSON for each interval.
pub(crate) struct Json {
    filter: Option<Filter>,
    views: Vec<&'static View>,
    digests: Option<usize>,
}

impl Json {
    pub(crate) fn new(filter: Option<Filter>, views: Vec<&'static View>, digests: Option<usize>) -> Json {
        Json { filter, views, digests }
    }
}

fn number(number: Number) -> Cell {
    let text = number.to_string();
    // Whole numbers stay exact.
    let whole = text.parse::<u64>().map(Cell::from).or_else(|_| text.parse::<i64>().map(Cell::from));
    whole.unwrap_or_else(|_| json!(number.as_f64()))
}

fn value(value: &Value) -> Cell {
    match value {
        Value::Number(it) => number(*it),
        Value::Text(text) => json!(text),
    }
}

impl Json {
    fn variables(filter: &Filter, interval: &Interval<'_>) -> Cell {
        let mut all = Map::new();
        for row in filter.rows(interval) {
            let mut one = Map::new();
            one.insert("kind".to_owned(), json!(row.name.ty.kind.name()));
            one.insert("value".to_owned(), value(&row.value));
            if let Some(change) = row.change {
                one.insert("change".to_owned(), number(change));
                one.insert("per_s".to_owned(), json!(row.per_s(interval.seconds)));
            }
            if row.fell {
                one.insert("fell".to_owned(), json!(true));
            }
            all.insert(row.name.text.to_string(), Cell::Object(one));
        }
        Cell::Object(all)
    }
}

impl Output for Json {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        let mut line = json!({
            "message_type": "stat", "server": server.name, "time": stamp(interval.now),
            "seconds": interval.seconds, "mark": interval.mark.map(|mark| mark.name()),
        });
        match &self.filter {
            Some(filter) => line["variables"] = Json::variables(filter, interval),
            None => {
                for view in &self.views {
                    let columns = view.columns.iter();
                    let all: Map<String, Cell> =
                        columns.map(|column| (column.name(), json!(column.of(interval)))).collect();
                    line[view.name] = Cell::Object(all);
                }
            }
        }
        if let Some(replicas) = interval.now.replicas.as_ref().filter(|replicas| !replicas.is_empty()) {
            line["replicas"] = json!(replicas);
        }
        if let Some(most) = self.digests {
            line["digests"] =
                json!(by_time(interval).map(|all| all.into_iter().take(most).collect::<Vec<_>>()));
        }
        report.message(&line)?;
        Ok(())
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        report.message(&json!({
            "message_type": "event", "server": server.name, "time": stamp(now), "event": event,
        }))?;
        Ok(())
    }
}

/// A comma-separated table. Its columns are those of the first interval, because programs need them to stay
/// the same.
pub(crate) struct Csv {
    filter: Option<Filter>,
    views: Vec<&'static View>,
    /// Names, and whether each is a counter, once they are known.
    names: Option<Vec<(String, bool)>>,
}

impl Csv {
    pub(crate) fn new(filter: Option<Filter>, views: Vec<&'static View>) -> Csv {
        Csv { filter, views, names: None }
    }

    fn columns(&self) -> impl Iterator<Item = (&'static View, &'static Column)> + '_ {
        self.views.iter().flat_map(|view| view.columns.iter().map(|column| (*view, column)))
    }

    fn head(&mut self, interval: &Interval<'_>, report: &Report) -> Result<()> {
        if self.names.is_some() {
            return Ok(());
        }
        let mut line = "time,server,seconds,mark".to_owned();
        let mut names = Vec::new();
        match &self.filter {
            Some(filter) => {
                for row in filter.rows(interval) {
                    let is_counter = row.name.ty.kind == Kind::Counter;
                    line.push_str(&format!(",{}{}", row.name.text, if is_counter { "_per_s" } else { "" }));
                    names.push((row.name.text.to_string(), is_counter));
                }
            }
            None => {
                for (view, column) in self.columns() {
                    line.push_str(&format!(",{}.{}", view.name, column.name()));
                }
            }
        }
        self.names = Some(names);
        report.data(&line)?;
        Ok(())
    }
}

impl Output for Csv {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        self.head(interval, report)?;
        let mark = interval.mark.map_or("", |mark| mark.name());
        let mut line =
            format!("{},{},{:.6},{mark}", stamp(interval.now), quoted(server.name), interval.seconds);
        let mut add = |cell: Option<String>| {
            line.push(',');
            line.push_str(&cell.unwrap_or_default());
        };
        if self.filter.is_some() {
            for (name, is_counter) in self.names.iter().flatten() {
                let row = interval.row(name);
                add(match is_counter {
                    true => row.and_then(|row| row.per_s(interval.seconds)).map(|rate| rate.to_string()),
                    false => row.map(|row| quoted(&row.value.to_string())),
                });
            }
        } else {
            self.columns().for_each(|(_, column)| add(column.of(interval).map(|it| it.to_string())));
        }
        report.data(&line)?;
        Ok(())
    }
}

/// A text as a field, in quotes if necessary.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
