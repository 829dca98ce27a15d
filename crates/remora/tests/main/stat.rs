//! Status counters against loads with known counts, through restarts and resets.

#[path = "stat/openmetrics.rs"]
mod openmetrics;
#[path = "stat/replication.rs"]
mod replication;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::Sandbox;
use serde_json::Value;

use crate::support::{Ended, Running, connect, of_today, on_products, products, remora, start, tell, until};

/// `remora stat` on a server.
fn stat(server: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = remora(Path::new("/"));
    command.arg("stat").args(["--no-defaults", "-u", "root", "-S"]).arg(server.socket()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(server: &Sandbox, arguments: &[&str]) -> Ended {
    Ended::of(&stat(server, arguments).output().unwrap())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The changes so far, counter by counter, over the lines that were read.
#[derive(Default)]
struct Sums(BTreeMap<String, f64>);

impl Sums {
    /// Reads a line; its rates must be its changes over its seconds.
    fn add(&mut self, line: &Value) {
        let seconds = line["seconds"].as_f64().unwrap();
        for (name, variable) in line["variables"].as_object().unwrap() {
            let Some(change) = variable["change"].as_f64() else {
                assert_eq!(variable.get("per_s"), None, "{name}: a rate without a change");
                continue;
            };
            assert_eq!(variable["kind"], "counter", "{name}");
            let per_s = variable["per_s"].as_f64().unwrap();
            assert!((per_s * seconds - change).abs() <= change * 1e-9, "{name}: {line}");
            *self.0.entry(name.clone()).or_default() += change;
        }
    }

    fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// The next line of JSON.
fn message(running: &mut Running) -> Value {
    let line = running.line();
    assert!(!line.is_empty(), "it ended");
    serde_json::from_str(&line).unwrap()
}

/// The next interval. In between, the program may only say that the server is away.
fn next(running: &mut Running) -> Value {
    loop {
        let line = message(running);
        if line["message_type"] == "stat" {
            return line;
        }
        assert_eq!(line["message_type"], "warning", "{line}");
    }
}

#[test]
fn every_status_variable_of_every_server_has_a_type() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &["--performance-schema=ON", "--log-bin", "--server-id=1"]);
        let shown = run(&server, &["0.1", "1", "--all", "--json"]).exits(0);
        let line = lines(&shown.out).pop().unwrap();
        let variables = line["variables"].as_object().unwrap();
        assert!(variables.len() > 300, "{}", variables.len());
        let untyped: Vec<_> =
            variables.iter().filter(|(_, it)| it["kind"] == "untyped").map(|(name, _)| name).collect();
        assert!(untyped.is_empty(), "crates/status/src/counter/known.txt lacks {untyped:?}");
        // Variables listed as numbers must be numbers.
        for (name, variable) in variables {
            let kind = variable["kind"].as_str().unwrap();
            let is_number = variable["value"].is_number();
            let is_right = match kind {
                "counter" | "gauge" => is_number || variable["value"] == "NULL" || variable["value"] == "",
                "switch" => !is_number,
                _ => true,
            };
            assert!(is_right, "{name} is {variable}");
        }
    });
}

#[test]
fn changes_are_the_exact_counts_of_a_known_load() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &[]);
        let mut session = connect(server.socket());
        session
            .execute("CREATE DATABASE d; USE d; CREATE TABLE t (v INT PRIMARY KEY) ENGINE=InnoDB")
            .unwrap();
        let mut running = Running::new(stat(&server, &["0.2", "--all", "--json"]).spawn().unwrap());
        next(&mut running);
        for v in 0..500 {
            session.execute(&format!("INSERT INTO t VALUES ({v})")).unwrap();
        }
        for v in 0..70 {
            session.execute(&format!("SELECT v FROM t WHERE v = {v}")).unwrap();
        }
        session.execute("DELETE FROM t").unwrap();
        let mut sums = Sums::default();
        while sums.of("Com_delete") < 1.0 {
            sums.add(&next(&mut running));
        }
        // Intervals in which only we work.
        for _ in 0..3 {
            sums.add(&next(&mut running));
        }
        let rows =
            if session.about.flavour == server::Flavour::MariaDb { "Rows_sent" } else { "Com_show_tables" };
        for (name, count) in [
            ("Com_insert", 500.0),
            ("Com_select", 70.0),
            ("Com_delete", 1.0),
            ("Questions", 571.0),
            ("Queries", 571.0),
            ("Handler_delete", 500.0),
            ("Handler_write", 500.0),
            ("Created_tmp_tables", 0.0),
            ("Select_scan", 0.0),
            (rows, if rows == "Rows_sent" { 70.0 } else { 0.0 }),
            ("Connections", 0.0),
        ] {
            assert_eq!(sums.of(name), count, "{name}");
        }
        let sent = sums.of("Bytes_sent");
        // 70 rows with their headers, and 501 short answers. A sample of ours takes 10000 bytes and more.
        assert!((8_000.0..20_000.0).contains(&sent), "{sent}");
    });
}

