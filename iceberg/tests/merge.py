"""Merges changes into a table of Iceberg with Spark, as the guide "When one server is not enough" says.

merge.py FOLDER: FOLDER/lake is the warehouse, FOLDER/changes what remora log has written.
"""

import pathlib
import sys

from read import spark

folder = pathlib.Path(sys.argv[1]).resolve()
session = spark(folder / "lake")
session.read.parquet(f"{folder}/changes/shop.orders").createOrReplaceTempView("changes")
session.sql(
    """CREATE OR REPLACE TEMPORARY VIEW latest AS SELECT * FROM (
           SELECT *, row_number() OVER (
               PARTITION BY id ORDER BY _timeline DESC, _log_file DESC, _log_position DESC, _row DESC) AS _place
           FROM changes)
       WHERE _place = 1"""
)
columns = session.table("lake.shop.orders").columns
session.sql(
    f"""MERGE INTO lake.shop.orders AS t USING latest AS s ON t.id = s.id
        WHEN MATCHED AND s._change_type IN ('delete', 'update_preimage') THEN DELETE
        WHEN MATCHED THEN UPDATE SET {", ".join(f"t.`{name}` = s.`{name}`" for name in columns)}
        WHEN NOT MATCHED AND s._change_type IN ('insert', 'update_postimage')
            THEN INSERT ({", ".join(f"`{name}`" for name in columns)})
                 VALUES ({", ".join(f"s.`{name}`" for name in columns)})"""
)
snapshots = session.sql("SELECT count(*) FROM lake.shop.orders.snapshots").first()[0]
print(f"{snapshots} snapshots")
