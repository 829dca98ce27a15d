//! URLs packed individually: size and speed compared with the peers, and the effect of a packed column in
//! InnoDB.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pageviews::Random;
use sandbox::{Product, Sandbox, Settings};
use serde_json::Value;

use super::measure::as_f64;
use crate::{places, plugins, root, setup};

/// Rows of the tables in InnoDB.
const ROWS: usize = 1_000_000;
/// Number of range queries.
const QUERIES: usize = 2_000;
/// Steps along a chain of places in memory; the places are in lines of 64 bytes.
const STEPS: u64 = 1 << 18;
const LINE: usize = 64;
/// The two lists that are trained on and measured against each other, if they are there.
const CROSS: [&str; 2] = ["urls_ja_crawl.txt", "urls_ja_bookmarks.txt"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    let libraries = plugins()?;
    let remora = crate::release_with(&["--features", "peers"])?;
    let at = arguments.iter().position(|argument| argument == "--corpora");
    let folder = at.and_then(|at| arguments.get(at + 1)).map_or_else(|| root().join("demo"), PathBuf::from);
    let lists = lists(&folder)?;
    let work = tempfile::tempdir()?;
    let bench = Bench { remora, folder, work: work.path().to_owned() };
    memory();
    bench.models(&lists)?;
    bench.peers(&lists)?;
    bench.innodb(&lists, libraries)
}

/// The lists in a folder: files `urls_*.txt`, by name.
fn lists(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("urls_") && name.ends_with(".txt") {
            names.push(name);
        }
    }
    names.sort();
    if names.is_empty() {
        bail!("{}: no urls_*.txt there", folder.display());
    }
    Ok(names)
}

/// Prints the time of a look-up in memory: a model is read at places that can't be predicted, so its times
/// should be compared with these.
fn memory() {
    println!("\n### This machine's memory, read along a chain of places\n\n| bytes | ns |\n|---|--:|");
    for bytes in [1usize << 15, 1 << 20, 1 << 24] {
        let mut order: Vec<usize> = (0..bytes / LINE).collect();
        let mut random = Random::new(1);
        for at in (1..order.len()).rev() {
            order.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap_or(0));
        }
        let mut next = vec![0usize; bytes / size_of::<usize>()];
        let words = LINE / size_of::<usize>();
        for (at, &from) in order.iter().enumerate() {
            next[from * words] = order[(at + 1) % order.len()] * words;
        }
        let mut least = f64::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            let mut at = 0;
            for _ in 0..STEPS {
                at = next[at];
            }
            std::hint::black_box(at);
            least = least.min(began.elapsed().as_secs_f64() * 1e9 / as_f64(STEPS));
        }
        println!("| {bytes} | {least:.1} |");
    }
}

struct Bench {
    remora: PathBuf,
    folder: PathBuf,
    work: PathBuf,
}

impl Bench {
    fn path(&self, list: &str) -> PathBuf {
        self.folder.join(list)
    }

    /// Pairs of lists to train and to measure on, if both are there.
    fn crossed(lists: &[String]) -> Vec<[&str; 2]> {
        let all = CROSS.iter().all(|name| lists.iter().any(|list| list == name));
        if all { vec![CROSS, [CROSS[1], CROSS[0]]] } else { Vec::new() }
    }