/// The list of connections, which a recording has, is longer while others wait.
#[test]
fn what_a_longer_list_of_connections_takes_is_subtracted() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &[]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.stat");
        let own = ["0.1", "--all", "--json", "--record", file.to_str().unwrap()];
        let mut running = Running::new(stat(&server, &own).spawn().unwrap());
        next(&mut running);
        let mut holder = connect(server.socket());
        assert!(holder.lock("held", 10).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| connect(server.socket()).lock("held", 300).unwrap());
            }
            let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
            until("five wait", || holder.value(waiting).unwrap().as_deref() == Some("5"));
            // From here on nobody does anything. Any number of lines may be of before it.
            holder.execute("DO 1").unwrap();
            let mut sums = Sums::default();
            while sums.of("Com_do") < 1.0 {
                sums.add(&next(&mut running));
            }
            next(&mut running);
            let mut sums = Sums::default();
            (0..3).for_each(|_| sums.add(&next(&mut running)));
            // Before anything fails: nobody may wait for ever.
            holder.unlock("held").unwrap();
            assert_eq!((sums.of("Questions"), sums.of("Bytes_sent")), (0.0, 0.0));
        });
    });
}

#[test]
fn restarts_resets_and_broken_connections_are_reported_and_make_no_rates() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut server = start(product, &[]);
        let mut running = Running::new(stat(&server, &["0.2", "--all", "--json"]).spawn().unwrap());
        next(&mut running);
        let work = |server: &Sandbox| {
            let mut session = connect(server.socket());
            (0..200).for_each(|_| drop(session.execute("DO 1").unwrap()));
        };
        let until_mark = |running: &mut Running, mark: &str| loop {
            let line = next(running);
            let variables = line["variables"].as_object().unwrap();
            if line["mark"] == mark {
                assert!(variables.values().all(|it| it.get("change").is_none()), "{line}");
                return;
            }
            assert!(line["mark"].is_null(), "{line}");
        };
        // The server knows its uptime in whole seconds only.
        let mut session = connect(server.socket());
        until("it has run for some time", || {
            let row = session.strings("SHOW GLOBAL STATUS LIKE 'Uptime'").unwrap().remove(0);
            row[1].as_ref().unwrap().parse::<u32>().unwrap() >= 4
        });
        work(&server);
        // Since 11.5, MariaDB takes the words without GLOBAL to mean the session's status.
        if session.execute("FLUSH GLOBAL STATUS").is_err() {
            session.execute("FLUSH STATUS").unwrap();
        }
        until_mark(&mut running, "reset");
        let ours =
            "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'";
        let ours = session.value(ours).unwrap().unwrap();
        session.execute(&format!("KILL {ours}")).unwrap();
        until_mark(&mut running, "reconnected");
        work(&server);
        // After the restart it has counted more than before, so only its uptime shows the restart.
        server.kill().unwrap();
        server.restart().unwrap();
        (0..5).for_each(|_| work(&server));
        until_mark(&mut running, "restarted");
        let mut sums = Sums::default();
        let mut session = connect(server.socket());
        (0..100).for_each(|_| drop(session.execute("DO 1").unwrap()));
        while sums.of("Com_do") < 100.0 {
            let line = next(&mut running);
            assert!(line["mark"].is_null(), "{line}");
            sums.add(&line);
        }
        assert!(sums.of("Com_do") < 1101.0);
    });
}

#[test]
fn views_show_the_same_with_all_variables_and_with_only_theirs() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &["--log-bin", "--server-id=1"]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.stat");
        let known = |shown: &Ended| -> Vec<(String, String, bool)> {
            let line = lines(&shown.out).pop().unwrap();
            let views =
                line.as_object().unwrap().iter().filter_map(|(view, it)| Some((view, it.as_object()?)));
            let columns = views.flat_map(|(view, it)| {
                // A share of nothing is not known, and an idle server may have read nothing in between.
                let is_known = |column: &str, value: &Value| !value.is_null() || column.ends_with("_share");
                it.iter().map(move |(column, value)| (view.clone(), column.clone(), is_known(column, value)))
            });
            columns.collect()
        };
        let some = run(&server, &["0.1", "1", "--view", "all", "--json"]).exits(0);
        let all = ["0.1", "1", "--view", "all", "--json", "--record", file.to_str().unwrap()];
        let all = run(&server, &all).exits(0);
        assert_eq!(known(&some), known(&all));
        assert!(known(&some).iter().filter(|(_, _, is_known)| *is_known).count() > 50, "{}", some.out);
    });
}

