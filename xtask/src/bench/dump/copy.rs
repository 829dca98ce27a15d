//! Compares ways to bring a database from one server to another.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use sandbox::{Family, Product, Sandbox};

use super::{Bench, Chosen, ROUNDS, again, server};
use crate::bench::import::done;
use crate::bench::measure::{Cost, alternately, measure, median, median_ratio};

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
    let chosen = Chosen::read(arguments)?;
    let to: Product = crate::bench::value(arguments, "--to").map_or(Ok(chosen.product), str::parse)?;
    for from in chosen.benches() {
        let (from, (to, version)) = (from?, server(to)?);
        println!("to {} ({version})\n", to.product());
        Pair { from, to }.table(&chosen)?;
    }
    Ok(())
}

struct Pair {
    from: Bench,
    to: Sandbox,
}

impl Pair {
    /// Runs all methods alternately, and prints a table. The ratio compares runs of the same round.
    fn table(&self, chosen: &Chosen<'_>) -> Result<()> {
        let methods: Vec<Method> =
            Method::ALL.into_iter().filter(|method| chosen.has(method.name())).collect();
        let measured = |method| again(method == Method::Mydumper, || self.measure(method));
        let results = alternately(&methods, ROUNDS, measured)?;
        let Some((_, ours)) = results.first().cloned() else { return Ok(()) };
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
        let folder = self.from.folder.join("copy");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        super::query(&self.to, "SET foreign_key_checks = 0; DROP DATABASE IF EXISTS bench")?;
        if self.to.product().family() == Family::MariaDb {
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
