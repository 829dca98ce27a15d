//! The screen as it is drawn, from samples and answers that are made up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use locks::kill::{How, Target};
use locks::{Connection, Deadlock, Lock, LockKind, Party, Picture, Transaction, Wait};
use monitor::fleet::Event;
use monitor::incident::{Incident, Reply, Request};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use status::counter::part::{Process, Replica, Settings};
use status::counter::sample::{Names, Sample, Value};

use super::draw::draw;
use super::popup::Popup;
use super::screen::{Screen, Step};
use super::watched::FRAMES_MAX;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

fn sample(second: u64, values: &[(&str, &str)]) -> Sample {
    Sample {
        at: Duration::from_secs(second),
        unix_ms: 1_795_392_000_000 + i64::try_from(second).unwrap() * 1000,
        took: Duration::from_micros(900),
        begin: None,
        names: Arc::new(Names::new(values.iter().map(|(name, _)| (*name).to_owned()))),
        values: values.iter().map(|(_, value)| Value::parse(value)).collect(),
        own: BTreeMap::new(),
        replicas: Some(Vec::new()),
        queues: Vec::new(),
        digests: None,
        processes: Some(Vec::new()),
        settings: Arc::new(Settings([("version".to_owned(), "10.11.19-MariaDB".to_owned())].into())),
    }
}

fn process(id: u64, state: &str, statement: &str) -> Process {
    Process {
        id,
        account: "shop@web3".into(),
        schema: "shop".into(),
        command: "Query".into(),
        seconds: 70,
        state: state.into(),
        statement: statement.into(),
    }
}

fn event(sample: Sample, incident: Incident) -> Event {
    Event { server: 0, what: Ok(sample), notes: Vec::new(), incident }
}

fn screen() -> Screen {
    Screen::new(vec!["db1:3306".to_owned()], Duration::from_secs(1))
}

fn drawn(screen: &mut Screen, (width, height): (u16, u16)) -> (Vec<String>, Buffer) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    ((0..height).map(line).collect(), buffer)
}

fn text(screen: &mut Screen, size: (u16, u16)) -> String {
    drawn(screen, size).0.join("\n")
}

#[track_caller]
fn has(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
}

