//! `remora web`: what its pages say is what the servers say, however many look.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;

use sandbox::Sandbox;

use crate::support::{
    Ended, PATIENCE, Running, connect, of_today, on_products, products, remora, start, tell, until,
};

/// On MariaDB statements by digest and metadata locks need it.
const OPTIONS: [&str; 1] = ["--performance-schema=ON"];

/// A run of the program, and its address.
pub(crate) struct Window {
    running: Running,
    port: u16,
    token: String,
}

impl Window {
    fn open(arguments: &[&str]) -> Window {
        let mut command = remora(&std::env::temp_dir());
        command.args(["web", "--listen", "127.0.0.1:0", "--no-defaults", "-u", "root"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::new(command.spawn().unwrap());
        let line = running.line();
        let address = line.trim_end().strip_prefix("http://127.0.0.1:");
        let Some((port, token)) = address.and_then(|rest| rest.split_once("/?token=")) else {
            panic!("no address: {line}{}", running.end().err);
        };
        let (port, token) = (port.parse().unwrap(), token.to_owned());
        Window { running, port, token }
    }

    pub(crate) fn of(server: &Sandbox, arguments: &[&str]) -> Window {
        let address = format!("unix://{}", server.socket().display());
        let usual = [&address, "--interval", "1"];
        Window::open(&[&usual[..], arguments].concat())
    }

    fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn head(&self, line: &str) -> String {
        let Window { port, token, .. } = self;
        format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: remora-{port}={token}\r\n\
             Origin: http://127.0.0.1:{port}\r\n"
        )
    }

    fn asked(&self, request: &str) -> String {
        let mut stream = self.stream();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.asked(&format!("{}Connection: close\r\n\r\n", self.head(&format!("GET {path}"))))
    }

    fn post(&self, path: &str, form: &str) -> String {
        let (head, length) = (self.head(&format!("POST {path}")), form.len());
        self.asked(&format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{form}"))
    }

    /// The page once it holds all of these.
    #[track_caller]
    pub(crate) fn until(&self, path: &str, words: &[&str]) -> String {
        let mut page = String::new();
        until(&format!("{words:?} on {path}"), || {
            page = self.get(path);
            words.iter().all(|word| page.contains(word))
        });
        page
    }
}

pub(crate) fn server_page(server: &Sandbox) -> String {
    let socket = server.socket().display().to_string().replace('/', "%2F");
    format!("/server?at={socket}")
}

/// A hidden field of the form on a page.
fn field<'p>(page: &'p str, name: &str) -> &'p str {
    let begin = format!("name=\"{name}\" value=\"");
    page.split(&begin).nth(1).unwrap_or_else(|| panic!("{name} in {page}")).split('"').next().unwrap()
}

/// Sessions that are open but for our own.
fn sessions(server: &Sandbox) -> u64 {
    let mut session = connect(server.socket());
    let count = session.value(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'",
    );
    count.unwrap().unwrap().parse().unwrap()
}

fn the_holder_may_block_the_next_one(window: &Window, path: &str, holder: u32) {
    let open = format!("<strong>{holder}  root@localhost, idle for ");
    let title = "open transaction, the oldest first, which may block others next";
    window.until(path, &[title, &open, "1 row changed"]);
}

