"""One way to run a statement on whatever connection the caller has."""

from __future__ import annotations

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


# Seconds. No answer takes longer, unless the connection is broken.
ANSWER_PATIENCE = 30.0


def _limit_answers(connection: Any, seconds: float) -> None:
    """PyMySQL has the limit only as an argument of connect(). A shorter one remains."""
    # SQLAlchemy has its own around it.
    driver = getattr(getattr(connection, "connection", connection), "driver_connection", connection)
    if hasattr(driver, "_read_timeout"):
        driver._read_timeout = min(driver._read_timeout or seconds, seconds)


class OwnLink(Link):
    """A connection that a worker opens and closes itself. Each statement commits itself."""

    def __init__(self, connect: Connect, autocommit: bool = True, limit: float | None = None) -> None:
        """After `limit` seconds without an answer PyMySQL closes the connection, with an error."""
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
