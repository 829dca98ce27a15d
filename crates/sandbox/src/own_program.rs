//! A server that the user has, of any version: its program says where its files are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::installation::{PLUGINS, SHARES, ask_version, is_share, plugin_folder, series};
use crate::table::Family;
use crate::{Error, Installation, Places, Product};

/// Finds the files that belong to a program. The program of a product is that product.
pub(crate) fn find(places: &Places, program: &Path) -> Result<Installation, Error> {
    let failed = |why: String| Error::NoServer { program: program.to_owned(), why };
    let daemon = program.canonicalize().map_err(|error| failed(error.to_string()))?;
    let mut known = Product::ALL.into_iter().filter_map(|product| crate::find(places, product).ok());
    if let Some(found) = known.find(|known| known.daemon.canonicalize().is_ok_and(|path| path == daemon)) {
        return Ok(found);
    }
    let version = ask_version(&daemon, Command::new(&daemon)).map_err(failed)?;
    let like = Product::like(Family::of(&version), series(&version));
    let product = like.ok_or_else(|| failed(format!("its version is {version}")))?;
    let variables = Variables::of(&daemon).map_err(failed)?;
    let base = variables.path("basedir").ok_or_else(|| failed("it has no option --basedir".to_owned()))?;
    let above = daemon.ancestors().skip(1).take(2).map(Path::to_owned);
    let of =
        |base: &Path| SHARES.map(|share| base.join(share)).into_iter().find(|share| is_share(product, share));
    let placed = above.chain([base.clone()]).find_map(|base| Some((of(&base)?, base)));
    let (share, base) = placed.ok_or_else(|| {
        failed(format!(
            "there are no files for its system tables in the folder above it, nor in {}",
            base.display()
        ))
    })?;
    let plugin_dir = plugin_folder(&base).or(variables.path("plugin-dir"));
    Ok(Installation {
        product,
        is_own: true,
        version,
        plugin_dir: plugin_dir.unwrap_or_else(|| base.join(PLUGINS[0])),
        daemon,
        base,
        share,
        libraries: None,
        loader: None,
    })
}

/// What a program lists as the values of its options.
struct Variables(String);

impl Variables {
    fn of(daemon: &Path) -> Result<Variables, String> {
        let mut command = Command::new(daemon);
        command.arg("--no-defaults");
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        let output = command.args(["--verbose", "--help"]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        Ok(Variables(String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// The value of an option that is a path.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let mut values = self.0.lines().filter_map(|line| line.split_once(char::is_whitespace));
        let (_, value) = values.find(|(option, _)| *option == name)?;
        Some(PathBuf::from(value.trim())).filter(|path| path.is_absolute())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Variables;

    #[test]
    fn a_path_is_read_from_what_a_program_prints() {
        let text = "  -b, --basedir=name  Path to installation\n\nbasedir      /opt/my sql/\nplugin-dir   (No default value)\n";
        let printed = Variables(text.to_owned());
        assert_eq!(printed.path("basedir"), Some(PathBuf::from("/opt/my sql/")));
        assert_eq!((printed.path("plugin-dir"), printed.path("datadir")), (None, None));
    }
}
