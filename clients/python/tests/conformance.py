"""Runs clients/conformance/steps.tsv through a driver, one of DRIVERS: conformance.py pymysql

The server is at the socket that REMORA_QUEUE_SOCKET names. With REMORA_QUEUE_RESTARTS=1 whoever started this
restarts the server: it is asked with a line on standard output, "stop" or "kill", and answers with a line.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import aiomysql
import pymysql
from pymysql.constants import COMMAND

from remora_queue._errors import number_of

SOCKET = os.environ["REMORA_QUEUE_SOCKET"]
DATABASE = "conformance"
STEPS = Path(__file__).parents[2] / "conformance" / "steps.tsv"
PATIENCE = 60.0

# The command that pools send; neither driver has a call for it.
RESET = 0x1F


def connect(**options: Any) -> Any:
    # Reading the certificates takes most of the time of a connection.
    return pymysql.connect(unix_socket=SOCKET, user="root", ssl_disabled=True, **options)


def errors() -> list[type[Exception]]:
    """What all errors of a driver have in common, of each that is used."""
    found: list[type[Exception]] = [pymysql.err.MySQLError]
    if "MySQLdb" in sys.modules:
        found.append(sys.modules["MySQLdb"].Error)
    if "mysql.connector" in sys.modules:
        found.append(sys.modules["mysql.connector"].Error)
    return found


class PyMySQL:
    """A connection of PyMySQL."""

    def __init__(self) -> None:
        self.connection = pymysql.connect(
            unix_socket=SOCKET, user="root", ssl_disabled=True, database=DATABASE, autocommit=True
        )
        self.id = self.connection.thread_id()

    def run(self, sql: str, values: Any = None, many: bool = False) -> Any:
        """The rows of a statement, or how many it changed."""
        with self.connection.cursor() as cursor:
            (cursor.executemany if many else cursor.execute)(sql, values)
            return cursor.fetchall() if cursor.description else cursor.rowcount

    def call(self, name: str) -> None:
        if name == "reset":
            self.connection._execute_command(RESET, b"")
            self.connection._read_ok_packet()
        else:
            getattr(self.connection, name)()

    def abandon(self, sql: str, waits: Any) -> None:
        """Closes the connection while it waits, as a read timeout does."""
        self.connection._execute_command(COMMAND.COM_QUERY, sql)
        waits()
        self.connection._force_close()

    def close_unread(self, sql: str) -> None:
        self.connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.connection._execute_command(COMMAND.COM_QUERY, sql)
        self.connection._sock.recv(1)
        self.connection._force_close()


class AioMySQL:
    """A connection of aiomysql, in a loop that runs while it is used."""

    loop = asyncio.new_event_loop()

    def __init__(self) -> None:
        self.connection = self._do(
            aiomysql.connect(unix_socket=SOCKET, user="root", db=DATABASE, autocommit=True, charset="utf8mb4")
        )
        self.id = self.connection.thread_id()

    def _do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def run(self, sql: str, values: Any = None, many: bool = False) -> Any:
        async def work() -> Any:
            async with self.connection.cursor() as cursor:
                await (cursor.executemany if many else cursor.execute)(sql, values)
                return await cursor.fetchall() if cursor.description else cursor.rowcount

        return self._do(work())

    def call(self, name: str) -> None:
        async def work() -> None:
            if name == "reset":
                await self.connection._execute_command(RESET, b"")
                await self.connection._read_ok_packet()
            elif name == "close":
                self.connection.close()
            else:
                await getattr(self.connection, name)()

        self._do(work())

    def abandon(self, sql: str, waits: Any) -> None:
        """Cancels the wait, which closes the connection."""

        async def work() -> None:
            task = asyncio.ensure_future(self.connection.query(sql))
            await asyncio.get_running_loop().run_in_executor(None, waits)
            task.cancel()
            await asyncio.wait({task})

        self._do(work())

    def close_unread(self, sql: str) -> None:
        async def work() -> None:
            await self.connection._execute_command(COMMAND.COM_QUERY, sql)
            await self.connection._reader.readexactly(1)
            self.connection.close()

        self._do(work())


class MySQLClient:
    """A connection of mysqlclient."""

    def __init__(self) -> None:
        import MySQLdb

        self.connection = MySQLdb.connect(unix_socket=SOCKET, user="root", database=DATABASE, autocommit=True)
        self.id = self.connection.thread_id()

    def run(self, sql: str, values: Any = None, many: bool = False) -> Any:
        cursor = self.connection.cursor()
        # By default executemany() sends an INSERT for each 64 KiB.
        cursor.max_stmt_length = 1 << 20
        (cursor.executemany if many else cursor.execute)(sql, values)
        return cursor.fetchall() if cursor.description else cursor.rowcount

    def call(self, name: str) -> None:
        if name == "reset":
            # It has no other call that makes a session new.
            self.connection.change_user("root", "", DATABASE)
            self.connection.autocommit(True)
        else:
            getattr(self.connection, name)()

    def abandon(self, sql: str, waits: Any) -> None:
        self.connection.send_query(sql.encode())
        waits()
        shut_down(self.connection.fileno())
        self.connection.close()

    def close_unread(self, sql: str) -> None:
        self.connection.send_query(sql.encode())
        select.select([self.connection.fileno()], [], [], PATIENCE)
        shut_down(self.connection.fileno())
        self.connection.close()


class Connector:
    """A connection of MySQL Connector/Python in Python."""

    def __init__(self) -> None:
        import mysql.connector

        self.connection = mysql.connector.connect(
            unix_socket=SOCKET, user="root", database=DATABASE, autocommit=True, use_pure=True
        )
        self.id = self.connection.connection_id

    def run(self, sql: str, values: Any = None, many: bool = False) -> Any:
        cursor = self.connection.cursor()
        (cursor.executemany if many else cursor.execute)(sql, values)
        result = cursor.fetchall() if cursor.description else cursor.rowcount
        cursor.close()
        return result

    def call(self, name: str) -> None:
        if name == "reset":
            self.connection.cmd_reset_connection()
            self.connection.autocommit = True
        elif name == "begin":
            self.connection.start_transaction()
        else:
            getattr(self.connection, name)()

    def abandon(self, sql: str, waits: Any) -> None:
        self.connection._socket.send(b"\x03" + sql.encode(), 0)
        waits()
        self.connection._socket.sock.close()

    def close_unread(self, sql: str) -> None:
        self.connection._socket.send(b"\x03" + sql.encode(), 0)
        self.connection._socket.sock.recv(1)
        self.connection._socket.sock.close()


def shut_down(number: int) -> None:
    """Ends a connection whose driver has no call for it while an answer is on its way."""
    with socket.socket(fileno=os.dup(number)) as same:
        same.shutdown(socket.SHUT_RDWR)


DRIVERS = {"pymysql": PyMySQL, "aiomysql": AioMySQL, "mysqlclient": MySQLClient, "connector": Connector}


class Failed(Exception):
    """A step gave something else."""


class Run:
    """What the steps before have left."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.connections: dict[str, Any] = {}
        self.tokens: dict[str, str] = {}
        self.last: Any = None

    def connection(self, name: str) -> Any:
        if name not in self.connections:
            self.connections[name] = (PyMySQL if name == "k" else self.driver)()
        return self.connections[name]

    def text(self, field: str) -> str:
        """A field with its tokens, its many letters and its letters by number."""
        field = re.sub(r"\$([a-z])", lambda found: self.tokens.get(found[1], found[0]), field)
        field = re.sub(r"\{(.)\*(\d+)\}", lambda found: found[1] * int(found[2]), field)
        return re.sub(r"\{u\+([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), field)

    def step(self, fields: list[str]) -> bool:
        """Runs a step. False if nobody can restart the server for it."""
        name, step, expected, *more = fields
        values = [tuple(self.text(one[1:]).split("|")) for one in more if one.startswith("A")]
        verb, _, rest = step.partition(" ") if step.startswith("@") else ("", "", step)
        sql = self.text(rest)
        # What a regular expression says of a token is no token.
        wanted = expected if expected.startswith("~") else self.text(expected)
        if verb in ("@stop", "@kill"):
            if os.environ.get("REMORA_QUEUE_RESTARTS") != "1":
                return False
            print(verb[1:], flush=True)
            sys.stdin.readline()
            self.connections.clear()
            return True
        end = time.monotonic() + PATIENCE
        while True:
            got = self.result(name, verb, sql, values)
            if fits(got, wanted):
                break
            if verb != "@until" or time.monotonic() > end:
                raise Failed(f"{name} {step[:150]}\n  wanted {wanted[:150]}\n  got    {got[:150]}")
            time.sleep(0.01)
        self.check_more(name, step, more, got)
        return True

    def check_more(self, name: str, step: str, more: list[str], got: str) -> None:
        for one in more:
            if one.startswith("W"):
                numbers = {row[1] for row in self.connection(name).run("SHOW WARNINGS")}
                if int(one[1:]) not in numbers:
                    raise Failed(f"{name} {step[:150]}\n  wanted warning {one[1:]}\n  got    {numbers}")
            elif one.startswith("$"):
                tokens = re.findall(r'"token":"([^"]+)"', got)
                self.tokens.update(zip(one.replace("$", "").split(","), tokens, strict=True))

    def result(self, name: str, verb: str, sql: str, values: list[Any]) -> str:
        """What a step gives, as text."""
        try:
            return self.do(name, verb, sql, values)
        except (*errors(), OSError) as error:
            self.reopen_if_lost(name, error)
            return f"!{number_of(error)}"

    def reopen_if_lost(self, name: str, error: Exception) -> None:
        # After an error of the connection itself there is none.
        if isinstance(error, OSError) or number_of(error) in (0, 1153, 2006, 2013, 2055):
            self.connections.pop(name, None)

    def do(self, name: str, verb: str, sql: str, values: list[Any]) -> str:
        connection = self.connection(name)
        if verb == "@type":
            return "bytes" if isinstance(self.last[0][0], bytes) else "text"
        if verb == "@killwait":
            killer = threading.Thread(target=self.kill_wait, args=(connection.id,))
            killer.start()
            try:
                return shown(connection.run(sql))
            finally:
                killer.join()
        if verb == "@closewait":
            connection.abandon(sql, lambda: until_waits(connection.id))
        elif verb == "@closeunread":
            connection.close_unread(sql)
        elif verb in ("@begin", "@commit", "@rollback", "@reset", "@close"):
            connection.call(verb[1:])
        elif verb in ("", "@until", "@prepared", "@many"):
            placed = sql.replace("?", "%s") if verb == "@prepared" else sql
            given = values if verb == "@many" else (values[0] if values else None)
            self.last = connection.run(placed, given, verb == "@many")
            return shown(self.last)
        else:
            raise Failed(f"{verb} is no verb")
        if verb in ("@closewait", "@closeunread", "@close"):
            del self.connections[name]
            until_gone(connection.id)
        return ""

    def kill_wait(self, number: int) -> None:
        until_waits(number)
        with connect() as other:
            other.cursor().execute(f"KILL QUERY {number}")


def fits(got: str, wanted: str) -> bool:
    if wanted == "ok":
        return not got.startswith("!")
    if wanted == "!":
        return got.startswith("!")
    if wanted.startswith("~"):
        return re.search(wanted[1:], got, re.DOTALL) is not None
    return got == wanted


def shown(result: Any) -> str:
    if isinstance(result, int):
        return str(result)
    return "\n".join("|".join("NULL" if one is None else str(one) for one in row) for row in result)


def count_of(condition: str, number: int) -> int:
    with connect() as other:
        cursor = other.cursor()
        cursor.execute(
            f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number} AND {condition}"
        )
        return int(cursor.fetchone()[0])


def until_waits(number: int) -> None:
    end = time.monotonic() + PATIENCE
    while not count_of("state LIKE 'Waiting in queue%'", number):
        assert time.monotonic() < end, "it does not wait"
        time.sleep(0.1)


def until_gone(number: int) -> None:
    end = time.monotonic() + PATIENCE
    while count_of("TRUE", number):
        assert time.monotonic() < end, "its connection does not end"
        time.sleep(0.1)


def main(driver: str) -> int:
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    run = Run(DRIVERS[driver])
    done = 0
    for number, line in enumerate(STEPS.read_text(encoding="ascii").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        try:
            if not run.step(line.split("\t")):
                print(f"left out from line {number} on: nobody restarts the server", file=sys.stderr)
                break
        except Failed as failed:
            print(f"steps.tsv:{number}: {failed}", file=sys.stderr)
            return 1
        done += 1
    print(f"{driver}: {done} steps", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
