//! Samples as OpenMetrics 1.0 text: counters as counters, gauges as gauges, in seconds and bytes.
//!
//! The usual exporter leaves most of a server's counters untyped. Here only variables missing from our list
//! are `unknown`.

use super::kind::{Kind, Type, Unit};
use super::number::Number;
use super::part::{Queue, Replica};
use super::sample::Sample;
use std::collections::BTreeMap;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters that become one metric with a label: the prefix of their names, the metric, the label.
const FAMILIES: [(&str, &str, &str); 2] =
    [("Com_", "mysql_statements", "statement"), ("Handler_", "mysql_handler", "operation")];

/// A server and its last sample, if it answered.
pub struct Source<'a> {
    /// Its name.
    pub server: &'a str,
    /// What it said.
    pub sample: Option<&'a Sample>,
}

/// One metric with its samples.
struct Metric {
    kind: &'static str,
    unit: &'static str,
    help: String,
    lines: Vec<String>,
}

#[derive(Default)]
struct Page(BTreeMap<String, Metric>);

/// A type of OpenMetrics, such as `gauge`, and the unit, which is empty for none.
#[derive(Clone, Copy)]
struct MetricType {
    kind: &'static str,
    unit: &'static str,
}

/// A gauge without a unit.
const GAUGE: MetricType = MetricType { kind: "gauge", unit: "" };
/// A gauge of seconds.
const GAUGE_S: MetricType = MetricType { kind: "gauge", unit: "seconds" };
/// What is told in labels.
const INFO: MetricType = MetricType { kind: "info", unit: "" };

impl Page {
    fn add(
        &mut self,
        name: &str,
        MetricType { kind, unit }: MetricType,
        help: &str,
        (labels, value): (&str, &str),
    ) {
        let metric = self.0.entry(name.to_owned()).or_insert_with(|| Metric {
            kind,
            unit,
            help: help.to_owned(),
            lines: Vec::new(),
        });
        let end = match metric.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        metric.lines.push(format!("{name}{end}{{{labels}}} {value}"));
    }
}

/// The page for all servers, which ends with `# EOF`.
#[must_use]
pub fn page(sources: &[Source<'_>]) -> String {
    let mut page = Page::default();
    for source in sources {
        let server = format!("server=\"{}\"", escaped(source.server));
        let up = if source.sample.is_some() { "1" } else { "0" };
        page.add("mysql_up", GAUGE, "Whether the server answered.", (&server, up));
        if let Some(sample) = source.sample {
            of_sample(&mut page, &server, sample);
        }
    }
    let mut text = String::new();
    for (name, metric) in &page.0 {
        put_line!(text, "# TYPE {name} {}", metric.kind);
        if !metric.unit.is_empty() {
            put_line!(text, "# UNIT {name} {}", metric.unit);
        }
        put_line!(text, "# HELP {name} {}", escaped(&metric.help));
        for line in &metric.lines {
            put_line!(text, "{line}");
        }
    }
    text.push_str("# EOF\n");
    text
}

fn of_sample(page: &mut Page, server: &str, sample: &Sample) {
    for (name, value) in sample.names.all().iter().zip(&sample.values) {
        let Some(number) = numeric(name.ty, value) else { continue };
        let kind = match name.ty.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Switch => "gauge",
            Kind::Text | Kind::Untyped => "unknown",
        };
        let family = FAMILIES.iter().find_map(|(front, metric, label)| {
            name.text
                .strip_prefix(front)
                .filter(|_| name.ty.kind == Kind::Counter)
                .map(|rest| (*front, *metric, *label, rest))
        });
        match family {
            Some((front, metric, label, rest)) => {
                let labels = format!("{server},{label}=\"{}\"", escaped(rest));
                let help = format!("Status variables {front}* of the server.");
                page.add(metric, MetricType { kind, unit: "" }, &help, (&labels, &number));
            }
            None => {
                let (metric, unit) = metric_name(&name.text, name.ty);
                let help = format!("Status variable {} of the server.", name.text);
                page.add(&metric, MetricType { kind, unit }, &help, (server, &number));
            }
        }
    }
    let seconds = |time: std::time::Duration| format!("{:.6}", time.as_secs_f64());
    page.add(
        "remora_sample_seconds",
        GAUGE_S,
        "How long the server took to answer.",
        (server, &seconds(sample.took)),
    );
    if let Some(version) = sample.settings.0.get("version") {
        let labels = format!("{server},version=\"{}\"", escaped(version));
        page.add("mysql_server", INFO, "The server.", (&labels, "1"));
    }
    for replica in sample.replicas.iter().flatten() {
        of_replica(page, server, replica);
    }
    for queue in &sample.queues {
        of_queue(page, server, queue);
    }
}