#[test]
fn the_pages_say_what_the_server_says() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &OPTIONS);
        let mut setup = connect(server.socket());
        for statement in [
            "CREATE DATABASE d",
            "CREATE TABLE d.`<script>alert(1)</script>` (id INT PRIMARY KEY, a VARCHAR(90)) ENGINE=InnoDB",
            "INSERT INTO d.`<script>alert(1)</script>` VALUES (1, 'a')",
            "BEGIN",
            "UPDATE d.`<script>alert(1)</script>` SET a = 'b' WHERE id = 1",
        ] {
            setup.execute(statement).unwrap();
        }
        let (holder, mut waiter) = (setup, connect(server.socket()));
        let (holds, waits) = (holder.connection_id(), waiter.connection_id());
        std::thread::spawn(move || {
            let sql = "UPDATE d.`<script>alert(1)</script>` SET a = 'secret<i>' WHERE id = 1";
            // It ends when it is killed.
            waiter.execute(sql).ok();
            std::thread::park();
        });
        let window = Window::of(&server, &["--allow", "kill-query"]);
        let home = window.until("/", &["up; 1 waits for a lock"]);
        assert!(home.contains(&format!("remora top unix://{}", server.socket().display())), "{home}");
        let path = server_page(&server);
        let version = connect(server.socket()).value("SELECT VERSION()").unwrap().unwrap();
        let page = window.until(
            &path,
            &[
                "&lt;script&gt;alert(1)",
                "<figure>",
                &format!("<strong>{holds}  root@localhost"),
                &format!("<strong>{waits}  root@localhost"),
                &format!("remora kill {holds} --url unix://"),
                "UPDATE ...",
                &version,
            ],
        );
        assert!(!page.contains("<script>") && !page.contains("secret"), "{page}");
        // Somebody who looks often is not asked about more often.
        let shown = window.until(&path, &["1 waits"]);
        let (token, id) = (field(&shown, "token").to_owned(), waits.to_string());
        let at = path.split_once('=').unwrap().1;
        let form = |rest: &str| format!("token={token}&at={at}&{rest}");
        assert!(window.post("/kill-query", &format!("token=x&at={at}&id={id}")).starts_with("HTTP/1.1 403"));
        let asked = window.post("/kill-query", &form(&format!("id={id}")));
        for word in ["1 statement matches", &format!("remora kill {id} --query --yes --url unix://")] {
            assert!(asked.contains(word), "{word} in {asked}");
        }
        // Nothing was done yet.
        window.until(&path, &["1 waits"]);
        let number = field(&asked, "yes").to_owned();
        let done = window.post("/kill-query", &form(&format!("yes={number}")));
        assert!(done.contains("the server was told to end the statement"), "{done}");
        window.until("/", &["state good\">up<"]);
        the_holder_may_block_the_next_one(&window, &path, holds);
        let again = window.post("/kill-query", &form(&format!("yes={number}")));
        assert!(again.contains("Nothing was done: this was answered already"), "{again}");
        let idle = window.post("/kill-query", &form(&format!("id={holds}")));
        assert!(idle.contains("runs no statement"), "{idle}");
        window.running.signal("TERM");
        let ended = window.running.end().exits(143);
        for word in ["asked", "the server was told to end the statement"] {
            assert!(
                ended
                    .err
                    .contains(&format!("kill-query on {}: connection {waits}", server.socket().display()))
            );
            assert!(ended.err.contains(word), "{}", ended.err);
        }
        drop(holder);
    });
}

#[test]
fn thirty_who_look_cost_the_server_one_session() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &OPTIONS);
        let window = Window::of(&server, &[]);
        let path = server_page(&server);
        window.until(&path, &["state good\">up<"]);
        // Nobody else asks the server, and what we ask is subtracted.
        let version = connect(server.socket()).value("SELECT VERSION()").unwrap().unwrap();
        window.until("/", &[&format!(">{version}</td><td>0</td><td>0</td>")]);
        let mut looking: Vec<TcpStream> = Vec::new();
        for _ in 0..30 {
            let mut events = window.stream();
            events.write_all(format!("{}\r\n", window.head("GET /events")).as_bytes()).unwrap();
            // The head of the answer has arrived.
            assert!(events.read(&mut [0; 64]).unwrap() > 0);
            assert!(window.get(&path).starts_with("HTTP/1.1 200 "));
            looking.push(events);
        }
        // Sessions of the test itself end a little later.
        until("one session", || sessions(&server) == 1);
        for mut events in looking {
            // Each of them is told of the next sample.
            let mut seen = String::new();
            let mut part = [0; 256];
            while seen.matches("data: ").count() < 2 {
                let count = events.read(&mut part).unwrap();
                assert!(count > 0, "it ended: {seen}");
                seen.push_str(&String::from_utf8_lossy(&part[..count]));
            }
        }
        until("still one session", || sessions(&server) == 1);
    });
}