fn press(screen: &mut Screen, code: KeyCode) -> Step {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn keys(screen: &mut Screen, letters: &str) {
    for letter in letters.chars() {
        assert!(matches!(press(screen, KeyCode::Char(letter)), Step::Go), "{letter}");
    }
}

/// Connection 7 is idle and holds a row for which 30 others wait.
fn picture() -> Picture {
    let mut picture = Picture::default();
    let idle = Connection {
        id: 7,
        user: "app".into(),
        host: "web1".into(),
        command: "Sleep".into(),
        seconds: 95,
        last_statement: Some("UPDATE orders SET state = 'paid' WHERE id = 1".into()),
        ..Connection::default()
    };
    picture.connections.insert(7, idle);
    let transaction = Transaction {
        connection: 7,
        seconds: 130,
        rows_locked: 1,
        rows_modified: 2,
        ..Transaction::default()
    };
    picture.transactions.insert(transaction.party(), transaction);
    for id in 100..130 {
        let statement = "UPDATE orders SET state = 'sent', changed = NOW() WHERE id = 1".to_owned();
        let connection = Connection {
            id,
            user: "shop".into(),
            command: "Query".into(),
            statement,
            ..Connection::default()
        };
        picture.connections.insert(id, connection);
        let lock = Lock { kind: LockKind::Row, object: "shop.orders".into(), mode: "X".into() };
        let [waiter, holder] = [id, 7].map(Party::Connection);
        picture.waits.push(Wait { waiter, holder, lock, is_certain: true });
    }
    picture
}

/// A server in trouble.
fn incident() -> Screen {
    let mut screen = screen();
    let statement =
        "UPDATE orders SET state = 'sent', changed = NOW() WHERE id = 1 /* by the shop's worker */";
    for second in 0..3 {
        let questions = (1000 * second).to_string();
        let mut sample = sample(second, &[("Questions", &questions), ("Uptime", "100")]);
        let processes = (100..130).map(|id| process(id, "Waiting for table metadata lock", statement));
        sample.processes = Some(processes.collect());
        let incident = Incident { picture: Some(Arc::new(picture())), ..Incident::default() };
        screen.take(event(sample, incident));
    }
    screen
}

#[test]
fn an_incident_is_seen_at_every_size() {
    for size in SIZES {
        let mut screen = incident();
        let (lines, _) = drawn(&mut screen, size);
        let all = lines.join("\n");
        // All numbers of the overview, and who is in the way.
        let columns = screen.views()[0].columns;
        columns.iter().for_each(|column| has(&all, &[column.head]));
        has(&all, &["30 wait for locks, most behind 7, which has been idle for 95 s (2 shows them)"]);
        has(&all, &["1000", "what runs now: 30", "UPDATE orders SET state = 'sent', changed", "? keys"]);
        // What was left out is said.
        let shown = lines.iter().filter(|line| line.contains("UPDATE orders")).count();
        assert!(shown >= 8, "{all}");
        if shown < 30 {
            has(&all, &[&format!("+{} more", 30 - shown)]);
        }
    }
}

#[test]
fn more_room_shows_more() {
    let mut screen = incident();
    let wide = text(&mut screen, SIZES[1]);
    has(&wide, &["state", "database", "UPDATE orders SET state = 'sent', changed = NOW()"]);
    assert!(!text(&mut screen, SIZES[0]).contains("database"));
    has(&text(&mut screen, SIZES[2]), &["/* by the shop's worker */"]);
}

#[test]
fn colours_are_those_of_the_terminal() {
    for page in "1234567?".chars() {
        let mut screen = incident();
        keys(&mut screen, &page.to_string());
        press(&mut screen, KeyCode::Down);
        let (_, buffer) = drawn(&mut screen, SIZES[1]);
        for cell in buffer.content() {
            // Black, white and the greys are the background of somebody.
            let is_readable = matches!(cell.fg, Color::Reset | Color::Red | Color::Yellow | Color::Cyan);
            assert!(is_readable && cell.bg == Color::Reset, "{cell:?}");
        }
    }
}

#[test]
fn the_blocked_page_shows_who_may_block_next() {
    let mut quiet = picture();
    (quiet.waits, quiet.younger) = (Vec::new(), 179);
    quiet.transactions.values_mut().for_each(|one| one.keeps_snapshot = true);
    let mut screen = screen();
    let sample = sample(0, &[("Innodb_history_list_length", "4711")]);
    screen.take(event(sample, Incident { picture: Some(Arc::new(quiet)), ..Incident::default() }));
    keys(&mut screen, "2");
    let (lines, buffer) = drawn(&mut screen, SIZES[0]);
    has(
        &lines.join("\n"),
        &[
            "nobody is seen to wait for a lock",
            "the oldest 1 of 180 open transactions, which may block others next",
            "purge probably waits for the snapshot of 7; history list: 4711",
            "7  app@web1, idle for 95 s",
            "transaction of 130 s: 1 row locked, 2 rows changed",
        ],
    );
    // Nothing is wrong.
    assert!(buffer.content().iter().all(|cell| cell.fg != Color::Red));
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.chosen, Some(7));
}

