"""A database of its own for each class of tests, on the server that REMORA_QUEUE_SOCKET names."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import pymysql

SOCKET = os.environ["REMORA_QUEUE_SOCKET"]

# Reading the certificates takes most of the time of a connection.
SERVER = {"unix_socket": SOCKET, "user": "root", "ssl_disabled": True}

# Longer than anything takes that works. What does not work would take for ever.
PATIENCE = float(os.environ.get("REMORA_QUEUE_PATIENCE", "60"))


def until(what: str, ready: Any) -> None:
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        time.sleep(0.03)


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
        return pymysql.connect(**SERVER, database=self.database)

    def run_sql(self, sql: str, *values: Any) -> Any:
        """Runs a statement on a connection that this thread keeps; all rows."""
        if not hasattr(self, "_local"):
            self._local = threading.local()
        if not hasattr(self._local, "cursor"):
            self._local.cursor = self.connect(autocommit=True).cursor()
        self._local.cursor.execute(sql, values or None)
        return list(self._local.cursor.fetchall())

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