    /// The lines of JSON that a command of `remora url` prints.
    fn json(&self, arguments: &[&str], files: &[&Path]) -> Result<Vec<Value>> {
        let mut command = Command::new(&self.remora);
        let output = command.arg("url").args(arguments).args(files).arg("--json").output()?;
        if !output.status.success() {
            bail!("{}: {}", crate::shown(&command), String::from_utf8_lossy(&output.stdout));
        }
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Ratio, speed and proof for models of two sizes, trained on one list and measured on another or on all.
    fn models(&self, lists: &[String]) -> Result<()> {
        println!("\n### Models, one core\n");
        println!(
            "| trained on | measured on | size | ratio | pack ns | unpack ns | batch ns | order, ranges of 10^6, round trips wrong |"
        );
        println!("|---|---|--:|--:|--:|--:|--:|---|");
        for [from, to] in Self::crossed(lists) {
            for size in ["2.6M", "16M"] {
                let model = self.work.join("model");
                let arguments = ["train", "--no-estimate", "--size", size, "-o"];
                self.json(&arguments, &[&model, &self.path(from)])?;
                self.model_line(from, to, Some(&model))?;
            }
        }
        for list in lists {
            self.model_line("built in", list, None)?;
        }
        Ok(())
    }

    fn model_line(&self, from: &str, to: &str, model: Option<&Path>) -> Result<()> {
        let to_path = self.path(to);
        let mut files = vec![to_path.as_path()];
        let mut arguments = vec!["measure"];
        if let Some(model) = model {
            arguments.push("--model");
            files.insert(0, model);
        }
        let lines = self.json(&arguments, &files)?;
        let found = lines.last().context("nothing measured")?;
        let number = |name: &str| found[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "| {from} | {to} | {:.1} MB | {:.2} % | {:.0} | {:.0} | {:.0} | {} {} {} |",
            number("model_size") / 1e6,
            number("ratio") * 100.0,
            number("pack_ns"),
            number("unpack_ns"),
            number("unpack_batch_ns"),
            found["order_wrong"],
            found["prefix_wrong"],
            found["round_trip_wrong"],
        );
        Ok(())
    }

    /// All codecs on the same division of each list.
    fn peers(&self, lists: &[String]) -> Result<()> {
        println!("\n### Beside others, trained on the same URLs\n");
        let mut splits: Vec<(String, Vec<Value>)> = Vec::new();
        for [from, to] in Self::crossed(lists) {
            let (from_path, to_path) = (self.path(from), self.path(to));
            let lines = self.json(&["compare"], &[&to_path, Path::new("--train"), &from_path])?;
            splits.push((format!("{from} to {to}"), lines));
        }
        for list in lists {
            splits.push((format!("{list}, 9:1 by host"), self.json(&["compare"], &[&self.path(list)])?));
        }
        for (name, lines) in splits {
            println!(
                "{name}\n\n| codec | ratio | pack ns | unpack ns | size | order |\n|---|--:|--:|--:|--:|---|"
            );
            for line in lines.iter().filter(|line| line["message_type"] == "codec") {
                let number = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
                println!(
                    "| {} | {:.2} % | {:.0} | {:.0} | {:.2} MB | {} |",
                    line["name"].as_str().unwrap_or_default(),
                    number("ratio") * 100.0,
                    number("pack_ns"),
                    number("unpack_ns"),
                    number("size") / 1e6,
                    if line["ordered"] == true { "kept" } else { "lost" },
                );
            }
            println!();
        }
        Ok(())
    }

    /// The same URLs in a plain and in a packed column, each with a unique key.
    fn innodb(&self, lists: &[String], plugins: Vec<PathBuf>) -> Result<()> {
        let places = places()?;
        let installation = sandbox::find(&places, Product::MariaDb1011)?;
        let options = vec!["--innodb-buffer-pool-size=1G".to_owned(), "--innodb-log-file-size=1G".to_owned()];
        let server =
            Sandbox::start(&installation, &places, &Settings { options, plugins, ..Settings::default() })?;
        let mut column = Column { server };
        column.client(include_str!("../../../sql/urlpack.sql"))?;
        let urls = self.many(lists)?;
        let list = self.work.join("million.txt");
        std::fs::write(&list, urls.join("\n") + "\n")?;
        column.client(&format!(
            "CREATE DATABASE b; CREATE TABLE b.list (url VARBINARY(2048) NOT NULL) ENGINE=Aria; \
             LOAD DATA INFILE '{}' INTO TABLE b.list FIELDS ESCAPED BY '';",
            list.display()
        ))?;
        let bytes: usize = urls.iter().map(String::len).sum();
        println!(
            "\n### A column of {} URLs in InnoDB, {bytes} bytes, unique key ({})\n",
            urls.len(),
            installation.version
        );
        println!(
            "| column | INSERT ... SELECT s | rows/s | bytes on disk | {QUERIES} prefix ranges, cold s | warm s |"
        );
        println!("|---|--:|--:|--:|--:|--:|");
        // Both must return the same answers.
        let mut answers = None;
        column.line(["plain", "url"], &urls, &mut answers)?;
        column.line(["packed", "url_pack(url)"], &urls, &mut answers)
    }

    /// A million different URLs: those of the lists, repeated with a made-up page number.
    fn many(&self, lists: &[String]) -> Result<Vec<String>> {
        let mut known = BTreeSet::new();
        for list in lists {
            let text = std::fs::read(self.path(list))?;
            known.extend(
                String::from_utf8_lossy(&text).lines().filter(|url| url.len() < 1_000).map(str::to_owned),
            );
        }
        let known: Vec<String> = known.into_iter().filter(|url| !url.contains(['\t', '\\'])).collect();
        let mut random = Random::new(3);
        let mut urls: BTreeSet<String> = known.iter().take(ROWS).cloned().collect();
        while urls.len() < ROWS {
            let at = usize::try_from(random.below(known.len() as u64))?;
            let page = random.below(1_000);
            urls.extend(known.get(at).map(|url| format!("{url}?page={page}")));
        }
        // In random order, as they would arrive.
        let mut urls: Vec<String> = urls.into_iter().collect();
        for at in (1..urls.len()).rev() {
            urls.swap(at, usize::try_from(random.below(at as u64 + 1))?);
        }
        Ok(urls)
    }
}

struct Column {
    server: Sandbox,
}

impl Column {
    fn client(&self, sql: &str) -> Result<String> {
        let file = self.server.folder().join("bench.sql");
        std::fs::write(&file, sql)?;
        let mut command = Command::new(sandbox::client().context("there is no SQL client")?);
        command.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        command
            .arg(format!("--socket={}", self.server.socket().display()))
            .stdin(std::fs::File::open(&file)?);
        let output = command.output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn line(
        &mut self,
        [name, value]: [&str; 2],
        urls: &[String],
        answers: &mut Option<String>,
    ) -> Result<()> {
        self.client(&format!(
            "CREATE TABLE b.{name} (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, u VARBINARY(2048) NOT NULL, UNIQUE (u)) \
             ENGINE=InnoDB;"
        ))?;
        let began = Instant::now();
        self.client(&format!("INSERT INTO b.{name} (u) SELECT {value} FROM b.list;"))?;
        let insert = began.elapsed().as_secs_f64();
        // Writes InnoDB's memory to the files, and drops the files from the page cache.
        self.server.stop()?;
        let disk = std::fs::metadata(self.server.data().join(format!("b/{name}.ibd")))?.len();
        self.server.restart()?;
        let dropped = Command::new("sh").args(["-c", "sync; echo 1 > /proc/sys/vm/drop_caches"]).status()?;
        if !dropped.success() {
            bail!("dropping the page cache needs root");
        }
        let queries = queries(name, urls)?;
        let ask = || -> Result<(f64, String)> {
            let began = Instant::now();
            let answers = self.client(&queries)?;
            Ok((began.elapsed().as_secs_f64(), answers))
        };
        let ((cold, first), (warm, second)) = (ask()?, ask()?);
        if first != second || *answers.get_or_insert_with(|| first.clone()) != first {
            bail!("{name}: the same queries gave different answers");
        }
        println!(
            "| {name} | {insert:.1} | {:.0} k | {disk} | {:.2} | {:.2} |",
            as_f64(ROWS as u64) / insert / 1e3,
            cold,
            warm
        );
        Ok(())
    }
}

/// Queries for prefixes of random URLs, cut after the host or some bytes later.
fn queries(name: &str, urls: &[String]) -> Result<String> {
    let mut random = Random::new(7);
    let mut sql = String::new();
    for _ in 0..QUERIES {
        let at = usize::try_from(random.below(urls.len() as u64))?;
        let url = urls.get(at).map(String::as_str).unwrap_or_default();
        let length = url.len() - usize::try_from(random.below(url.len() as u64 / 3 + 1))?;
        let prefix = url.get(..length).unwrap_or(url).replace('\'', "''");
        match name {
            "plain" => writeln!(
                sql,
                "SELECT COUNT(*), SUM(LENGTH(u)) FROM b.plain WHERE u LIKE '{}%';",
                prefix.replace('%', "\\%").replace('_', "\\_")
            )?,
            _ => writeln!(
                sql,
                "SELECT COUNT(*), SUM(LENGTH(url_unpack(u))) FROM b.packed WHERE u BETWEEN url_prefix_min('{prefix}') \
                 AND url_prefix_max('{prefix}');"
            )?,
        }
    }
    Ok(sql)
}
