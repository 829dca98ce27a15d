"""Workers: retries, leases that are extended, stops, kills."""

from __future__ import annotations

import random
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pymysql
from support import PATIENCE, SERVER, Case, Deadlock, Gate, driver_error, open_by_driver, until

from remora_queue import Message, Queue, QueueError, Retry, Worker, worker
from remora_queue._errors import number_of


class Work(Case):
    def queue(self, name: str, **options: Any) -> Queue:
        options = {"tries": 3, "backoff": (0, 1, 0), **options}
        made = Queue(name, connect=self.plain, **options)
        made.create(self.connect())
        return made

    def put(self, queue: Queue, *payloads: Any) -> list[str]:
        messages = [Message(payload) for payload in payloads]
        return queue.put_many(self.connect(autocommit=True), messages)

    def count(self, table: str) -> int:
        return int(self.value(f"SELECT COUNT(*) FROM {table}"))

    def is_there(self, number: int) -> bool:
        sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s"
        return bool(self.value(sql, number))

    def test_jobs_are_done_or_tried_again_or_dead(self) -> None:
        queue = self.queue("some")
        put = self.put(queue, "good", "twice", "never", "later")
        tried: list[tuple[str, int]] = []

        @worker(queue)
        def work(job: Any) -> None:
            tried.append((job.payload, job.tries))
            if job.payload == "never" or (job.payload == "twice" and job.tries == 1):
                raise OSError("no such host")
            if job.payload == "later":
                raise Retry("not yet", delay=3600)
            self.assertEqual(job.why, "OSError: no such host" if job.tries > 1 else None)
            self.assertIn(job.id, put)

        with self.assertLogs("remora_queue", "WARNING"):
            work.run(once=True)
        wanted = [
            ("good", 1),
            ("later", 1),
            ("never", 1),
            ("never", 2),
            ("never", 3),
            ("twice", 1),
            ("twice", 2),
        ]
        self.assertEqual(sorted(tried), wanted)
        dead = self.run_sql("SELECT id, payload, failed, why FROM some_dead")
        self.assertEqual(dead, [(put[2], '"never"', 3, "OSError: no such host")])
        owned = self.run_sql(
            "SELECT failed FROM information_schema.queue_owned"
            " WHERE table_schema = 'work' AND table_name = 'some'"
        )
        self.assertEqual(owned, [(1,)], "one is to come in an hour")

    def test_a_job_that_takes_longer_than_its_lease_runs_once(self) -> None:
        queue = self.queue("long")
        self.put(queue, 1)
        seen: list[int] = []

        @worker(queue, lease=3, concurrency=2)
        def work(job: Any) -> None:
            # Until it was extended twice. The other thread would get it if it were not.
            first = self.leased_until("long")
            until("it is not extended", lambda: (self.leased_until("long") or 0) > first + 1.5)
            seen.append(job.tries)
            work.stop()

        work.run()
        self.assertEqual(seen, [1])
        self.assertEqual(self.count("`long`"), 0)

    def test_a_message_that_comes_again_is_not_run_again_but_kept(self) -> None:
        queue = self.queue("again")
        self.put(queue, 1)
        ran, taken = [], threading.Event()

        class Deaf(Worker):
            """Does not extend, so that the lease ends, and says when the message came again."""

            def _runs_already(self, job: Any) -> bool:
                runs = super()._runs_already(job)
                if runs:
                    taken.set()
                return runs

        def work(job: Any) -> None:
            ran.append(job.tries)
            one._keeper.remove(job)
            self.assertTrue(taken.wait(PATIENCE))
            self.assertGreater(job.tries, 1)
            one.stop()

        one = Deaf(queue, work, lease=0.5, concurrency=2)
        one.run()
        self.assertEqual(ran, [1])
        self.assertEqual(self.count("again"), 0, "the new lease has ended it")
        self.assertEqual(self.count("again_dead"), 0)

    def test_a_message_that_is_back_before_its_end_is_known_runs_again(self) -> None:
        queue = self.queue("back")
        self.put(queue, 1)
        ran: list[int] = []

        class Slow(Worker):
            """Hears of the end of a job only when its message was leased again."""

            def _ended(self, told: Any) -> None:
                job = told[0][0].job
                if job.tries == 1:
                    until("it does not come again", lambda: job.again)
                super()._ended(told)

        def work(job: Any) -> None:
            ran.append(job.tries)
            if job.tries == 1:
                raise Retry("once more", delay=0)
            one.stop()

        one = Slow(queue, work, concurrency=2)
        one.run()
        self.assertEqual(ran, [1, 2])
        self.assertEqual(self.count("back"), 0)

    def test_a_message_whose_lease_ends_before_its_end_is_told_ends(self) -> None:
        queue = self.queue("late")
        self.put(queue, 1)
        ran: list[int] = []

        def work(job: Any) -> None:
            ran.append(job.tries)
            one._keeper.remove(job)
            # As if the function had returned, and the server did not hear of it.
            job.over = True
            until("it does not come again", lambda: job.again)
            one.stop()

        one = Worker(queue, work, lease=0.5, concurrency=2)
        one.run()
        self.assertEqual(ran, [1])
        self.assertEqual(self.count("late"), 0)

    def test_no_more_run_than_are_allowed_and_as_many_as_can(self) -> None:
        queue = self.queue("many")
        self.put(queue, *range(30))
        together, lock = threading.Barrier(3, timeout=PATIENCE), threading.Lock()
        running, most = 0, 0

        @worker(queue, concurrency=3)
        def work(_job: Any) -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            together.wait()
            with lock:
                running -= 1

        work.run(once=True)
        self.assertEqual(most, 3)
        self.assertEqual(self.count("many"), 0)

    def test_each_job_wakes_one_thread_and_no_job_is_left(self) -> None:
        queue = self.queue("woken")
        # All run at the same time, or none ends.
        meet = threading.Barrier(4)
        ended: list[int] = []

        def work(job: Any) -> None:
            if job.payload < 40:
                meet.wait(PATIENCE)
            ended.append(job.payload)

        one = Worker(queue, work, concurrency=8)
        woken, wait = 0, one._has_ready.wait

        def count(timeout: float | None = None) -> bool:
            nonlocal woken
            result = wait(timeout)
            woken += not one._stopping
            return result

        one._has_ready.wait = count  # type: ignore[method-assign]
        runs = threading.Thread(target=one.run, kwargs={"signals": False}, daemon=True)
        runs.start()
        for first in range(0, 40, 4):
            self.put(queue, *range(first, first + 4))
            until("four have met", lambda first=first: len(ended) == first + 4)
        # More than there are threads.
        self.put(queue, *range(40, 90))
        until("all have ended", lambda: len(ended) == 90)
        one.stop()
        runs.join(PATIENCE)
        self.assertFalse(runs.is_alive())
        self.assertEqual((sorted(ended), self.count("woken")), (list(range(90)), 0))
        self.assertGreaterEqual(woken, 40)
        self.assertLessEqual(woken, 90)

    def test_a_worker_that_is_to_end_hears_of_the_last_end(self) -> None:
        queue = self.queue("last")
        self.put(queue, "only")
        one = Worker(queue, lambda _job: time.sleep(0.3), concurrency=2)
        told = one._ended

        def slowly(*arguments: Any) -> None:
            # The thread is free meanwhile, and the message still counts as one that runs.
            time.sleep(0.3)
            told(*arguments)

        one._ended = slowly  # type: ignore[method-assign]
        runs = threading.Thread(target=one.run, kwargs={"once": True, "signals": False}, daemon=True)
        runs.start()
        runs.join(PATIENCE)
        self.assertFalse(runs.is_alive())

    def test_a_worker_that_waits_for_room_hears_of_it(self) -> None:
        queue = self.queue("room")
        self.put(queue, "one", "two")
        one = Worker(queue, lambda *_: None, transaction=True)
        told = one._ended

        def slowly(*arguments: Any) -> None:
            # The message has ended, and the thread is not free yet.
            told(*arguments)
            time.sleep(0.3)

        one._ended = slowly  # type: ignore[method-assign]
        runs = threading.Thread(target=one.run, kwargs={"once": True, "signals": False}, daemon=True)
        runs.start()
        runs.join(PATIENCE)
        self.assertFalse(runs.is_alive())
        self.assertEqual(self.count("room"), 0)

    def test_a_batch_ends_without_those_that_failed(self) -> None:
        queue = self.queue("batch")
        self.put(queue, *range(25))
        sizes = []

        @worker(queue, batch=10)
        def work(jobs: list[Any]) -> None:
            sizes.append(len(jobs))
            for job in jobs:
                if job.payload in (7, 23):
                    job.fail("not this one", delay=3600)
            if any(job.payload >= 20 for job in jobs):
                raise OSError("one of the last")

        with self.assertLogs("remora_queue", "WARNING"):
            work.run(once=True)
        # The last batch is tried three times, then its rows are dead. They may come again one by one.
        # 23 has said when it comes again.
        self.assertEqual((sizes[:3], sum(sizes[3:])), ([10, 10, 5], 8))
        self.assertEqual(self.count("batch"), 2)
        self.assertEqual(self.count("batch_dead"), 4)

    def test_a_transaction_ends_the_message_or_changes_nothing(self) -> None:
        queue = self.queue("exact")
        self.run_sql("CREATE TABLE exactly (n INT PRIMARY KEY) ENGINE=InnoDB")
        self.run_sql("INSERT INTO exactly VALUES (3)")
        self.put(queue, 1, 2, 3, 4)

        @worker(queue, transaction=True, concurrency=2)
        def work(job: Any, connection: Any) -> None:
            connection.cursor().execute("INSERT INTO exactly VALUES (%s)", (job.payload,))
            if job.payload == 2 and job.tries == 1:
                raise RuntimeError("after its work")
            if job.payload == 4 and job.tries < 3:
                job.fail("not now")

        with self.assertLogs("remora_queue", "WARNING"):
            work.run(once=True)
        self.assertEqual(self.run_sql("SELECT n FROM exactly ORDER BY n"), [(1,), (2,), (3,), (4,)])
        dead = self.run_sql("SELECT payload, failed FROM exact_dead")
        self.assertEqual(dead, [("3", 3)], "a transaction that fails each time does not come for ever")
        self.assertEqual(self.count("exact"), 0)

    def test_work_that_a_deadlock_has_rolled_back_is_done_again(self) -> None:
        queue = self.queue("deadlock")
        self.run_sql("CREATE TABLE deadlocked (n INT PRIMARY KEY) ENGINE=InnoDB")
        self.put(queue, 1)
        deadlock = Deadlock(self)
        whys = []

        @worker(queue, transaction=True)
        def work(job: Any, connection: Any) -> None:
            whys.append(job.why)
            cursor = connection.cursor()
            if job.tries == 1:
                cursor.execute(deadlock.FIRST)
                deadlock.meet()
                # Whoever ignores this has changed nothing.
                with suppress(driver_error()):
                    cursor.execute(deadlock.LAST)
            # The first one is in another transaction. Then it must not be kept.
            cursor.execute("INSERT INTO deadlocked VALUES (%s)", (job.tries,))

        with self.assertLogs("remora_queue", "WARNING"):
            work.run(once=True)
        deadlock.end()
        why = "QueueError: the transaction of the job had ended before its message, as a deadlock does"
        self.assertEqual(whys, [None, why])
        self.assertEqual(self.run_sql("SELECT n FROM deadlocked"), [(2,)])
        self.assertEqual(self.count("deadlock"), 0)

    def test_an_answer_from_before_the_end_of_a_job_does_not_end_the_worker(self) -> None:
        queue = self.queue("before")
        self.put(queue, 1)
        tries = []
        answered = threading.Event()

        class Slow(Worker):
            """Hears that nothing waits when the job that ran has failed, and its message waits again."""

            def _lease_some(self, free: int, wait: float) -> bool:
                found = super()._lease_some(free, wait)
                if not found and not answered.is_set():
                    answered.set()
                    until("it does not end", lambda: not self._running and self._free == self.concurrency)
                return found

        def work(job: Any) -> None:
            tries.append(job.tries)
            if job.tries == 1:
                self.assertTrue(answered.wait(PATIENCE))
                raise Retry("once more", delay=0)

        Slow(queue, work, concurrency=2).run(once=True)
        self.assertEqual(tries, [1, 2])

    def test_an_extension_that_is_not_answered_does_not_hold_up_the_next(self) -> None:
        gate = Gate(self)
        connect = partial(open_by_driver, self.database, gate.path, 2)
        queue = self.queue("silent")
        self.put(queue, 1)

        def until_extended() -> None:
            first = self.leased_until("silent")
            until("it is not extended", lambda: (self.leased_until("silent") or 0) > first + 0.5)

        def work(_job: Any) -> None:
            until_extended()
            gate.is_silent = True
            until("it is not seen", lambda: any("could not be extended" in line for line in logs.output))
            gate.is_silent = False
            until_extended()
            one.stop()

        one = Worker(queue, work, connect=connect, wait=1, lease=3)
        with self.assertLogs("remora_queue", "WARNING") as logs:
            one.run()
        self.assertEqual(self.count("silent"), 0)

    def test_a_wait_that_is_not_answered_is_given_up(self) -> None:
        gate = Gate(self)
        connect = partial(open_by_driver, self.database, gate.path, 2)
        queue = self.queue("deaf")
        one = Worker(queue, lambda _job: one.stop(), connect=connect, wait=1, lease=2)
        with mock.patch("remora_queue._link.ANSWER_PATIENCE", 1.0):
            thread = threading.Thread(target=one.run, kwargs={"signals": False}, daemon=True)
            thread.start()
            self.until_waiting()
            gate.is_silent = True
            self.until_waiting(0)
            gate.is_silent = False
            self.put(queue, 1)
            thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.count("deaf"), 0)

    def test_what_will_never_work_ends_the_worker(self) -> None:
        queue = self.queue("wrong")
        with self.assertRaises(driver_error()) as raised:
            Worker(queue, print, where="nothing = 1").run()
        self.assertEqual(number_of(raised.exception), 51001)
        with self.assertRaises(driver_error()) as raised:
            Worker(Queue("nothing", connect=self.plain), print).run()
        self.assertEqual(number_of(raised.exception), 1146)
        for options in ({"transaction": True, "batch": 2}, {}):
            with self.assertRaises(QueueError):
                Worker(Queue("wrong"), print, **options)  # type: ignore[arg-type]

    def test_a_worker_continues_when_its_connections_end(self) -> None:
        queue = self.queue("broken")
        done: list[Any] = []
        one = Worker(queue, lambda job: done.append(job.payload), wait=600)
        thread = threading.Thread(target=one.run)
        thread.start()
        for payload in range(3):
            self.until_waiting()
            for number, state in self.run_sql(
                "SELECT id, state FROM information_schema.processlist"
                " WHERE db = 'work' AND id <> CONNECTION_ID()"
            ):
                self.kill(number)
                if state == "Waiting in queue_lease":
                    until("it is not ended", lambda number=number: not self.is_there(number))
            self.until_waiting()
            self.put(queue, payload)
            until("it is not done", lambda payload=payload: payload in done)
        one.stop()
        thread.join()
        self.assertEqual(done, [0, 1, 2])

    def test_a_stop_ends_the_wait_and_lets_jobs_end(self) -> None:
        queue = self.queue("stopped")
        began, may_end = threading.Event(), threading.Event()
        done: list[Any] = []

        @worker(queue, wait=600, concurrency=2)
        def work(job: Any) -> None:
            began.set()
            may_end.wait(PATIENCE)
            done.append(job.payload)

        thread = threading.Thread(target=work.run)
        thread.start()
        self.until_waiting()
        self.put(queue, 1)
        began.wait(PATIENCE)
        # One thread works, and the worker waits for the other one's message.
        self.until_waiting()
        work.stop()
        self.until_waiting(0)
        self.put(queue, 2)
        self.assertEqual(done, [])
        may_end.set()
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())
        self.assertEqual(done, [1])
        self.assertEqual(self.run_sql("SELECT payload FROM stopped"), [("2",)], "nobody has taken it")


