//! The metrics endpoint.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use super::stat;
use crate::support::{Running, connect, of_today, on_products, products, start, tell, until};

/// The answer to a request, head and body.
fn http(address: &str, request: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn scrape(address: &str) -> BTreeMap<String, f64> {
    let (head, body) = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("openmetrics-text; version=1.0.0"), "{head}");
    check_openmetrics(&body);
    let values = body.lines().filter(|line| !line.starts_with('#'));
    values
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// Rules of OpenMetrics that are easily broken: families in one piece, with a type; counters that end in
/// _total; units at the end of the name; no sample twice; EOF.
fn check_openmetrics(text: &str) {
    let mut seen = std::collections::BTreeSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    assert!(text.ends_with("\n# EOF\n"));
    for line in text.lines().filter(|line| *line != "# EOF") {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", name, ty] => {
                assert!(seen.insert(format!("# {name}")), "{name} comes twice");
                (family, kind) = (name.to_owned(), ty.to_owned());
            }
            ["#", "UNIT", name, unit] => {
                assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}")
            }
            ["#", "HELP", name, _] => assert_eq!(name, family),
            _ => {
                let name = line.split('{').next().unwrap();
                let end = match kind.as_str() {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                assert_eq!(name, format!("{family}{end}"), "{line}");
                assert!(seen.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line}");
                let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
                assert!(kind != "counter" || value >= 0.0, "{line}");
            }
        }
    }
}

#[test]
fn the_metrics_endpoint_counts_a_known_load_and_reports_an_unreachable_server() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut server = start(product, &[]);
        let mut session = connect(server.socket());
        session
            .execute("CREATE DATABASE d; USE d; CREATE TABLE t (v INT PRIMARY KEY) ENGINE=InnoDB")
            .unwrap();
        let mut running = Running::new(stat(&server, &["--listen", "127.0.0.1:0"]).spawn().unwrap());
        let address =
            running.said("http://").split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let of = |all: &BTreeMap<String, f64>, front: &str| {
            let found: Vec<_> = all.iter().filter(|(name, _)| name.starts_with(front)).collect();
            assert_eq!(found.len(), 1, "{front}: {found:?}");
            *found[0].1
        };
        let label = |name: &str, label: &str| {
            format!("{name}_total{{server=\"{}\",{label}}}", server.socket().display())
        };
        let insert = label("mysql_statements", "statement=\"insert\"");
        let write = label("mysql_handler", "operation=\"write\"");
        let before = scrape(&address);
        (0..300).for_each(|v| drop(session.execute(&format!("INSERT INTO t VALUES ({v})")).unwrap()));
        let after = scrape(&address);
        assert_eq!(of(&after, &insert) - of(&before, &insert), 300.0);
        assert!(of(&after, &write) - of(&before, &write) >= 300.0);
        assert_eq!(of(&after, "mysql_up{"), 1.0);
        assert!(of(&after, "mysql_innodb_row_lock_time_seconds_total") < 1.0);
        for (request, code) in [
            ("GET / HTTP/1.1\r\n\r\n", "200"),
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\r\n\r\n", "405"),
        ] {
            assert!(http(&address, request).0.starts_with(&format!("HTTP/1.1 {code}")), "{request}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9 << 10));
        assert!(http(&address, &long).0.starts_with("HTTP/1.1 431"));
        server.kill().unwrap();
        assert_eq!(scrape(&address).into_values().collect::<Vec<_>>(), [0.0]);
        server.restart().unwrap();
        until("it is back", || of(&scrape(&address), "mysql_up{") == 1.0);
        running.must_run();
    });
}