#[test]
fn a_server_that_is_silent_or_gone_is_not_good() {
    on_products(&of_today(products()).into_iter().take(1).collect::<Vec<_>>(), |product| {
        tell(product);
        let mut server = start(product, &OPTIONS);
        let window = Window::of(&server, &[]);
        let good = "state good";
        window.until("/", &[good, ">up<"]);
        let pid = server.pid().to_string();
        let signal = |name: &str| {
            assert!(std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        };
        signal("STOP");
        let silent = window.until("/", &["no answer for "]);
        assert!(!silent.contains(good), "{silent}");
        assert!(window.get(&server_page(&server)).contains("What follows is "));
        signal("CONT");
        window.until("/", &[good, ">up<"]);
        server.stop().unwrap();
        let gone = window.until("/", &["state bad"]);
        assert!(!gone.contains(good), "{gone}");
    });
}

/// Runs a command line that must succeed.
fn done(folder: &Path, line: &[&str]) -> Ended {
    Ended::of(&remora(folder).args(line).output().unwrap()).exits(0)
}

#[test]
fn a_repository_is_lines_of_generations() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("disk.img");
    std::fs::write(&source, vec![7; 1 << 16]).unwrap();
    let place = format!("file:{}", source.display());
    for _ in 0..2 {
        done(folder.path(), &["backup", &place, "--to", "repo <b>", "--name", "web"]);
    }
    let repository = folder.path().join("repo <b>");
    let window = Window::open(&["--repository", repository.to_str().unwrap()]);
    let page = window.until(
        "/backups",
        &[
            "<h3>web</h3>",
            "<li class=\"full\">",
            "changes to 1",
            "newest backup: ",
            "on none of them a server",
        ],
    );
    let place = format!("remora restore &#39;{}/web@2&#39; --to PATH", repository.display())
        .replace("<b>", "&lt;b&gt;");
    assert!(page.contains(&place), "{place} in {page}");
    assert!(!page.contains("<b>") && !page.contains("state good"), "{page}");
    // No server was named, and none is asked.
    assert!(window.get("/").contains("0 servers"), "{}", window.get("/"));
    // What verify finds is on the page of the next run at once, and of this one within a minute.
    let file = repository.join("web/000001.blk");
    let mut bytes = std::fs::read(&file).unwrap();
    let record = bytes.windows(4).position(|window| window == b"chnk").unwrap();
    bytes[record + 60] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    Ended::of(&remora(folder.path()).args(["verify", "repo <b>"]).output().unwrap()).exits(4);
    let window = Window::open(&["--repository", repository.to_str().unwrap()]);
    window.until(
        "/backups",
        &[
            "state bad\">remora verify noted damage ",
            "000001.blk; generations 1, 2 can&#39;t be restored whole",
            "state bad\">damaged: remora verify noted it",
        ],
    );
}

#[test]
fn a_repository_that_is_not_there_is_told_at_once_and_on_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("typo");
    let window = Window::open(&["--repository", missing.to_str().unwrap()]);
    window.until("/backups", &["state bad\">can&#39;t be read: "]);
    window.running.signal("TERM");
    window.running.end().exits(143).says(&["typo: there is no such repository"]);
}

#[test]
fn queues_are_as_the_server_has_them_and_say_why_rows_failed() {
    let server = crate::queue::start();
    let mut session = connect(server.socket());
    for statement in [
        "CREATE TABLE shop.dead (v INT, failed INT NULL, why TEXT NULL) ENGINE=QUEUE FAILED=failed WHY=why",
        "CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE TRIES=1 DEAD='dead'",
        "INSERT INTO shop.jobs VALUES (1), (2), (3)",
    ] {
        session.execute(statement).unwrap();
    }
    let lease = "SELECT REGEXP_SUBSTR(queue_lease_json(30, 1, 'shop.jobs', 0), 'shop[^\"]*')";
    let token = session.value(lease).unwrap().unwrap();
    session.execute(&format!("SELECT queue_nack('{token}', 0, 'it <broke>')")).unwrap();
    session.value(lease).unwrap();
    let window = Window::of(&server, &["--allow", "queue-retry"]);
    let page = window.until(
        "/queues",
        &[
            ">shop.dead</th>",
            ">shop.jobs</th>",
            "<h3>Why rows of shop.dead failed</h3>",
            "<td>1</td><td class=\"text\">it &lt;broke&gt;</td>",
            &format!("remora queue peek shop.jobs --url {}", crate::queue::url(&server)),
        ],
    );
    let row = page.split(">shop.jobs</th>").nth(1).unwrap().split("</tr>").next().unwrap();
    let cells: Vec<&str> = row.split("<td>").skip(1).map(|cell| cell.split('<').next().unwrap()).collect();
    // One waits, one is leased, one is a dead letter.
    assert_eq!(cells[..6], ["1", "1", "1", "0", "0", "1"], "{page}");
    // Nothing was taken.
    assert_eq!(crate::queue::count(&server, "shop.dead"), 1);
    retry_dead_letters(&server, window);
}

