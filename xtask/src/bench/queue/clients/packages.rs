//! The programs of the contestants, with the packages that they need: pinned, and in the target folder.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::contestants::{Contestant, Language};
use crate::{root, setup, target};

/// From PyPI.
const PYTHON: [&str; 3] = ["celery[redis]==5.7.0", "PyMySQL==1.2.4", "pgmq==1.1.4"];

/// From npm.
const NODE: [&str; 3] = ["bullmq@6.7.0", "ioredis@5.11.1", "mysql2@3.24.6"];

/// From Debian: a program or file, and its package.
const PHP: [(&str, &str); 5] = [
    ("php", "php-cli"),
    ("/usr/share/doc/php-mysql/copyright", "php-mysql"),
    ("/usr/share/php/Illuminate/Queue/autoload.php", "php-illuminate-queue"),
    ("/usr/share/php/Illuminate/Events/autoload.php", "php-illuminate-events"),
    ("/usr/share/php/Illuminate/Database/autoload.php", "php-illuminate-database"),
];
const RUBY: [(&str, &str); 2] = [("ruby", "ruby"), ("/usr/lib/ruby/vendor_ruby/mysql2.rb", "ruby-mysql2")];

/// Where the programs are, and what was installed for them.
pub(super) struct Packages {
    sources: PathBuf,
    folder: PathBuf,
    brought: RefCell<Vec<Language>>,
}

impl Packages {
    pub(super) fn new() -> Result<Packages> {
        let folder = target().join("bench-clients");
        std::fs::create_dir_all(&folder)?;
        // Commands run in other folders.
        let folder = folder.canonicalize()?;
        Ok(Packages {
            sources: root().join("xtask/src/bench/queue/clients"),
            folder,
            brought: RefCell::default(),
        })
    }

    /// Installs what the programs in a language need, unless it is there.
    pub(super) fn bring(&self, language: Language) -> Result<()> {
        if self.brought.borrow().contains(&language) {
            return Ok(());
        }
        match language {
            Language::Python => self.bring_python()?,
            Language::Node => self.bring_node()?,
            Language::Go => self.bring_go()?,
            Language::Php => setup::install(&PHP)?,
            Language::Ruby => setup::install(&RUBY)?,
        }
        self.brought.borrow_mut().push(language);
        Ok(())
    }

    fn bring_python(&self) -> Result<()> {
        let (folder, python) = (self.folder.join("python"), self.folder.join("python/bin/python"));
        // A list that has changed is installed again.
        let (list, kept) = (PYTHON.join(" "), folder.join("packages"));
        if std::fs::read_to_string(&kept).is_ok_and(|kept| kept == list) {
            return Ok(());
        }
        crate::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        crate::run(Command::new(python).args(["-m", "pip", "install", "--quiet"]).args(PYTHON))?;
        Ok(std::fs::write(kept, list)?)
    }

    /// Node looks for packages above the programs, so these are copied.
    fn bring_node(&self) -> Result<()> {
        let folder = self.folder.join("node");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("package.json"), "{\"type\": \"module\"}\n")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--install-links"])
            .args(NODE);
        crate::run(npm.arg(root().join("clients/node")).current_dir(&folder))?;
        for program in ["contestant.js", "ours.js", "bullmq.js"] {
            std::fs::copy(self.sources.join(program), folder.join(program)).context(program)?;
        }
        Ok(())
    }

    fn bring_go(&self) -> Result<()> {
        let mut go = Command::new("go");
        go.args(["build", "-buildvcs=false", "-o"]).arg(self.folder.join("contestant")).arg(".");
        crate::run(go.current_dir(self.sources.join("go")))
    }

    /// A contestant's program.
    pub(super) fn command(&self, contestant: &Contestant) -> Command {
        let clients = root().join("clients");
        let with = |program: &Path, folder: &Path| {
            let mut command = Command::new(program);
            command.arg(folder.join(contestant.program)).current_dir(folder);
            command
        };
        match contestant.language {
            Language::Python => {
                let mut command = with(&self.folder.join("python/bin/python"), &self.sources);
                command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", clients.join("python/src"));
                command
            }
            Language::Node => with(Path::new("node"), &self.folder.join("node")),
            Language::Go => {
                let mut command = Command::new(self.folder.join("contestant"));
                command.arg(contestant.program);
                command
            }
            Language::Php => {
                let mut command = with(Path::new("php"), &self.sources);
                command.env("BENCH_CLIENT", clients.join("php/src"));
                command
            }
            Language::Ruby => {
                let mut command = with(Path::new("ruby"), &self.sources);
                command.env("RUBYLIB", clients.join("ruby/lib"));
                command
            }
        }
    }
}
