//! `remora top` in an incident.

use std::time::{Duration, Instant};

use sandbox::{Family, Product};
use server::Session;

use crate::poke::on_port;
use crate::screen::Terminal;
use crate::ssh;
use crate::support::{
    Ended, PATIENCE, connect, of_today, on_mariadb, on_products, products, remora, start, tell, until,
};

/// The screen of a server.
pub(crate) fn top(socket: &std::path::Path, size: (usize, usize)) -> Terminal {
    let program = env!("CARGO_BIN_EXE_remora");
    Terminal::run(&format!("{program} top 0.3 --no-defaults -u root -S {}", socket.display()), size)
}

/// A session that waits long enough.
fn session(socket: &std::path::Path) -> Session {
    let mut session = connect(socket);
    session.execute("SET innodb_lock_wait_timeout = 600, lock_wait_timeout = 600").unwrap();
    session
}

/// Two sessions that wait for each other.
fn a_deadlock_is_taken_apart(socket: &std::path::Path, screen: &mut Terminal) {
    let mut first = session(socket);
    let mut second = session(socket);
    for (session, id) in [(&mut first, 1), (&mut second, 2)] {
        session.execute("BEGIN").unwrap();
        session.execute(&format!("UPDATE d.t SET a = 9 WHERE id = {id}")).unwrap();
    }
    let other = std::thread::spawn(move || first.execute("UPDATE d.t SET a = 5 WHERE id = 2").is_ok());
    screen.shows(&["1 waits for a lock"]);
    let is_second = second.execute("UPDATE d.t SET a = 6 WHERE id = 1").is_ok();
    drop(second);
    assert_ne!(other.join().unwrap(), is_second);
    screen.press("5");
    screen.shows(&[
        "the last deadlock",
        "UPDATE d.t SET a = 5 WHERE id = 2",
        "ROLLED BACK",
        "held   d.t, index PRIMARY",
    ]);
    let pages = [("5", &["the last deadlock", "ROLLED BACK", "held   d.t, index PRIMARY"][..])];
    a_recording_has_it(socket, "UPDATE d.t SET a = 5 WHERE id = 2", &pages);
}

/// What a recording without a screen keeps: of a statement its kind, or all.
fn a_recording_has_it(socket: &std::path::Path, statement: &str, pages: &[(&str, &[&str])]) {
    let folder = tempfile::tempdir().unwrap();
    for (file, options, shown) in [("a", &[][..], "UPDATE ..."), ("b", &["--record-statements"], statement)] {
        let mut stat = remora(folder.path());
        stat.args(["stat", "0.1", "1", "-q", "--no-defaults", "-u", "root", "--record", file]).args(options);
        Ended::of(&stat.arg("-S").arg(socket).output().unwrap()).exits(0);
        let path = folder.path().join(file);
        let has_statement = std::fs::read_to_string(&path).unwrap().contains(statement);
        assert_eq!(has_statement, !options.is_empty());
        let line = format!("{} top --replay {}", env!("CARGO_BIN_EXE_remora"), path.display());
        let mut screen = Terminal::run(&line, (80, 24));
        for (key, words) in pages {
            screen.press(key);
            screen.shows(words);
            screen.shows(&[shown]);
        }
        screen.press("8");
        screen.shows(&["the host of the server", "busy, "]);
        screen.press("q");
        assert_eq!(screen.end(), Some(0));
    }
}

/// As soon as nobody waits.
fn who_may_block_next_is_listed(screen: &Terminal, open: u32) {
    screen.shows(&[
        "nobody is seen to wait for a lock",
        "open transaction, the oldest first",
        &format!("purge probably waits for the snapshot of {open}; history list: "),
        &format!("{open}  root@localhost, idle for "),
    ]);
}

