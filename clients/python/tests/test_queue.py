"""Putting messages, and taking one in a transaction."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pymysql
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from support import SERVER, SOCKET, Case, Deadlock, until

from remora_queue import InTransaction, LeaseLost, Message, NotAQueue, Queue, QueueError, Retry, literal
from remora_queue._job import split_tokens
from remora_queue._link import Link


class Put(Case):
    def waiting(self, queue: Queue) -> int:
        return int(self.value(f"SELECT COUNT(*) FROM {queue.table}"))

    def test_a_message_is_there_if_its_transaction_is(self) -> None:
        queue = Queue("jobs")
        connection = self.connect()
        queue.create(connection)
        queue.put(connection, {"n": 1})
        connection.rollback()
        self.assertEqual(self.waiting(queue), 0)
        known = queue.put(connection, {"n": "\u00e9\U0001f600'\"\\\n"})
        connection.commit()
        with queue.take(connection) as job:
            assert job
            self.assertEqual((job.id, job.payload, job.tries), (known, {"n": "\u00e9\U0001f600'\"\\\n"}, 1))

    def test_a_message_is_a_part_of_a_transaction_of_sqlalchemy(self) -> None:
        engine = create_engine(f"mysql+pymysql://root@localhost/{self.database}?unix_socket={SOCKET}")
        self.addCleanup(engine.dispose)
        queue = Queue("orm")
        with engine.connect() as connection:
            queue.create(connection)
            queue.put(connection, 1, delay=0)
            connection.rollback()
            self.assertEqual(self.waiting(queue), 0)
            queue.put(connection, 2)
            connection.commit()
        with Session(engine) as session:
            queue.put(session, 3)
            session.rollback()
            queue.put(session, 4)
            session.commit()
            with queue.take(session) as job:
                assert job
                self.assertEqual(job.payload, 2)
            with queue.take(session) as job:
                assert job
                self.assertEqual(job.payload, 4)
        self.assertEqual(self.waiting(queue), 0)
        with Session(engine) as session, self.assertRaises(InTransaction):
            queue = Queue("orm_plain", transactional=False)
            queue.create(session)
            queue.put(session, 5)

    def test_a_put_that_rollback_would_not_undo_is_refused(self) -> None:
        queue = Queue("plain", transactional=False)
        connection = self.connect()
        queue.create(connection)
        with self.assertRaises(InTransaction):
            queue.put(connection, 1)
        connection.autocommit(True)
        connection.begin()
        with self.assertRaises(InTransaction):
            queue.put(connection, 1)
        self.assertEqual(self.waiting(queue), 0)
        queue.put(connection, 1, outside_transaction=True)
        connection.rollback()
        queue.put(connection, 2)
        self.assertEqual(self.waiting(queue), 2)
        with self.assertRaises(QueueError), queue.take(connection):
            pass

    def test_the_table_decides_whether_it_is_a_part_of_transactions(self) -> None:
        connection = self.connect()
        Queue("really_plain", transactional=False).create(connection)
        with self.assertRaises(InTransaction):
            Queue("really_plain", transactional=True).put(connection, 1)
        self.run_sql("CREATE TABLE innodb (id INT) ENGINE=InnoDB")
        for name in ("innodb", "nothing"):
            with self.assertRaises(NotAQueue):
                Queue(name).put(connection, 1)

    def test_a_delay_needs_no_care_for_time_zones(self) -> None:
        queue = Queue("later")
        connection = self.connect(autocommit=True)
        queue.create(connection)
        later = datetime.now(timezone(timedelta(hours=3))) + timedelta(hours=1)
        for zone in ("-05:00", "+00:00", "+05:00"):
            connection.cursor().execute("SET time_zone = %s", (zone,))
            queue.put(connection, "delay", delay=3599.5)
            queue.put(connection, "at", at=later)
        cursor = connection.cursor()
        cursor.execute("SET queue_show_owned = ON")
        cursor.execute(f"SELECT UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) FROM {queue.table}")
        left = [float(row[0]) for row in cursor.fetchall()]
        self.assertEqual(len(left), 6)
        self.assertTrue(all(3000 < seconds <= 3600 for seconds in left), left)
        cursor.execute("SELECT @@time_zone")
        self.assertEqual(cursor.fetchone()[0], "+05:00")
        for wrong in ({"at": datetime(2030, 1, 1)}, {"at": later, "delay": 1}):
            with self.assertRaises(ValueError):
                queue.put(connection, 1, **wrong)  # type: ignore[arg-type]

    def test_a_short_delay_is_exact(self) -> None:
        queue = Queue("soon")
        connection = self.connect(autocommit=True)
        queue.create(connection)
        queue.put(connection, "soon", delay=0.25)
        with queue.take(connection) as job:
            self.assertIsNone(job)
        with queue.take(connection, wait=60) as job:
            assert job
            # The row knows when it was due, and it was not given before.
            self.assertTrue(self.value("SELECT UTC_TIMESTAMP(6) >= %s", job.row["at"]))

    def test_keys_duplicates_and_priorities(self) -> None:
        queue = Queue("all", fifo=True, dedupe_for=60, priority=True)
        connection = self.connect(autocommit=True)
        queue.create(connection)
        messages = [
            Message(1, key="a", priority=5),
            Message(2, key="a", priority=1),
            Message(3, key="b", priority=4),
            Message(4, dedupe="x", priority=6),
            Message(5, dedupe="x", priority=0),
        ]
        self.assertEqual(len(set(queue.put_many(connection, messages))), 5)
        self.assertEqual(queue.put_many(connection, []), [])
        taken = []
        for _ in messages:
            with queue.take(connection) as job:
                taken.append(job and job.payload)
        self.assertEqual(taken, [3, 1, 2, 4, None])
        bare = Queue("bare")
        bare.create(connection)
        for wrong in ({"key": "a"}, {"dedupe": "a"}, {"priority": 1}):
            with self.assertRaises(ValueError):
                bare.put(connection, 1, **wrong)  # type: ignore[arg-type]

    def test_a_bad_message_leaves_none(self) -> None:
        queue = Queue("bad", fifo=True)
        connection = self.connect(autocommit=True)
        queue.create(connection)
        with self.assertRaises(pymysql.err.DataError):
            queue.put_many(connection, [Message(1), Message(2, key="x" * 200)])
        self.assertEqual(self.waiting(queue), 0)

    def test_names_have_almost_any_sign(self) -> None:
        with self.assertRaises(ValueError):
            Queue("100%")
        self.run_sql("DROP DATABASE IF EXISTS `put.too`")
        self.run_sql("CREATE DATABASE `put.too`")
        queue = Queue("a.b,c`d:e", database="put.too", connect=self.plain)
        connection = self.connect(autocommit=True)
        queue.create(connection)
        queue.put(connection, "it's")
        condition = "payload = " + literal('"it\'s"')
        with self.assertRaises(RuntimeError), queue.take(connection, where=condition) as job:
            assert job
            raise RuntimeError("once")
        with queue.take(connection) as job:
            self.assertIsNone(job, "it waits for its second try")
        self.assertEqual(split_tokens("`a,b`.`c``,d`:1-2,x.y:3-4"), ["`a,b`.`c``,d`:1-2", "x.y:3-4"])


class Take(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        with pymysql.connect(**SERVER, database=cls.database) as connection:
            connection.cursor().execute("CREATE TABLE done (n INT PRIMARY KEY) ENGINE=InnoDB")

    def queue(self, name: str, **options: Any) -> Queue:
        made = Queue(name, tries=2, backoff=(0, 1, 0), **options)
        connection = self.connect()
        made.create(connection)
        return made

    def done(self) -> list[int]:
        return [row[0] for row in self.run_sql("SELECT n FROM done ORDER BY n")]

    def autocommit_of(self, connection: Any) -> bool:
        cursor = connection.cursor()
        cursor.execute("SELECT @@autocommit")
        return bool(cursor.fetchone()[0])

    def test_a_message_and_its_work_are_one_commit(self) -> None:
        self.run_sql("DELETE FROM done")
        queue = self.queue("t")
        for autocommit in (True, False):
            connection = self.connect(autocommit=autocommit)
            queue.put(connection, 1)
            connection.commit()
            with self.assertRaises(RuntimeError), queue.take(connection) as job:
                assert job
                connection.cursor().execute("INSERT INTO done VALUES (%s)", (10 + autocommit,))
                raise RuntimeError("no such host")
            self.assertNotIn(10 + autocommit, self.done())
            with queue.take(connection) as job:
                assert job
                self.assertEqual((job.tries, job.why), (2, "RuntimeError: no such host"))
                connection.cursor().execute("INSERT INTO done VALUES (%s)", (int(autocommit),))
            self.assertIn(int(autocommit), self.done())
            self.assertEqual(self.autocommit_of(connection), autocommit)
            self.assertEqual(self.value("SELECT COUNT(*) FROM t"), 0)
            self.assertEqual(self.value("SELECT @@autocommit"), 1)

    def test_a_job_that_fails_after_its_end_uses_its_tries_up(self) -> None:
        queue = self.queue("poison")
        connection = self.connect(autocommit=True)
        self.run_sql("INSERT INTO done VALUES (77)")
        queue.put(connection, "poison")
        for _ in range(2):
            with self.assertRaises(pymysql.err.IntegrityError), queue.take(connection) as job:
                assert job
                connection.cursor().execute("INSERT INTO done VALUES (77)")
        with queue.take(connection) as job:
            self.assertIsNone(job)
        dead = self.run_sql("SELECT payload, failed FROM poison_dead")
        self.assertEqual(dead, [('"poison"', 2)])

    def test_a_retry_says_when(self) -> None:
        queue = self.queue("again")
        connection = self.connect(autocommit=True)
        queue.put(connection, 1)
        with self.assertRaises(Retry), queue.take(connection):
            raise Retry("later", delay=3600)
        with queue.take(connection) as job:
            self.assertIsNone(job)
        sql = "SELECT due_later FROM information_schema.queues WHERE table_name = 'again'"
        sql += " AND table_schema = 'take'"
        self.assertEqual(self.value(sql), 1)

    def test_nothing_is_committed_when_the_lease_is_lost(self) -> None:
        self.run_sql("DELETE FROM done WHERE n = 5")
        queue = self.queue("lost")
        connection = self.connect(autocommit=True)
        queue.put(connection, 1)
        with self.assertRaises(LeaseLost), queue.take(connection, lease=0.05) as job:
            assert job
            connection.cursor().execute("INSERT INTO done VALUES (5)")
            other = self.connect(autocommit=True).cursor()
            other.execute("SELECT queue_lease_json(600, 1, 'lost', 60)")
            self.assertIn('"try":2', other.fetchone()[0])
        self.assertNotIn(5, self.done())

    def test_fail_is_a_failed_try(self) -> None:
        queue = self.queue("failed")
        connection = self.connect(autocommit=True)
        queue.put(connection, 1)
        with self.assertRaisesRegex(Retry, "^not now$"), queue.take(connection) as job:
            assert job
            connection.cursor().execute("INSERT INTO done VALUES (6)")
            job.fail("not now", delay=0)
        self.assertNotIn(6, self.done())
        with queue.take(connection) as job:
            assert job
            self.assertEqual((job.tries, job.why), (2, "not now"))

    def test_work_that_a_deadlock_has_rolled_back_does_not_end_the_message(self) -> None:
        why = "the transaction of the job had ended before its message, as a deadlock does"
        for autocommit in (True, False):
            queue = self.queue(f"deadlock_{autocommit}")
            connection = self.connect(autocommit=autocommit)
            cursor = connection.cursor()
            queue.put(connection, 1)
            connection.commit()
            deadlock = Deadlock(self)
            with self.assertRaisesRegex(QueueError, why), queue.take(connection):
                cursor.execute(deadlock.FIRST)
                deadlock.meet()
                with self.assertRaises(pymysql.err.OperationalError) as raised:
                    cursor.execute(deadlock.LAST)
                # Whoever ignores this has changed nothing.
                self.assertEqual(raised.exception.args[0], 1213)
                # Without autocommit this is in another transaction, which must not be kept.
                cursor.execute("INSERT INTO done VALUES (8)")
            deadlock.end()
            self.assertNotIn(8, self.done())
            self.assertEqual(self.autocommit_of(connection), autocommit)
            with queue.take(connection) as job:
                assert job
                self.assertEqual((job.tries, job.why), (2, f"QueueError: {why}"))
            self.assertEqual(self.value(f"SELECT COUNT(*) FROM {queue.name}"), 0)

    def test_a_connection_is_closed_that_can_not_be_as_it_was(self) -> None:
        engine = self.engine()
        self.queue("closed")
        for opens in (lambda: self.connect(autocommit=True), engine.raw_connection, engine.connect):
            for fails, done in (("rollback", []), ("SET autocommit = 1", [1])):
                self.run_sql("DELETE FROM done")
                queue = Queue("closed", tries=2, backoff=(0, 1, 0))
                queue.put(self.connect(autocommit=True), 1)
                connection = opens()
                link = Link(connection)
                fails_here = suppress(KeyError, ZeroDivisionError)
                with self.failing(fails), fails_here, queue.take(connection) as job:
                    assert job
                    number, autocommit = link.run("SELECT CONNECTION_ID(), @@autocommit")
                    self.assertEqual(autocommit, 0)
                    link.run("INSERT INTO done VALUES (1)")
                    if not done:
                        raise KeyError
                self.assertEqual(self.done(), done)
                self.until_closed(number)
                self.run_sql("DELETE FROM closed")
                with suppress(pymysql.err.Error):
                    connection.close()

    def test_a_session_gives_its_pool_no_connection_without_autocommit(self) -> None:
        engine = self.engine()
        queue = self.queue("session")
        for fails, done in ((None, [1]), ("rollback", []), ("commit", [])):
            self.run_sql("DELETE FROM done")
            queue.put(self.connect(autocommit=True), 1)
            with suppress(ZeroDivisionError, KeyError), Session(engine) as session:
                with self.failing(fails), queue.take(session) as job:
                    assert job
                    self.assertEqual(Link(session).run("SELECT @@autocommit")[0], 0)
                    session.execute(text("INSERT INTO done VALUES (1)"))
                    if fails == "rollback":
                        raise KeyError
            self.assertEqual(self.done(), done)
            with engine.connect() as connection:
                self.assertEqual(Link(connection).run("SELECT @@autocommit")[0], 1)
            self.run_sql("DELETE FROM session")

    def test_a_connection_of_sqlalchemy_is_in_no_transaction_afterwards(self) -> None:
        queue = self.queue("begun")
        queue.put(self.connect(autocommit=True), 1)
        with self.engine().connect() as connection:
            with queue.take(connection) as job:
                assert job
            self.assertFalse(connection.in_transaction())
            with connection.begin():
                self.assertEqual(Link(connection).run("SELECT @@autocommit")[0], 1)

    def test_autocommit_is_on_again_when_a_transaction_can_not_begin(self) -> None:
        queue = self.queue("unbegun")
        connection = self.connect(autocommit=True)
        for fails in ("SET autocommit = 0", "SAVEPOINT remora_queue_job"):
            queue.put(connection, 1)
            with self.assertRaises(ZeroDivisionError), self.failing(fails), queue.take(connection):
                self.fail("it has begun")
            self.assertTrue(self.autocommit_of(connection))
            with queue.take(self.connect()) as job:
                assert job
                self.assertEqual((job.tries, job.why), (2, "ZeroDivisionError: " + fails))

    def engine(self) -> Any:
        """With a pool of one connection, whose statements commit themselves."""
        address = f"mysql+pymysql://root@localhost/{self.database}?unix_socket={SOCKET}"
        engine = create_engine(address, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0)
        self.addCleanup(engine.dispose)
        return engine

    @contextmanager
    def failing(self, what: str | None) -> Iterator[None]:
        """Meanwhile a statement or a method of connections fails. A statement is run before."""
        query = pymysql.cursors.Cursor.execute

        def execute(cursor: Any, sql: str, *values: Any) -> Any:
            result = query(cursor, sql, *values)
            if sql == what:
                raise ZeroDivisionError(what)
            return result

        method = mock.Mock(side_effect=ZeroDivisionError)
        with (
            mock.patch.object(pymysql.cursors.Cursor, "execute", execute),
            mock.patch.object(pymysql.Connection, what if what in ("commit", "rollback") else "ping", method),
        ):
            yield

    def until_closed(self, number: int) -> None:
        sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s"
        until("it is not closed", lambda: self.value(sql, number) == 0)

    def test_a_lease_is_extended_while_the_block_runs(self) -> None:
        queue = self.queue("kept", connect=self.plain)
        connection = self.connect(autocommit=True)
        queue.put(connection, 1)
        with queue.take(connection, lease=3) as job:
            assert job
            first = self.leased_until("kept")
            until("it is not extended", lambda: (self.leased_until("kept") or 0) > first + 0.5)

    def test_it_begins_with_a_transaction_of_its_own(self) -> None:
        queue = self.queue("own")
        connection = self.connect()
        connection.cursor().execute("SELECT * FROM done")
        with self.assertRaises(InTransaction), queue.take(connection):
            pass
        connection.rollback()
        with queue.take(connection) as job:
            self.assertIsNone(job)

    def test_the_end_of_a_wait_is_an_insert(self) -> None:
        queue = self.queue("woken")
        connection = self.connect(autocommit=True)
        taken: list[Any] = []

        def take() -> None:
            with queue.take(self.connect(autocommit=True), wait=600) as job:
                taken.append(job and job.payload)

        thread = threading.Thread(target=take)
        thread.start()
        self.until_waiting()
        queue.put(connection, "now")
        thread.join()
        self.assertEqual(taken, ["now"])


if __name__ == "__main__":
    unittest.main()
