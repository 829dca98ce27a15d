//! What is compared: shell lines, each of which writes into the empty folder `out`.

/// Which methods are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Out of the server, or of its files.
    Out,
    /// Other tools.
    Peer,
    /// Into a store.
    Store,
    /// Into the server.
    In,
}

pub(super) const TEXT: &str = "remora dump";
pub(super) const PARQUET: &str = "remora dump --format parquet";
pub(super) const FILES: &str = "remora extract --format parquet";
pub(super) const STORE: &str = "remora dump --format parquet into SeaweedFS";
pub(super) const STORE_FILES: &str = "remora extract --format parquet into SeaweedFS";
pub(super) const IMPORT_TEXT: &str = "remora import of TSV";
pub(super) const IMPORT: &str = "remora import of Parquet";

impl Group {
    pub(super) const ALL: [Group; 4] = [Group::Out, Group::Peer, Group::Store, Group::In];

    pub(super) fn name(self) -> &'static str {
        match self {
            Group::Out => "out",
            Group::Peer => "out, by other tools",
            Group::Store => "into a store",
            Group::In => "in",
        }
    }

    /// The method whose wall time is 1.
    pub(super) fn base(self) -> &'static str {
        match self {
            Group::Out | Group::Peer => TEXT,
            Group::Store => PARQUET,
            Group::In => IMPORT_TEXT,
        }
    }

    pub(super) fn is_ours(self) -> bool {
        self != Group::Peer
    }
}

/// A way to do it. The shell line finds `$REMORA` and its `$LOGIN`, and the server's `$SOCKET` and `$PORT`.
/// Of the table there are `$FILES` (as of a stopped server), their `$SCHEMA`, `$TEXT` and `$PARQUET`. `$PEER`
/// is Python with the peers, `$DRIVER` is for Java, and `$NUMBER` is another one each time.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) group: Group,
    pub(super) line: &'static str,
    /// Where the files are that it writes, in `out`; none in a store or in the server.
    pub(super) files: Option<&'static str>,
}

const fn method(name: &'static str, group: Group, line: &'static str, files: Option<&'static str>) -> Method {
    Method { name, group, line, files }
}

const OURS: Option<&str> = Some("out/dump/bench.nodes/*.parquet");
const THEIRS: Option<&str> = Some("out/*.parquet");

pub(super) static METHODS: [Method; 11] = [
    method(TEXT, Group::Out, "$REMORA dump -q $LOGIN -j 2 bench.nodes -o out/dump", None),
    method(PARQUET, Group::Out, "$REMORA dump -q $LOGIN -j 2 bench.nodes -o out/dump --format parquet", OURS),
    method(
        FILES,
        Group::Out,
        "$REMORA extract -q -j 2 $FILES --schema $SCHEMA -o out/dump --format parquet",
        OURS,
    ),
    method(
        "mariadb-dump --tab, then pyarrow",
        Group::Peer,
        "chmod 777 out && mariadb-dump --no-defaults -uroot -S $SOCKET --tab=$PWD/out bench nodes && $PEER text",
        THEIRS,
    ),
    method("DuckDB, mysql extension", Group::Peer, "$PEER duckdb $SOCKET", THEIRS),
    method("Spark, JDBC, 2 partitions", Group::Peer, "$PEER spark $PORT $DRIVER", THEIRS),
    method("connectorx, 2 partitions, then pyarrow", Group::Peer, "$PEER connectorx $PORT", THEIRS),
    method(
        STORE,
        Group::Store,
        "$REMORA dump -q $LOGIN -j 2 bench.nodes -o s3://bucket/dump-$NUMBER --format parquet",
        None,
    ),
    method(
        STORE_FILES,
        Group::Store,
        "$REMORA extract -q -j 2 $FILES --schema $SCHEMA -o s3://bucket/dump-$NUMBER --format parquet",
        None,
    ),
    method(IMPORT_TEXT, Group::In, "$REMORA import -q $LOGIN --into bench.copy --no-header $TEXT", None),
    method(IMPORT, Group::In, "$REMORA import -q $LOGIN --into bench.copy $PARQUET/*.parquet", None),
];