#[test]
fn lines_lists_and_tables_are_shown() {
    let server = start(products()[0], &[]);
    let shown = run(&server, &["0.1", "3"]).exits(0).out;
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(shown.lines().next().unwrap().contains("stmt/s"), "{shown}");
    let width = |line: &str| line.chars().count();
    assert!(shown.lines().all(|line| width(line) == width(shown.lines().next().unwrap())), "{shown}");
    let shown = run(&server, &["0.1", "2", "--view", "all", "--csv"]).exits(0).out;
    let commas: Vec<usize> = shown.lines().map(|line| line.matches(',').count()).collect();
    assert!(commas.len() == 3 && commas.iter().all(|count| *count == commas[0] && *count > 80), "{shown}");
    let shown =
        run(&server, &["0.1", "1", "--like", "INNODB_page_size", "--like", "threads_conn%"]).exits(0).out;
    assert!(
        shown.contains("Innodb_page_size") && shown.contains("16384") && shown.contains("gauge"),
        "{shown}"
    );
    assert!(shown.contains("Threads_connected") && !shown.contains("Threads_running"), "{shown}");
    let none = run(&server, &["0.1", "2", "--like", "no_such%", "--like", "uptime"]).exits(0);
    assert_eq!(none.err.matches("--like 'no_such%': no status variable").count(), 1, "{}", none.err);
    assert!(!none.err.contains("uptime") && none.out.contains("Uptime"), "{}", none.err);
    for odd in ["9104", ":9104", "127.0.0.1", "127.0.0.1:99999"] {
        run(&server, &["--listen", odd]).exits(2).says(&["such as 127.0.0.1:9104"]);
    }
    let shown = run(&server, &["--view", "help"]).exits(0).out;
    assert!(shown.contains("buffer-pool: ") && shown.contains("checkpoint_age_share"), "{shown}");
    run(&server, &["--view", "redos"]).exits(2).says(&["buffer-pool, redo"]);
    run(&server, &["1", "x"]).exits(2).says(&["mysql://host"]);
    let twice = format!("unix://{}", server.socket().display());
    run(&server, &["0.1", "1", &twice, &twice]).exits(2).says(&["is given twice"]);
    let mut nowhere = remora(Path::new("/"));
    nowhere.args(["stat", "--no-defaults", "unix:///no/such.sock"]);
    Ended::of(&nowhere.output().unwrap()).exits(10);
}

/// Whether a process is there and not only waits for its parent to notice its end.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A terminal in which a line of a shell runs.
fn terminal(line: &str, term: &str) -> std::process::Child {
    let mut script = Command::new("script");
    script.args(["-qefc", line, "/dev/null"]).env("TERM", term).env("SHELL", "/bin/sh");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_screen_ends_with_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    on_products(&products()[..1], |product| {
        tell(product);
        let server = start(product, &[]);
        let program = format!(
            "{} stat --live --no-defaults -u root -S {}",
            env!("CARGO_BIN_EXE_remora"),
            server.socket().display()
        );
        // By the signal, and where that is ignored by the end of input.
        for (name, before) in [("signal", ""), ("end", "trap '' HUP;")] {
            let file = folder.path().join(name);
            let mut script = terminal(
                &format!("{before} stty rows 40 cols 120; echo $$ > {}; exec {program} 0.1", file.display()),
                "xterm",
            );
            let mut screen = script.stdout.take().unwrap();
            let (mut seen, mut part) = (Vec::new(), [0; 4096]);
            // Of the words before it some letters may be on the screen already, and are not drawn again.
            while !String::from_utf8_lossy(&seen).contains("longest first") {
                let count = screen.read(&mut part).unwrap();
                assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
                seen.extend_from_slice(&part[..count]);
            }
            let pid = std::fs::read_to_string(&file).unwrap();
            assert!(runs(&pid));
            script.kill().unwrap();
            script.wait().unwrap();
            until("it has ended", || !runs(&pid));
        }
        // A terminal that can't be drawn on gets lines.
        let ended = terminal(&format!("{program} 0.1 2"), "dumb").wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && out.contains("stmt/s") && !out.contains('\x1b'), "{out}");
    });
}

#[test]
fn an_unreachable_server_does_not_stop_the_others() {
    let (here, there) = (start(products()[0], &[]), start(products()[0], &[]));
    let address = |server: &Sandbox| format!("unix://{}", server.socket().display());
    let folder = tempfile::tempdir().unwrap();
    let mut command = remora(folder.path());
    command.args([
        "stat",
        "--record",
        "a.stat",
        "0.2",
        "--json",
        "--no-defaults",
        "-uroot",
        &address(&here),
        &address(&there),
    ]);
    command.arg("unix:///no/such.sock").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::new(command.spawn().unwrap());
    let mut seen = BTreeMap::new();
    while seen.len() < 2 || seen.values().any(|count| *count < 3) {
        let line = message(&mut running);
        if line["message_type"] == "stat" {
            *seen.entry(line["server"].to_string()).or_insert(0) += 1;
        } else {
            assert!(line["message"].as_str().unwrap().contains("/no/such.sock"), "{line}");
        }
    }
    running.kill();
    let mut replay = remora(folder.path());
    replay.args(["stat", "--replay", "a.stat", "0.1", "2", "--json"]);
    let shown = lines(&Ended::of(&replay.output().unwrap()).exits(0).out);
    let of = |server: &Sandbox| {
        shown.iter().filter(|line| line["server"] == server.socket().to_str().unwrap()).count()
    };
    assert_eq!((of(&here), of(&there), shown.len()), (2, 2, 4), "{shown:?}");
}

