"""A scheduler without cron: each run of a job publishes the next one, in the transaction of its work.

    scheduler.py URL add NAME MILLISECONDS     once for each job
    scheduler.py URL run [SECONDS]             as many of these as you like, on as many machines

However often schedulers are killed, each job has exactly one run that is to come.
"""

import sys
import time

from sqlalchemy import text

import jobs

TABLES = [
    """CREATE TABLE IF NOT EXISTS run (name VARCHAR(50), every_ms INT, at TIMESTAMP(3) NULL)
         ENGINE=QUEUE TRANSACTIONAL=1 DUE=at""",
    "CREATE TABLE IF NOT EXISTS ran (name VARCHAR(50), at TIMESTAMP(3), KEY (name)) ENGINE=InnoDB",
]

# What was missed while nobody ran is done once, and the next run is after now.
NEXT = """INSERT INTO run VALUES (:name, :every_ms,
    GREATEST(NOW(3), :at + INTERVAL :every_ms * 1000 MICROSECOND))"""


def add(engine, name, every_ms):
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO run VALUES (:name, :ms, NOW(3))"), {"name": name, "ms": every_ms})


def run(engine, seconds):
    end = time.monotonic() + seconds
    with engine.connect() as connection:
        while time.monotonic() < end:
            row = connection.execute(text("SELECT * FROM run WHERE queue_wait('run', 1)")).fetchone()
            if row is not None:
                # The work: here it is noted that it was done.
                connection.execute(text("INSERT INTO ran VALUES (:name, :at)"), {"name": row.name, "at": row.at})
                connection.execute(text(NEXT), dict(row._mapping))
            connection.commit()


if __name__ == "__main__":
    engine = jobs.connect(sys.argv[1])
    jobs.prepare(engine, TABLES)
    if sys.argv[2] == "add":
        add(engine, sys.argv[3], int(sys.argv[4]))
    else:
        run(engine, float(sys.argv[3]) if len(sys.argv) > 3 else 1e9)
