//! What is measured.

use anyhow::Result;

use super::point::Point;
use super::prepare;
use super::stage::{Action, Stage};

/// A server of a series: its options.
pub(super) type Options = &'static [&'static str];

/// Commands, and what grows.
pub(super) struct Series {
    /// One word, also of its plot.
    pub(super) name: &'static str,
    /// What is counted.
    pub(super) unit: &'static str,
    pub(super) sizes: &'static [u64],
    /// Sizes of `--full`.
    pub(super) further: &'static [u64],
    /// The server's options, if there is one.
    pub(super) server: Option<Options>,
    /// Whether the server has ENGINE=QUEUE.
    pub(super) needs_engine: bool,
    /// Makes what a size means. It is not measured.
    pub(super) prepare: fn(&Stage, u64) -> Result<()>,
    /// Run one after the other, in the same folder.
    pub(super) steps: &'static [Step],
}

/// A command.
pub(super) struct Step {
    pub(super) name: &'static str,
    /// A shell line that goes before and is not measured.
    pub(super) before: &'static str,
    pub(super) action: Action,
}

impl Series {
    /// The points of each step, in their order.
    pub(super) fn by_step<'a>(&self, points: &'a [Point]) -> Vec<(&'static str, Vec<&'a Point>)> {
        let of = |name| (name, points.iter().filter(|point| point.step == name).collect());
        self.steps.iter().map(|step| of(step.name)).collect()
    }
}

const fn step(name: &'static str, line: &'static str) -> Step {
    Step { name, before: "true", action: Action::Line(line) }
}

const fn step_after(before: &'static str, name: &'static str, line: &'static str) -> Step {
    Step { name, before, action: Action::Line(line) }
}

const PLAIN: Options = &[
    "--innodb-buffer-pool-size=2G",
    "--innodb-log-file-size=1G",
    "--innodb-flush-log-at-trx-commit=2",
    "--max-allowed-packet=1G",
    "--skip-log-bin",
];

/// Tables are opened again and again by everybody, and this is not what is compared.
const MANY_TABLES: Options = &[
    "--innodb-buffer-pool-size=2G",
    "--innodb-log-file-size=1G",
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-log-bin",
];

const LOGGED: Options = &[
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=1G",
    "--innodb-flush-log-at-trx-commit=0",
    "--log-bin=binlog",
    "--server-id=7",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
];

const DUMP: &str = "$REMORA dump scale -o dump -q $LOGIN";
const DIFF: &str = "$REMORA diff dump $URL --only 'scale.*' --no-users -q $LOGIN";
const LOAD: &str = "$REMORA load dump -q $LOGIN";
const DROP: &str = "$SQL -e 'DROP DATABASE scale'";
const PEER: &str = "mariadb-dump $LOGIN --max-allowed-packet=1G --single-transaction --quick --databases scale | zstd -1 -q > dump.sql.zst";
const TIDY: &str = "rm -rf dump.sql.zst dump parquet text repo restored";

