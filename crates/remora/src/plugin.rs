//! remora's plugins for the server: where their libraries are, and the SQL that makes them known.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sandbox::Product;
use server::{Environment, Overrides, Session, Target};

/// A library that the server loads, and what to run there once.
struct Plugin {
    library: &'static str,
    sql: &'static str,
    /// The only server that takes it; left out for others, and where it was not built.
    only: Option<Product>,
}

const PLUGINS: [Plugin; 2] = [
    Plugin { library: "liburlpack_udf.so", sql: include_str!("../../../sql/urlpack.sql"), only: None },
    Plugin {
        library: "ha_queue.so",
        sql: include_str!("../../../sql/queue.sql"),
        only: Some(Product::MariaDb1011),
    },
];

/// The libraries, which lie beside the program or in `lib/remora` beside its folder.
pub(crate) fn libraries(product: Product) -> anyhow::Result<Vec<PathBuf>> {
    let program = std::env::current_exe().context("where this program is")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = [beside.to_owned(), beside.join("../lib/remora")];
    let mut libraries = Vec::new();
    for plugin in &PLUGINS {
        match (find(plugin.library, &places), plugin.only) {
            (Ok(library), only) if only.is_none_or(|only| only == product) => libraries.push(library),
            (found, None) => drop(found?),
            (_, Some(_)) => {}
        }
    }
    Ok(libraries)
}

/// What is not among these libraries and could be on this server, and how to have it.
pub(crate) fn absent(product: Product, libraries: &[PathBuf]) -> Vec<String> {
    let is_there = |plugin: &&Plugin| libraries.iter().any(|library| library.ends_with(plugin.library));
    let fits = |plugin: &&Plugin| plugin.only.is_none_or(|only| only == product);
    let absent = PLUGINS.iter().filter(fits).filter(|plugin| !is_there(plugin));
    absent
        .map(|plugin| {
            format!(
                "{} is not beside this program, so the server has it not: cargo xtask plugin builds it",
                plugin.library
            )
        })
        .collect()
}

fn find(library: &str, places: &[PathBuf]) -> anyhow::Result<PathBuf> {
    match places.iter().map(|place| place.join(library)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            bail!("{library} is neither in {}; build it with: cargo xtask plugin", places.join(" nor in "))
        }
    }
}

/// Runs the SQL of the plugins with these libraries on the server behind a socket.
pub(crate) fn install(socket: &Path, libraries: &[PathBuf]) -> anyhow::Result<()> {
    let overrides = Overrides {
        socket: Some(socket.to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    let mut session = Target::resolve(&overrides, &Environment::default())?.connect()?;
    let there = |plugin: &&Plugin| libraries.iter().any(|library| library.ends_with(plugin.library));
    PLUGINS.iter().filter(there).try_for_each(|plugin| run(&mut session, plugin.sql))
}

/// Runs statements one by one; none of ours has a semicolon inside.
fn run(session: &mut Session, script: &str) -> anyhow::Result<()> {
    let lines = script.lines().filter(|line| !line.starts_with("--"));
    let script = lines.collect::<Vec<_>>().join("\n");
    for statement in script.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        session.execute(statement).with_context(|| statement.to_owned())?;
    }
    Ok(())
}
