"""Reads folders that are named for a column's values with Spark and with ClickHouse."""

import datetime
import json

import chdb
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC")
spark = session.config("spark.ui.enabled", "false").getOrCreate()


def by_spark(folder, column):
    rows = spark.read.parquet(folder).orderBy("id").limit(3).collect()
    return [row[column] for row in rows]


assert by_spark("day/d.t", "day") == [datetime.date(2026, 11, 28), datetime.date(2026, 11, 29), None]
assert by_spark("n/d.t", "n") == [-1, 0, 1]
assert by_spark("code/d.texts", "code") == ["a/b", "%", "ü :"]
assert by_spark("code/d.t", "code") == [7, 8, 9]
spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
assert by_spark("code/d.t", "code") == ["007", "008", "009"]
assert spark.read.parquet("day/d.t").where("name = 'name 77'").select("id").collect()[0][0] == 77


def by_clickhouse(folder, column):
    """It knows neither the word for NULL nor the escapes."""
    sql = f"SELECT {column} FROM file('{folder}/*/*.parquet') WHERE id < 3 ORDER BY id SETTINGS use_hive_partitioning = 1"
    return [json.loads(line)[0] for line in str(chdb.query(sql, "JSONCompactEachRow")).splitlines()]


assert by_clickhouse("n/d.t", "n") == [-1, 0, 1]
assert by_clickhouse("code/d.texts", "code") == ["a%2Fb", "%25", "ü %3A"]

measured = chdb.query("SELECT count(), round(sum(x), 3) - round(sum(f), 3) < 1 FROM file('new/d.measured/*.parquet')", "CSV")
assert str(measured).strip() == "20000,1", measured
