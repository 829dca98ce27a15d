"""The same in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import aiomysql
from support import PATIENCE, SOCKET, Case, Deadlock, Gate

from remora_queue import InTransaction, LeaseLost, Message, Queue, QueueError, Retry, aio


class Asyncio(Case):
    async def open(self) -> Any:
        return await aiomysql.connect(unix_socket=SOCKET, user="root", db=self.database)

    def queue(self, name: str, **options: Any) -> Queue:
        queue = Queue(name, tries=3, backoff=(0, 1, 0), **options)
        queue.create(self.connect())
        return queue

    def put(self, queue: Queue, *payloads: Any) -> None:
        queue.put_many(self.connect(autocommit=True), [Message(payload) for payload in payloads])

    def count(self, table: str) -> int:
        return int(self.value(f"SELECT COUNT(*) FROM {table}"))

    def with_connection(self, work: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            connection = await self.open()
            try:
                await asyncio.wait_for(work(connection), PATIENCE)
            finally:
                connection.close()

        asyncio.run(run())

    def test_a_message_is_there_if_its_transaction_is(self) -> None:
        queue = Queue("jobs")

        async def work(connection: Any) -> None:
            await aio.create(connection, queue)
            await aio.put(connection, queue, 1)
            await connection.rollback()
            self.assertEqual(self.count("jobs"), 0)
            await aio.put(connection, queue, 2, delay=0)
            await aio.put_many(connection, queue, [Message(3)])
            await connection.commit()
            self.assertEqual(self.count("jobs"), 2)
            plain = Queue("plain", transactional=False)
            await aio.create(connection, plain)
            with self.assertRaises(InTransaction):
                await aio.put(connection, plain, 1)
            with self.assertRaises(QueueError):
                async with aio.take(connection, plain):
                    pass
            await aio.put(connection, plain, 1, outside_transaction=True)

        self.with_connection(work)

    def test_a_message_and_its_work_are_one_commit(self) -> None:
        queue = self.queue("t")
        self.put(queue, 1)
        self.run_sql("CREATE TABLE noted (n INT) ENGINE=InnoDB")

        async def work(connection: Any) -> None:
            for reason in ("first", None):
                try:
                    async with aio.take(connection, queue, connect=self.open) as job:
                        assert job
                        async with connection.cursor() as cursor:
                            await cursor.execute("INSERT INTO noted VALUES (%s)", (job.tries,))
                        if reason:
                            raise Retry(reason, delay=0)
                except Retry:
                    continue
                self.assertEqual(job.why, "first")
            async with aio.take(connection, queue) as job:
                self.assertIsNone(job)

        self.with_connection(work)
        self.assertEqual(self.run_sql("SELECT n FROM noted"), [(2,)])

    def test_nothing_is_committed_when_the_lease_is_lost(self) -> None:
        queue = self.queue("lost")
        self.put(queue, 1)
        self.run_sql("CREATE TABLE late (n INT) ENGINE=InnoDB")

        async def work(connection: Any) -> None:
            with self.assertRaises(LeaseLost):
                async with aio.take(connection, queue, lease=0.05):
                    async with connection.cursor() as cursor:
                        await cursor.execute("INSERT INTO late VALUES (1)")
                    found = self.value("SELECT queue_lease_json(600, 1, 'lost', 60)")
                    self.assertIn('"try":2', found)

        self.with_connection(work)
        self.assertEqual(self.count("late"), 0)

    def test_fail_is_a_failed_try(self) -> None:
        queue = self.queue("failed")
        self.put(queue, 1)

        async def work(connection: Any) -> None:
            with self.assertRaisesRegex(Retry, "^not now$"):
                async with aio.take(connection, queue) as job:
                    assert job
                    job.fail("not now", delay=0)
            async with aio.take(connection, queue) as job:
                assert job
                self.assertEqual((job.tries, job.why), (2, "not now"))

        self.with_connection(work)

    async def autocommit_of(self, connection: Any) -> bool:
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT @@autocommit")
            return bool((await cursor.fetchone())[0])

    def test_work_that_a_deadlock_has_rolled_back_does_not_end_the_message(self) -> None:
        why = "the transaction of the job had ended before its message, as a deadlock does"
        self.run_sql("CREATE TABLE followed (n INT) ENGINE=InnoDB")

        async def work(connection: Any) -> None:
            for autocommit in (True, False):
                await connection.autocommit(autocommit)
                queue = self.queue(f"deadlock_{autocommit}")
                self.put(queue, 1)
                deadlock = Deadlock(self)
                with self.assertRaisesRegex(QueueError, why):
                    async with aio.take(connection, queue), connection.cursor() as cursor:
                        await cursor.execute(deadlock.FIRST)
                        deadlock.meet()
                        with self.assertRaises(aiomysql.OperationalError) as raised:
                            await cursor.execute(deadlock.LAST)
                        # Whoever ignores this has changed nothing.
                        self.assertEqual(raised.exception.args[0], 1213)
                        # Without autocommit this is in another transaction, which must not be kept.
                        await cursor.execute("INSERT INTO followed VALUES (1)")
                deadlock.end()
                self.assertEqual(self.count("followed"), 0)
                self.assertEqual(await self.autocommit_of(connection), autocommit)
                async with aio.take(connection, queue) as job:
                    assert job
                    self.assertEqual((job.tries, job.why), (2, f"QueueError: {why}"))
                self.assertEqual(self.count(queue.name), 0)

        self.with_connection(work)

    def test_a_connection_is_closed_that_can_not_be_as_it_was(self) -> None:
        self.run_sql("CREATE TABLE kept (n INT) ENGINE=InnoDB")
        run = aio._run

        async def failing(connection: Any, sql: str, values: Any = ()) -> Any:
            if sql == "SET autocommit = 1":
                raise ZeroDivisionError
            return await run(connection, sql, values)

        async def work(queue: Queue, connection: Any) -> None:
            async with aio.take(connection, queue), connection.cursor() as cursor:
                await cursor.execute("INSERT INTO kept VALUES (1)")
                if queue.name == "closed_1":
                    raise KeyError

        async def check(_: Any) -> None:
            no_rollback = mock.patch.object(aiomysql.Connection, "rollback", side_effect=OSError)
            no_commit = mock.patch.object(aiomysql.Connection, "commit", side_effect=OSError)
            for name, fails, error, count in (
                ("closed_1", no_rollback, OSError, 0),
                ("closed_2", mock.patch.object(aio, "_run", failing), None, 1),
                ("closed_3", no_commit, OSError, 1),
            ):
                queue = self.queue(name)
                self.put(queue, 1)
                connection = await self.open()
                await connection.autocommit(True)
                with fails, self.assertRaises(error) if error else nullcontext():
                    await work(queue, connection)
                self.assertEqual(self.count("kept"), count)
                self.assertEqual(connection.closed, name != "closed_3")
                if not connection.closed:
                    self.assertTrue(await self.autocommit_of(connection))
                    connection.close()

        self.with_connection(check)

    def test_autocommit_is_on_again_when_a_transaction_can_not_begin(self) -> None:
        queue = self.queue("unbegun")
        run = aio._run

        async def work(connection: Any) -> None:
            await connection.autocommit(True)
            for fails in ("SET autocommit = 0", "SAVEPOINT remora_queue_job"):

                async def failing(on: Any, sql: str, values: Any = (), fails: str = fails) -> Any:
                    result = await run(on, sql, values)
                    if sql == fails:
                        raise ZeroDivisionError
                    return result

                self.put(queue, 1)
                with self.assertRaises(ZeroDivisionError), mock.patch.object(aio, "_run", failing):
                    async with aio.take(connection, queue):
                        self.fail("it has begun")
                self.assertTrue(await self.autocommit_of(connection))
                async with aio.take(connection, queue) as job:
                    assert job
                    self.assertEqual((job.tries, job.why), (2, "ZeroDivisionError: "))

        self.with_connection(work)

    def test_an_answer_from_before_the_end_of_a_job_does_not_end_the_worker(self) -> None:
        queue = self.queue("before")
        self.put(queue, 1)
        tries = []
        answered = asyncio.Event()
        run = aio._Line.run

        async def slow(line: Any, sql: str, *values: Any) -> Any:
            answer = await run(line, sql, *values)
            if "queue_lease_json" in sql and answer[0] == "[]" and not answered.is_set():
                # This is heard of when the job that ran has failed, and its message waits again.
                answered.set()
                while one._tasks:
                    await asyncio.wait(one._tasks)
                    await asyncio.sleep(0)
            return answer

        async def work(job: Any) -> None:
            tries.append(job.tries)
            if job.tries == 1:
                await asyncio.wait_for(answered.wait(), PATIENCE)
                raise Retry("once more", delay=0)

        one = aio.Worker(queue, work, connect=self.open, concurrency=2)
        with mock.patch.object(aio._Line, "run", slow):
            asyncio.run(asyncio.wait_for(one.run(once=True), PATIENCE))
        self.assertEqual(tries, [1, 2])

    def test_jobs_are_done_or_tried_again_or_dead(self) -> None:
        queue = self.queue("some")
        self.put(queue, *range(20))
        running, most, tried = 0, 0, []
        full = asyncio.Event()

        @aio.worker(queue, connect=self.open, concurrency=4)
        async def work(job: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if most == 4:
                full.set()
            # The others begin meanwhile, and a fifth one if it may.
            await asyncio.wait_for(full.wait(), PATIENCE)
            await asyncio.sleep(0)
            running -= 1
            tried.append((job.payload, job.tries))
            if job.payload == 7:
                raise OSError("seven")

        with self.assertLogs("remora_queue", "WARNING"):
            asyncio.run(work.run(once=True))
        self.assertEqual(most, 4)
        self.assertEqual(sorted(tried), sorted([*((n, 1) for n in range(20)), (7, 2), (7, 3)]))
        self.assertEqual(self.count("some"), 0)
        self.assertEqual(self.run_sql("SELECT why FROM some_dead"), [("OSError: seven",)])

    def test_a_batch_ends_without_those_that_failed(self) -> None:
        queue = self.queue("batch")
        self.put(queue, *range(15))
        sizes = []

        @aio.worker(queue, connect=self.open, batch=10)
        async def work(jobs: list[Any]) -> None:
            sizes.append(len(jobs))
            for job in jobs:
                if job.payload == 7:
                    job.fail("seven", delay=3600)

        asyncio.run(work.run(once=True))
        self.assertEqual(sizes, [10, 5])
        self.assertEqual(self.count("batch"), 1)

    def test_a_job_that_takes_longer_than_its_lease_runs_once(self) -> None:
        queue = self.queue("slow")
        self.put(queue, 1)
        seen = []

        @aio.worker(queue, connect=self.open, lease=3, concurrency=2)
        async def work(job: Any) -> None:
            # Until it was extended twice.
            first = self.leased_until("slow")
            while (self.leased_until("slow") or 0) <= first + 1.5:
                await asyncio.sleep(0.03)
            seen.append(job.tries)
            work.stop()

        asyncio.run(asyncio.wait_for(work.run(), PATIENCE))
        self.assertEqual(seen, [1])
        self.assertEqual(self.count("slow"), 0)

    def test_a_message_that_comes_again_is_not_run_again_but_kept(self) -> None:
        queue = self.queue("again")
        self.put(queue, 1)
        ran = []

        async def work(job: Any) -> None:
            ran.append(job.tries)
            one._keeper.remove(job)
            while job.tries == 1:
                await asyncio.sleep(0.01)
            one.stop()

        one = aio.Worker(queue, work, connect=self.open, lease=0.5, concurrency=2)
        asyncio.run(asyncio.wait_for(one.run(), PATIENCE))
        self.assertEqual(ran, [1])
        self.assertEqual(self.count("again"), 0)

    def test_a_message_that_is_back_before_its_end_is_known_runs_again(self) -> None:
        queue = self.queue("back")
        self.put(queue, 1)
        ran = []

        class Slow(aio.Worker):
            """Hears of the end of a job only when its message was leased again."""

            async def _tell(self, statement: Any) -> Any:
                told = await super()._tell(statement)
                while len(ran) == 1 and not next(iter(self._running.values())).again:
                    await asyncio.sleep(0.01)
                return told

        async def work(job: Any) -> None:
            ran.append(job.tries)
            if job.tries == 1:
                raise Retry("once more", delay=0)
            one.stop()

        one = Slow(queue, work, connect=self.open, concurrency=2)
        asyncio.run(asyncio.wait_for(one.run(), PATIENCE))
        self.assertEqual(ran, [1, 2])
        self.assertEqual(self.count("back"), 0)

    def test_a_message_whose_lease_ends_before_its_end_is_told_ends(self) -> None:
        queue = self.queue("overdue")
        self.put(queue, 1)
        ran = []

        async def work(job: Any) -> None:
            ran.append(job.tries)
            one._keeper.remove(job)
            # As if the function had returned, and the server did not hear of it.
            job.over = True
            while not job.again:
                await asyncio.sleep(0.01)
            one.stop()

        one = aio.Worker(queue, work, connect=self.open, lease=0.5, concurrency=2)
        asyncio.run(asyncio.wait_for(one.run(), PATIENCE))
        self.assertEqual(ran, [1])
        self.assertEqual(self.count("overdue"), 0)

    def test_an_extension_that_is_not_answered_does_not_hold_up_the_next(self) -> None:
        gate = Gate(self)
        queue = self.queue("silent")
        self.put(queue, 1)

        async def connect() -> Any:
            return await aiomysql.connect(unix_socket=gate.path, user="root", db=self.database)

        async def until_extended() -> None:
            first = self.leased_until("silent")
            while (self.leased_until("silent") or 0) <= first + 0.5:
                await asyncio.sleep(0.03)

        async def work(_job: Any) -> None:
            await until_extended()
            gate.is_silent = True
            while not any("could not be extended" in line for line in logs.output):
                await asyncio.sleep(0.03)
            gate.is_silent = False
            await until_extended()
            one.stop()

        one = aio.Worker(queue, work, connect=connect, lease=3)
        with self.assertLogs("remora_queue", "WARNING") as logs:
            asyncio.run(asyncio.wait_for(one.run(), PATIENCE))
        self.assertEqual(self.count("silent"), 0)

    def test_a_wait_that_is_not_answered_is_given_up(self) -> None:
        gate = Gate(self)
        queue = self.queue("deaf")

        async def connect() -> Any:
            return await aiomysql.connect(unix_socket=gate.path, user="root", db=self.database)

        async def work(_job: Any) -> None:
            one.stop()

        async def others() -> None:
            await asyncio.to_thread(self.until_waiting)
            gate.is_silent = True
            await asyncio.to_thread(self.until_waiting, 0)
            gate.is_silent = False
            self.put(queue, 1)

        async def both() -> None:
            await asyncio.gather(one.run(), others())

        one = aio.Worker(queue, work, connect=connect, wait=1, lease=2)
        with mock.patch("remora_queue._link.ANSWER_PATIENCE", 1.0):
            asyncio.run(asyncio.wait_for(both(), PATIENCE))
        self.assertEqual(self.count("deaf"), 0)

    def test_what_will_never_work_ends_the_worker(self) -> None:
        async def work(job: Any) -> None:
            pass

        with self.assertRaises(aiomysql.MySQLError):
            asyncio.run(aio.Worker(Queue("nothing"), work, connect=self.open).run())
