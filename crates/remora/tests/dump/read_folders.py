"""Reads folders that are named for a column's values, and compares what each library makes of them with what the
manual says. Also reads Bloom filters."""

import datetime

import duckdb
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

days = [datetime.date(2026, 11, 28), datetime.date(2026, 11, 29), None]
codes = ["007", "008", "009"]
numbers = [-1, 0, 1]
texts = ["a/b", "%", "ü :"]


def compare(who, found, wanted):
    """Of rows in the order of their id: each third has the same value."""
    assert found == [wanted[at % 3] for at in range(len(found))], (who, found[:6], wanted)
    assert len(found) in (3, 3000), (who, len(found))


def by_duckdb(folder, column, options=""):
    sql = f"SELECT {column} FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true{options}) ORDER BY id"
    return [row[0] for row in duckdb.sql(sql).fetchall()]


def by_polars(folder, column, **options):
    return polars.scan_parquet(f"{folder}/", hive_partitioning=True, **options).sort("id").collect()[column].to_list()


def by_pyarrow(folder, column, partitioning="hive"):
    table = pyarrow.dataset.dataset(folder, partitioning=partitioning).to_table()
    return table.sort_by("id")[column].to_pylist()


def hive(column, kind):
    return pyarrow.dataset.partitioning(pyarrow.schema([(column, kind)]), flavor="hive")


compare("DuckDB", by_duckdb("day/d.t", "day"), days)
compare("polars", by_polars("day/d.t", "day"), days)
compare("pyarrow", by_pyarrow("day/d.t", "day"), [day and str(day) for day in days])
compare("pyarrow", by_pyarrow("day/d.t", "day", hive("day", pyarrow.date32())), days)
for who, found in [("DuckDB", by_duckdb), ("polars", by_polars), ("pyarrow", by_pyarrow)]:
    compare(who, found("n/d.t", "n"), numbers)
    compare(who, found("code/d.texts", "code"), texts)
# Text that looks like a number stays text in DuckDB. The others have to be told.
compare("DuckDB", by_duckdb("code/d.t", "code"), codes)
compare("polars", by_polars("code/d.t", "code"), [7, 8, 9])
compare("polars", by_polars("code/d.t", "code", hive_schema={"code": polars.String}), codes)
compare("pyarrow", by_pyarrow("code/d.t", "code"), [7, 8, 9])
compare("pyarrow", by_pyarrow("code/d.t", "code", hive("code", pyarrow.string())), codes)

# Each file has a filter, which DuckDB asks.
files = "day/d.t/*/*.parquet"
filters = duckdb.sql(f"SELECT path_in_schema, bloom_filter_length FROM parquet_metadata('{files}')").fetchall()
assert {name for name, length in filters if length} == {"name"}, filters
# A byte or two for each of a thousand names.
assert all(1000 <= length <= 4096 for name, length in filters if length), filters
probe = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{files}', 'name', 'name %s')"
assert {row[0] for row in duckdb.sql(probe % "none").fetchall()} == {True}
assert sorted(row[0] for row in duckdb.sql(probe % "1").fetchall()) == [False, True, True]
assert duckdb.sql(f"SELECT id FROM '{files}' WHERE name = 'name 77'").fetchall() == [(77,)]

# Numbers that are split into their bytes.
measured = "new/d.measured/00000.parquet"
group = pyarrow.parquet.ParquetFile(measured).metadata.row_group(0)
assert all("BYTE_STREAM_SPLIT" in group.column(at).encodings for at in (1, 2)), group.column(1).encodings
table = pyarrow.parquet.read_table(measured)
wanted = [table[name].to_pylist() for name in ("id", "f", "x")]
assert len(wanted[0]) == 20000 and abs(wanted[2][0] - 20.0001111) < 1e-6
assert polars.read_parquet(measured).get_columns()[1].to_list() == wanted[1]
assert [row[0] for row in duckdb.sql(f"SELECT x FROM '{measured}' ORDER BY id").fetchall()] == wanted[2]
