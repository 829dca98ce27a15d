//! Compares ways to bring a database from one server to another.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox};

use super::{Bench, Data, PEERS, ROUNDS, server};
use crate::bench::import::done;
use crate::bench::measure::{Cost, measure, median, median_ratio};
use crate::{release, setup};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Copy,
    DumpLoad,
    Mydumper,
    Pipe,
}

impl Method {
    const ALL: [Method; 4] = [Method::Copy, Method::DumpLoad, Method::Mydumper, Method::Pipe];

    fn name(self) -> &'static str {
        match self {
            Method::Copy => "remora copy, every row read back",
            Method::DumpLoad => "remora dump, then load, every row read back",
            Method::Mydumper => "mydumper -t 2 -r 500000, then myloader -t 2",
            Method::Pipe => "mariadb-dump, piped to mariadb",
        }
    }
}

/// `cargo xtask bench copy [--data nodes|rental|mixed] [--rows N] [--server NAME] [--to NAME] [--only
/// WORD,...]`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    setup::install(&PEERS)?;
    let remora = release()?;
    let value = |name: &str| crate::bench::value(arguments, name);
    let rows = value("--rows").map(str::parse::<u64>).transpose().context("--rows takes a number")?;
    let chosen = |data: &Data| value("--data").is_none_or(|name| name == data.name());
    let product: Product = value("--server").map_or(Ok(Product::MariaDb1011), str::parse)?;
    let to: Product = value("--to").map_or(Ok(product), str::parse)?;
    let only = value("--only").unwrap_or_default();
    for data in Data::ALL.into_iter().filter(chosen) {
        let from = Bench::start(product, &remora, data, rows.unwrap_or(data.rows()))?;
        let (to, version) = server(to)?;
        println!("to {} ({version})\n", to.product());
        let pair = Pair { from, to };
        pair.table(only)?;
    }
    Ok(())
}

struct Pair {
    from: Bench,
    to: Sandbox,
}

impl Pair {
    /// Runs all methods alternately, and prints a table. The ratio compares runs of the same round.
    fn table(&self, only: &str) -> Result<()> {
        let named = |method: &Method| only.split(',').any(|word| method.name().contains(word));
        let mut results: Vec<(Method, Vec<Cost>)> =
            Method::ALL.into_iter().filter(named).map(|method| (method, Vec::new())).collect();
        let Some(&(first, _)) = results.first() else { return Ok(()) };
        // The first run starts with cold caches, all others with warm ones.
        self.measure(first)?;
        for _ in 0..ROUNDS {
            for (method, costs) in &mut results {
                costs.push(self.measure(*method)?);
            }
            results.rotate_left(1);
        }
        results.sort_by_key(|(method, _)| Method::ALL.iter().position(|one| one == method));
        let ours = results.first().map(|(_, costs)| costs.clone()).unwrap_or_default();
        println!(
            "| method | wall s | servers s | clients s | wall of copy / of this |\n|---|--:|--:|--:|--:|"
        );
        for (method, costs) in results {
            let ratio = median_ratio(&ours, &costs).unwrap_or(1.0);
            let Some(cost) = median(costs) else { continue };
            println!(
                "| {} | {:.2} | {:.2} | {:.2} | {ratio:.2} |",
                method.name(),
                cost.wall_s,
                cost.server_s,
                cost.client_s,
            );
        }
        println!();
        Ok(())
    }

    fn measure(&self, method: Method) -> Result<Cost> {
        let mut tries = 0;
        loop {
            match self.measure_once(method) {
                // Debian's mydumper sometimes hangs at its end; such a run does not count.
                Err(error) if method == Method::Mydumper && tries < 5 => println!("{error}; once more"),
                measured => return measured,
            }
            tries += 1;
        }
    }

    fn measure_once(&self, method: Method) -> Result<Cost> {
        let folder = self.from.folder.join("copy");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        super::query(&self.to, "SET foreign_key_checks = 0; DROP DATABASE IF EXISTS bench")?;
        if self.to.product().family() == sandbox::Family::MariaDb {
            // The purge left by the previous run must not count for this one.
            super::query(&self.to, "SET GLOBAL innodb_max_purge_lag_wait = 0")?;
        }
        let mut target = None;
        let mut cost = measure(self.from.server.pid(), || {
            target = Some(measure(self.to.pid(), || self.run(method, &folder))?);
            Ok(())
        })?;
        cost.server_s += target.map_or(0.0, |cost| cost.server_s);
        let found = super::query(&self.to, &self.from.count_rows())?;
        if found.trim() != self.from.rows {
            bail!("{}: {found} rows of {}", method.name(), self.from.rows);
        }
        Ok(cost)
    }

    fn run(&self, method: Method, folder: &Path) -> Result<()> {
        let (from, to) = (self.from.server.socket(), self.to.socket());
        let (from, to) = (from.display().to_string(), to.display().to_string());
        let path = folder.display().to_string();
        let own = ["--no-defaults", "--quiet", "--user=root", "-j", "2"];
        let remora = |arguments: &[&str]| done(Command::new(&self.from.remora).args(arguments).args(own));
        match method {
            Method::Copy => remora(&["copy", &format!("unix://{from}"), &format!("unix://{to}"), "bench"]),
            Method::DumpLoad => {
                remora(&["dump", "bench", "-o", &path, "-S", &from])?;
                remora(&["load", &path, "-S", &to])
            }
            Method::Mydumper => {
                let dump = ["-u", "root", "-S", &from, "-B", "bench", "-t", "2", "-r", "500000", "-G", "-E", "-R"];
                done(Command::new("timeout").args(["300", "mydumper"]).args(dump).args(["-o", &path]))?;
                done(Command::new("myloader").args(["-u", "root", "-S", &to, "-t", "2", "-d", &path]))
            }
            Method::Pipe => self.from.shell(&format!(
                "set -o pipefail; mariadb-dump --no-defaults -u root -S '{from}' --single-transaction --quick \
                 --routines --events --databases bench | mariadb --no-defaults -u root -S '{to}'"
            )),
        }
    }
}
