"""Ends messages that workers are done with: many with one statement, on a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import _link
from . import _statements as statements
from ._errors import LASTING, number_of
from ._job import Job, stale_among
from ._link import Connect, OwnLink

log = logging.getLogger("remora_queue")

# Seconds between two tries to reach the server: at first, and at most.
PAUSE_FIRST, PAUSE_MAX = 0.1, 5.0


@dataclass
class Ended:
    """A job that has ended: done, or failed with a reason and perhaps a delay, or not tried at all."""

    job: Job
    failure: tuple[str, float | None] | None = None
    untried: bool = False


# Is told how jobs have ended, and whether their tokens were stale.
After = Callable[[list[tuple[Ended, bool]]], None]


class Ender:
    """Until a message has ended, its job counts as running. While the server is away, ends are kept."""

    def __init__(self, connect: Connect, lease: float, after: After) -> None:
        self._connect = connect
        self._lease = lease
        self._after = after
        self._ended: list[Ended] = []
        self._changed = threading.Condition()
        # How many were given, and how many the server knows of.
        self._given = self._told = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="remora-queue-ender", daemon=True)
        self._thread.start()

    def end(self, ended: list[Ended]) -> None:
        with self._changed:
            self._ended += ended
            self._given += len(ended)
            self._changed.notify_all()

    def flush(self, limit: float) -> None:
        """Waits until the server knows of all ends so far, or for so many seconds."""
        with self._changed:
            given = self._given
            self._changed.wait_for(lambda: self._told >= given, limit)

    def close(self) -> None:
        """Ends what is left. A lease that the server does not hear of in its time ends by itself."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        link: OwnLink | None = None
        pause, since = PAUSE_FIRST, None
        left: list[Ended] = []
        while True:
            with self._changed:
                if not left:
                    self._changed.wait_for(lambda: bool(self._ended) or self._closed)
                left += self._ended
                self._ended = []
                if self._closed and not left:
                    break
            try:
                link = link or OwnLink(self._connect, limit=max(self._lease, _link.ANSWER_PATIENCE))
                while left:
                    done = self._one_statement(link, left)
                    left = left[done:]
                pause, since = PAUSE_FIRST, None
            except Exception as error:
                log.warning("ends of jobs could not be told, which is tried again: %s", error)
                since = since or time.monotonic()
                if number_of(error) in LASTING or (self._closed and time.monotonic() - since > self._lease):
                    left = self._give_up(left)
                if link:
                    link.close()
                link = None
                with self._changed:
                    self._changed.wait_for(lambda: False, pause)
                pause = min(pause * 2, PAUSE_MAX)
        if link:
            link.close()

    def _one_statement(self, link: OwnLink, left: list[Ended]) -> int:
        """Ends the first ones that end in the same way, and returns how many."""
        first = left[0]
        some = [first]
        for one in left[1 : statements.TOKENS_AT_ONCE]:
            if (one.failure, one.untried) != (first.failure, first.untried):
                break
            some.append(one)
        tokens = [one.job.token for one in some]
        if first.failure is not None:
            sql, values = statements.nack(tokens, *first.failure)
        elif first.untried:
            sql, values = statements.release(tokens)
        else:
            sql, values = statements.ack(tokens)
        stale = stale_among(link.run(sql, values)[1])
        for one in some:
            if one.job.token in stale and not one.untried:
                log.warning("%s came too late: its message may be worked on twice", one.job.token)
        self._over([(one, one.job.token in stale) for one in some])
        return len(some)

    def _over(self, told: list[tuple[Ended, bool]]) -> None:
        self._after(told)
        with self._changed:
            self._told += len(told)
            self._changed.notify_all()

    def _give_up(self, left: list[Ended]) -> list[Ended]:
        for one in left:
            log.error("%s could not be ended; it comes again when its lease has ended", one.job.token)
        self._over([(one, False) for one in left])
        return []
