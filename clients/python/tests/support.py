"""A database of its own for each class of tests, on the server that REMORA_QUEUE_SOCKET names."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql

SOCKET = os.environ["REMORA_QUEUE_SOCKET"]

# Reading the certificates takes most of the time of a connection.
SERVER = {"unix_socket": SOCKET, "user": "root", "ssl_disabled": True}

# The driver of what workers open. The tests themselves ask through PyMySQL.
DRIVER = os.environ.get("REMORA_QUEUE_DRIVER", "pymysql")


def driver_error() -> type[Exception]:
    """What that driver's errors have in common."""
    if DRIVER == "mysqlclient":
        import MySQLdb

        return MySQLdb.Error
    if DRIVER.startswith("connector"):
        import mysql.connector

        return mysql.connector.Error
    return pymysql.MySQLError


def open_by_driver(database: str, path: str = SOCKET, limit: int = 0) -> Any:
    """A connection of that driver, with its own defaults.

    After `limit` seconds without an answer it is closed, where the package can't ask for this later.
    """
    if DRIVER == "pymysql":
        return pymysql.connect(**{**SERVER, "unix_socket": path}, database=database)
    options: dict[str, Any] = {"unix_socket": path, "user": "root", "database": database}
    if DRIVER == "mysqlclient":
        import MySQLdb

        return MySQLdb.connect(**options, read_timeout=limit)
    import mysql.connector

    if DRIVER == "connector" and limit:
        options["read_timeout"] = limit
    return mysql.connector.connect(**options, use_pure=DRIVER == "connector-pure")


# Longer than anything takes that works. What does not work would take for ever.
PATIENCE = float(os.environ.get("REMORA_QUEUE_PATIENCE", "60"))


def until(what: str, ready: Any) -> None:
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        time.sleep(0.03)


class Deadlock:
    """A transaction that changes something. The server ends another one for it that has changed less."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._other = case.connect()
        self._run("DROP TABLE IF EXISTS ballast, locked")
        self._run("CREATE TABLE ballast ENGINE=InnoDB SELECT seq FROM seq_1_to_100")
        self._run("CREATE TABLE locked (n INT PRIMARY KEY, of INT) ENGINE=InnoDB")
        self._run("INSERT INTO locked VALUES (1, 0), (2, 0)")
        self._other.commit()
        self._run("UPDATE ballast SET seq = seq + 1")
        self._run("UPDATE locked SET of = 9 WHERE n = 2")
        wait = "UPDATE locked SET of = 9 WHERE n = 1"
        self._waiting = threading.Thread(target=self._run, args=(wait,), daemon=True)

    # The other transaction calls these with what it has changed.
    FIRST = "UPDATE locked SET of = 1 WHERE n = 1"
    LAST = "UPDATE locked SET of = 1 WHERE n = 2"

    def _run(self, sql: str) -> None:
        self._other.cursor().execute(sql)

    def meet(self) -> None:
        """After FIRST: then LAST is a deadlock."""
        self._waiting.start()
        # Whoever reads innodb_trx more often than each 0.1 s sees the same copy again and again.
        sql = (
            "SELECT variable_value FROM information_schema.global_status "
            "WHERE variable_name = 'Innodb_row_lock_current_waits'"
        )
        until("nobody waits", lambda: int(self._case.value(sql)) > 0)

    def end(self) -> None:
        self._waiting.join(PATIENCE)
        self._other.rollback()


class Gate:
    """Between a driver and the server. What arrives while it is silent is lost, and nothing is closed."""

    def __init__(self, case: Case) -> None:
        self.is_silent = False
        folder = tempfile.TemporaryDirectory()
        case.addCleanup(folder.cleanup)
        self.path = f"{folder.name}/gate"
        self._listens = socket.socket(socket.AF_UNIX)
        self._listens.bind(self.path)
        self._listens.listen()
        case.addCleanup(self._listens.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listens.accept()
                other = socket.socket(socket.AF_UNIX)
                other.connect(SOCKET)
                for ends in ((one, other), (other, one)):
                    threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if not self.is_silent:
                    other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


class Case(unittest.TestCase):
    database: str
    autocommit = True

    @classmethod
    def setUpClass(cls) -> None:
        cls.database = cls.__name__.lower()
        with pymysql.connect(**SERVER) as connection:
            cursor = connection.cursor()
            cursor.execute(f"DROP DATABASE IF EXISTS {cls.database}")
            cursor.execute(f"CREATE DATABASE {cls.database}")

    def connect(self, **options: Any) -> Any:
        connection = pymysql.connect(**SERVER, database=self.database, **options)
        self.addCleanup(lambda: connection.open and connection.close())
        return connection

    def plain(self) -> Any:
        """For those who close what they open."""
        return open_by_driver(self.database)

    def run_sql(self, sql: str, *values: Any) -> Any:
        """Runs a statement on a connection that this thread keeps; all rows."""
        if not hasattr(self, "_local"):
            self._local = threading.local()
        if not hasattr(self._local, "cursor"):
            self._local.cursor = self.connect(autocommit=True).cursor()
        self._local.cursor.execute(sql, values or None)
        return list(self._local.cursor.fetchall())

    def kill(self, number: int) -> None:
        """Ends a connection, if it is still there."""
        try:
            self.run_sql(f"KILL CONNECTION {number}")
        except pymysql.OperationalError as error:
            if error.args[0] != 1094:
                raise

    def value(self, sql: str, *values: Any) -> Any:
        return self.run_sql(sql, *values)[0][0]

    def leased_until(self, table: str) -> Any:
        """When the last lease of a table ends, in seconds; None when there is none. Exact to milliseconds."""
        sql = (
            "SELECT CAST(MAX(UNIX_TIMESTAMP(until)) AS DOUBLE) FROM information_schema.queue_owned"
            " WHERE table_schema = %s AND table_name = %s AND connection_id = 0"
        )
        return self.value(sql, self.database, table)

    def program(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a program of this folder on this database."""
        path = Path(__file__).with_name(name)
        started = subprocess.Popen([sys.executable, "-B", str(path), self.database, *arguments])
        self.addCleanup(lambda: started.poll() is None and (started.kill(), started.wait()))
        return started

    def until_waiting(self, count: int = 1) -> None:
        """Until so many connections wait for a message."""
        sql = (
            "SELECT COUNT(*) FROM information_schema.processlist"
            " WHERE db = %s AND state = 'Waiting in queue_lease'"
        )
        until("nobody waits", lambda: self.value(sql, self.database) == count)
