"""The statements of the queue, as text with %s and their values. No I/O: threads and asyncio share them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Statement = tuple[str, tuple[Any, ...]]

# More tokens than this would make a statement that nobody can read in a log.
TOKENS_AT_ONCE = 200


def quoted(name: str) -> str:
    """A name in backticks, as SQL and the functions of the queue want it."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str | int) -> str:
    """A value as a condition of a queue has it: literal("it's") is 'it''s' with its quotes."""
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def lease(table: str, where: str | None, seconds: float, rows: int, wait: float) -> Statement:
    """Leases rows: JSON text."""
    argument = table if where is None else f"{table}:{where}"
    values = (_seconds(seconds), str(rows), argument, _seconds(wait))
    return "SELECT queue_lease_json(%s, %s, %s, %s)", values


def ack(tokens: Iterable[str]) -> Statement:
    """Ends rows: how many, and the stale tokens."""
    return "SELECT queue_ack(%s), queue_stale()", (",".join(tokens),)


def extend(tokens: Iterable[str], seconds: float) -> Statement:
    """Extends leases: how many, and the stale tokens."""
    return "SELECT queue_extend(%s, %s), queue_stale()", (",".join(tokens), _seconds(seconds))


def nack(tokens: Iterable[str], reason: str, delay: float | None) -> Statement:
    """Says that tries have failed: how many, and the stale tokens."""
    after = None if delay is None else _seconds(delay)
    return "SELECT queue_nack(%s, %s, %s), queue_stale()", (",".join(tokens), after, reason)


def release(tokens: Iterable[str]) -> Statement:
    """Returns rows that nobody has tried: how many, and the stale tokens."""
    return "SELECT queue_release(%s), queue_stale()", (",".join(tokens),)


def state(database: str | None, table: str) -> Statement:
    """Whether there is a transaction, autocommit, and what the table is."""
    options = (
        "SELECT CONCAT(engine, ' ', create_options) FROM information_schema.tables"
        " WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"
    )
    return f"SELECT @@in_transaction, @@autocommit, ({options})", (database, table)


# What a handler does after a deadlock, which ends its transaction, is not committed by itself then.
NO_AUTOCOMMIT = "SET autocommit = 0"
AUTOCOMMIT = "SET autocommit = 1"

# A savepoint is gone when its transaction has ended, as a deadlock ends it. @@in_transaction would say less:
# without autocommit the next statement begins another transaction.
MARK = "SAVEPOINT remora_queue_job"
CHECK_MARK = "RELEASE SAVEPOINT remora_queue_job"


def kill(connection: int) -> str:
    """Ends what another connection waits for."""
    return f"KILL QUERY {connection:d}"


def _seconds(seconds: float) -> str:
    """Text, because drivers write floating point in ways of their own."""
    return f"{seconds:.3f}"
