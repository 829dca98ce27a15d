"""Reads a dump of Parquet with Spark and with ClickHouse, and compares what they make of it with what was stored."""

import datetime
import decimal
import json
import sys

import chdb
from pyspark.sql import SparkSession

from parquet_values import EXPECTED

folder, lat = sys.argv[1], decimal.Decimal(sys.argv[2])

session = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC")
spark = session.config("spark.ui.enabled", "false").getOrCreate()
first, second, third = (row.asDict() for row in spark.read.parquet(f"{folder}/d.values").orderBy("id").collect())
assert list(first) == list(EXPECTED), list(first)
for column, expected in EXPECTED.items():
    found = first[column]
    if isinstance(found, bytearray):
        found = bytes(found)
    if isinstance(expected, datetime.datetime):
        # Spark gives times without a zone, in that of the process: UTC.
        expected = expected.replace(tzinfo=None)
    assert found == expected, (column, found, expected)
assert (second["day"], second["small"], second["text"], second["flag"]) == (None, 0, "", False), second
assert all(value is None for column, value in third.items() if column != "id"), third
many = spark.read.parquet(f"{folder}/d.many").selectExpr("count(*)", "sum(lat)", "count(distinct name)")
assert tuple(many.first()) == (20000, lat, 500), many.first()


def clickhouse(columns, table):
    """Rows, each value as text."""
    texts = ", ".join(f"toString({column})" for column in columns)
    sql = f"SELECT {texts} FROM file('{folder}/{table}/*.parquet') ORDER BY 1"
    return [json.loads(line) for line in str(chdb.query(sql, "JSONCompactEachRow")).splitlines()]


# Bytes are no text.
columns = [column for column, value in EXPECTED.items() if not isinstance(value, bytes)]
first, second, third = clickhouse([f"`{column}`" for column in columns], "d.values")
for column, found in zip(columns, first):
    expected = EXPECTED[column]
    if isinstance(expected, bool):
        same = found == str(expected).lower()
    elif isinstance(expected, datetime.datetime):
        same = datetime.datetime.fromisoformat(found) == expected.replace(tzinfo=None)
    elif isinstance(expected, decimal.Decimal):
        same = decimal.Decimal(found) == expected
    elif isinstance(expected, float):
        same = abs(float(found) - expected) <= 1e-7 * expected
    else:
        same = found == str(expected)
    assert same, (column, found, expected)
assert all(value is None for column, value in zip(columns, third) if column != "id"), third
[[rows, total, names]] = clickhouse(["count()", "sum(lat)", "uniqExact(name)"], "d.many")
assert (rows, decimal.Decimal(total), names) == ("20000", lat, "500"), (rows, total, names)
