"""manage.py remora_worker: runs tasks until SIGTERM."""

# Django has no types.
# mypy: disable-error-code="import-untyped, import-not-found, misc"

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ..._tasks import task_backends
from ...backend import RemoraBackend
from ...worker import run_tasks


class Command(BaseCommand):
    help = "Runs tasks until SIGTERM or SIGINT, and lets those that run end. A second signal ends it at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="a name in TASKS")
        parser.add_argument(
            "--queue", action="append", default=[], help="only this queue; may be given more than once"
        )
        parser.add_argument("--concurrency", type=int, help="how many threads run tasks")
        parser.add_argument(
            "--lease", type=float, help="seconds after which the tasks of a killed worker come again"
        )
        parser.add_argument("--once", action="store_true", help="end when nothing waits")

    def handle(self, *_: Any, **given: Any) -> None:
        backend = task_backends[given["backend"]]
        if not isinstance(backend, RemoraBackend):
            raise CommandError(f"{given['backend']} in TASKS has another backend than RemoraBackend")
        options = {name: given[name] for name in ("concurrency", "lease") if given[name] is not None}
        run_tasks(backend, queues=given["queue"], once=given["once"], **options)