#[test]
fn the_blocked_page_shows_the_tree_and_kills_after_a_question() {
    let mut screen = incident();
    keys(&mut screen, "2");
    let shown = text(&mut screen, SIZES[0]);
    has(
        &shown,
        &[
            "7  app@web1, idle for 95 s, 30 wait for it",
            "transaction of 130 s: 1 row locked, 2 rows changed",
            "last statement: UPDATE orders SET state = 'paid' WHERE id = 1",
            "waits for a row of shop.orders (X)",
            "more",
        ],
    );
    // Without a choice nobody is asked.
    assert!(matches!(press(&mut screen, KeyCode::Char('K')), Step::Go));
    has(&text(&mut screen, SIZES[0]), &["choose a connection first"]);
    keys(&mut screen, "x");
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.chosen, Some(7));
    let step = press(&mut screen, KeyCode::Char('K'));
    assert!(matches!(step, Step::Ask(Request::Offer(7, How::Connection))), "{step:?}");
    let picture = picture();
    let target = Target {
        connection: picture.connections[&7].clone(),
        transaction: picture.transactions.get(&Party::Connection(7)).cloned(),
        waiting: 30,
    };
    let offer = || Reply::Offer(Ok(Box::new(target.clone())), How::Connection);
    screen.reply(0, offer());
    has(
        &text(&mut screen, SIZES[0]),
        &["end this connection?", "30 wait for it", "rolled back: 2 rows changed"],
    );
    // Any other key leaves it alone, and so does a late answer.
    assert!(matches!(press(&mut screen, KeyCode::Enter), Step::Go));
    screen.reply(0, offer());
    assert!(matches!(press(&mut screen, KeyCode::Char('y')), Step::Go));
    let step = press(&mut screen, KeyCode::Char('K'));
    assert!(matches!(step, Step::Ask(Request::Offer(..))), "{step:?}");
    screen.reply(0, offer());
    let step = press(&mut screen, KeyCode::Char('y'));
    assert!(matches!(&step, Step::Ask(Request::End(target, How::Connection)) if target.connection.id == 7));
    screen.reply(0, Reply::Ended(7, How::Connection, locks::kill::Outcome::Told));
    has(&text(&mut screen, SIZES[0]), &["connection 7 was told to end"]);
}

#[test]
fn the_chosen_connection_stays_chosen() {
    let mut screen = incident();
    text(&mut screen, SIZES[0]);
    (0..20).for_each(|_| drop(press(&mut screen, KeyCode::Down)));
    assert_eq!(screen.chosen, Some(119));
    let (lines, buffer) = drawn(&mut screen, SIZES[0]);
    let row = lines.iter().position(|line| line.trim_start().starts_with("119 ")).unwrap();
    let cell = &buffer[(0, u16::try_from(row).unwrap())];
    assert!(cell.modifier.contains(ratatui::style::Modifier::REVERSED));
    // It begins to run first; the choice moves with it.
    let mut next = sample(9, &[("Questions", "9000")]);
    next.processes = Some(vec![process(119, "", "SELECT 1"), process(120, "", "SELECT 2")]);
    screen.take(event(next, Incident::default()));
    text(&mut screen, SIZES[0]);
    assert_eq!(screen.chosen, Some(119));
    let step = press(&mut screen, KeyCode::Enter);
    assert!(matches!(step, Step::Ask(Request::Connection(119))), "{step:?}");
    let connection =
        Connection { id: 119, statement: format!("SELECT '{}'", "x".repeat(400)), ..Connection::default() };
    screen.reply(0, Reply::Connection(Some(Box::new(connection))));
    let shown = text(&mut screen, SIZES[0]);
    assert_eq!(shown.matches('x').count(), 400, "{shown}");
    // A longer one says how much is left, and goes no further than its end.
    let connection = Connection { id: 119, statement: "y".repeat(3000), ..Connection::default() };
    screen.popup = Some(Popup::connection(Some(&connection)));
    has(&text(&mut screen, SIZES[0]), &["+20 more lines: down"]);
    press(&mut screen, KeyCode::Down);
    has(&text(&mut screen, SIZES[0]), &["+19 more lines: down"]);
    (0..9).for_each(|_| drop(press(&mut screen, KeyCode::PageDown)));
    let end = text(&mut screen, SIZES[0]);
    assert!(!end.contains("more lines") && end.contains("yyyy"), "{end}");
}

#[test]
fn a_server_that_does_not_answer_is_told() {
    let mut screen = incident();
    assert!(!screen.wait(Some(Duration::from_secs(2))) && !screen.wait(None));
    assert!(screen.wait(Some(Duration::from_secs(4))));
    has(&text(&mut screen, SIZES[0]), &["the server has not answered for 4 s"]);
    assert!(!screen.wait(Some(Duration::from_millis(4500))) && screen.wait(None));
    assert!(!text(&mut screen, SIZES[0]).contains("not answered"));
}

#[test]
fn a_filter_leaves_out_what_does_not_match() {
    let mut screen = incident();
    keys(&mut screen, "/129");
    press(&mut screen, KeyCode::Enter);
    let shown = text(&mut screen, SIZES[0]);
    has(&shown, &["filter: 129", "  129 "]);
    assert!(!shown.contains("  128 "), "{shown}");
    press(&mut screen, KeyCode::Esc);
    has(&text(&mut screen, SIZES[1]), &["  101 "]);
}