fn of_replica(page: &mut Page, server: &str, replica: &Replica) {
    let labels =
        format!("{server},channel=\"{}\",source=\"{}\"", escaped(&replica.channel), escaped(&replica.source));
    let runs = |state: &str| if state == "Yes" { "1" } else { "0" };
    page.add(
        "mysql_replica_io_running",
        GAUGE,
        "Whether the thread that reads runs.",
        (&labels, runs(&replica.io)),
    );
    page.add(
        "mysql_replica_sql_running",
        GAUGE,
        "Whether the thread that applies runs.",
        (&labels, runs(&replica.sql)),
    );
    let help = "Number of the error that stopped replication, 0 for none.";
    let errno = replica.errno.filter(|_| replica.is_stopped()).unwrap_or(0);
    page.add("mysql_replica_error_number", GAUGE, help, (&labels, &errno.to_string()));
    if replica.is_stopped() && !replica.error.is_empty() {
        let labels = format!("{labels},error=\"{}\"", escaped(&replica.error));
        page.add("mysql_replica_error", INFO, "The error that stopped replication.", (&labels, "1"));
    }
    // For an unknown delay there is no value: zero would be wrong.
    if let Some(delay) = replica.delay_s {
        let help = "Seconds behind the source.";
        page.add("mysql_replica_delay_seconds", GAUGE_S, help, (&labels, &delay.to_string()));
    }
    let help = "Seconds by which it is delayed on purpose.";
    let wanted = replica.wanted_delay_s.unwrap_or(0).to_string();
    page.add("mysql_replica_wanted_delay_seconds", GAUGE_S, help, (&labels, &wanted));
    if let Some(unapplied) = replica.unapplied {
        let help = "Transactions that are received and not applied, by GTID.";
        page.add("mysql_replica_unapplied_transactions", GAUGE, help, (&labels, &unapplied.to_string()));
    }
}

fn of_queue(page: &mut Page, server: &str, queue: &Queue) {
    let labels = format!("{server},queue=\"{}\"", escaped(&queue.name));
    let mut add = |name, kind, help, rows: u64| {
        page.add(name, MetricType { kind, unit: "rows" }, help, (&labels, &rows.to_string()))
    };
    add("mysql_queue_waiting_rows", "gauge", "Rows that wait.", queue.waiting);
    add("mysql_queue_owned_rows", "gauge", "Rows that somebody has taken.", queue.owned);
    add("mysql_queue_written_rows", "counter", "Rows written since the queue was opened.", queue.written);
    add("mysql_queue_removed_rows", "counter", "Rows that ended since the queue was opened.", queue.removed);
}

