"""The application: its tables and its checks."""

# Django has no types.
# mypy: disable-error-code="import-untyped, import-not-found, misc"

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate

from ._tasks import task_backends
from .backend import RemoraBackend


class RemoraQueueConfig(AppConfig):
    name = "remora_queue.django"
    label = "remora_queue"
    verbose_name = "Tasks"

    def ready(self) -> None:
        post_migrate.connect(make_queues, sender=self)
        checks.register(check_queues, checks.Tags.database)


def backends() -> Iterable[RemoraBackend]:
    return (backend for backend in task_backends.all() if isinstance(backend, RemoraBackend))


def make_queues(using: str, **_: Any) -> None:
    """After each migrate, as settings may name more tables later. A migration would run once."""
    for backend in backends():
        if backend.database == using:
            backend.queue.create(backend.connection())


def check_queues(databases: Iterable[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """What only the server knows: `manage.py check --database default`, and each migrate."""
    found: list[checks.CheckMessage] = []
    for backend in backends():
        if backend.database in (databases or ()) and not backend.check():
            found += backend.check_server()
    return found