#[test]
fn a_chain_is_seen_explained_and_ended_by_keys() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &["--server-id=7"]);
        let mut watch = connect(server.socket());
        watch
            .execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB")
            .unwrap();
        watch.execute("INSERT INTO d.t VALUES (1, 1), (2, 2)").unwrap();
        let mut forgotten = session(server.socket());
        forgotten.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
        let mut screen = top(server.socket(), (80, 24));
        screen.shows(&["what runs now: 0", "stmt/s 0", "sel/s 0", "? keys"]);
        screen.press("2");
        screen.shows(&["nobody is seen to wait for a lock"]);
        // It is on this machine.
        screen.press("8");
        screen.shows(&["8host", "busy, ", "available of"]);
        screen.press("2");

        let mut holder = session(server.socket());
        holder.execute("BEGIN").unwrap();
        holder.execute("UPDATE d.t SET a = 7 WHERE id = 1").unwrap();
        let mut waiter = session(server.socket());
        let (held, waits) = (holder.connection_id(), waiter.connection_id());
        let waiting = std::thread::spawn(move || {
            waiter
                .execute("UPDATE /* the whole statement */ d.t SET a = 8 WHERE id = 1")
                .map(|done| done.affected)
        });
        let alarm = format!("1 waits for a lock, most behind {held}, which has been idle for");
        screen.shows(&[
            &alarm,
            &format!("{held}  root@localhost, idle for"),
            "1 row locked, 1 row changed",
            &format!("{waits}  root@localhost, running for"),
            "waits for a row of d.t",
        ]);
        let statement = "UPDATE /* the whole statement */ d.t SET a";
        let pages = [("1", &["what runs now: "][..]), ("2", &[&alarm, "waits for a row of d.t"])];
        a_recording_has_it(server.socket(), statement, &pages);
        // The holder is chosen first, then the waiter.
        screen.press("\x1b[B\x1b[B");
        screen.press("\r");
        screen.shows(&[&format!("statement of {waits}"), "UPDATE /* the whole statement */ d.t SET a = 8"]);
        screen.press("x");
        // A plan is asked for in a way that can't wait for the lock.
        screen.press("e");
        screen.shows(&["id: 1", "select_type: ", "table: t"]);
        assert!(!waiting.is_finished());
        screen.press("x");
        screen.press("k");
        screen.shows(&["end this statement?", "only its statement would be taken back"]);
        // Any other key ends nothing.
        screen.press("n");
        screen.press("\x1b[A");
        // Only the connection of the holder is worth ending.
        screen.press("k");
        screen.shows(&["runs no statement: KILL QUERY would free nothing"]);
        screen.press("x");
        screen.press("K");
        screen.shows(&["end this connection?", "1 waits for it", "rolled back: 1 row changed"]);
        assert!(!waiting.is_finished());
        screen.press("y");
        assert_eq!(waiting.join().unwrap().unwrap(), 1);
        who_may_block_next_is_listed(&screen, forgotten.connection_id());
        drop(forgotten);
        assert_eq!(watch.value("SELECT a FROM d.t WHERE id = 1").unwrap().as_deref(), Some("8"));
        let holds = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {held}");
        until("the holder is gone", || watch.value(&holds).unwrap().as_deref() == Some("0"));

        a_deadlock_is_taken_apart(server.socket(), &mut screen);
        screen.press("q");
        assert_eq!(screen.end(), Some(0));
    });
}

#[test]
fn a_full_server_of_idle_transactions_is_seen_and_entered() {
    for product in of_today(products()) {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (door, options) = match product.family() {
            Family::MariaDb => ("extra", vec![format!("--extra-port={free}")]),
            // Older ones have no second port.
            _ if product != Product::MySql97 => continue,
            _ => ("admin", vec!["--admin-address=127.0.0.1".to_owned(), format!("--admin-port={free}")]),
        };
        tell(product);
        let options: Vec<&str> =
            options.iter().map(String::as_str).chain(["--max-connections=201"]).collect();
        let server = on_port(product, &options);
        let idle = || {
            let mut session = session(server.socket());
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
            session
        };
        let mut all: Vec<Session> = (0..200).map(|_| idle()).collect();
        let oldest = all[0].connection_id();
        let mut screen = top(server.socket(), (80, 24));
        screen.shows(&["what runs now: 0"]);
        // The one place that is left for administrators.
        let _last = connect(server.socket());
        screen.press("2");
        screen.shows(&[
            "nobody is seen to wait for a lock",
            "the oldest 20 of 200 open transactions, which may block others next",
            &format!("purge probably waits for the snapshot of {oldest}; history list: "),
            &format!("{oldest}  root@localhost, idle for "),
            "+",
        ]);
        let run_as = |account: &str, command: &[&str]| {
            let mut run = remora(server.folder());
            run.args(command).args(["--no-defaults", "-u", account, "-S"]).arg(server.socket());
            Ended::of(&run.output().unwrap())
        };
        let run = |command: &[&str]| run_as("root", command);
        let told = format!("the server is full: this is a session at the {door} port");
        run(&["blockers"]).exits(0).says(&[&told, "nobody waits"]);
        let refused = run_as("nobody", &["blockers"]);
        assert_ne!(refused.code, 0);
        refused.says(&[
            &format!("the server is full, and refuses at the {door} port: "),
            // Why depends on the way to log in that MySQL 9.7 makes up for an unknown account.
            "nobody@",
            "refused the connection",
            "remora poke kill-query",
            "Too many connections",
        ]);
        let late = top(server.socket(), (80, 24));
        late.shows(&[&format!("127.0.0.1:{free}"), "what runs now: 0"]);
        drop(late);
        run(&["kill", &oldest.to_string(), "--yes"]).exits(0).says(&[&told, "ended 1 connection"]);
        let ended = all.remove(0).value("SELECT 1");
        assert!(ended.is_err(), "{ended:?}");
    }
}

