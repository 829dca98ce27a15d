"""Extends leases while the work goes on, from a thread with a connection of its own."""

from __future__ import annotations

import logging
import threading

from . import _statements as statements
from ._job import Job, stale_among
from ._link import Connect, OwnLink

log = logging.getLogger("remora_queue")

# Of the lease. Two tries may fail before it ends.
_PART = 1 / 3


class Keeper:
    """Has a thread and, from the first extension on, a connection. Jobs that end sooner cost neither."""

    def __init__(self, connect: Connect, lease: float) -> None:
        self._connect = connect
        self._lease = lease
        self._jobs: set[Job] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="remora-queue-keeper", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        with self._changed:
            job.lost.clear()
            self._jobs.add(job)

    def remove(self, job: Job) -> None:
        with self._changed:
            self._jobs.discard(job)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        link: OwnLink | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, self._lease * _PART)
                if self._closed:
                    break
                jobs = {job.token: job for job in self._jobs}
            if not jobs:
                continue
            try:
                # A connection that does not answer must not use up the lease.
                link = link or OwnLink(self._connect, limit=self._lease)
                self._extend(link, jobs)
            except Exception as error:
                log.warning("leases could not be extended, which is tried again: %s", error)
                if link:
                    link.close()
                link = None
        if link:
            link.close()

    def _extend(self, link: OwnLink, jobs: dict[str, Job]) -> None:
        tokens = list(jobs)
        for at in range(0, len(tokens), statements.TOKENS_AT_ONCE):
            some = tokens[at : at + statements.TOKENS_AT_ONCE]
            stale = stale_among(link.run(*statements.extend(some, self._lease))[1])
            with self._changed:
                # One that is leased again meanwhile has another token, and one that has ended is gone.
                for job in (jobs[token] for token in stale):
                    if job in self._jobs and job.token in stale:
                        job.lost.set()
                        self._jobs.discard(job)
                        log.warning("the lease of %s has ended while its job runs", job.token)
