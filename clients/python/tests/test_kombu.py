"""The transport for Kombu, and Celery with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pymysql
from kombu import Connection, Exchange, Producer, Queue
from kombu.exceptions import OperationalError
from support import PATIENCE, SERVER, Case, until

import remora_queue.kombu


class Kombu(Case):
    def open(self, **options: Any) -> Any:
        def connect() -> Any:
            return pymysql.connect(**SERVER, database=self.database, autocommit=True)

        connection = Connection(
            "remora://root@localhost/x", transport_options={"connect": connect, **options}
        )
        self.addCleanup(connection.release)
        return connection

    def take(self, connection: Any, queues: list[Any], timeout: float = 1, **options: Any) -> list[Any]:
        """What comes until nothing comes."""
        found: list[Any] = []
        consumer = connection.Consumer(
            queues, callbacks=[lambda _body, message: found.append(message)], **options
        )
        self.addCleanup(consumer.cancel)
        consumer.consume()
        try:
            while True:
                connection.drain_events(timeout=timeout)
                timeout = 0
        except TimeoutError:
            return found

    def put(self, connection: Any, queue: Any, *bodies: Any, **options: Any) -> None:
        producer = Producer(connection.default_channel, serializer="json")
        for body in bodies:
            producer.publish(body, routing_key=queue.name, declare=[queue], **options)

    def count(self, table: str) -> int:
        return int(self.value(f"SELECT COUNT(*) FROM {table}"))

    def test_messages_come_until_they_are_acknowledged(self) -> None:
        connection, queue = self.open(), Queue("acks")
        self.put(connection, queue, "\u00e9", "b", "c", "d")
        first = self.take(connection, [queue])
        self.assertEqual([message.payload for message in first], ["\u00e9", "b", "c", "d"])
        self.assertEqual(self.take(self.open(), [queue], 0), [])
        first[0].ack()
        first[1].reject()
        first[2].requeue()
        connection.release()
        second = self.take(self.open(), [queue], 60)
        self.assertEqual([message.payload for message in second], ["c", "d"])
        self.assertFalse(second[0].delivery_info["redelivered"], "it was released, which is no failed try")
        self.assertEqual(self.count("kombu_acks"), 2)

    def test_a_message_that_is_returned_is_there_at_once(self) -> None:
        connection = self.open()
        queue = connection.SimpleQueue("again")
        self.addCleanup(queue.close)
        queue.put("a")
        for _ in range(20):
            queue.get_nowait().requeue()
        queue.get_nowait().ack()

    def test_a_consumer_without_acks_ends_what_it_gets(self) -> None:
        connection, queue = self.open(), Queue("noack")
        self.put(connection, queue, 1, 2)
        self.assertEqual(len(self.take(connection, [queue], no_ack=True)), 2)
        until("they do not end", lambda: self.count("kombu_noack") == 0)
        self.put(connection, queue, 3)
        message = connection.default_channel.basic_get("noack", no_ack=True)
        self.assertEqual(message.payload, 3)
        until("it does not end", lambda: self.count("kombu_noack") == 0)

    def test_an_ack_of_another_thread_makes_room_at_once(self) -> None:
        connection, queue, other = self.open(), Queue("room"), Queue("other")
        self.put(connection, queue, *range(10))
        self.put(connection, other, 0)
        acks: list[threading.Timer] = []

        def got(_body: Any, message: Any) -> None:
            acks.append(threading.Timer(0.02, message.ack))
            acks[-1].start()

        consumers = [
            connection.Consumer([queue], channel=connection.channel(), callbacks=[got], prefetch_count=1),
            connection.Consumer([other], channel=connection.channel(), callbacks=[lambda *_: 0], no_ack=True),
        ]
        for consumer in consumers:
            self.addCleanup(consumer.cancel)
            consumer.consume()
        begun = time.monotonic()
        while len(acks) < 10:
            connection.drain_events(timeout=PATIENCE)
        for ack in acks:
            ack.join()
        # In place of a wait of a second for the other queue each time.
        self.assertLess(time.monotonic() - begun, 5)

    def test_prefetch_limits_what_is_held(self) -> None:
        connection, queue = self.open(), Queue("few")
        self.put(connection, queue, *range(5))
        found: list[Any] = []
        consumer = connection.Consumer([queue], on_message=found.append)
        consumer.qos(prefetch_count=2)
        consumer.consume()
        connection.drain_events(timeout=60)
        with self.assertRaises(TimeoutError):
            connection.drain_events(timeout=0)
        self.assertEqual(len(found), 2)
        found[0].ack()
        connection.drain_events(timeout=60)
        self.assertEqual(len(found), 3)

    def test_a_long_queue_does_not_keep_others_waiting(self) -> None:
        connection, long, short = self.open(), Queue("long"), Queue("short")
        self.put(connection, long, *["long"] * 30)
        self.put(connection, short, "short")
        found: list[Any] = []
        connection.Consumer([long, short], on_message=found.append).consume()
        for _ in range(2):
            connection.drain_events(timeout=60)
        self.assertEqual({message.payload for message in found}, {"long", "short"})

    def test_the_highest_priority_comes_first(self) -> None:
        connection, queue = self.open(), Queue("urgent")
        for priority in (3, 9, 0):
            self.put(connection, queue, priority, priority=priority)
        self.assertEqual([message.payload for message in self.take(connection, [queue])], [9, 3, 0])

    def test_an_exchange_delivers_to_queues_of_other_programs(self) -> None:
        for kind, key in (("fanout", ""), ("topic", "a.b"), ("direct", "a.b")):
            exchange = Exchange(f"to_{kind}", kind)
            queues = [Queue(f"{kind}{n}", exchange, routing_key=key and "a.b") for n in (1, 2)]
            for queue in queues:
                queue(self.open().default_channel).declare()
            sender = self.open()
            Producer(sender.default_channel, exchange, serializer="json").publish(kind, routing_key=key)
            for queue in queues:
                message = self.take(self.open(), [queue], 60)[0]
                self.assertEqual(message.payload, kind)
            queues[0](self.open().default_channel).delete()
            self.assertEqual(self.value("SELECT COUNT(*) FROM kombu_binding WHERE queue = %s", f"{kind}1"), 0)
            self.assertEqual(self.value("SELECT COUNT(*) FROM kombu_binding WHERE queue = %s", f"{kind}2"), 1)

    def test_a_message_that_is_held_longer_than_its_lease_comes_once(self) -> None:
        connection, queue = self.open(lease=3), Queue("held")
        self.put(connection, queue, 1)
        message = self.take(connection, [queue])[0]
        first = self.leased_until("kombu_held")
        until("it is not extended", lambda: (self.leased_until("kombu_held") or 0) > first + 0.5)
        message.ack()
        until("it does not end", lambda: self.count("kombu_held") == 0)

    def test_a_message_that_comes_again_is_not_delivered_again(self) -> None:
        connection, queue = self.open(lease=0.5), Queue("twice")
        self.put(connection, queue, 1)
        message = self.take(connection, [queue])[0]
        transport = connection.transport
        job = next(iter(transport._held.values()))
        # As if the server had been away: nothing extends.
        transport._start()[0].remove(job)
        end = time.monotonic() + PATIENCE
        while job.tries == 1 and time.monotonic() < end:
            with self.assertRaises(TimeoutError):
                connection.drain_events(timeout=0.2)
        self.assertGreater(job.tries, 1)
        message.ack()
        until("it does not end", lambda: self.count("kombu_twice") == 0)

    def test_a_message_that_is_back_before_its_end_is_known_is_delivered(self) -> None:
        connection, queue = self.open(), Queue("back")
        connection.ensure_connection()
        transport = connection.transport
        ended = transport._ended

        def slow(told: Any) -> None:
            """Hears of the end only when the message was leased again."""
            if told[0][0].untried:
                until("it does not come again", lambda: told[0][0].job.again)
            ended(told)

        transport._ended = slow
        self.put(connection, queue, 1)
        self.take(connection, [queue])[0].requeue()
        again = self.take(connection, [queue], PATIENCE)
        self.assertEqual([message.payload for message in again], [1])
        again[0].ack()
        until("it does not end", lambda: self.count("kombu_back") == 0)

    def test_a_message_whose_lease_ends_before_its_end_is_told_ends(self) -> None:
        connection, queue = self.open(lease=0.5), Queue("late")
        self.put(connection, queue, 1)
        message = self.take(connection, [queue])[0]
        job = next(iter(connection.transport._held.values()))
        connection.transport._start()[0].remove(job)
        job.over = True
        end = time.monotonic() + PATIENCE
        while not job.again and time.monotonic() < end:
            with self.assertRaises(TimeoutError):
                connection.drain_events(timeout=0.2)
        message.ack()
        until("it does not end", lambda: self.count("kombu_late") == 0)

    def test_a_message_that_expires_is_not_delivered(self) -> None:
        connection, queue = self.open(), Queue("expires")
        self.put(connection, queue, 1, expiration=0.001)
        self.put(connection, queue, 2, expiration=600)
        until("time does not pass", lambda: time.sleep(0.002) is None)
        self.assertEqual([message.payload for message in self.take(connection, [queue])], [2])
        until("it is not dropped", lambda: self.count("kombu_expires") == 1)

    def test_messages_of_a_consumer_that_dies_use_up_their_tries(self) -> None:
        queue = Queue("deadly")
        self.put(self.open(tries=2), queue, "poison")
        for _ in range(2):
            connection = self.open(tries=2, lease=0.2)
            self.assertEqual(len(self.take(connection, [queue], 60)), 1)
            # It neither extends nor releases.
            connection.transport._threads[0].close()
            connection.transport._held.clear()
        until("it is not moved", lambda: self.count("kombu_deadly_dead") == 1)

    def test_queues_are_declared_purged_and_dropped(self) -> None:
        connection = self.open()
        long = Queue("a name. with, `any` sign: %s" + "x" * 100)(connection.default_channel)
        long.declare()
        self.put(connection, long, 1, 2)
        self.assertEqual(long.queue_declare(passive=True).message_count, 2)
        self.assertEqual(long.purge(), 2)
        self.assertEqual(self.take(connection, [long], 0), [])
        long.delete()
        with self.assertRaises(connection.channel_errors):
            long.queue_declare(passive=True)
        # To nobody: as brokers do.
        Producer(connection.default_channel).publish("lost", routing_key="nobody")

    def test_temporary_queues_of_killed_programs_are_dropped(self) -> None:
        Queue("left", auto_delete=True)(self.open().default_channel).declare()
        Queue("stays", auto_delete=True)(self.open().default_channel).declare()
        self.run_sql("UPDATE kombu_temporary SET used = used - INTERVAL 2 HOUR WHERE queue = 'left'")
        Queue("next", auto_delete=True)(self.open().default_channel).declare()
        tables = {row[0] for row in self.run_sql("SHOW TABLES")}
        self.assertNotIn("kombu_left", tables)
        self.assertIn("kombu_stays", tables)

    def test_the_address_says_where_the_server_is(self) -> None:
        unix_socket = SERVER["unix_socket"]
        connection = Connection(
            f"remora://root@localhost/{self.database}", transport_options={"unix_socket": unix_socket}
        )
        connection.ensure_connection(max_retries=1)
        connection.release()
        with self.assertRaises(OperationalError):
            Connection(f"remora://root@127.0.0.1:1/{self.database}").ensure_connection(max_retries=1)


class Celery(Case):
    """A worker in a process of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        os.environ["REMORA_QUEUE_DATABASE"] = cls.database
        import tasks

        cls.tasks: Any = tasks
        with tasks.connect() as connection:
            connection.cursor().execute("CREATE TABLE noted (what VARCHAR(100)) ENGINE=InnoDB")

    def worker(self) -> subprocess.Popen[bytes]:
        options = ["--pool", "threads", "--concurrency", "2", "--loglevel", "ERROR", "--without-gossip"]
        command = [
            sys.executable,
            "-B",
            "-W",
            "ignore",
            "-m",
            "celery",
            "-q",
            "-A",
            "tasks",
            "worker",
            *options,
        ]
        worker = subprocess.Popen(command, cwd=Path(__file__).parent)
        self.addCleanup(lambda: worker.poll() is None and (worker.kill(), worker.wait()))
        return worker

    def test_tasks_are_done_though_a_worker_is_killed(self) -> None:
        worker, tasks = self.worker(), self.tasks
        self.assertEqual(tasks.add.delay(2, 3).get(timeout=PATIENCE), 5)
        self.assertEqual(tasks.flaky.delay().get(timeout=PATIENCE), 2)
        # Longer than the lease, and held by the worker meanwhile.
        late = tasks.add.apply_async((3, 4), countdown=3)
        self.assertEqual(len(tasks.app.control.ping(timeout=PATIENCE, limit=1)), 1)
        self.assertTrue(tasks.app.control.inspect(timeout=PATIENCE, limit=1).registered())
        tasks.until_told.delay("killed")
        until("it does not begin", lambda: tasks.noted("killed begins") == 1)
        self.assertEqual(late.get(timeout=PATIENCE), 7)
        worker.kill()
        worker.wait()
        worker = self.worker()
        until("it does not begin again", lambda: tasks.noted("killed begins") == 2)
        # A warm stop: the task that runs ends.
        worker.send_signal(signal.SIGTERM)
        tasks.note("killed may end")
        self.assertEqual(worker.wait(PATIENCE), 0)
        self.assertEqual(tasks.noted("killed ends"), 1)
        self.assertEqual(self.value("SELECT COUNT(*) FROM kombu_celery"), 0)


assert remora_queue.kombu.Transport
