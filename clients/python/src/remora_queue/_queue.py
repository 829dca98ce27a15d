"""A queue: its table, putting messages into it, and taking one in a transaction."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from . import _statements as statements
from ._errors import InTransaction, LeaseLost, NotAQueue, QueueError, Retry, check_mark_failed, reason_of
from ._job import Job, jobs_of
from ._keeper import Keeper
from ._link import Connect, Link, NoAutocommit

_TRANSACTIONAL = re.compile(r"\btransactional`?\s*=\s*'?1", re.IGNORECASE)


@dataclass
class Message:
    """A message for put_many(). The fields are those of Queue.put()."""

    payload: Any
    delay: float | None = None
    at: datetime | None = None
    key: str | None = None
    dedupe: str | None = None
    priority: int | None = None


class Queue:
    """A table with ENGINE=QUEUE. The options are those of create(); an existing table keeps its own.

    fifo, dedupe_for and priority say which columns the table has: give them as when it was made. `connect`
    opens a connection for those who need one of their own: workers, and take() to extend its lease.
    """

    def __init__(
        self,
        name: str,
        *,
        database: str | None = None,
        connect: Connect | None = None,
        transactional: bool = True,
        tries: int = 5,
        backoff: tuple[float, float, float] = (10, 2, 3600),
        fifo: bool = False,
        dedupe_for: int | None = None,
        priority: bool = False,
        keep: int = 0,
    ) -> None:
        if "%" in name + (database or ""):
            raise ValueError("drivers read a percent sign in a name in several ways")
        self.name = name
        self.database = database
        self.connect = connect
        self.transactional = transactional
        self.tries = tries
        self.backoff = backoff
        self.fifo = fifo
        self.dedupe_for = dedupe_for
        self.priority = priority
        self.keep = keep
        # What the table itself says, once somebody has looked.
        self._is_transactional: bool | None = None

    @property
    def dead(self) -> str:
        """The table of messages that have failed `tries` times."""
        return self.name + "_dead"

    @property
    def table(self) -> str:
        """The table's name in backticks, for SQL and for the functions of the queue."""
        return self._named(self.name)

    def _named(self, name: str) -> str:
        before = statements.quoted(self.database) + "." if self.database else ""
        return before + statements.quoted(name)

    def ddl(self) -> list[str]:
        """The statements that create() runs, for those who keep their DDL elsewhere."""
        columns = [
            "id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
            "payload LONGTEXT NOT NULL",
            "at TIMESTAMP(6) NULL",
        ]
        options = ["DUE=at", f"KEEP={self.keep:d}"]
        if self.fifo:
            columns.append("message_key VARCHAR(190) COLLATE utf8mb4_bin NULL")
            options.append("FIFO=message_key")
        if self.dedupe_for is not None:
            columns.append("dedupe_key VARCHAR(190) COLLATE utf8mb4_bin NULL")
            options.append(f"DEDUPE=dedupe_key DEDUPE_FOR={self.dedupe_for:d}")
        if self.priority:
            columns.append("priority INT NOT NULL DEFAULT 0")
            options.append("PRIORITY=priority")
        if self.transactional:
            options.append("TRANSACTIONAL=1")
        made = []
        if self.tries:
            start, factor, most = self.backoff
            dead = self._named(self.dead)
            options.append(f"TRIES={self.tries:d} BACKOFF='{start:g},{factor:g},{most:g}' DEAD='{dead}'")
            more = columns + ["failed INT NULL", "why TEXT NULL"]
            made.append(_create(dead, more, ["FAILED=failed", "WHY=why"]))
        made.append(_create(self.table, columns, options))
        return made

    def create(self, connection: Any) -> None:
        """Makes the tables if they are not there. As all DDL, it commits the connection's transaction."""
        link = Link(connection)
        for sql in self.ddl():
            link.run(sql)

    def put(
        self,
        connection: Any,
        payload: Any,
        *,
        delay: float | None = None,
        at: datetime | None = None,
        key: str | None = None,
        dedupe: str | None = None,
        priority: int | None = None,
        outside_transaction: bool = False,
    ) -> str:
        """Puts a message into the queue, and returns its id. Workers see it when the transaction commits.

        `payload` is what JSON can hold. The message comes after `delay` seconds, or at the time `at`, which
        must have a time zone. Messages with the same `key` come one at a time and in order. One whose
        `dedupe` came before is left out.
        """
        message = Message(payload, delay, at, key, dedupe, priority)
        return self.put_many(connection, [message], outside_transaction=outside_transaction)[0]

    def put_many(
        self, connection: Any, messages: Iterable[Message], *, outside_transaction: bool = False
    ) -> list[str]:
        """Puts messages with one statement, all or none of them. Returns their ids."""
        ids, sql, values = self.insert(messages)
        if not ids:
            return ids
        link = Link(connection)
        if not self._is_transactional:
            self.check(link.run(*statements.state(self.database, self.name)), outside_transaction)
        link.run(sql, values)
        return ids

    def check(self, state: Any, outside_transaction: bool) -> None:
        """Refuses what a ROLLBACK would not undo. `state` is the row of _statements.state()."""
        in_transaction, autocommit, options = state
        if isinstance(options, (bytes, bytearray)):
            options = options.decode("utf-8")
        if options is None or not options.startswith("QUEUE"):
            raise NotAQueue(f"{self.table} is no table with ENGINE=QUEUE")
        self._is_transactional = bool(_TRANSACTIONAL.search(options))
        if self._is_transactional or outside_transaction:
            return
        if int(in_transaction) or not int(autocommit):
            raise InTransaction(
                f"{self.table} is not TRANSACTIONAL, so ROLLBACK would not undo this put; "
                "outside_transaction=True says that this is meant"
            )

    def check_take(self, in_transaction: Any, options: Any) -> None:
        """Refuses to take where COMMIT would not end the message, or something would not be seen."""
        self.check((0, 1, options), False)
        if not self._is_transactional:
            raise QueueError(f"{self.table} is not TRANSACTIONAL: take() can't end its messages with COMMIT")
        if int(in_transaction):
            raise InTransaction(
                "take() begins a transaction of its own: commit the one before, "
                "which may not see what was committed together with the message"
            )

    @property
    def is_known_transactional(self) -> bool:
        """Whether somebody has seen that the table is TRANSACTIONAL."""
        return bool(self._is_transactional)

    def insert(self, messages: Iterable[Message]) -> tuple[list[str], str, list[Any]]:
        """Ids, statement and values of a put."""
        ids, rows, values = [], [], []
        for message in messages:
            ids.append(uuid.uuid4().hex)
            due, when = _due(message)
            row = ["%s", "%s", due]
            values += [ids[-1], json.dumps(message.payload), *when]
            for name, given, there in (
                ("key", message.key, self.fifo),
                ("dedupe", message.dedupe, self.dedupe_for is not None),
                ("priority", message.priority, self.priority),
            ):
                if there:
                    row.append("%s")
                    values.append(0 if name == "priority" and given is None else given)
                elif given is not None:
                    raise ValueError(f"{self.table} has no column for {name}")
            rows.append("(" + ", ".join(row) + ")")
        columns = ["id", "payload", "at"]
        columns += ["message_key"] * self.fifo + ["dedupe_key"] * (self.dedupe_for is not None)
        columns += ["priority"] * self.priority
        # In UTC no time occurs twice, and none is missing.
        sql = (
            "SET STATEMENT time_zone = '+00:00' FOR"
            f" INSERT INTO {self.table} ({', '.join(columns)}) VALUES {', '.join(rows)}"
        )
        return ids, sql, values

    @contextmanager
    def take(
        self, connection: Any, *, lease: float = 30, wait: float = 0, where: str | None = None
    ) -> Iterator[Job | None]:
        """Takes a message and the caller's changes in one transaction: both are there, or neither.

        None if no message came within `wait` seconds. At the end of the block the message is ended and the
        transaction committed. An exception rolls it back, and counts as a failed try.
        """
        link = Link(connection)
        in_transaction, autocommit, options = link.run(*statements.state(self.database, self.name))
        self.check_take(in_transaction, options)
        jobs = jobs_of(link.run(*statements.lease(self.table, where, lease, 1, wait))[0])
        if not jobs:
            yield None
            return
        job = jobs[0]
        meanwhile = NoAutocommit(connection) if int(autocommit) else None
        is_over = False
        keeper = Keeper(self.connect, lease) if self.connect else None
        try:
            try:
                if meanwhile:
                    meanwhile.begin()
                # This begins the transaction.
                link.run(statements.MARK)
                if keeper:
                    keeper.add(job)
                yield job
                if keeper:
                    keeper.remove(job)
                if job.failure:
                    raise Retry(*job.failure)
                end_in_transaction(link, job)
                is_over = True
            finally:
                if keeper:
                    keeper.close()
        except BaseException as error:
            link.rollback()
            is_over = True
            delay = error.delay if isinstance(error, Retry) else None
            if not isinstance(error, LeaseLost):
                link.run(*statements.nack([job.token], reason_of(error), delay))
            raise
        finally:
            if meanwhile:
                meanwhile.end(is_over)


def end_in_transaction(link: Link, job: Job) -> None:
    """Ends a message and the transaction, which has a MARK."""
    try:
        link.run(statements.CHECK_MARK)
    except Exception as error:
        check_mark_failed(error)
        raise
    # Last, so that the row is locked for a short time only.
    if not int(link.run(*statements.ack([job.token]))[0]):
        raise LeaseLost(f"the lease of {job.token} has ended: somebody else has this message")
    link.commit()


def _create(table: str, columns: list[str], options: list[str]) -> str:
    return (
        f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})"
        f" ENGINE=QUEUE CHARSET=utf8mb4 {' '.join(options)}"
    )


def _due(message: Message) -> tuple[str, list[Any]]:
    """From when on a message is given, as SQL and its values. The server's clock decides."""
    if message.at is not None:
        if message.delay is not None:
            raise ValueError("either delay or at")
        if message.at.tzinfo is None:
            raise ValueError("at needs a time zone")
        return "%s", [message.at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")]
    if not message.delay:
        return "NULL", []
    return "NOW(6) + INTERVAL %s MICROSECOND", [round(message.delay * 1_000_000)]
