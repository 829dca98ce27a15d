"""Asks an engine one query several times: ask.py ENGINE ROUNDS QUERY FOLDER. Prints a line of JSON.

FOLDER/dump is a dump of Parquet, FOLDER/lake has the same as a table of Iceberg.
"""

import json
import os
import sys
import time

from read import plain

name, rounds, query, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
files = f"{folder}/dump/shop.sales/*.parquet"
lake = f"{folder}/lake"
TICKS = os.sysconf("SC_CLK_TCK")


def age():
    """Seconds since this process was started, with the time that Python itself has taken."""
    started = int(open("/proc/self/stat").read().rsplit(") ", 1)[1].split()[19]) / TICKS
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def duckdb():
    import duckdb

    session = duckdb.connect()
    return duckdb.__version__, lambda: session.execute(query.replace("{t}", f"'{files}'")).fetchall()


def duckdb_iceberg():
    import duckdb
    from read import DuckDb

    return duckdb.__version__, lambda engine=DuckDb(lake): engine.ask(query, "shop.sales")


def polars():
    import polars

    def ask():
        frame = polars.scan_parquet(files)
        sums = [polars.len(), polars.col("quantity").sum(), polars.col("price").sum()]
        return frame.group_by("product").agg(n=sums[0], quantity=sums[1], total=sums[2]).sort("product").collect().rows()

    return polars.__version__, ask


def chdb(place):
    import chdb

    def ask():
        answer = str(chdb.query(query.replace("{t}", place), "JSONCompactEachRow"))
        return [json.loads(line) for line in answer.splitlines()]

    return str(chdb.query("SELECT version()", "TabSeparated")).strip(), ask


def spark(place):
    import read

    session = read.spark(lake)
    return session.version, lambda: [tuple(row) for row in session.sql(query.replace("{t}", place)).collect()]


def trino():
    from read import Trino

    engine = Trino(lake)
    return engine.node.ask("SELECT version()")[0][0], lambda: engine.ask(query, "shop.sales")


ENGINES = {
    "duckdb": duckdb,
    "duckdb-iceberg": duckdb_iceberg,
    "polars": polars,
    "chdb": lambda: chdb(f"file('{files}')"),
    "chdb-iceberg": lambda: chdb(f"icebergLocal('{lake}/shop/sales')"),
    "spark": lambda: spark(f"parquet.`{folder}/dump/shop.sales`"),
    "spark-iceberg": lambda: spark("lake.shop.sales"),
    "trino": trino,
}
version, ask = ENGINES[name]()
rows = ask()
first_s, again_s = age(), []
for _ in range(rounds):
    began = time.monotonic()
    rows = ask()
    again_s.append(time.monotonic() - began)
rows = [[plain(value) for value in row] for row in rows]
print(json.dumps({"version": version, "rows": rows, "first_s": first_s, "again_s": again_s}))
