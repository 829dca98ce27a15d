"""One way to run a statement on whatever connection the caller has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from . import _statements as statements
from ._errors import UNKNOWN_THREAD, number_of

Connect = Callable[[], Any]


class Link:
    """A connection of the DB-API (also Django's), or a Connection or a Session of SQLAlchemy."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Runs a statement; its first row, or None."""
        if hasattr(self.connection, "cursor"):
            cursor = self.connection.cursor()
            try:
                # Without values nothing stands for one, so that a percent sign is itself.
                cursor.execute(sql, tuple(values)) if values else cursor.execute(sql)
                return cursor.fetchone() if cursor.description else None
            finally:
                cursor.close()
        connection = self.connection
        if not hasattr(connection, "exec_driver_sql"):
            # Of a Session: this begins its transaction, if it has none.
            connection = connection.connection()
        result = connection.exec_driver_sql(sql, tuple(values) if values else None)
        return result.fetchone() if result.returns_rows else None

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


class NoAutocommit:
    """A caller's connection that has autocommit, and does without for a transaction."""

    def __init__(self, connection: Any) -> None:
        if not hasattr(connection, "cursor") and not hasattr(connection, "exec_driver_sql"):
            # A Session gives its connection back when the transaction is over. Then it is to be closed.
            connection = connection.connection()
            connection.detach()
        self._connection = connection

    def begin(self) -> None:
        self._run(statements.NO_AUTOCOMMIT)

    def end(self, is_over: bool) -> None:
        """The connection is closed if it can't have autocommit again, which would commit what is not over."""
        with suppress(Exception):
            if is_over:
                self._run(statements.AUTOCOMMIT)
                return
        with suppress(Exception):
            # To close one of SQLAlchemy would give it to its pool.
            getattr(self._connection, "invalidate", self._connection.close)()

    def _run(self, sql: str) -> None:
        # Through SQLAlchemy this would begin a transaction.
        connection = self._connection if hasattr(self._connection, "cursor") else self._connection.connection
        cursor = connection.cursor()
        try:
            cursor.execute(sql)
        finally:
            cursor.close()


# Seconds. No answer takes longer, unless the connection is broken.
ANSWER_PATIENCE = 30.0


def _limit_answers(connection: Any, seconds: float) -> None:
    """PyMySQL and MySQL Connector have it only as an argument of connect(). A shorter one remains."""
    # SQLAlchemy has its own around it.
    driver = getattr(getattr(connection, "connection", connection), "driver_connection", connection)
    if hasattr(driver, "_read_timeout"):
        # Connector refuses a part of a second, at the next statement.
        whole = math.ceil(seconds)
        driver._read_timeout = min(driver._read_timeout or whole, whole)


class OwnLink(Link):
    """A connection that a worker opens and closes itself. Each statement commits itself."""

    def __init__(self, connect: Connect, autocommit: bool = True, limit: float | None = None) -> None:
        """After `limit` seconds without an answer the connection is closed, with an error."""
        connection = connect()
        # A pool would give it to others later, with what was set here.
        if hasattr(connection, "detach"):
            connection.detach()
        super().__init__(connection)
        if limit is not None:
            _limit_answers(connection, limit)
        try:
            self.run(f"SET autocommit = {int(autocommit)}")
            self.id = int(self.run("SELECT CONNECTION_ID()")[0])
        except BaseException:
            self.close()
            raise

    def kill(self, other: int) -> None:
        """Ends the wait of another connection. Nothing is wrong if it does not wait or is gone."""
        try:
            self.run(statements.kill(other))
        except Exception as error:
            if number_of(error) != UNKNOWN_THREAD:
                raise

    def close(self) -> None:
        # It may be closed already.
        with suppress(Exception):
            self.connection.close()
