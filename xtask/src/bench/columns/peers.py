# Other tools that make Parquet of the table, for `cargo xtask bench columns`; each writes into the folder `out`.
import glob, os, sys

COLUMNS = {
    "id": "BIGINT",
    "lat": "DECIMAL(9,7)",
    "lon": "DECIMAL(10,7)",
    "version": "INTEGER",
    "timestamp": "TIMESTAMP",
    "changeset": "BIGINT",
    "uid": "BIGINT",
    "user": "VARCHAR",
}


def text():
    """What the server wrote as text, with types given by hand."""
    import pyarrow as pa, pyarrow.csv as csv, pyarrow.parquet as pq

    types = dict(zip(COLUMNS, [
        pa.int64(), pa.decimal128(9, 7), pa.decimal128(10, 7), pa.int32(), pa.timestamp("us"), pa.int64(), pa.int64(), pa.string(),
    ]))
    rows = csv.open_csv(
        "out/nodes.txt",
        read_options=csv.ReadOptions(column_names=list(COLUMNS), block_size=16 << 20),
        parse_options=csv.ParseOptions(delimiter="\t"),
        convert_options=csv.ConvertOptions(column_types=types, null_values=["\\N"]),
    )
    with pq.ParquetWriter("out/nodes.parquet", rows.schema, compression="zstd", compression_level=3) as out:
        for batch in rows:
            out.write_batch(batch)


def duckdb(socket):
    import duckdb, duckdb_extension_mysql_scanner as extension

    file = glob.glob(os.path.dirname(extension.__file__) + "/**/*.duckdb_extension*", recursive=True)[0]
    con = duckdb.connect(config={"threads": 2})
    con.execute(f"LOAD '{file}'")
    con.execute(f"ATTACH 'socket={socket} user=root database=bench' AS server (TYPE mysql, READ_ONLY)")
    con.execute("COPY server.bench.nodes TO 'out/nodes.parquet' (FORMAT parquet, COMPRESSION zstd)")


def bounds(port):
    """The least and the largest id, which Spark wants to be told."""
    import connectorx as cx

    row = cx.read_sql(f"mysql://peer@127.0.0.1:{port}/bench", "SELECT MIN(id) a, MAX(id) b FROM nodes", return_type="arrow")
    return row["a"][0].as_py(), row["b"][0].as_py()


def spark(port, driver):
    from pyspark.sql import SparkSession

    low, high = bounds(port)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", driver).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "2g")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # By the other name of the protocol Spark quotes names as the server does.
    url = f"jdbc:mysql://127.0.0.1:{port}/bench?permitMysqlScheme=true"
    rows = spark.read.format("jdbc").option("url", url).option("driver", "org.mariadb.jdbc.Driver").option("user", "peer")
    rows = rows.option("dbtable", "nodes").option("fetchsize", 10000).option("partitionColumn", "id").option("numPartitions", 2)
    rows = rows.option("lowerBound", low).option("upperBound", high).load()
    rows.write.option("compression", "zstd").mode("append").parquet("out")
    java = spark.sparkContext._gateway.proc
    spark.stop()
    # Its processor time counts only if somebody waits for its end.
    java.stdin.close()
    java.wait()


def connectorx(port):
    import connectorx as cx, pyarrow.parquet as pq

    url = f"mysql://peer@127.0.0.1:{port}/bench"
    table = cx.read_sql(url, "SELECT * FROM nodes", partition_on="id", partition_num=2, return_type="arrow")
    pq.write_table(table, "out/nodes.parquet", compression="zstd", compression_level=3)


def compare(file, pattern):
    """Prints the columns that have other values, or another type that does not hold them exactly."""
    import duckdb

    con = duckdb.connect()
    con.execute("SET timezone = 'UTC'")
    files = sorted(glob.glob(pattern))
    con.execute(f"CREATE VIEW found AS SELECT * FROM read_parquet({files})")
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
    con.execute(
        f"CREATE VIEW wanted AS SELECT * FROM read_csv('{file}', columns = {{{columns}}}, delim = '\t', header = false, quote = '')"
    )
    types = {name: kind for name, kind, *_ in con.execute("DESCRIBE found").fetchall()}
    assert list(types) == list(COLUMNS), types

    def sums(view, exact):
        def text(name):
            if name == "timestamp":
                return f"epoch_us({name})"
            # What is no longer a decimal is compared as the number that it still is.
            return f'"{name}"' if exact or COLUMNS[name][:7] != "DECIMAL" else f'"{name}"::DOUBLE'

        all = ", ".join(f"sum(hash({text(name)}::VARCHAR || id::VARCHAR))" for name in COLUMNS)
        return con.execute(f"SELECT count(*), {all} FROM {view}").fetchone()

    exact = sums("wanted", True), sums("found", True)
    close = sums("wanted", False), sums("found", False)
    assert exact[0][0] == exact[1][0], ("rows", exact[0][0], exact[1][0])
    notes = []
    for at, name in enumerate(COLUMNS, 1):
        if exact[0][at] != exact[1][at]:
            same = "" if close[0][at] == close[1][at] else ", other values"
            notes.append(f"{name} is {types[name]}{same}")
    print("; ".join(notes))


def versions():
    from importlib.metadata import version

    packages = ["pyarrow", "duckdb", "connectorx", "pyspark"]
    print(", ".join(f"{package} {version(package)}" for package in packages))


globals()[sys.argv[1]](*sys.argv[2:])
