"""Asks an engine what a server was asked, of the tables of Iceberg in a warehouse, and compares the answers.

read.py ENGINE FOLDER [LAKE], with FOLDER/questions.json: a list of {"sql", "table", "answer"}, where {t} in the SQL
stands for the table, and the answer is a list of rows of texts. LAKE is the warehouse, or else FOLDER/lake. The environment names what the
engines need: REMORA_SPARK_JAR, REMORA_TRINO and REMORA_TRINO_JAVA.
"""

import datetime
import decimal
import json
import os
import pathlib
import re
import sys

# No sum has more digits than that.
decimal.getcontext().prec = 100


def plain(value):
    """A value as text that does not depend on who prints it."""
    if value is None or value == "NULL":
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    try:
        number = decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        # A time shows as many digits of a second as its engine likes.
        return re.sub(r"(:\d\d)(\.\d*?)0*$", lambda found: found[1] + found[2].rstrip("."), str(value))
    return f"{number.normalize():f}"


def duckdb_session():
    import duckdb

    session = duckdb.connect()
    for name in ["avro", "iceberg"]:
        package = pathlib.Path(__import__(f"duckdb_extension_{name}").__file__).parent
        [file] = package.glob(f"extensions/*/{name}.duckdb_extension")
        session.execute(f"LOAD '{file}'")
    return session


class DuckDb:
    def __init__(self, lake):
        self.lake, self.session = lake, duckdb_session()

    def ask(self, sql, table):
        place = f"iceberg_scan('{self.lake}/{table.replace('.', '/')}')"
        return self.session.execute(sql.replace("{t}", place)).fetchall()


class PyIceberg:
    """It has no SQL: what it reads is asked with DuckDB, and what it filters is counted."""

    def __init__(self, lake):
        self.lake, self.session = lake, duckdb_session()

    def ask(self, sql, table):
        from pyiceberg.table import StaticTable

        names = {
            "s3.endpoint": "AWS_ENDPOINT_URL",
            "s3.access-key-id": "AWS_ACCESS_KEY_ID",
            "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
            "s3.region": "AWS_REGION",
        }
        store = {name: os.environ[variable] for name, variable in names.items() if variable in os.environ}
        scanned = StaticTable.from_metadata(f"{self.lake}/{table.replace('.', '/')}", store)
        begin = "SELECT count(*) FROM {t} WHERE "
        if sql.startswith(begin + "id ") or sql.startswith(begin + "name "):
            condition = sql.removeprefix(begin).replace("DATE ", "")
            return [(len(scanned.scan(row_filter=condition).to_arrow()),)]
        rows = scanned.scan().to_arrow()
        self.session.register("rows_read", rows)
        return self.session.execute(sql.replace("{t}", "rows_read")).fetchall()


class ClickHouse:
    def __init__(self, lake):
        self.lake = lake

    def ask(self, sql, table):
        import chdb

        place = f"icebergLocal('{self.lake}/{table.replace('.', '/')}')"
        exact = " SETTINGS output_format_json_quote_decimals = 1"
        answer = str(chdb.query(sql.replace("{t}", place) + exact, "JSONCompactEachRow"))
        return [json.loads(line) for line in answer.splitlines()]


class Spark:
    def __init__(self, lake):
        self.session = spark(lake)

    def ask(self, sql, table):
        return [tuple(row) for row in self.session.sql(sql.replace("{t}", f"lake.{quoted(table, '`')}")).collect()]


class Trino:
    def __init__(self, lake):
        import trino_node

        self.lake, self.node, self.known = lake, trino_node.Node(), set()

    def ask(self, sql, table):
        schema, name = table.split(".", 1)
        if table not in self.known:
            self.node.ask(f'CREATE SCHEMA IF NOT EXISTS lake."{schema}"')
            self.node.ask(
                f"CALL lake.system.register_table('{schema}', '{name}', 'file://{self.lake}/{schema}/{name}')"
            )
            self.known.add(table)
        return self.node.ask(sql.replace("{t}", "lake." + quoted(table, '"')))


def quoted(table, quote):
    return ".".join(f"{quote}{part}{quote}" for part in table.split(".", 1))


def spark(lake):
    """A session that has the warehouse as catalogue `lake`."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": os.environ["REMORA_SPARK_JAR"],
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(lake),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


ENGINES = {
    "duckdb": DuckDb,
    "pyiceberg": PyIceberg,
    "clickhouse": ClickHouse,
    "spark": Spark,
    "trino": Trino,
}


def main(name, folder, lake):
    questions = json.loads((folder / "questions.json").read_text())
    engine = ENGINES[name](lake)
    wrong = 0
    for question in questions:
        answer = engine.ask(question["sql"], question["table"])
        found = [[plain(value) for value in row] for row in answer]
        wanted = [[plain(value) for value in row] for row in question["answer"]]
        if found != wanted:
            wrong += 1
            print(f"{name}: {question['sql']} of {question['table']}: {found}, and the server: {wanted}", file=sys.stderr)
    print(f"{name}: {len(questions)} answers, {wrong} wrong")
    sys.exit(1 if wrong or not questions else 0)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[2]).resolve()
    main(sys.argv[1], folder, sys.argv[3] if len(sys.argv) > 3 else folder / "lake")