#[test]
fn the_screen_goes_back_in_time_and_returns() {
    let mut screen = screen();
    for second in 0..90_u64 {
        let questions = (second * second).to_string();
        let mut sample = sample(second, &[("Questions", &questions), ("Uptime", &second.to_string())]);
        sample.processes = Some(vec![process(second, "", &format!("SELECT {second} AS now"))]);
        screen.take(event(sample, Incident::default()));
    }
    let now = text(&mut screen, SIZES[0]);
    has(&now, &["SELECT 89 AS now", "stmt/s 177"]);
    press(&mut screen, KeyCode::Left);
    let before = text(&mut screen, SIZES[0]);
    has(&before, &["PAUSED", "SELECT 88 AS now", "stmt/s 175"]);
    keys(&mut screen, "<");
    has(&text(&mut screen, SIZES[0]), &["SELECT 28 AS now", "stmt/s 55"]);
    // What arrives meanwhile does not change it, and nobody can be ended there.
    screen.take(event(sample(90, &[("Questions", "99999")]), Incident::default()));
    press(&mut screen, KeyCode::Down);
    assert!(matches!(press(&mut screen, KeyCode::Char('K')), Step::Go));
    has(&text(&mut screen, SIZES[0]), &["this is the past: space returns to now", "SELECT 28 AS now"]);
    keys(&mut screen, "x>");
    press(&mut screen, KeyCode::Right);
    has(&text(&mut screen, SIZES[0]), &["SELECT 89 AS now"]);
    keys(&mut screen, " ");
    let now = text(&mut screen, SIZES[0]);
    assert!(!now.contains("PAUSED") && !now.contains("SELECT 89"), "{now}");
}

#[test]
fn an_hour_is_kept_and_no_more() {
    let mut screen = screen();
    let most = u64::try_from(FRAMES_MAX).unwrap();
    for second in 0..most + 5 {
        screen.take(event(sample(second, &[("Uptime", &second.to_string())]), Incident::default()));
    }
    let frame = |screen: &Screen| screen.frame().unwrap().sample.number("Uptime").unwrap().to_string();
    assert_eq!(frame(&screen), (most + 4).to_string());
    for _ in 0..70 {
        keys(&mut screen, "<");
    }
    assert_eq!(frame(&screen), "5");
    screen.take(event(sample(most + 5, &[("Uptime", "x")]), Incident::default()));
    keys(&mut screen, "?");
    text(&mut screen, SIZES[0]);
    screen.show_recording();
    keys(&mut screen, "xK");
    has(&text(&mut screen, SIZES[0]), &["choose a connection first", "RECORDING"]);
}

fn replica() -> Replica {
    Replica {
        source: "db0:3306".into(),
        io: "Yes".into(),
        sql: "Yes".into(),
        delay_s: Some(0),
        ..Replica::default()
    }
}

