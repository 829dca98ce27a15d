//! The cost of watching: for a server per sample and per screen, and for our program with twenty servers.

mod screen;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};

use super::measure::{Cost, as_f64, measure};
use crate::{places, run, setup};

/// Samples of each server.
const SAMPLES: u64 = 300;
/// Seconds between them.
const INTERVAL: &str = "0.1";
/// Servers that one process watches, and for how many seconds.
const SERVERS: usize = 20;
const SECONDS: u64 = 30;

pub(crate) fn run_bench() -> Result<()> {
    setup::run_quietly()?;
    let remora = crate::release()?;
    let mut screens = Vec::new();
    println!(
        "\n| server | status variables | ms of its processor a sample | of it the server itself, idle |\n|---|--:|--:|--:|"
    );
    for product in Product::ALL {
        let Ok(installation) = sandbox::find(&places()?, product) else { continue };
        let options = vec!["--performance-schema=ON".to_owned()];
        let server = Sandbox::start(&installation, &places()?, &Settings { options, ..Settings::default() })?;
        let address = format!("unix://{}", server.socket().display());
        let watch = |interval: &str, count: u64, extra: &[&str]| {
            let mut command = Command::new(&remora);
            command.args(["stat", interval, &count.to_string(), "--no-defaults", "-u", "root", &address]);
            command.args(extra);
            command
        };
        let shown = watch("0.1", 1, &["--all", "--csv"]).output()?;
        let shown = String::from_utf8(shown.stdout)?;
        let head = shown.lines().next().context("no line of a table")?;
        // Time, server, seconds and mark come before the variables.
        let variables = head.split(',').skip(4).count();
        let idle = measure(server.pid(), || run(Command::new("sleep").arg("30")))?;
        let watched = measure(server.pid(), || run(watch(INTERVAL, SAMPLES, &[]).stdout(Stdio::null())))?;
        let per_sample =
            |cost: &Cost| cost.server_s / cost.wall_s * (watched.wall_s / as_f64(SAMPLES)) * 1000.0;
        println!("| {product} | {variables} | {:.2} | {:.2} |", per_sample(&watched), per_sample(&idle));
        screens.push(format!("| {product} | {} |", screen::row(&remora, &server)?));
    }
    println!("\n| ms of its processor a second: server | {} |\n|---|--:|--:|--:|", screen::columns());
    screens.iter().for_each(|row| println!("{row}"));
    several(&remora)
}

/// One process, twenty servers, once a second.
fn several(remora: &std::path::Path) -> Result<()> {
    let installation = sandbox::find(&places()?, Product::ALL[0])?;
    let options = vec!["--innodb-buffer-pool-size=8M".to_owned(), "--innodb-log-file-size=8M".to_owned()];
    let start = || {
        Sandbox::start(
            &installation,
            &places()?,
            &Settings { options: options.clone(), ..Settings::default() },
        )
        .map_err(anyhow::Error::from)
    };
    let servers: Vec<Sandbox> = (0..SERVERS).map(|_| start()).collect::<Result<_>>()?;
    let folder = tempfile::tempdir()?;
    println!("\n| {SERVERS} servers, once a second | % of a core |\n|---|--:|");
    for (name, extra) in [
        ("lines", vec![]),
        ("every status variable as JSON", vec!["--all", "--json"]),
        ("recorded", vec!["-q", "--record", "a.stat"]),
    ] {
        let mut command = Command::new(remora);
        command.current_dir(folder.path()).args([
            "stat",
            "1",
            &SECONDS.to_string(),
            "--no-defaults",
            "-u",
            "root",
        ]);
        command
            .args(servers.iter().map(|server| format!("unix://{}", server.socket().display())))
            .args(extra);
        let first = servers.first().context("no server")?;
        let cost = measure(first.pid(), || run(command.stdout(Stdio::null())))?;
        println!("| {name} | {:.2} |", cost.client_s / cost.wall_s * 100.0);
    }
    let bytes = std::fs::metadata(folder.path().join("a.stat"))?.len();
    let samples = SECONDS * SERVERS as u64;
    if bytes == 0 {
        bail!("nothing was recorded");
    }
    println!("\na sample of an idle server takes {} bytes of a recording", bytes / samples);
    Ok(())
}
