"""Jobs in a queue of MariaDB: what the other examples share.

A job is a function that is called later, by a worker. @job gives it a name, and .later() puts a call of it into
the queue, on the caller's connection: if the queue is TRANSACTIONAL, the call exists if the transaction commits.
"""

import contextlib
import json
import threading

from sqlalchemy import create_engine, text

TABLES = [
    """CREATE TABLE IF NOT EXISTS failed_jobs (name VARCHAR(100), arguments TEXT, at TIMESTAMP(3) NULL,
         failed INT NULL, why TEXT NULL) ENGINE=QUEUE FAILED=failed WHY=why""",
    """CREATE TABLE IF NOT EXISTS jobs (name VARCHAR(100), arguments TEXT, at TIMESTAMP(3) NULL)
         ENGINE=QUEUE TRANSACTIONAL=1 DUE=at TRIES=5 BACKOFF='10,2,3600' DEAD='failed_jobs'""",
]

functions = {}


def connect(url, size=4):
    """A pool of connections."""
    return create_engine(url, pool_size=size, max_overflow=0, pool_pre_ping=True, future=True)


def prepare(engine, tables):
    """Makes what is not there yet."""
    with alone(engine) as connection:
        for table in tables:
            connection.execute(text(table))


def alone(engine):
    """A connection on which each statement is a transaction of its own."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def job(function):
    """A function that workers call. Its arguments must be what JSON can hold."""

    def later(connection, *arguments, delay=0):
        connection.execute(
            text("INSERT INTO jobs VALUES (:name, :arguments, NOW(3) + INTERVAL :delay SECOND)"),
            {"name": function.__name__, "arguments": json.dumps(arguments), "delay": delay},
        )

    functions[function.__name__] = function
    function.later = later
    return function


def call(engine, sql, **values):
    """The value of one function, on any connection of the pool. The connection is back before this returns."""
    with alone(engine) as connection:
        value = connection.execute(text("SELECT " + sql), values).scalar()
        if value is None:
            warnings = connection.execute(text("SHOW WARNINGS")).fetchall()
            raise RuntimeError("; ".join(warning[2] for warning in warnings) or sql)
        return value


def lease(engine, table, rows=1, seconds=30, wait=5):
    """Up to so many rows, each with its token. Empty if none came while it waited."""
    found = call(
        engine, "queue_lease_json(:seconds, :rows, :table, :wait)", seconds=seconds, rows=rows, table=table, wait=wait
    )
    return json.loads(found)


def fence(token):
    """A number that only grows. What a worker writes to can refuse one that is smaller than the last it saw."""
    return int(token.rpartition(":")[2].partition("-")[0])


@contextlib.contextmanager
def extended(engine, token, seconds=30):
    """Goes on with a lease as long as the work goes on."""
    done = threading.Event()

    def extend():
        while not done.wait(seconds / 3):
            call(engine, "queue_extend(:token, :seconds)", token=token, seconds=seconds)

    thread = threading.Thread(target=extend, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def work(engine, table, run, seconds=30, wait=5):
    """Leases one row, and runs it. False if there was none.

    The work may be done twice: when it took longer than the lease, and when a worker dies after the work and
    before the end of the row. So run() gets a number by which the later one is known.
    """
    found = lease(engine, table, seconds=seconds, wait=wait)
    for message in found:
        token = message["token"]
        try:
            with extended(engine, token, seconds):
                run(message["row"], fence(token))
        except Exception as error:
            call(engine, "queue_nack(:token, NULL, :why)", token=token, why=f"{type(error).__name__}: {error}"[:1000])
        else:
            call(engine, "queue_ack(:token)", token=token)
    return bool(found)


def run_job(row, number):
    functions[row["name"]](*json.loads(row["arguments"]))
