"""Reads a dump of Parquet with three readers, and compares what they make of it with what was stored."""

import decimal
import glob
import sys

import duckdb
import polars
import pyarrow.parquet

from parquet_values import EXPECTED

folder = sys.argv[1]
number = decimal.Decimal


def duck(table):
    connection = duckdb.connect()
    connection.sql("SET TimeZone = 'UTC'")
    # Else a geometry is one of DuckDB's own, whose library is not part of it.
    connection.sql("SET enable_geoparquet_conversion = false")
    rows = connection.sql(f"SELECT * FROM '{folder}/{table}/*.parquet' ORDER BY 1")
    return [dict(zip(rows.columns, row)) for row in rows.fetchall()]


def arrow(table):
    rows = []
    for path in sorted(glob.glob(f"{folder}/{table}/*.parquet")):
        rows += pyarrow.parquet.read_table(path).to_pylist()
    return rows


def polar(table):
    return polars.read_parquet(f"{folder}/{table}").to_dicts()


for name, read in [("DuckDB", duck), ("pyarrow", arrow), ("polars", polar)]:
    first, second, third = read("d.values")
    assert list(first) == list(EXPECTED), (name, list(first))
    for column, expected in EXPECTED.items():
        found = first[column]
        assert found == expected and type(found) is type(expected), (name, column, found, expected)
    # Dates of zeros are beside the file. Zeros and empty text are not NULL.
    assert second["day"] is None and second["time"] is None, (name, second)
    assert (second["small"], second["text"], second["flag"]) == (0, "", False), (name, second)
    assert all(value is None for column, value in third.items() if column != "id"), (name, third)
    rows = read("d.many")
    found = (len(rows), sum(row["lat"] for row in rows), len({row["name"] for row in rows}))
    assert found == (20000, number(sys.argv[2]), 500), (name, found)

# Rows in the order of a numeric key say so, and ids are stored as differences.
for path in glob.glob(f"{folder}/d.many/*.parquet"):
    group = pyarrow.parquet.read_metadata(path).row_group(0)
    assert [column.column_index for column in group.sorting_columns] == [0], group.sorting_columns
    assert "DELTA_BINARY_PACKED" in group.column(0).encodings, group.column(0)
