//! Private servers of every installed product, started and ended in every way.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![expect(clippy::print_stdout, reason = "a test names the servers it covered")]

#[path = "main/cache.rs"]
mod cache;
#[path = "main/cluster.rs"]
mod cluster;
#[path = "main/folder.rs"]
mod folder;
#[path = "main/life.rs"]
mod life;
#[path = "main/mysql97.rs"]
mod mysql97;
#[path = "main/own_program.rs"]
mod own_program;
#[path = "main/parent.rs"]
mod parent;

use std::path::Path;
use std::process::Command;

use sandbox::{Error, Installation, Places, Product, Sandbox, Settings};

/// The user's own cache, which holds the fetched servers.
fn places() -> Places {
    Places::customary(|name| std::env::var_os(name)).unwrap()
}

/// The servers that tests run on.
fn installations() -> Vec<Installation> {
    let found = sandbox::test_servers(&places(), |name| std::env::var_os(name))
        .unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> =
        found.iter().map(|found| format!("{} ({})", found.product, found.version)).collect();
    println!("servers covered: {}", names.join(", "));
    found
}

fn mariadb() -> Installation {
    sandbox::find(&places(), Product::MariaDb1011).unwrap()
}

fn start(installation: &Installation, settings: &Settings) -> Sandbox {
    Sandbox::start(installation, &places(), settings).unwrap()
}

/// What a server answers, through the command-line client over its socket.
fn sql(server: &Sandbox, text: &str) -> String {
    ask(&[&format!("--socket={}", server.socket().display())], text)
}

fn ask(way: &[&str], text: &str) -> String {
    let output = Command::new(sandbox::client().unwrap())
        .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"])
        .args(way)
        .args(["-e", text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Ends a server that is not tied to the test when the test ends, in whatever way.
struct Cleanup<'a>(&'a Path);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        match Sandbox::open(self.0) {
            Ok(server) => server.remove().unwrap(),
            Err(Error::NoSandbox { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