/// The metric for a status variable, and its unit, which is the end of the name.
fn metric_name(name: &str, ty: Type) -> (String, &'static str) {
    let unit = match ty.unit {
        Unit::Count => "",
        Unit::Bytes => "bytes",
        Unit::Pages => "pages",
        Unit::Time(_) => "seconds",
    };
    let mut metric: String = name.to_ascii_lowercase();
    metric.retain(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Unit::Time(_) = ty.unit {
        metric = metric.trim_end_matches("_ns").trim_end_matches("_sec").to_owned();
    }
    // A counter's samples end with _total, and no name may have that ending twice.
    let metric = metric.trim_end_matches("_total");
    if unit.is_empty() || metric.ends_with(&format!("_{unit}")) {
        (format!("mysql_{metric}"), unit)
    } else {
        (format!("mysql_{metric}_{unit}"), unit)
    }
}

/// The value in the unit of its metric; none if it is not a number.
fn numeric(ty: Type, value: &super::sample::Value) -> Option<String> {
    if ty.kind == Kind::Switch {
        let on = matches!(value.to_string().to_ascii_uppercase().as_str(), "ON" | "YES" | "1" | "TRUE");
        return Some(if on { "1" } else { "0" }.to_owned());
    }
    let number: Number = value.number().filter(|_| ty.kind != Kind::Text)?;
    match ty.unit {
        Unit::Time(units) => Some((number.as_f64() / f64::from(units)).to_string()),
        _ => Some(number.to_string()),
    }
}

/// A text as the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::part::Settings;
    use super::*;

    fn sample() -> Sample {
        let replica = |channel: &str, sql: &str, delay_s| Replica {
            channel: channel.into(),
            source: "db1:3306".into(),
            io: "Yes".into(),
            sql: sql.into(),
            delay_s,
            error: if sql == "No" { "a \"b\"".into() } else { String::new() },
            errno: (sql == "No").then_some(1062),
            unapplied: (sql == "No").then_some(12),
            wanted_delay_s: (sql == "No").then_some(60),
            ..Replica::default()
        };
        let queue = Queue { name: "app.jobs".into(), waiting: 5, owned: 2, written: 90, removed: 83 };
        Sample {
            took: Duration::from_micros(2500),
            replicas: Some(vec![replica("", "Yes", Some(3)), replica("b", "No", None)]),
            queues: vec![queue],
            settings: Arc::new(Settings([("version".into(), "10.11.6-\"x\"\n".into())].into())),
            ..Sample::of(
                0,
                &[
                    ("Com_select", "12"),
                    ("Handler_write", "13"),
                    ("Bytes_sent", "14"),
                    ("Innodb_row_lock_time", "1500"),
                    ("Innodb_buffer_pool_pages_data", "15"),
                    ("Uptime", "16"),
                    ("Compression", "OFF"),
                    ("wsrep_ready", "ON"),
                    ("New_one", "17"),
                    ("New_word", "x"),
                    ("Ssl_cipher", "18"),
                ],
            )
        }
    }

    #[test]
    fn a_page_has_types_units_and_values() {
        let sample = sample();
        let sources = [Source { server: "a", sample: Some(&sample) }, Source { server: "b\\", sample: None }];
        let page = page(&sources);
        let up = "# TYPE mysql_up gauge\n# HELP mysql_up Whether the server answered.\n\
                  mysql_up{server=\"a\"} 1\nmysql_up{server=\"b\\\\\"} 0\n";
        assert!(page.contains(up) && page.ends_with("\n# EOF\n"), "{page}");
        for line in [
            "# TYPE mysql_bytes_sent_bytes counter",
            "# UNIT mysql_bytes_sent_bytes bytes",
            "mysql_bytes_sent_bytes_total{server=\"a\"} 14",
            "mysql_compression{server=\"a\"} 0",
            "mysql_wsrep_ready{server=\"a\"} 1",
            "mysql_statements_total{server=\"a\",statement=\"select\"} 12",
            "mysql_handler_total{server=\"a\",operation=\"write\"} 13",
            "mysql_innodb_buffer_pool_pages_data_pages{server=\"a\"} 15",
            "mysql_innodb_row_lock_time_seconds_total{server=\"a\"} 1.5",
            "mysql_uptime_seconds{server=\"a\"} 16",
            "# TYPE mysql_new_one unknown",
            "mysql_new_one{server=\"a\"} 17",
            "mysql_queue_waiting_rows{server=\"a\",queue=\"app.jobs\"} 5",
            "mysql_queue_owned_rows{server=\"a\",queue=\"app.jobs\"} 2",
            "mysql_queue_written_rows_total{server=\"a\",queue=\"app.jobs\"} 90",
            "mysql_queue_removed_rows_total{server=\"a\",queue=\"app.jobs\"} 83",
            "mysql_replica_io_running{server=\"a\",channel=\"b\",source=\"db1:3306\"} 1",
            "mysql_replica_sql_running{server=\"a\",channel=\"\",source=\"db1:3306\"} 1",
            "mysql_replica_sql_running{server=\"a\",channel=\"b\",source=\"db1:3306\"} 0",
            "mysql_replica_error_number{server=\"a\",channel=\"\",source=\"db1:3306\"} 0",
            "mysql_replica_error_number{server=\"a\",channel=\"b\",source=\"db1:3306\"} 1062",
            "mysql_replica_error_info{server=\"a\",channel=\"b\",source=\"db1:3306\",error=\"a \\\"b\\\"\"} 1",
            "mysql_replica_delay_seconds{server=\"a\",channel=\"\",source=\"db1:3306\"} 3",
            "mysql_replica_wanted_delay_seconds{server=\"a\",channel=\"\",source=\"db1:3306\"} 0",
            "mysql_replica_wanted_delay_seconds{server=\"a\",channel=\"b\",source=\"db1:3306\"} 60",
            "mysql_replica_unapplied_transactions{server=\"a\",channel=\"b\",source=\"db1:3306\"} 12",
            "mysql_server_info{server=\"a\",version=\"10.11.6-\\\"x\\\"\\n\"} 1",
            "remora_sample_seconds{server=\"a\"} 0.002500",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
        // Words are no numbers, and an unknown delay is no value.
        assert!(!page.contains("new_word") && !page.contains("ssl_cipher"), "{page}");
        assert_eq!(page.matches("\nmysql_replica_delay_seconds{").count(), 1);
    }

    #[test]
    fn a_metric_ends_by_its_unit_once() {
        let name = |name, unit| metric_name(name, Type { unit, ..super::super::kind::of("") }).0;
        assert_eq!(name("Busy_time_ns", Unit::Time(1_000_000_000)), "mysql_busy_time_seconds");
        assert_eq!(name("Wait_sec", Unit::Time(1)), "mysql_wait_seconds");
        assert_eq!(name("Rows_total", Unit::Count), "mysql_rows");
        assert_eq!(name("Free_bytes", Unit::Bytes), "mysql_free_bytes");
        assert_eq!(name("Key-blocks.Read", Unit::Count), "mysql_keyblocksread");
    }
}