#[test]
fn a_recording_outlives_a_kill_and_is_shown_again() {
    let server = start(products()[0], &["--performance-schema=ON"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.stat");
    let name = file.to_str().unwrap();
    let record = || {
        let mut running = Running::new(
            stat(&server, &["0.1", "--record", name, "--digests", "3", "--json"]).spawn().unwrap(),
        );
        (0..4).for_each(|_| drop(next(&mut running)));
        running
    };
    let running = record();
    run(&server, &["--record", name]).exits(11);
    running.kill();
    // Cut in the middle of a line, as a kill during a write leaves it.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 20]).unwrap();
    let replay = |arguments: &[&str]| {
        let mut command = remora(folder.path());
        command.args(["stat", "--replay", "a.stat"]).args(arguments);
        Ended::of(&command.output().unwrap())
    };
    let cut = replay(&["--all", "--json"]).exits(0);
    assert!(cut.out.contains("ends within a line"), "{}", cut.out);
    let whole = cut.out.lines().filter(|line| line.contains("\"stat\"")).count();
    // Another run continues after the last whole line.
    let mut session = connect(server.socket());
    let mut running = record();
    (0..50).for_each(|_| drop(session.execute("DO 1").unwrap()));
    let mut sums = Sums::default();
    (0..3).for_each(|_| drop(next(&mut running)));
    running.signal("INT");
    assert_eq!(running.end().code, 130);
    let all = replay(&["--all", "--json"]).exits(0);
    let shown = lines(&all.out);
    assert!(shown.len() >= whole + 6, "{}", all.out);
    shown.iter().for_each(|line| sums.add(line));
    assert_eq!((sums.of("Com_do"), sums.of("Questions")), (50.0, 50.0));
    let marks: Vec<_> = shown.iter().filter(|line| !line["mark"].is_null()).collect();
    assert!(marks.len() == 1 && marks[0]["mark"] == "first", "{marks:?}");
    // A COUNT counts intervals. A mark before the last of them is shown too, and nothing after it. With a
    // long interval the samples before the mark are one, whatever their times.
    let two = lines(&replay(&["0.1", "2", "--json"]).exits(0).out);
    assert_eq!(two.iter().filter(|line| line["mark"].is_null()).count(), 2, "{two:?}");
    let one = lines(&replay(&["3600", "1", "--json"]).exits(0).out);
    assert!(one.len() == 1 && one[0]["mark"].is_null(), "{one:?}");
    // Taken together they are the same.
    let mut sums = Sums::default();
    let together = lines(&replay(&["3600", "--all", "--json"]).exits(0).out);
    assert!(together.len() < shown.len(), "{together:?}");
    together.iter().for_each(|line| sums.add(line));
    assert_eq!((sums.of("Com_do"), sums.of("Questions")), (50.0, 50.0));
    // And a page.
    let report = |output: &str| {
        let mut command = remora(folder.path());
        command.args(["stat", "report", "a.stat", "-o", output, "--title", "<b>&\""]);
        Ended::of(&command.output().unwrap())
    };
    report("a.html").exits(0).says(&["a.html is made"]);
    let page = std::fs::read_to_string(folder.path().join("a.html")).unwrap();
    assert!(page.contains("<title>&lt;b&gt;&amp;&quot;</title>") && page.contains("<svg "), "{page}");
    assert!(page.contains("Com_do<td>50<td>") && page.contains("another recording began"), "{page}");
    assert!(!page.contains("src=") && !page.contains("http"), "it needs something else");
    // An earlier page is replaced, and nothing else is.
    report("a.html").exits(0);
    report("a.stat").exits(1).says(&["a.stat exists and is no page"]);
    std::fs::write(folder.path().join("b.txt"), "hello\n").unwrap();
    let mut wrong = remora(folder.path());
    wrong.args(["stat", "--replay", "b.txt"]);
    Ended::of(&wrong.output().unwrap()).exits(1).says(&["b.txt: line 1 is no line of a recording"]);
    run(&server, &["0.1", "1", "--record", folder.path().join("b.txt").to_str().unwrap()])
        .exits(1)
        .says(&["b.txt"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("b.txt")).unwrap(), "hello\n");
}