class Readme(Case):
    def test_the_first_lines_of_the_readme_do_what_they_say(self) -> None:
        text = (Path(__file__).parents[1] / "README.md").read_text(encoding="ascii")
        example = text.split("```python\n")[1].split("```")[0]
        connect, run = pymysql.connect, Worker.run
        with (
            mock.patch("pymysql.connect", lambda **_: connect(**SERVER, database=self.database)),
            mock.patch.object(Worker, "run", lambda worker: run(worker, once=True)),
            self.assertLogs("remora_queue", "WARNING"),
        ):
            exec(compile(example, "README.md", "exec"), {})  # noqa: S102
        failed = self.run_sql(
            "SELECT failed, until > NOW() + INTERVAL 5 SECOND FROM information_schema.queue_owned"
            " WHERE table_schema = 'readme' AND table_name = 'mails'"
        )
        self.assertEqual(failed, [(1, 1)], "it is tried again in ten seconds")


class Programs(Case):
    """Workers in processes of their own."""

    def prepare(self, name: str) -> Queue:
        queue = Queue(name, tries=50, backoff=(0, 1, 0))
        queue.create(self.connect())
        self.run_sql("CREATE TABLE IF NOT EXISTS done (n INT) ENGINE=InnoDB")
        self.run_sql("DELETE FROM done")
        return queue

    def test_sigterm_stops_a_worker_that_waits(self) -> None:
        self.prepare("idle")
        for kind, number in (("plain", signal.SIGTERM), ("aio", signal.SIGTERM), ("plain", signal.SIGINT)):
            # Not those of programs that were killed.
            self.until_waiting(0)
            program = self.program("work.py", "idle", kind)
            self.until_waiting()
            program.send_signal(number)
            # It would wait for ten minutes.
            self.assertEqual(program.wait(PATIENCE), 0, (kind, number))

    def kill_at_random(self, kind: str) -> list[int]:
        name = "killed_" + kind
        queue = self.prepare(name)
        count = 200
        queue.put_many(self.connect(autocommit=True), [Message(n) for n in range(count)])
        chance = random.Random(7)
        while self.value(f"SELECT COUNT(*) FROM {name}"):
            program = self.program("work.py", name, kind, "0.5")
            enough = self.value("SELECT COUNT(*) FROM done") + chance.randrange(10, 60)
            ready = "SELECT (SELECT COUNT(*) FROM done) >= %s OR (SELECT COUNT(*) FROM " + name + ") = 0"
            until("the worker does nothing", lambda enough=enough, ready=ready: self.value(ready, enough))
            program.kill()
            program.wait()
        self.assertEqual(self.value(f"SELECT COUNT(*) FROM {name}_dead"), 0)
        self.assertEqual(self.value("SELECT COUNT(DISTINCT n) FROM done"), count, "no job is lost")
        return [row[0] for row in self.run_sql("SELECT n FROM done ORDER BY n")]

    def test_no_job_is_lost_when_workers_are_killed(self) -> None:
        self.kill_at_random("plain")

    def test_no_job_is_lost_when_workers_in_asyncio_are_killed(self) -> None:
        self.kill_at_random("aio")

    def test_jobs_in_transactions_are_done_once_when_workers_are_killed(self) -> None:
        done = self.kill_at_random("transaction")
        self.assertEqual(done, list(range(200)))
