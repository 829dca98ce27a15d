"""A transport for Kombu, and so for Celery: each queue is a table with ENGINE=QUEUE.

    import remora_queue.kombu
    app = Celery("shop", broker="remora://user:password@host/database")

A message is leased from when it is delivered until it is acknowledged, and the lease is extended for all of
that time: tasks may run, or wait for their countdown, as long as they like. When a worker dies, its messages
come again after `lease` seconds. Options (`broker_transport_options`):

    lease          30: seconds
    tries          10: how often a message is delivered before it is moved to the dead letters
    prefix         "kombu_": what the names of tables begin with
    connect        a function that opens a connection; by default PyMySQL with the parts of the URL
    unix_socket    the server's socket
"""

# Kombu has no types.
# mypy: disable-error-code="no-untyped-call, no-any-return, assignment, union-attr, override"

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from itertools import count
from queue import Empty
from typing import Any

import pymysql
from kombu.transport import TRANSPORT_ALIASES, base, virtual

from . import _statements as statements
from ._ender import Ended, Ender
from ._errors import INTERRUPTED, number_of
from ._job import Job, jobs_of
from ._keeper import Keeper
from ._link import OwnLink
from ._queue import Message, Queue

log = logging.getLogger("remora_queue")

# The longest name of a table, less that of its dead letters.
_NAME_MAX = 64 - len("_dead")

# More tables are not asked in one statement: the functions take 64 arguments.
_TABLES_AT_ONCE = 60

# Rows in one answer: while they wait in a worker, no other one gets them.
_ROWS_AT_ONCE = 10

# Seconds that a wait takes when nobody says how long.
_WAIT = 1.0

# Seconds between two looks into other queues while a consumer has all that it may have.
_FULL = 0.2

# There is no such table.
_NO_TABLE = 1146

# Temporary queues that nobody has used for this time are dropped. Their programs were killed.
_UNUSED_S = 3600


class QoS(virtual.QoS):
    """Ends messages by their tokens. The tags of Kombu are the keys."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.connection.end(delivery_tag, untried=False)
        super().ack(delivery_tag)
        self.channel.connection.room.set()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Without requeue the message is dropped, as brokers do. With it, it waits again at once."""
        self.channel.connection.end(delivery_tag, untried=requeue)
        if requeue:
            self.channel.connection.flush()
        super().ack(delivery_tag)
        self.channel.connection.room.set()

    def restore_unacked(self) -> list[Any]:
        """Returns what was not acknowledged to its places."""
        self._flush()
        while self._delivered:
            tag, _ = self._delivered.popitem()
            self.channel.connection.end(tag, untried=True)
        return []


class Channel(virtual.Channel):
    """What one user of a connection declares, publishes and consumes."""

    QoS = QoS
    supports_fanout = True

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        (self.connection.no_ack.add if no_ack else self.connection.no_ack.discard)(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def _put(self, queue: str, message: dict[str, Any], **_kwargs: Any) -> None:
        """Kombu's highest priority is 9, and the queue's lowest number comes first."""
        self.connection.put(queue, message, self._get_message_priority(message, reverse=True))

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:
        for _, _, queue in self.get_table(exchange):
            self._put(queue, message, **kwargs)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        found = self.connection.lease([queue], 1, timeout or 0)
        if not found:
            raise Empty
        message: dict[str, Any] = found[0][0]
        return message

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.connection.end(message.delivery_tag, untried=False)
        return message

    def _size(self, queue: str) -> int:
        return self.connection.size(queue)

    def _purge(self, queue: str) -> int:
        return self.connection.purge(queue)

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> None:
        """Whoever has bound the queue."""
        if if_empty and self._has_queue(queue) and self._size(queue):
            return
        self.state.queue_bindings_delete(queue)
        self.connection.drop(queue)

    def _has_queue(self, queue: str, **_kwargs: Any) -> bool:
        return self.connection.exists(queue)

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        self.connection.create(queue, temporary=bool(kwargs.get("auto_delete") or kwargs.get("exclusive")))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        self.connection.bind(exchange, routing_key, pattern, queue)

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", *args: Any, **kwargs: Any
    ) -> None:
        super().queue_unbind(queue, exchange, routing_key, *args, **kwargs)
        self.connection.unbind(exchange or "", routing_key, queue)

    def get_table(self, exchange: str) -> list[tuple[str, str, str]]:
        """The bindings of all programs, not only of this one."""
        return self.connection.bindings(exchange)


