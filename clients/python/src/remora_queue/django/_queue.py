"""The table of tasks."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any

from .. import _statements as statements
from .._errors import NotAQueue
from .._link import Link
from .._queue import Queue

_TRIES = re.compile(r"\btries`?\s*=\s*'?(\d+)", re.IGNORECASE)


class TaskQueue(Queue):
    """One table for all names of queues, which are a column: a new name needs no DDL.

    The priorities hold for all names together. A worker for some of them leases with a condition.
    """

    def ddl(self) -> list[str]:
        columns = (
            "id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
            " queue_name VARCHAR(190) COLLATE utf8mb4_bin NOT NULL,"
            " payload LONGTEXT NOT NULL, at TIMESTAMP(6) NULL, priority INT NOT NULL"
        )
        start, factor, most = self.backoff
        dead = self._named(self.dead)
        options = (
            f"TRANSACTIONAL=1 DUE=at PRIORITY=priority TRIES={self.tries:d}"
            f" BACKOFF='{start:g},{factor:g},{most:g}' DEAD='{dead}'"
        )
        create, engine = "CREATE TABLE IF NOT EXISTS", "ENGINE=QUEUE CHARSET=utf8mb4"
        return [
            f"{create} {dead} ({columns}, failed INT NULL, why TEXT NULL) {engine} FAILED=failed WHY=why",
            f"{create} {self.table} ({columns}) {engine} {options}",
        ]

    @property
    def dead_table(self) -> str:
        return self._named(self.dead)

    def look(self, connection: Any) -> int:
        """Refuses a table that is none for tasks. How often it tries a message: 0 for no limit."""
        state = Link(connection).run(*statements.state(None, self.name))
        try:
            self.check((0, 1, state[2]), False)
        except NotAQueue as error:
            raise NotAQueue(f"{error}: manage.py migrate makes it") from None
        if not self.is_known_transactional:
            raise NotAQueue(f"{self.table} is not TRANSACTIONAL: ROLLBACK would not undo enqueue()")
        options = state[2].decode() if isinstance(state[2], bytes) else state[2]
        tries = _TRIES.search(options)
        return int(tries.group(1)) if tries else 0

    def put_task(self, connection: Any, id: str, message: dict[str, Any], at: datetime | None) -> None:
        if not self.is_known_transactional:
            self.look(connection)
        # In UTC no time occurs twice, and none is missing.
        sql = (
            "SET STATEMENT time_zone = '+00:00' FOR"
            f" INSERT INTO {self.table} (id, queue_name, payload, at, priority) VALUES (%s, %s, %s, %s, %s)"
        )
        due = at and at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
        # Django's highest priority comes first, and the queue's lowest.
        values = (id, message["queue"], json.dumps(message), due, -message["priority"])
        Link(connection).run(sql, values)