pub(super) static SERIES: [Series; 9] = [
    Series {
        name: "rows",
        unit: "rows",
        sizes: &[10_000, 100_000, 1_000_000, 10_000_000],
        further: &[100_000_000],
        server: Some(PLAIN),
        needs_engine: false,
        prepare: prepare::rows,
        steps: &[
            step("import", "$REMORA import nodes.tsv --into scale.nodes --no-header -q $LOGIN"),
            step("mariadb-dump, piped to zstd -1", PEER),
            step_after(
                TIDY,
                "dump --format parquet",
                "$REMORA dump scale -o parquet --format parquet -q $LOGIN",
            ),
            step_after(TIDY, "dump", DUMP),
            step("diff", DIFF),
            step_after(
                r"printf 'FLUSH TABLES scale.nodes FOR EXPORT;\n\! cp %s/scale/nodes.* .\n' $DATA | $SQL",
                "extract",
                "$REMORA extract nodes.ibd -o text.tsv -q",
            ),
            step_after(
                "rm -f text.tsv nodes.ibd nodes.cfg",
                "backup",
                "$REMORA backup mysql:$SOCKET --to repo --way copy --name s -q $LOGIN",
            ),
            step("backup again", "$REMORA backup mysql:$SOCKET --to repo --way copy --name s -q $LOGIN"),
            step("restore", "$REMORA restore repo/s --to restored -q"),
            step_after("rm -rf repo restored; $SQL -e 'DROP DATABASE scale'", "load", LOAD),
        ],
    },
    Series {
        name: "tables",
        unit: "tables",
        sizes: &[1, 10, 100, 1_000, 5_000],
        further: &[20_000],
        server: Some(MANY_TABLES),
        needs_engine: false,
        prepare: prepare::tables,
        steps: &[
            step("mariadb-dump, piped to zstd -1", PEER),
            step_after(TIDY, "dump", DUMP),
            step("diff", DIFF),
            step("backup", "$REMORA backup mysql:$SOCKET --to repo --way copy --name s -q $LOGIN"),
            step("backup again", "$REMORA backup mysql:$SOCKET --to repo --way copy --name s -q $LOGIN"),
            step("restore", "$REMORA restore repo/s --to restored -q"),
            step_after("rm -rf repo restored; $SQL -e 'DROP DATABASE scale'", "load", LOAD),
        ],
    },
    Series {
        name: "columns",
        unit: "columns, 2,000 rows",
        sizes: &[2, 10, 100, 1_000],
        further: &[],
        server: Some(PLAIN),
        needs_engine: false,
        prepare: prepare::columns,
        steps: &[
            step("mariadb-dump, piped to zstd -1", PEER),
            step_after(
                TIDY,
                "dump --format parquet",
                "$REMORA dump scale -o parquet --format parquet -q $LOGIN",
            ),
            step_after(TIDY, "dump", DUMP),
            step("diff", DIFF),
            step_after(DROP, "load", LOAD),
            step_after(
                "$SQL -N -e 'SELECT * FROM scale.wide' > wide.tsv",
                "import",
                "$REMORA import wide.tsv --into scale.again --create --no-header -q $LOGIN",
            ),
        ],
    },
    Series {
        name: "values",
        unit: "bytes of one value",
        sizes: &[1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000],
        further: &[500_000_000],
        server: Some(PLAIN),
        needs_engine: false,
        prepare: prepare::value,
        steps: &[
            step("mariadb-dump, piped to zstd -1", PEER),
            step_after(
                TIDY,
                "dump --format parquet",
                "$REMORA dump scale -o parquet --format parquet -q $LOGIN",
            ),
            step_after(TIDY, "dump", DUMP),
            step("diff", DIFF),
            step_after(DROP, "load", LOAD),
        ],
    },
    Series {
        name: "volumes",
        unit: "GiB of a volume with 256 MiB in it",
        sizes: &[1, 4, 16, 64],
        further: &[256],
        server: None,
        needs_engine: false,
        prepare: prepare::volume,
        steps: &[
            step("backup", "$REMORA backup file:volume --to repo -q"),
            step("backup again", "$REMORA backup file:volume --to repo -q"),
            step("verify", "$REMORA verify repo -q"),
            step("restore", "$REMORA restore repo/volume --to restored -q"),
        ],
    },
    Series {
        name: "generations",
        unit: "generations of 16 MiB",
        sizes: &[1, 10, 100, 1_000],
        further: &[],
        server: None,
        needs_engine: false,
        prepare: prepare::generations,
        steps: &[
            step("backup", "$REMORA backup file:volume --to repo -q"),
            step("list", "$REMORA list repo"),
            step("restore", "$REMORA restore repo/volume --to restored -q"),
            step("verify", "$REMORA verify repo -q"),
            step("prune to the last one", "$REMORA prune repo/volume --keep-last 1 -q"),
        ],
    },
    Series {
        name: "log",
        unit: "MiB of binary log",
        sizes: &[16, 64, 256, 1_024],
        further: &[4_096, 16_384],
        server: Some(LOGGED),
        needs_engine: false,
        prepare: prepare::log,
        steps: &[
            step("binlog --once", "$REMORA binlog repo/s --once -q $LOGIN"),
            step("log, one transaction", "$REMORA log repo/s --gtid 0-7-9"),
            step("log, one row", "$REMORA log repo/s --where id=77"),
            step("reverse, one transaction", "$REMORA reverse repo/s --gtid 0-7-9 --to undo.sql -q"),
            step("verify", "$REMORA verify repo -q"),
        ],
    },
    Series {
        name: "queue",
        unit: "messages that wait",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        further: &[10_000_000],
        server: Some(PLAIN),
        needs_engine: true,
        prepare: prepare::messages,
        steps: &[
            step("INSERT of 1,000", "$SQL -e 'CALL scale.put(1000)'"),
            step("queue_wait of 1,000", "$SQL -e 'CALL scale.take(1000)'"),
            step("remora queue status", "$REMORA queue status $LOGIN"),
            step("remora queue peek", "$REMORA queue peek scale.q $LOGIN"),
            Step {
                name: "restart after a kill, first queue_wait",
                before: "true",
                action: Action::Restart("$SQL -e 'CALL scale.take(1)'"),
            },
        ],
    },
    Series {
        name: "watched",
        unit: "servers watched, 5 times",
        sizes: &[1, 10, 100],
        further: &[],
        server: Some(&["--innodb-buffer-pool-size=1G", "--max-connections=1000", "--skip-log-bin"]),
        needs_engine: false,
        prepare: prepare::watched,
        steps: &[
            step("stat", "$REMORA stat 1 5 $(cat servers) > shown"),
            step("stat --record", "$REMORA stat 1 5 --record recording $(cat servers) > shown"),
        ],
    },
];