class Transport(virtual.Transport):
    """A connection of Kombu: up to four of the server. Those that only publish have one."""

    Channel = Channel
    driver_type = "mysql"
    driver_name = "remora-queue"
    polling_interval = None
    default_port = 3306

    connection_errors = (pymysql.OperationalError, pymysql.InterfaceError, OSError)
    channel_errors = (
        *base.Transport.channel_errors,
        pymysql.DataError,
        pymysql.InternalError,
        pymysql.ProgrammingError,
    )
    implements = virtual.Transport.implements.extend(exchange_type=frozenset(["direct", "topic", "fanout"]))

    def __init__(self, client: Any, **kwargs: Any) -> None:
        options = client.transport_options
        self.lease_s = float(options.get("lease", 30))
        self.tries = int(options.get("tries", 10))
        self.prefix = str(options.get("prefix", "kombu_"))
        self.connect = options.get("connect") or self._connect
        self.no_ack: set[str] = set()
        # Set when a message was ended, so that its consumer may have another one.
        self.room = threading.Event()
        # By tag, and by the id of the message, until it has ended.
        self._held: dict[str, Job] = {}
        self._by_id: dict[str, Job] = {}
        # What came again before it was known how its end went.
        self._backlog: list[Job] = []
        self._bindings = statements.quoted(self.prefix + "binding")
        self._temporary = statements.quoted(self.prefix + "temporary")
        self._lock = threading.RLock()
        self._turn = count()
        self._links: dict[str, OwnLink] = {}
        self._threads: tuple[Keeper, Ender] | None = None
        self._used: dict[str, float] = {}
        self._known: set[str] = set()
        super().__init__(client, **kwargs)

    def driver_version(self) -> str:
        return str(pymysql.__version__)

    def _connect(self) -> Any:
        client = self.client
        options = {"user": client.userid, "password": client.password or "", "database": client.virtual_host}
        if unix_socket := client.transport_options.get("unix_socket"):
            options["unix_socket"] = unix_socket
        else:
            options.update(host=client.hostname or "localhost", port=client.port or self.default_port)
        return pymysql.connect(**{name: value for name, value in options.items() if value is not None})

    def establish_connection(self) -> Any:
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self._bindings} (exchange VARCHAR(190) NOT NULL, routing_key"
            " VARCHAR(190) NOT NULL, pattern VARCHAR(500) NULL, queue VARCHAR(190) NOT NULL,"
            " PRIMARY KEY (exchange, routing_key, queue), KEY (queue))"
            " ENGINE=InnoDB CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC"
        )
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self._temporary} (queue VARCHAR(190) NOT NULL PRIMARY KEY,"
            " used DATETIME NOT NULL) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        )
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        threads, self._threads = self._threads, None
        if threads:
            threads[1].close()
            threads[0].close()
        for link in self._links.values():
            link.close()
        self._links.clear()

    def verify_connection(self, connection: Any) -> bool:
        return True

    # Statements.

    def _link(self, use: str) -> OwnLink:
        if use not in self._links:
            self._links[use] = OwnLink(self.connect)
        return self._links[use]

    def _run(self, sql: str, *values: Any) -> list[Any]:
        """Runs a statement on the connection that publishes; all rows, or how many it changed."""
        with self._lock:
            cursor = self._link("publish").connection.cursor()
            try:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall()) if cursor.description else [(cursor.rowcount,)]
            finally:
                cursor.close()

    def table(self, queue: str) -> Queue:
        """The table of a queue. One that can't be its name is cut, and its hash says which it was."""
        name = self.prefix + queue
        if len(name) > _NAME_MAX or "%" in name:
            cut = name[: _NAME_MAX - 17].replace("%", "_")
            name = f"{cut}_{hashlib.sha256(queue.encode()).hexdigest()[:16]}"
        return Queue(name, transactional=False, tries=self.tries, backoff=(0, 1, 0), priority=True)

    def create(self, queue: str, temporary: bool) -> None:
        if queue in self._known:
            return
        for sql in self.table(queue).ddl():
            self._run(sql)
        self._known.add(queue)
        if temporary:
            self._use(queue)
            unused = f"SELECT queue FROM {self._temporary} WHERE used < UTC_TIMESTAMP() - INTERVAL %s SECOND"
            for (old,) in self._run(unused, _UNUSED_S):
                self.drop(old)

    def _use(self, queue: str) -> None:
        """Notes that somebody uses a queue that lives no longer than its program."""
        self._run(f"REPLACE INTO {self._temporary} VALUES (%s, UTC_TIMESTAMP())", queue)
        self._used[queue] = time.monotonic()

    def drop(self, queue: str) -> None:
        self._run(f"DELETE FROM {self._bindings} WHERE queue = %s", queue)
        self._run(f"DELETE FROM {self._temporary} WHERE queue = %s", queue)
        table = self.table(queue)
        for name in (table.name, table.dead):
            self._run(f"DROP TABLE IF EXISTS {statements.quoted(name)}")
        self._known.discard(queue)
        self._used.pop(queue, None)

    def exists(self, queue: str) -> bool:
        sql = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s"
        return bool(self._run(sql, self.table(queue).name))

    def size(self, queue: str) -> int:
        return int(self._run(f"SELECT COUNT(*) FROM {self.table(queue).table}")[0][0])

    def purge(self, queue: str) -> int:
        """Drops what waits. What is delivered stays with its consumers."""
        return int(self._run(f"DELETE FROM {self.table(queue).table}")[0][0])

    def put(self, queue: str, message: dict[str, Any], priority: int) -> None:
        ttl = message["properties"].get("expiration")
        until = time.time() + int(ttl) / 1000 if ttl else None
        payload = {"queue": queue, "message": message, "until": until}
        _, sql, values = self.table(queue).insert([Message(payload, priority=priority)])
        try:
            self._run(sql, *values)
        except pymysql.ProgrammingError as error:
            if number_of(error) != _NO_TABLE:
                raise
            # As brokers do: its client is gone. Who publishes tasks declares their queues.
            log.info("there is no queue %s: a message to it is dropped", queue)

    def bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        sql = f"INSERT IGNORE INTO {self._bindings} VALUES (%s, %s, %s, %s)"
        self._run(sql, exchange, routing_key, pattern, queue)

    def unbind(self, exchange: str, routing_key: str, queue: str) -> None:
        sql = f"DELETE FROM {self._bindings} WHERE exchange = %s AND routing_key = %s AND queue = %s"
        self._run(sql, exchange, routing_key, queue)

    def bindings(self, exchange: str) -> list[tuple[str, str, str]]:
        sql = f"SELECT routing_key, COALESCE(pattern, ''), queue FROM {self._bindings} WHERE exchange = %s"
        return [(row[0], row[1], row[2]) for row in self._run(sql, exchange)]

    # Consuming.

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Delivers what waits in any queue of any channel, with one wait for all of them.

        A wait of the server does not learn that a thread has ended a message. So while a consumer is full,
        that is what is waited for.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT if end is None else max(0.0, min(_WAIT, end - time.monotonic()))
            self.room.clear()
            queues, rows, is_full = self._wanted()
            found = self.lease(queues, rows, 0 if is_full else left) if queues else []
            for message, queue in found:
                self._deliver(message, queue)
                if queue in self.no_ack:
                    self.end(message["properties"]["delivery_tag"], untried=False)
            if found:
                return
            if is_full or not queues:
                self.room.wait(min(left, _FULL))
            if end is not None and time.monotonic() >= end:
                raise TimeoutError

    def _wanted(self) -> tuple[list[str], int, bool]:
        """The queues that may deliver now, each time another one first, how many messages, and whether a
        consumer may have no more."""
        queues: list[str] = []
        rows, is_full = _ROWS_AT_ONCE, False
        for channel in list(self.channels):
            if not channel._consumers:
                continue
            if not channel.qos.can_consume():
                is_full = True
                continue
            queues += [queue for queue in channel._active_queues if queue not in queues]
            most = channel.qos.can_consume_max_estimate()
            rows = min(rows, rows if most is None else max(1, most))
        turn = next(self._turn) % len(queues) if queues else 0
        return (queues[turn:] + queues[:turn])[:_TABLES_AT_ONCE], rows, is_full

    def _start(self) -> tuple[Keeper, Ender]:
        if self._threads is None:
            self._threads = Keeper(self.connect, self.lease_s), Ender(self.connect, self.lease_s, self._ended)
        return self._threads

    def lease(self, queues: list[str], rows: int, wait: float) -> list[tuple[dict[str, Any], str]]:
        """Leases messages of one of the queues. They are extended until they are ended."""
        with self._lock:
            found, self._backlog = self._backlog, []
        if not found:
            for queue in queues:
                if queue in self._used and time.monotonic() - self._used[queue] > _UNUSED_S / 10:
                    self._use(queue)
            found = self._ask(queues, rows, wait)
        delivered = []
        for job in found:
            payload = job.payload
            tag = self._hold(job)
            if payload["until"] is not None and payload["until"] < time.time():
                self.end(tag, untried=False)
            else:
                delivered.append((payload["message"], payload["queue"]))
        return delivered

    def _ask(self, queues: list[str], rows: int, wait: float) -> list[Job]:
        tables = [self.table(queue).table for queue in queues]
        values = [f"{self.lease_s:.3f}", str(rows), *tables, f"{wait:.3f}"]
        sql = f"SELECT queue_lease_json({', '.join(['%s'] * len(values))})"
        try:
            row = self._link("wait").run(sql, values)
        except pymysql.MySQLError as error:
            if number_of(error) in INTERRUPTED:
                return []
            raise
        return [job for job in jobs_of(row[0]) if not self._is_held(job)]

    def _is_held(self, job: Job) -> bool:
        """Whether this message is here: its lease has ended, or it was returned, and it came again."""
        with self._lock:
            held = self._by_id.get(job.id or "")
            if held is None:
                return False
            held.comes_again(job)
        if not held.over:
            self._start()[0].add(held)
        return True

    def _hold(self, job: Job) -> str:
        """Extends a message until it is ended by its tag."""
        message = job.payload["message"]
        tag = str(uuid.uuid4())
        message["properties"]["delivery_tag"] = tag
        message["properties"]["delivery_info"]["redelivered"] = job.tries > 1
        with self._lock:
            self._held[tag] = self._by_id[job.id or ""] = job
        self._start()[0].add(job)
        return tag

    def end(self, tag: str, untried: bool) -> None:
        """Ends a message, or returns it. From any thread; once for each tag."""
        with self._lock:
            job = self._held.pop(tag, None)
            if job is None:
                return
            job.over = True
        keeper, ender = self._start()
        keeper.remove(job)
        ender.end([Ended(job, untried=untried)])

    def flush(self) -> None:
        """Waits until the server knows of all ends; not for long while it is away."""
        if self._threads:
            self._threads[1].flush(_WAIT)

    def _ended(self, told: list[tuple[Ended, bool]]) -> None:
        """Tokens were used. What came again before ends in the place of a stale one, or is delivered."""
        with self._lock:
            for one, stale in told:
                self._by_id.pop(one.job.id or "", None)
                again = one.job.again
                if again is None:
                    continue
                if stale:
                    again.over = True
                    self._by_id[again.id or ""] = again
                    self._start()[1].end([Ended(again, untried=one.untried)])
                else:
                    self._backlog.append(again)


TRANSPORT_ALIASES["remora"] = "remora_queue.kombu:Transport"
