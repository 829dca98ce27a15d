//! remora's plugins for the server: where their libraries are, and the SQL that makes them known.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use server::{Environment, Overrides, Session, Target};

/// A library that the server loads, and what to run there once.
struct Plugin {
    library: &'static str,
    sql: &'static str,
}

const PLUGINS: [Plugin; 1] =
    [Plugin { library: "liburlpack_udf.so", sql: include_str!("../../../sql/urlpack.sql") }];

/// The libraries, which lie beside the program or in `lib/remora` beside its folder.
pub(crate) fn libraries() -> anyhow::Result<Vec<PathBuf>> {
    let program = std::env::current_exe().context("where this program is")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = [beside.to_owned(), beside.join("../lib/remora")];
    PLUGINS.iter().map(|plugin| find(plugin.library, &places)).collect()
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

/// Runs the SQL of all plugins on the server behind a socket.
pub(crate) fn install(socket: &Path) -> anyhow::Result<()> {
    let overrides = Overrides {
        socket: Some(socket.to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    let mut session = Target::resolve(&overrides, &Environment::default())?.connect()?;
    PLUGINS.iter().try_for_each(|plugin| run(&mut session, plugin.sql))
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
