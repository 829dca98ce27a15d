"""The backend: puts tasks into the queue, and reads their results."""

# Django has no types.
# mypy: disable-error-code="import-untyped, import-not-found, misc"

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from .._errors import QueueError
from .._link import Link
from ._queue import TaskQueue
from ._tasks import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
)

# What OPTIONS of TASKS may have.
DEFAULTS: dict[str, Any] = {
    "database": "default",
    "table": "remora_tasks",
    "tries": 5,
    "backoff": (10, 2, 3600),
    "lease": 30,
    "wait": 20,
    "concurrency": 1,
    "transaction": False,
    # Seconds; None for ever, and 0 for no results.
    "keep_results": 7 * 24 * 3600,
}

_UNFINISHED = (TaskResultStatus.READY, TaskResultStatus.RUNNING)


class RemoraBackend(BaseTaskBackend):
    """Tasks in a table with ENGINE=QUEUE, on the connection that Django has to the database."""

    options: dict[str, Any]
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := sorted(self.options.keys() - DEFAULTS.keys()):
            raise ImproperlyConfigured(f"TASKS[{alias!r}] has unknown options: {', '.join(unknown)}")
        self.options = {**DEFAULTS, **self.options}
        if self.options["tries"] < 1:
            raise ImproperlyConfigured(f"TASKS[{alias!r}]: tries must be at least 1")
        self.database: str = self.options["database"]
        self.keep_results: float | None = self.options["keep_results"]
        self.supports_get_result = self.keep_results != 0
        self.queue = TaskQueue(
            self.options["table"], tries=self.options["tries"], backoff=self.options["backoff"]
        )

    # Connections and checks.

    def connection(self) -> Any:
        """Django's connection of this thread."""
        if wrong := self.check():
            raise ImproperlyConfigured(wrong[0].msg)
        return connections[self.database]

    def connect(self) -> Any:
        """Another connection to the same database, of the driver itself."""
        connection = self.connection()
        return connection.get_new_connection(connection.get_connection_params())

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        """What the settings say, without a connection."""
        if self.database not in connections:
            return [self._error(f"the database {self.database!r} is not in DATABASES", 1)]
        vendor = connections[self.database].vendor
        if vendor != "mysql":
            what = f"tasks need MariaDB with ENGINE=QUEUE, and the database {self.database!r} is {vendor}"
            return [self._error(what, 2)]
        if not connections[self.database].settings_dict["AUTOCOMMIT"]:
            return [self._error(f"the database {self.database!r} has AUTOCOMMIT off, and workers need it", 3)]
        if not apps.is_installed("remora_queue.django"):
            return [self._error("remora_queue.django is not in INSTALLED_APPS", 4)]
        return []

    def check_server(self) -> list[checks.CheckMessage]:
        """What the server says. A table that is not there is not wrong: migrate makes it."""
        connection = self.connection()
        if not connection.mysql_is_mariadb:
            return [self._error(f"ENGINE=QUEUE needs MariaDB, but {self.database!r} is MySQL", 5)]
        link = Link(connection)
        sql = "SELECT COUNT(*) FROM information_schema.engines WHERE engine = 'QUEUE'"
        if not link.run(sql)[0]:
            return [self._error(f"the server of {self.database!r} has no ENGINE=QUEUE installed", 6)]
        if self.queue.name in connection.introspection.table_names():
            try:
                self.queue.look(connection)
            except QueueError as error:
                return [self._error(str(error), 7)]
        return []

    def _error(self, what: str, number: int) -> checks.CheckMessage:
        return checks.Error(f"TASKS[{self.alias!r}]: {what}.", id=f"remora_queue.E{number:03}")

    # Tasks.

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Workers see the task when the transaction commits, and never if it does not."""
        self.validate_task(task)
        connection = self.connection()
        message = {
            "task": task.module_path,
            "queue": task.queue_name,
            "priority": task.priority,
            "run_after": task.run_after and task.run_after.isoformat(),
            "enqueued_at": timezone.now().isoformat(),
            "args": args,
            "kwargs": kwargs,
        }
        record = self.record_of(uuid.uuid4().hex, message)
        result = self._result(record, task)
        message.update(args=result.args, kwargs=result.kwargs)
        at = task.run_after
        if at is not None and timezone.is_naive(at):
            at = timezone.make_aware(at)
        with transaction.atomic(using=self.database, savepoint=False):
            self.queue.put_task(connection, record.id, message, at)
            if self.supports_get_result:
                record.save(using=self.database, force_insert=True)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        if not self.supports_get_result:
            raise NotImplementedError(f"TASKS[{self.alias!r}] has keep_results=0: no result is kept")
        record = self.records().filter(pk=result_id).first()
        if record is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(record)

    # Records.

    def records(self) -> Any:
        from .models import TaskRecord

        return TaskRecord.objects.using(self.database).filter(backend=self.alias)

    def record_of(self, id: str, message: dict[str, Any]) -> Any:
        """A new record for a message."""
        from .models import TaskRecord

        at = datetime.fromisoformat(message["enqueued_at"])
        return TaskRecord(id=id, backend=self.alias, task=message["task"], message=message, enqueued_at=at)

    def result_of(self, record: Any) -> Any:
        """What Django shows of a record. An error if its task can't be imported."""
        task = import_string(record.task)
        if not isinstance(task, Task):
            raise ImportError(f"{record.task} is no task")  # noqa: TRY004
        message = record.message
        run_after = message["run_after"] and datetime.fromisoformat(message["run_after"])
        using = {"queue_name": message["queue"], "priority": message["priority"], "run_after": run_after}
        return self._result(record, task.using(backend=self.alias, **using))

    def _result(self, record: Any, task: Any) -> Any:
        times = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")
        result = TaskResult(
            task=task,
            id=record.id,
            status=TaskResultStatus(record.status),
            args=record.message["args"],
            kwargs=record.message["kwargs"],
            backend=self.alias,
            errors=[TaskError(**error) for error in record.errors],
            worker_ids=record.worker_ids,
            **{name: getattr(record, name) for name in times},
        )
        object.__setattr__(result, "_return_value", record.return_value)
        return result

    def tidy(self) -> None:
        """Drops old results, and notes the end of tasks whose worker was killed at their last try."""
        if not self.supports_get_result:
            return
        if self.keep_results is not None:
            old = timezone.now() - timedelta(seconds=self.keep_results)
            self.records().filter(finished_at__lt=old).delete()
        records = connections[self.database].ops.quote_name(self.records().model._meta.db_table)
        sql = (
            f"SELECT r.*, d.why FROM {self.queue.dead_table} d JOIN {records} r ON r.id = d.id"
            " WHERE r.status IN (%s, %s) AND r.backend = %s"
        )
        for record in self.records().raw(sql, [*_UNFINISHED, self.alias]):
            why = record.why or "the lease has ended, as when a worker is killed"
            error = {"exception_class_path": "remora_queue.LeaseLost", "traceback": why}
            changes = {
                "status": TaskResultStatus.FAILED,
                "finished_at": timezone.now(),
                "errors": [*record.errors, error],
            }
            # It may have been moved back to its queue, and done, since it was read.
            if self.records().filter(pk=record.pk, status__in=_UNFINISHED).update(**changes):
                for name, value in changes.items():
                    setattr(record, name, value)
                task_finished.send_robust(type(self), task_result=self.result_of(record))