#[test]
fn a_stopped_source_is_red_and_a_delay_on_purpose_is_not() {
    let mut screen = screen();
    let stopped = Replica {
        channel: "eu".into(),
        sql: "No".into(),
        delay_s: None,
        error: "Duplicate entry '1' for key 'PRIMARY'".into(),
        errno: Some(1062),
        unapplied: Some(12),
        ..replica()
    };
    let killed = Replica { channel: "us".into(), sql: "No".into(), delay_s: None, ..replica() };
    let late =
        Replica { channel: "late".into(), delay_s: Some(3600), wanted_delay_s: Some(3600), ..replica() };
    let connecting = Replica { channel: "new".into(), io: "Connecting".into(), delay_s: None, ..replica() };
    let applied = Replica { applied_ms: Some(1_795_391_955_000), ..replica() };
    let mut sample = sample(0, &[("Uptime", "1")]);
    sample.replicas = Some(vec![stopped, killed, late, connecting, applied]);
    screen.take(event(sample, Incident::default()));
    keys(&mut screen, "3");
    let (lines, buffer) = drawn(&mut screen, SIZES[2]);
    let all = lines.join("\n");
    has(
        &all,
        &[
            "channel eu  STOPPED",
            "error 1062: Duplicate entry '1' for key 'PRIMARY'",
            "12 transactions received and not applied, by GTID",
            "unknown",
            "channel us  STOPPED",
            "the server tells no error: it was stopped, or its thread was killed",
            "channel late  runs",
            "1:00:00 behind its source; 1:00:00 of it on purpose",
            "channel new  connecting",
            "the source committed 0:45 ago",
        ],
    );
    let is_red = |needle: &str| {
        let rows = lines.iter().enumerate().filter(|(_, line)| line.contains(needle));
        rows.map(|(y, line)| {
            let x = line.find(needle).map_or(0, |at| line[..at].chars().count());
            buffer[(u16::try_from(x).unwrap(), u16::try_from(y).unwrap())].fg == Color::Red
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(is_red("STOPPED"), [true, true]);
    assert!(is_red("is stopped: ").iter().all(|red| *red) && is_red("3 replication") == [true]);
    assert_eq!(is_red("runs").first(), Some(&false));
}

#[test]
fn innodb_is_measured_against_its_lines() {
    let shown = |age: &str, settings: &[(&str, &str)]| {
        let mut screen = screen();
        let values = [
            ("Innodb_checkpoint_age", age),
            ("Innodb_checkpoint_max_age", "800000000"),
            ("Innodb_history_list_length", "5000"),
            ("Innodb_buffer_pool_pages_dirty", "95"),
            ("Innodb_buffer_pool_pages_total", "100"),
        ];
        let mut sample = sample(0, &values);
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        sample.settings = Arc::new(Settings(settings.collect()));
        screen.take(event(sample, Incident::default()));
        keys(&mut screen, "4");
        let (lines, buffer) = drawn(&mut screen, SIZES[1]);
        let colour = |name: &str| {
            let y = lines.iter().position(|line| line.starts_with(name)).unwrap();
            buffer[(15, u16::try_from(y).unwrap())].fg
        };
        (lines.join("\n"), ["checkpoint age", "dirty pages", "history"].map(colour))
    };
    let (text, colours) = shown("400000000", &[]);
    has(
        &text,
        &[
            "400.0 MB of 800.0 MB, 50%",
            "flushing becomes urgent at 700.0 MB, writers wait from 800.0 MB",
            "no writer is delayed by it",
        ],
    );
    assert_eq!(colours, [Color::Reset, Color::Yellow, Color::Reset]);
    let limits = [("innodb_max_dirty_pages_pct", "99"), ("innodb_max_purge_lag", "5000")];
    assert_eq!(shown("710000000", &limits).1, [Color::Yellow, Color::Reset, Color::Red]);
    assert_eq!(shown("800000000", &[]).1[0], Color::Red);
}

#[test]
fn the_last_deadlock_is_taken_apart_or_shown_as_it_is() {
    let shown = |text: &str| {
        let mut screen = screen();
        let mut sample = sample(0, &[("Uptime", "1")]);
        let settings = [("system_time_zone".to_owned(), "UTC".to_owned())];
        sample.settings = Arc::new(Settings(settings.into()));
        sample.unix_ms = "2026-11-28T23:40:04Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let deadlock: Option<Deadlock> = locks::last_deadlock(text);
        screen.take(event(sample, Incident { deadlock: deadlock.map(Arc::new), ..Incident::default() }));
        keys(&mut screen, "5");
        self::text(&mut screen, SIZES[1])
    };
    let real = include_str!("../../../locks/src/deadlock/mariadb-10.11.txt");
    has(
        &shown(real),
        &[
            "the last deadlock, at 2026-11-28 23:39:04, 1:00 ago",
            "14  localhost root Updating, open for 1 s  ROLLED BACK",
            "UPDATE d.t1 SET a = 3 WHERE id = 1",
            "held   d.t1, index PRIMARY (X locks rec but not gap)",
            "wanted d.t1, index PRIMARY (X locks rec but not gap)",
        ],
    );
    let doubtful = real.replace("WE ROLL BACK TRANSACTION (1)", "WE");
    has(&shown(&doubtful), &["it can't be taken apart with certainty", "*** (1) TRANSACTION:"]);
    has(&shown(""), &["no deadlock since the start, or none is shown without PROCESS"]);
}
