//! The demo: real data in a real server. Every feature adds its act to this story.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};

use crate::{pageviews, places, plugins, root, setup, target};

const HITS: u64 = 2_000_000;
const NAME: &str = "demo";

const QUESTIONS: [(&str, &str); 3] = [
    (
        "Which hosts are read most?",
        "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(url, '/', 3), '/', -1) AS host, COUNT(*) AS hits, \
         ROUND(SUM(bytes) / 1e6) AS MB FROM web.hits GROUP BY host ORDER BY hits DESC LIMIT 8",
    ),
    (
        "When?",
        "SELECT HOUR(time) AS hour, COUNT(*) AS hits, REPEAT('#', COUNT(*) / 4000) AS ' ' \
         FROM web.hits GROUP BY hour ORDER BY hour",
    ),
    (
        "Which pages are missing, and who sends people there?",
        "SELECT COUNT(*) AS hits, LEFT(url, 60) AS missing, LEFT(MIN(referrer), 40) AS 'linked from, for one' \
         FROM web.hits WHERE status = 404 GROUP BY url ORDER BY hits DESC LIMIT 6",
    ),
];

/// The URLs of the log in their own table, packed.
const PACKED: &str = "CREATE TABLE web.views (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, time DATETIME NOT NULL, \
                      u VARBINARY(512) NOT NULL, KEY (u)); \
                      INSERT INTO web.views (time, u) SELECT time, url_pack(url) FROM web.hits";

const PACKED_QUESTIONS: [(&str, &str); 3] = [
    (
        "How small are they?",
        "SELECT plain, packed, ROUND(100 * packed / plain, 1) AS percent FROM \
         (SELECT SUM(LENGTH(url)) AS plain FROM web.hits) a, (SELECT SUM(LENGTH(u)) AS packed FROM web.views) b",
    ),
    (
        "What do people read on one site? A range of the index, nothing is unpacked but the answer.",
        "SELECT COUNT(*) AS hits, url_unpack(u) AS url FROM web.views \
         WHERE u BETWEEN url_prefix_min('https://news.cnet.com/') AND url_prefix_max('https://news.cnet.com/') \
         GROUP BY u ORDER BY hits DESC LIMIT 5",
    ),
    (
        "How does the server find them?",
        "EXPLAIN SELECT COUNT(*) FROM web.views \
         WHERE u BETWEEN url_prefix_min('https://news.cnet.com/') AND url_prefix_max('https://news.cnet.com/')",
    ),
];

pub(crate) fn run() -> Result<()> {
    setup::run_quietly()?;
    let plugins = plugins()?;
    let remora = target().join("release/remora");
    let places = places()?;
    let installation = sandbox::find(&places, Product::MariaDb1011)?;
    let began = Instant::now();
    leftover(&places)?;

    title("A private server");
    let settings = Settings { name: Some(NAME.to_owned()), plugins, ..Settings::default() };
    let server = Sandbox::start(&installation, &places, &settings)?;
    println!("{} ({}), {:.1} s", Product::MariaDb1011, installation.version, began.elapsed().as_secs_f64());
    let second = Settings { options: vec!["--innodb-buffer-pool-size=1G".to_owned()], ..Settings::default() };
    let result = acts(&remora, &server).and_then(|()| {
        title("Onto another server, proven equal");
        let second = Sandbox::start(&installation, &places, &second)?;
        copy(&remora, &server, &second)
    });
    if result.is_ok() {
        println!("\nThe demo took {:.0} s.", began.elapsed().as_secs_f64());
        wait_for_reader(&remora);
    }
    server.remove()?;
    result
}

fn acts(remora: &Path, server: &Sandbox) -> Result<()> {
    let folder = server.folder().join("demo");
    std::fs::create_dir_all(&folder)?;
    let log = folder.join("hits.csv.zst");

    title("A week of page views");
    let began = Instant::now();
    pageviews::write(&root().join("demo/urls_world.txt"), HITS, &log)?;
    let mb = std::fs::metadata(&log)?.len() / 1_000_000;
    println!("{HITS} hits, {mb} MB compressed, made in {:.1} s", began.elapsed().as_secs_f64());

    title("Into a table");
    query(server, "CREATE DATABASE web")?;
    println!("$ remora import hits.csv.zst --into web.hits --create");
    let mut import = Command::new(remora);
    import.args(["import", "--no-defaults", "--user=root", "--into=web.hits", "--create"]);
    import.arg(format!("--socket={}", server.socket().display())).arg(&log);
    if !import.status()?.success() {
        bail!("the import failed");
    }
    print!("{}", query(server, "SHOW CREATE TABLE web.hits\\G")?);

    title("Three questions");
    for (question, sql) in QUESTIONS {
        println!("{question}");
        println!("{}", query(server, sql)?);
    }

    title("Its URLs in a quarter of the space");
    query(server, include_str!("../../sql/urlpack.sql"))?;
    let began = Instant::now();
    println!("> INSERT INTO web.views (time, u) SELECT time, url_pack(url) FROM web.hits");
    query(server, PACKED)?;
    println!("{HITS} rows in {:.1} s\n", began.elapsed().as_secs_f64());
    for (question, sql) in PACKED_QUESTIONS {
        println!("{question}");
        println!("{}", query(server, sql)?);
    }
    Ok(())
}

/// Dumps the packed table and loads it into another server, where every row is read back.
fn copy(remora: &Path, from: &Sandbox, to: &Sandbox) -> Result<()> {
    let [one, other] = [from, to].map(|server| format!("unix://{}", server.socket().display()));
    for arguments in [
        ["dump", "web.views", "--output=web.dump", "--url", &one],
        ["load", "web.dump", "--no-users", "--url", &other],
    ] {
        println!("$ remora {}", arguments.join(" "));
        let mut command = Command::new(remora);
        command.args(arguments).args(["--no-defaults", "--user=root"]);
        if !command.current_dir(from.folder().join("demo")).status()?.success() {
            bail!("remora {} failed", arguments[0]);
        }
    }
    Ok(())
}

fn query(server: &Sandbox, sql: &str) -> Result<String> {
    let client = sandbox::client().context("there is no SQL client")?;
    let mut command = Command::new(client);
    command.args(["--no-defaults", "--user=root", "--table"]);
    let output = command.arg(format!("--socket={}", server.socket().display())).args(["-e", sql]).output()?;
    if !output.status.success() {
        bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Removes the sandbox of a demo that was killed.
fn leftover(places: &sandbox::Places) -> Result<()> {
    for listed in sandbox::list(places).iter().filter(|listed| listed.name == NAME) {
        listed.remove(places)?;
    }
    Ok(())
}

/// On a terminal, keeps the server running until the reader has looked around.
fn wait_for_reader(remora: &Path) {
    if std::io::stdin().is_terminal() {
        println!(
            "A shell on its server, from another terminal:\n\n  {} sandbox shell {NAME}\n",
            shown(remora)
        );
        println!("Enter here ends the server and removes every trace.");
        // It does not matter how the wait ends.
        std::io::stdin().read_line(&mut String::new()).ok();
    }
}

fn title(text: &str) {
    println!("\n== {text}");
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
