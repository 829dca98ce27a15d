"""What the tests of Django share: a site, whose tables are empty at the beginning of each test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import django_site
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from support import Case

TABLES = ("jobs", "exact", "forgets", "jobs_dead", "exact_dead", "forgets_dead")
RECORDS = "remora_queue_taskrecord"


class Django(Case):
    jobs: Any
    tasks: Any
    worker: Any
    Backend: Any

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if settings.configured:
            connections.settings["default"]["NAME"] = cls.database
        else:
            django_site.configure(cls.database)
        call_command("migrate", verbosity=0)
        import django_jobs

        from remora_queue.django import RemoraBackend, _tasks, worker

        cls.jobs = django_jobs
        cls.tasks = _tasks
        cls.worker = worker
        cls.Backend = RemoraBackend
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE noted (what VARCHAR(100)) ENGINE=InnoDB")

    @classmethod
    def tearDownClass(cls) -> None:
        connections.close_all()

    def setUp(self) -> None:
        for table in (*TABLES, RECORDS, "noted"):
            self.run_sql(f"TRUNCATE {table}")
        self.jobs.hooks.clear()

    def work(self, **options: Any) -> None:
        call_command("remora_worker", once=True, **options)

    @contextmanager
    def failures_are_logged(self) -> Any:
        with self.assertLogs("remora_queue", "WARNING") as logs:
            yield logs
        self.assertTrue(logs.output)

    @contextmanager
    def signals(self) -> Any:
        """What is sent, with the status of then."""
        sent: list[tuple[str, str]] = []

        def receiver(name: str) -> Any:
            def receive(sender: Any, task_result: Any, **_: Any) -> None:
                self.assertTrue(issubclass(sender, self.Backend))
                sent.append((name, task_result.status))

            return receive

        receivers = {name: receiver(name) for name in ("task_enqueued", "task_started", "task_finished")}
        for name, one in receivers.items():
            getattr(self.tasks, name).connect(one)
        try:
            yield sent
        finally:
            for name, one in receivers.items():
                getattr(self.tasks, name).disconnect(one)

    def count(self, table: str) -> int:
        return int(self.value(f"SELECT COUNT(*) FROM {table}"))

    def noted(self, what: str) -> int:
        return int(self.value("SELECT COUNT(*) FROM noted WHERE what = %s", what))