/// A dead letter of `shop.jobs` goes back by its reason, others wherever they are sent.
fn retry_dead_letters(server: &Sandbox, window: Window) {
    let mut session = connect(server.socket());
    let count = |queue| crate::queue::count(server, queue);
    let page = window.until("/queues", &["name=\"why\" value=\"it &lt;broke&gt;\"", "Retry..."]);
    let (token, socket) = (field(&page, "token").to_owned(), server.socket().display().to_string());
    let post = |rest: &str| {
        window.post("/queue-retry", &format!("token={token}&at={}&{rest}", socket.replace('/', "%2F")))
    };
    let asked = post("queue=shop.dead&why=it+%3Cbroke%3E");
    for word in [
        "1 row matches: retry?",
        "From shop.dead to shop.jobs",
        "<code>`why` = &#39;it &lt;broke&gt;&#39;</code>",
        "remora queue retry shop.dead --to shop.jobs --where &#39;`why` = ",
        " -n 1 --url unix://",
    ] {
        assert!(asked.contains(word), "{word} in {asked}");
    }
    let yes = |asked: &str| post(&format!("yes={}", field(asked, "yes")));
    assert_eq!(count("shop.dead"), 1);
    assert!(yes(&asked).contains("It has begun"));
    window.until("/queues", &["state good\">retry done: 1 of 1 row moved from shop.dead to shop.jobs"]);
    assert_eq!((count("shop.dead"), count("shop.jobs")), (0, 3));
    assert!(yes(&asked).contains("Nothing was done: this was answered already"));
    assert!(post("queue=shop.dead").contains("Nothing was done: no row matches"));
    assert!(post("queue=shop.jobs").contains("is the dead-letter queue of no queue"));
    // Of two queues that it may be from one is chosen; what nobody saw stays.
    session.execute("CREATE TABLE shop.more (v INT) ENGINE=QUEUE TRIES=1 DEAD='dead'").unwrap();
    session.execute("INSERT INTO shop.dead (v) VALUES (7), (8)").unwrap();
    let choice = post("queue=shop.dead");
    assert!(choice.contains(">shop.jobs</option><option value=\"shop.more\">"), "{choice}");
    let mut owner = connect(server.socket());
    owner.execute("SELECT queue_wait('shop.dead')").unwrap();
    let asked = post("queue=shop.dead&to=shop.more");
    assert!(asked.contains("1 row matches"), "{asked}");
    assert!(post("queue=shop.dead&to=shop.dead").contains("Nothing was done: choose one of them"));
    owner.execute("SELECT queue_abort()").unwrap();
    session.execute("INSERT INTO shop.dead (v) VALUES (9)").unwrap();
    yes(&asked);
    window.until("/queues", &["moved from shop.dead to shop.more, "]);
    assert_eq!((count("shop.dead"), count("shop.more")), (2, 1));
    // A retry that can't continue says why.
    let asked = post("queue=shop.dead&to=shop.more");
    session.execute("DROP TABLE shop.more").unwrap();
    yes(&asked);
    window.until("/queues", &["state bad\">retry failed ", "; 0 of 2 rows moved"]);
    window.running.signal("TERM");
    let ended = window.running.end().exits(143);
    for word in ["asked", "1 row moved", "failed: "] {
        let route = ["1 row from shop.dead to shop.", "2 rows from shop.dead to shop."];
        let is_told = |line: &str| line.contains(word) && route.iter().any(|route| line.contains(route));
        assert!(ended.err.lines().any(is_told), "{word} in {}", ended.err);
    }
}

#[test]
fn what_cannot_be_served_safely_is_refused() {
    let folder = std::env::temp_dir();
    for (arguments, said) in [
        (&["--listen", "0.0.0.0:8306"][..], "reverse proxy with TLS"),
        (&["--public-url", "http://db.example.com"], "write https://NAME"),
        (&["--audit-log", "x"], "--allow"),
        (&["--allow", "sql"], "kill-query, queue-retry"),
        (&["--interval", "0"], "1..=60"),
    ] {
        let ended = Ended::of(&remora(&folder).arg("web").args(arguments).output().unwrap()).exits(2);
        assert!(ended.err.contains(said), "{arguments:?}: {}", ended.err);
    }
}
