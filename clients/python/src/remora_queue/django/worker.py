"""The worker: runs the tasks of a table."""

# Django has no types.
# mypy: disable-error-code="import-untyped, import-not-found, misc"

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from traceback import format_exception
from typing import Any

from django.db import close_old_connections, connections, transaction
from django.db.utils import Error, InterfaceError, OperationalError
from django.utils import timezone

from .. import _statements as statements
from .._ender import PAUSE_FIRST, PAUSE_MAX
from .._errors import LASTING, LeaseLost, number_of
from .._job import Job
from .._link import Link, OwnLink
from .._queue import end_in_transaction
from .._worker import Worker
from ._tasks import TaskContext, TaskResultStatus, normalize_json, task_finished, task_started
from .backend import RemoraBackend

log = logging.getLogger("remora_queue")

# Seconds between two looks for old results and for tasks whose worker was killed.
_TIDY_EVERY = 60.0


def run_tasks(backend: RemoraBackend, queues: Sequence[str] = (), once: bool = False, **options: Any) -> None:
    """Works until SIGTERM or SIGINT; with `once` until nothing waits. Options go before settings."""
    worker = TaskWorker(backend, queues, **options)
    # Tables that are not there must end the worker, and not use up the tries of tasks.
    worker.tries = backend.queue.look(backend.connection())
    backend.tidy()
    # This thread needs none meanwhile, and the server would close it one day.
    backend.connection().close()
    ends = threading.Event()
    tidies = threading.Thread(target=_tidy_until, args=(backend, ends), daemon=True)
    tidies.start()
    try:
        worker.run(once=once)
    finally:
        ends.set()
        tidies.join()


def _tidy_until(backend: RemoraBackend, ends: threading.Event) -> None:
    """The last time when the worker has ended."""
    is_last = False
    while not is_last:
        is_last = ends.wait(_TIDY_EVERY)
        try:
            backend.tidy()
        except Exception:
            log.warning("old results could not be dropped, which is tried again", exc_info=True)
        connections.close_all()


class _InAtomic(Link):
    """Django's connection within atomic(), which commits."""

    def commit(self) -> None:
        pass


class TaskWorker(Worker):
    """Runs tasks on Django's connections. The end of a message and its result are one COMMIT."""

    def __init__(self, backend: RemoraBackend, queues: Sequence[str] = (), **options: Any) -> None:
        given = {name: backend.options[name] for name in ("lease", "wait", "concurrency")} | options
        where = f"queue_name IN ({', '.join(map(statements.literal, queues))})" if queues else None
        connect = backend.connect
        super().__init__(backend.queue, self._run, connect=connect, where=where, transaction=True, **given)
        self.backend = backend
        self.tries = backend.queue.tries
        self.id = f"{socket.gethostname()}-{os.getpid()}"

    def _work(self) -> None:
        try:
            super()._work()
        finally:
            connections.close_all()

    def _call_in_transaction(self, link: OwnLink, job: Job) -> bool:
        """In a transaction of Django, and so on another connection than that of Worker."""
        link.close()
        close_old_connections()
        try:
            self.function(job)
        finally:
            close_old_connections()
        return False

    def _run(self, job: Job) -> None:
        one = _Try(self, job)
        try:
            one.insist(one.begin)
            if self.backend.options["transaction"]:
                with one.atomic():
                    one.call()
                    one.end()
            else:
                one.call()
                one.insist(one.end_alone)
        except LeaseLost:
            # Somebody else runs the task, and what is known of it.
            raise
        except BaseException as error:
            if not one.committed:
                one.fail(error)
                raise
            log.exception("the task %s is done, and a function of on_commit() has failed", job.id)
        one.finished()


class _Try:
    """One try of one task."""

    def __init__(self, worker: TaskWorker, job: Job) -> None:
        self.worker = worker
        self.backend = worker.backend
        self.job = job
        self.record: Any = None
        self.result: Any = None
        self.returned: Any = None
        self.committed = False

    def save(self, **changes: Any) -> None:
        """Changes the record, in the transaction that is open. There may be none, if no results are kept."""
        if self.backend.supports_get_result:
            self.backend.records().filter(pk=self.record.pk).update(**changes)
        for name, value in changes.items():
            setattr(self.record, name, value)

    def begin(self) -> None:
        job, now = self.job, timezone.now()
        if self.backend.supports_get_result:
            self.record = self.backend.records().filter(pk=job.id).first()
        if self.record is None:
            self.record = self.backend.record_of(job.id or "", job.payload)
        # A worker that is killed may leave no name. The length counts the tries.
        before = self.record.worker_ids[: job.tries - 1]
        before += [""] * (job.tries - 1 - len(before))
        self.save(
            status=TaskResultStatus.RUNNING,
            started_at=self.record.started_at or now,
            last_attempted_at=now,
            finished_at=None,
            worker_ids=[*before, self.worker.id],
        )
        self.result = self.backend.result_of(self.record)
        task_started.send_robust(type(self.backend), task_result=self.result)

    def call(self) -> None:
        result = self.result
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        self.returned = normalize_json(result.task.call(*context, *result.args, **result.kwargs))

    @contextmanager
    def atomic(self) -> Iterator[None]:
        using = self.backend.database
        with transaction.atomic(using=using):
            # The first one, so that it is called though one of the task fails.
            transaction.on_commit(self._note_commit, using=using)
            Link(connections[using]).run(statements.MARK)
            yield

    def _note_commit(self) -> None:
        self.committed = True

    def end(self) -> None:
        """Within atomic(): the result and the end of the message."""
        self.save(status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), return_value=self.returned)
        self.worker._over([self.job])
        end_in_transaction(_InAtomic(connections[self.backend.database]), self.job)

    def end_alone(self) -> None:
        with self.atomic():
            self.end()

    def insist(self, tell: Callable[[], None]) -> None:
        """While the server is away, tries again for as long as the lease. The task does not run meanwhile."""
        started, pause = time.monotonic(), PAUSE_FIRST
        while True:
            try:
                return tell()
            except (InterfaceError, OperationalError) as error:
                if number_of(error) in LASTING or time.monotonic() - started > self.worker.lease:
                    raise
                log.warning("a try of a task could not be noted, which is tried again: %s", error)
                with suppress(Error):
                    connections[self.backend.database].close()
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)

    def fail(self, error: BaseException) -> None:
        """A task is ready again until its last try."""
        if self.record is None or self.job.lost.is_set():
            return
        is_last = 0 < self.worker.tries <= self.job.tries
        kind = type(error)
        told = {
            "exception_class_path": f"{kind.__module__}.{kind.__qualname__}",
            "traceback": "".join(format_exception(error)),
        }
        changes = {
            "status": TaskResultStatus.FAILED if is_last else TaskResultStatus.READY,
            "finished_at": timezone.now() if is_last else None,
            "errors": [*self.record.errors, told],
        }
        try:
            self.insist(lambda: self.save(**changes))
        except Exception:
            log.warning("the failure of %s could not be noted", self.job.token, exc_info=True)
        if is_last:
            self.finished()

    def finished(self) -> None:
        # Without it the task could not be imported, and receivers get none.
        if self.result:
            result = self.backend.result_of(self.record)
            task_finished.send_robust(type(self.backend), task_result=result)