/// What a server does by itself, times, which are not corrected, and what the query cache of MySQL 5.6 counts
/// of everybody although it is off.
const ITS_OWN: [&str; 6] = ["Innodb_", "Query_time", "Busy_time", "Cpu_time", "Uptime", "Qcache_not_cached"];

/// Waits until no counter grows but by what the server does itself.
fn is_quiet(screen: &Terminal) {
    // The digests' last effect ends with the next sample, and ten more show what else there is.
    let (mut quiet, mut last, begin) = (0, String::new(), Instant::now());
    while quiet < 10 {
        let text = screen.text();
        if text == last {
            std::thread::park_timeout(Duration::from_millis(20));
            continue;
        }
        let rates = text.lines().skip(4).filter(|line| line.contains("/s "));
        let is_ours = |line: &&str| !ITS_OWN.iter().any(|own| line.starts_with(own));
        quiet = if rates.filter(is_ours).count() == 0 { quiet + 1 } else { 0 };
        assert!(begin.elapsed() < PATIENCE / 5, "{text}");
        last = text;
    }
}

#[test]
fn an_idle_server_is_shown_as_idle() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &["--performance-schema=ON"]);
        let mut screen = top(server.socket(), (120, 40));
        screen.shows(&["what runs now: 0", "stmt/s 0", "conn 0"]);
        // With statements by digest it asks the most.
        screen.press("6");
        screen.shows(&["statements that took the most time"]);
        screen.press("7");
        screen.shows(&["status variables, those that changed"]);
        is_quiet(&screen);
        // Only this page asks for the variables that no view has.
        screen.press("1");
        screen.shows(&["what runs now: 0"]);
        screen.press("7");
        screen.shows(&["status variables, those that changed"]);
        is_quiet(&screen);
    });
}

/// The machine of the server, read over a real ssh; and one that ssh does not reach.
#[test]
fn the_machine_of_the_server_is_read_over_ssh() {
    // Which server it is makes no difference.
    on_mariadb(|place| {
        let far = ssh::Server::start();
        let socket = place.socket.display();
        let shown = |machine: &str| {
            let command = far.command(&["top", "0.3", "--no-defaults", "-u", "root", "--server-at", machine]);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            let line: Vec<String> = words.map(|word| format!("'{}'", word.display())).collect();
            let mut screen = Terminal::run(&format!("{} -S {socket}", line.join(" ")), (80, 24));
            screen.shows(&["? keys"]);
            screen.press("8");
            screen
        };
        let screen = shown(&far.machine());
        screen.shows(&["the host of the server", "available of"]);
        assert!(!far.helpers().is_empty());
        drop(screen);
        shown("ssh://root@127.0.0.1:1").shows(&["the host can't be read: "]);
    });
}

#[test]
fn a_machine_is_that_of_one_server_and_of_now() {
    let folder = std::env::temp_dir();
    let at = ["--server-at", "ssh://db1"];
    for (line, said) in [
        (&["top", "mysql://a@x", "mysql://b@y"][..], "name only that one"),
        (&["top", "--replay", "x.stat"], "cannot be used with"),
        (&["stat"], "add --live"),
    ] {
        let ended = Ended::of(&remora(&folder).args(line).args(at).output().unwrap()).exits(2);
        ended.says(&[said]);
    }
}
