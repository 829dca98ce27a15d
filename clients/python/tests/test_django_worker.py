"""Workers of Django's tasks: transactions, lost connections, stops, kills."""

from __future__ import annotations

import signal
import threading
from typing import Any
from unittest import mock

from django.db import connection, connections
from django_case import Django
from support import PATIENCE, Deadlock, until


class Workers(Django):
    # In a transaction.

    def test_what_a_task_changes_is_one_commit_with_its_end(self) -> None:
        result = self.jobs.exact.enqueue()
        with self.failures_are_logged():
            self.work(backend="exact")
        result.refresh()
        self.assertEqual((result.status, result.attempts), ("SUCCESSFUL", 2))
        self.assertEqual((self.noted("exact 1"), self.noted("exact 2")), (0, 1))

    def test_a_task_whose_message_is_lost_changes_nothing(self) -> None:
        def lose() -> str:
            self.jobs.note("lost")
            self.run_sql("TRUNCATE exact")
            return "done"

        self.jobs.hooks["lose"] = lose
        result = self.jobs.calls.using(backend="exact").enqueue("lose")
        with self.failures_are_logged() as logs:
            self.work(backend="exact")
        self.assertIn("LeaseLost", "".join(logs.output))
        result.refresh()
        self.assertEqual((result.status, result.errors, self.noted("lost")), ("RUNNING", [], 0))

    def test_a_task_that_fails_when_its_lease_is_lost_says_nothing(self) -> None:
        def lose(one: Any) -> None:
            self.run_sql("TRUNCATE jobs")
            self.assertTrue(one.job.lost.wait(PATIENCE))
            raise OSError

        result = self.jobs.add.enqueue(1)
        with mock.patch.object(self.worker._Try, "call", lose), self.failures_are_logged():
            self.work(lease=0.3)
        result.refresh()
        self.assertEqual((result.status, result.errors), ("RUNNING", []), "somebody else may run it")

    def test_a_deadlock_that_a_task_ignores_is_a_failed_try(self) -> None:
        def deadlock() -> None:
            self.jobs.hooks["deadlock"] = lambda: None
            other = Deadlock(self)
            with connection.cursor() as cursor:
                cursor.execute(Deadlock.FIRST)
                other.meet()
                try:
                    cursor.execute(Deadlock.LAST)
                finally:
                    other.end()

        self.jobs.hooks["deadlock"] = deadlock
        result = self.jobs.ignores_deadlock.enqueue()
        with self.failures_are_logged():
            self.work(backend="exact")
        result.refresh()
        self.assertEqual((result.status, result.attempts), ("SUCCESSFUL", 2))
        self.assertEqual((self.noted("before the deadlock"), self.noted("after the deadlock")), (1, 0))

    def test_hooks_run_after_the_commit_and_do_not_undo_it(self) -> None:
        result = self.jobs.with_hook.enqueue()
        with self.failures_are_logged() as logs:
            self.work(backend="exact")
        self.assertIn("on_commit", logs.output[0])
        result.refresh()
        self.assertEqual((result.return_value, result.errors, self.noted("hook")), ("done", [], 1))
        self.assertEqual((self.count("exact"), self.count("exact_dead")), (0, 0))

    # Workers.

    def test_a_task_is_not_run_again_because_its_connection_has_ended(self) -> None:
        def lose_connection() -> int:
            with connection.cursor() as cursor:
                cursor.execute("SELECT CONNECTION_ID()")
                self.run_sql("KILL %s", cursor.fetchone()[0])
            return 1

        self.jobs.hooks["lose"] = lose_connection
        called = []

        def lose_first(name: str) -> Any:
            method = getattr(self.worker._Try, name)

            def lose(one: Any) -> None:
                called.append(name)
                if called.count(name) == 1:
                    lose_connection()
                method(one)

            return mock.patch.object(self.worker._Try, name, lose)

        result = self.jobs.calls.enqueue("lose")
        with lose_first("begin"), lose_first("end"), self.failures_are_logged():
            self.work()
        result.refresh()
        self.assertEqual((result.return_value, result.attempts), (1, 1))
        self.assertEqual(called, ["begin", "begin", "end", "end"])

    def test_connections_are_looked_at_before_and_after_a_task(self) -> None:
        called: list[str] = []
        self.jobs.hooks["note"] = lambda: called.append("task")
        end = self.worker.end_in_transaction

        def check_over(link: Any, job: Any) -> None:
            called.append("over" if job.over else "not over")
            end(link, job)

        self.jobs.calls.enqueue("note")
        ends = mock.patch.object(self.worker, "end_in_transaction", check_over)
        with ends, mock.patch.object(self.worker, "close_old_connections", lambda: called.append("close")):
            self.work()
        self.assertEqual(called, ["close", "task", "over", "close"])

    def test_a_receiver_that_fails_is_no_failed_try(self) -> None:
        def fail(**_: Any) -> None:
            raise OSError

        for one in (self.tasks.task_started, self.tasks.task_finished):
            one.connect(fail)
            self.addCleanup(one.disconnect, fail)
        result = self.jobs.add.enqueue(1)
        with self.assertLogs("django.dispatch"), self.assertNoLogs("remora_queue", "WARNING"):
            self.work()
        result.refresh()
        self.assertEqual((result.return_value, result.attempts), (1, 1))

    def test_tasks_run_at_the_same_time_and_close_their_connections(self) -> None:
        sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = %s"
        before = self.value(sql, self.database)
        barrier = threading.Barrier(2)
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            own = cursor.fetchone()[0]

        def is_closed() -> bool:
            with connection.cursor() as cursor:
                sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s"
                cursor.execute(sql, (own,))
                return not cursor.fetchone()[0]

        def meet() -> int:
            until("the first thread has a connection", is_closed)
            return barrier.wait(PATIENCE)

        self.jobs.hooks["meet"] = meet
        results = [self.jobs.calls.enqueue("meet") for _ in range(2)]
        with mock.patch.dict(connections.settings["default"], CONN_MAX_AGE=None):
            self.work(concurrency=2)
        for result in results:
            result.refresh()
        self.assertEqual(sorted(result.return_value for result in results), [0, 1])
        until("connections are left", lambda: self.value(sql, self.database) <= before)

    def test_a_worker_that_is_killed_loses_no_task(self) -> None:
        killed, poison = self.jobs.until_told.enqueue("killed"), self.jobs.until_told.enqueue("poison")
        for _ in range(2):
            worker = self.program("django_site.py", "remora_worker", "--concurrency", "2")
            until("they do not begin", lambda n=_ + 1: self.noted("poison begins") == n)
            until("they do not begin", lambda n=_ + 1: self.noted("killed begins") == n)
            killed.refresh()
            self.assertEqual((killed.status, killed.attempts), ("RUNNING", _ + 1))
            if _ == 1:
                self.jobs.note("killed may end")
                until("it does not end", lambda: killed.refresh() or killed.is_finished)
            worker.kill()
            worker.wait()
        self.assertEqual((killed.status, killed.attempts, self.noted("killed ends")), ("SUCCESSFUL", 2, 1))
        until("it is not moved", lambda: self.count("jobs_dead") == 1)
        with self.signals() as sent:
            self.work()
        poison.refresh()
        self.assertEqual((poison.status, poison.attempts, sent), ("FAILED", 2, [("task_finished", "FAILED")]))
        self.assertEqual(poison.errors[0].exception_class.__name__, "LeaseLost")
        self.assertIn("lease", poison.errors[0].traceback)

    def test_sigterm_ends_a_worker_when_its_task_has_ended(self) -> None:
        result = self.jobs.until_told.enqueue("stop")
        worker = self.program("django_site.py", "remora_worker")
        until("it does not begin", lambda: self.noted("stop begins"))
        worker.send_signal(signal.SIGTERM)
        self.jobs.note("stop may end")
        self.assertEqual(worker.wait(PATIENCE), 0)
        result.refresh()
        self.assertEqual((result.status, self.noted("stop ends")), ("SUCCESSFUL", 1))
        idle = self.program("django_site.py", "remora_worker")
        self.until_waiting()
        idle.send_signal(signal.SIGTERM)
        self.assertEqual(idle.wait(PATIENCE), 0)
