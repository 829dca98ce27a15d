"""The backend of Django's tasks: what is enqueued, its results, and settings."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import django
import django_site
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections, transaction
from django.test.utils import override_settings
from django_case import RECORDS, Django

from remora_queue import NotAQueue


class Tasks(Django):
    # Enqueue.

    def test_a_task_is_a_part_of_the_transaction(self) -> None:
        with self.assertRaises(OSError), transaction.atomic():
            self.jobs.add.enqueue(1)
            raise OSError
        self.assertEqual((self.count("jobs"), self.count(RECORDS)), (0, 0))
        with self.signals() as sent, transaction.atomic():
            result = self.jobs.add.enqueue(2, b=3)
            self.assertEqual((self.count("jobs"), self.count(RECORDS)), (0, 0), "others do not see it")
        self.assertEqual((self.count("jobs"), self.count(RECORDS)), (1, 1))
        self.assertEqual(sent, [("task_enqueued", "READY")])
        self.assertEqual((result.args, result.kwargs, result.status), ([2], {"b": 3}, "READY"))
        self.assertEqual(self.jobs.add.get_result(result.id), result)

    def test_a_message_without_its_record_is_not_there(self) -> None:
        """Also without a transaction of the caller."""
        from remora_queue.django.models import TaskRecord

        with mock.patch.object(TaskRecord, "save", side_effect=OSError), self.assertRaises(OSError):
            self.jobs.add.enqueue(1)
        self.assertEqual(self.count("jobs"), 0)

    def test_run_after_is_the_same_time_in_every_time_zone(self) -> None:
        at = datetime(2037, 10, 25, 1, 30, tzinfo=timezone(timedelta(hours=2)))
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+05:00'")
        self.addCleanup(connection.close)
        result = self.jobs.add.using(run_after=at).enqueue(1)
        self.assertEqual(self.jobs.add.get_result(result.id).task.run_after, at)
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
            self.jobs.add.using(run_after=at.replace(tzinfo=None)).enqueue(2)
        self.run_sql("SET time_zone = '+00:00', queue_show_owned = ON")
        times = [row[0] for row in self.run_sql("SELECT at FROM jobs ORDER BY payload LIKE '%[1]%' DESC")]
        self.assertEqual(times, [datetime(2037, 10, 24, 23, 30), datetime(2037, 10, 24, 16, 30)])
        self.work()
        self.assertEqual(self.count("jobs"), 2)

    def test_a_delayed_task_runs_when_its_time_has_come(self) -> None:
        past = datetime.now(timezone.utc) - timedelta(seconds=1)
        result = self.jobs.add.using(run_after=past).enqueue(1)
        self.work()
        result.refresh()
        self.assertEqual(result.return_value, 1)

    def test_the_highest_priority_comes_first(self) -> None:
        order: list[int] = []
        for priority in (-100, 100, 0):
            self.jobs.hooks[str(priority)] = lambda priority=priority: order.append(priority)
            self.jobs.calls.using(priority=priority).enqueue(str(priority))
        self.work()
        self.assertEqual(order, [100, 0, -100])

    def test_a_worker_may_be_for_some_queues(self) -> None:
        other, mail = self.jobs.add.enqueue(1), self.jobs.mail.enqueue("ann")
        self.work(queue=["mails", "it's"])
        for result in (other, mail):
            result.refresh()
        self.assertEqual((other.status, mail.status), ("READY", "SUCCESSFUL"))
        self.work()
        other.refresh()
        self.assertEqual(other.return_value, 1)

    # Results.

    def test_a_task_is_tried_again_and_its_result_says_so(self) -> None:
        result = self.jobs.which.enqueue()
        with self.signals() as sent, self.failures_are_logged():
            self.work()
        result.refresh()
        self.assertEqual(result.return_value, [2, result.id])
        self.assertEqual(result.attempts, 2)
        self.assertEqual([error.exception_class for error in result.errors], [OSError])
        self.assertIn("no such host", result.errors[0].traceback)
        self.assertLess(result.started_at, result.last_attempted_at)
        self.assertLess(result.last_attempted_at, result.finished_at)
        started = ("task_started", "RUNNING")
        self.assertEqual(sent, [started, started, ("task_finished", "SUCCESSFUL")])
        self.assertEqual(self.count("jobs"), 0)

    def test_a_task_that_fails_at_all_tries_is_a_dead_letter(self) -> None:
        result = self.jobs.fails.enqueue("never")
        with self.signals() as sent, self.failures_are_logged():
            self.work()
        result.refresh()
        self.assertEqual((result.status, result.attempts, len(result.errors)), ("FAILED", 2, 2))
        self.assertIsNotNone(result.finished_at)
        started = ("task_started", "RUNNING")
        self.assertEqual(sent, [started, started, ("task_finished", "FAILED")])
        dead = self.run_sql("SELECT id, queue_name, failed, why FROM jobs_dead")
        self.assertEqual(dead, [(result.id, "default", 2, "ValueError: never")])

    def test_a_dead_letter_that_is_moved_back_runs_again(self) -> None:
        result = self.jobs.calls.enqueue("nobody")
        with self.failures_are_logged():
            self.work()

        def look() -> str:
            result.refresh()
            return f"{result.status} {result.finished_at}"

        self.jobs.hooks["nobody"] = look
        columns = "id, queue_name, payload, at, priority"
        self.run_sql(f"INSERT INTO jobs ({columns}) SELECT {columns} FROM jobs_dead")
        self.run_sql("TRUNCATE jobs_dead")
        self.work()
        result.refresh()
        self.assertEqual((result.return_value, len(result.errors)), ("RUNNING None", 2))

    def test_a_task_may_say_when_to_try_again(self) -> None:
        result = self.jobs.again.enqueue(3600)
        with self.signals() as sent:
            self.work()
        result.refresh()
        self.assertEqual((result.status, result.finished_at, len(result.errors)), ("READY", None, 1))
        self.assertEqual(sent, [("task_started", "RUNNING")])
        self.assertEqual(self.value("SELECT failed FROM information_schema.queue_owned"), 1)

    def test_async_tasks_run(self) -> None:
        result = async_to_sync(self.jobs.later.aenqueue)(1)
        self.work()
        self.assertEqual(async_to_sync(self.jobs.later.aget_result)(result.id).return_value, 2)

    def test_what_is_nearly_json_is_returned(self) -> None:
        self.jobs.hooks["bytes"] = lambda: (1, b"x")
        result = self.jobs.calls.enqueue("bytes")
        self.work()
        result.refresh()
        self.assertEqual(result.return_value, [1, "x"])

    def test_what_is_no_json_is_refused(self) -> None:
        with self.assertRaises(TypeError):
            self.jobs.add.enqueue(object())
        result = self.jobs.returns_nothing_that_json_has.enqueue()
        with self.failures_are_logged():
            self.work()
        result.refresh()
        self.assertEqual((result.status, result.errors[0].exception_class), ("FAILED", TypeError))

    def test_a_task_that_is_not_there_fails_with_the_reason(self) -> None:
        result = self.jobs.add.enqueue(1)
        with mock.patch.object(self.jobs, "add", None), self.failures_are_logged(), self.signals() as sent:
            self.work()
        why = self.value("SELECT why FROM jobs_dead")
        self.assertEqual(why, "ImportError: django_jobs.add is no task")
        result.refresh()
        self.assertEqual((result.status, result.errors[0].exception_class), ("FAILED", ImportError))
        self.assertEqual(sent, [])
        self.run_sql("INSERT INTO jobs VALUES ('x', 'default', '1', NULL, 0)")
        with self.failures_are_logged():
            self.work()
        self.assertIn("TypeError", self.value("SELECT why FROM jobs_dead WHERE id = 'x'"))

    def test_results_are_of_their_backend(self) -> None:
        backends = self.tasks.task_backends
        result = self.jobs.add.enqueue(1)
        for id, backend in (("nobody", "default"), (result.id, "exact")):
            with self.assertRaises(self.tasks.TaskResultDoesNotExist):
                backends[backend].get_result(id)

    def test_old_results_are_dropped(self) -> None:
        old, new = self.jobs.add.enqueue(1), self.jobs.add.enqueue(2)
        self.work()
        change = f"UPDATE {RECORDS} SET finished_at = finished_at - INTERVAL %s DAY WHERE id = %s"
        self.run_sql(change, 8, old.id)
        self.run_sql(change, 6, new.id)
        self.work()
        self.assertEqual(self.run_sql(f"SELECT id FROM {RECORDS}"), [(new.id,)])
        for_ever = self.Backend("default", {"OPTIONS": {"table": "jobs", "keep_results": None}})
        self.run_sql(change, 999, new.id)
        for_ever.tidy()
        self.assertEqual(for_ever.get_result(new.id).return_value, 2)

    def test_without_results_tasks_are_tried_again_too(self) -> None:
        # Not even looked for.
        self.run_sql(f"RENAME TABLE {RECORDS} TO away")
        self.addCleanup(self.run_sql, f"RENAME TABLE away TO {RECORDS}")
        result = self.jobs.forgotten.enqueue()
        with self.failures_are_logged():
            self.work(backend="forgets")
        self.assertEqual((self.noted("forgotten 1"), self.noted("forgotten 2")), (1, 1))
        self.assertEqual(self.count("forgets"), 0)
        with self.assertRaises(NotImplementedError):
            result.refresh()
        self.assertFalse(self.tasks.task_backends["forgets"].supports_get_result)

    # Settings.

    def test_wrong_settings_are_told(self) -> None:
        def told(**options: Any) -> list[str]:
            backend = self.Backend("x", {"OPTIONS": options})
            with self.assertRaises((ImproperlyConfigured, NotAQueue)):
                backend.enqueue(self.jobs.add, [1], {})
            return [one.msg for one in backend.check() or backend.check_server()]

        sqlite = "TASKS['x']: tasks need MariaDB with ENGINE=QUEUE, and the database 'lite' is sqlite."
        self.assertEqual(told(database="lite"), [sqlite])
        self.assertIn("'nowhere' is not in DATABASES", told(database="nowhere")[0])
        self.assertEqual(told(table="nowhere"), [], "migrate makes it")
        self.run_sql("CREATE TABLE rows_only (id INT) ENGINE=InnoDB")
        self.assertIn("no table with ENGINE=QUEUE", told(table="rows_only")[0])
        self.run_sql("CREATE TABLE plain (id INT) ENGINE=QUEUE")
        self.assertIn("not TRANSACTIONAL", told(table="plain")[0])
        with mock.patch.dict(connection.settings_dict, AUTOCOMMIT=False):
            self.assertIn("AUTOCOMMIT", told()[0])
        with override_settings(INSTALLED_APPS=[]):
            self.assertIn("INSTALLED_APPS", told()[0])
        with self.assertRaisesRegex(ImproperlyConfigured, "trys"):
            self.Backend("x", {"OPTIONS": {"trys": 3}})
        with self.assertRaisesRegex(ImproperlyConfigured, "at least 1"):
            self.Backend("x", {"OPTIONS": {"tries": 0}})
        with self.assertRaisesRegex(NotAQueue, "migrate"):
            self.worker.run_tasks(self.Backend("x", {"OPTIONS": {"table": "nowhere"}}), once=True)

    def test_the_checks_of_django_ask_the_server(self) -> None:
        said = io.StringIO()
        call_command("check", databases=["default"], stdout=said)
        mysql = mock.patch.object(connections["default"], "mysql_is_mariadb", False)
        with mysql:
            with self.assertRaisesRegex(SystemCheckError, "E005"):
                call_command("check", databases=["default"])
            call_command("check", stdout=said)

    def test_migrate_makes_what_is_missing_and_models_have_their_migrations(self) -> None:
        self.run_sql("DROP TABLE jobs, jobs_dead")
        call_command("migrate", verbosity=0)
        self.jobs.add.enqueue(1)
        self.assertEqual(self.count("jobs"), 1)
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)

    def test_only_this_backend_has_workers(self) -> None:
        module = self.tasks.BaseTaskBackend.__module__.replace("base", "dummy.DummyBackend")
        settings = {"default": {"BACKEND": module}}
        with override_settings(TASKS=settings), self.assertRaisesRegex(CommandError, "another backend"):
            self.work()

    def test_the_readme_says_how(self) -> None:
        text = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
        section = text.partition("## Django tasks")[2].partition("\n## ")[0]
        settings, tasks, commands = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)[:3]
        site = django_site
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        begin = f"DATABASES = {{'default': {site.database(self.database)!r}}}\nUSE_TZ = True\n"
        begin += f"import django_site\nINSTALLED_APPS = {['django_tasks'] * (django.VERSION < (6,))}\n"
        (folder / "settings.py").write_text(begin + settings)
        (folder / "shop").mkdir()
        (folder / "shop" / "tasks.py").write_text(tasks.replace("django.tasks", site.TASKS_APP))
        paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        for line in commands.splitlines():
            words = shlex.split(line, comments=True)
            self.assertEqual(words[:2], ["python", "manage.py"])
            once = ["--once"] if words[2] == "remora_worker" else []
            command = [sys.executable, "-B", "-W", "ignore", "-m", "django", *words[2:], *once]
            done = subprocess.run(command, check=False, env=environment, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"no such host", done.stderr)
        owned = "SELECT failed FROM information_schema.queue_owned WHERE table_name = 'remora_tasks'"
        self.assertEqual(self.run_sql(owned), [(1,)], "it comes again in ten seconds")
