//! remora's plugins for the server: where their libraries are, and the SQL that installs them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sandbox::{Ability, Installation, Product};
use server::{Environment, Overrides, Session, Target};

/// A library that the server loads, and the SQL to run there once.
struct Plugin {
    library: &'static str,
    sql: &'static str,
    /// The ability that a server needs to load it. Such a library is built for one server: see
    /// [`engine_places`].
    needs: Option<Ability>,
}

/// The library of ENGINE=QUEUE.
const ENGINE: &str = "ha_queue.so";

const PLUGINS: [Plugin; 2] = [
    Plugin { library: "liburlpack_udf.so", sql: include_str!("../../../sql/urlpack.sql"), needs: None },
    Plugin { library: ENGINE, sql: include_str!("../../../sql/queue.sql"), needs: Some(Ability::Queue) },
];

/// What to load into a server, and notes for users who expected more.
pub struct Libraries {
    /// The libraries.
    pub found: Vec<PathBuf>,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

/// The libraries.
///
/// A member of a cluster gets no engine, because the other members would not have its rows.
pub fn libraries(server: &Installation, is_member: bool) -> anyhow::Result<Libraries> {
    let places = places()?;
    let mut libraries = Libraries { found: Vec::new(), notes: Vec::new() };
    for plugin in &PLUGINS {
        let Some(ability) = plugin.needs else {
            libraries.found.push(find(plugin.library, &places, server.product)?);
            continue;
        };
        if is_member {
            libraries.notes.push("without ENGINE=QUEUE: Galera replicates InnoDB only".to_owned());
            continue;
        }
        if !server.can(ability) {
            let able: Vec<String> = Product::that_can(ability).map(|product| product.to_string()).collect();
            libraries.notes.push(format!("without ENGINE=QUEUE, which is there for {}", able.join(" and ")));
            continue;
        }
        match find(plugin.library, &engine_places(&places, server), server.product) {
            Ok(library) => libraries.found.push(library),
            Err(error) => libraries.notes.push(format!("without ENGINE=QUEUE: {error}")),
        }
    }
    Ok(libraries)
}

/// Where the libraries may be: beside the program, or in `lib/remora` beside its folder.
fn places() -> anyhow::Result<[PathBuf; 2]> {
    let program = std::env::current_exe().context("where this program is")?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    Ok([beside.to_owned(), beside.join("../lib/remora")])
}

/// Where libraries for one server are, for these places of all: a package has a folder for each of its
/// releases in a folder named after it, and a checkout one library for the release that is there.
fn engine_places(places: &[PathBuf], server: &Installation) -> Vec<PathBuf> {
    let release = server.version.split('-').next().unwrap_or_default();
    let of_series = places.iter().map(|place| place.join(server.product.id()));
    of_series.flat_map(|folder| [folder.join(release), folder]).collect()
}

fn find(library: &str, places: &[PathBuf], server: Product) -> anyhow::Result<PathBuf> {
    match places.iter().map(|place| place.join(library)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            let program = std::env::current_exe().unwrap_or_default();
            let source = source(&program, library, server);
            bail!("{library} is neither in {}; {source}", places.join(" nor in "))
        }
    }
}

/// Where packages have the program.
const PACKAGED: &str = "/usr/bin";

/// Where a library comes from: a package of its own has it, or a checkout builds it.
fn source(program: &Path, library: &str, server: Product) -> String {
    // `target/debug/remora`
    if program.ancestors().nth(2).is_some_and(|folder| folder.ends_with("target")) {
        return "cargo xtask plugin builds it for the program in this checkout".to_owned();
    }
    let package = match library == ENGINE {
        false => "remora-urlpack has it".to_owned(),
        true => {
            let (major, minor) = server.series();
            format!("remora-plugins-{major}.{minor} has it, for releases that were there when it was made")
        }
    };
    let built = match program.starts_with(PACKAGED) {
        true => "",
        false => "; from a checkout, 'cargo xtask install' puts it there",
    };
    format!("the package {package}{built}")
}

/// The library of ENGINE=QUEUE for a private server, if the server does not find it by itself.
///
/// # Errors
/// There is none for this server.
pub fn engine(installation: &Installation) -> anyhow::Result<Option<PathBuf>> {
    if installation.plugin_dir.join(ENGINE).is_file() {
        return Ok(None);
    }
    let places = engine_places(&places()?, installation);
    let found = match installation.is_own {
        true => Err(anyhow::anyhow!("it was built for another server")),
        false => find(ENGINE, &places, installation.product),
    };
    found.map(Some).with_context(|| {
        format!(
            "there are queues (ENGINE=QUEUE), which {} ({}) can't open without their engine; \
             --server-option=--plugin-dir=DIR --server-option=--plugin-load-add=ha_queue takes it from elsewhere",
            installation.title(),
            installation.version
        )
    })
}

/// Whether a path in a data folder is that of the folder of a queue.
pub fn is_queue(path: &Path) -> bool {
    path.components().count() == 2 && path.extension().is_some_and(|end| end == "queue")
}

/// Whether ENGINE=QUEUE is among these libraries.
pub fn has_engine(libraries: &[PathBuf]) -> bool {
    libraries.iter().any(|library| library.ends_with(ENGINE))
}

/// Runs the plugins' SQL for these libraries on the server behind a socket.
pub fn install(socket: &Path, libraries: &[PathBuf]) -> anyhow::Result<()> {
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

/// Runs statements one by one; none of ours contains a semicolon.
fn run(session: &mut Session, script: &str) -> anyhow::Result<()> {
    let lines = script.lines().filter(|line| !line.starts_with("--"));
    let script = lines.collect::<Vec<_>>().join("\n");
    for statement in script.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        session.execute(statement).with_context(|| statement.to_owned())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sandbox::Product;

    use super::{ENGINE, source};

    #[test]
    fn where_a_plugin_comes_from_depends_on_the_program() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/remora");
        assert!(source(&here, ENGINE, Product::MariaDb118).contains("cargo xtask plugin"));
        let packaged = Path::new("/usr/bin/remora");
        let said = source(packaged, ENGINE, Product::MariaDb118);
        assert!(said.contains("remora-plugins-11.8") && !said.contains("cargo"), "{said}");
        let said = source(packaged, "liburlpack_udf.so", Product::MySql97);
        assert!(said.contains("remora-urlpack"), "{said}");
        // A program that was downloaded, or installed from a checkout.
        for program in ["/usr/local/bin/remora", "/srv/target/new/bin/remora"] {
            let said = source(Path::new(program), ENGINE, Product::MariaDb1011);
            assert!(said.contains("remora-plugins-10.11") && said.contains("cargo xtask install"), "{said}");
        }
    }
}
