"""PGMQ's package for Python and its SQL-only installation: one process with a thread for each worker.

A worker reads a job, does it, and deletes it. While there is none, the server looks ten times a second.
"""

import os
import threading

import contestant
from pgmq import PGMQueue
from pgmq.install import install_pgmq_from_sql

DSN = f"host={os.environ['BENCH_ADDRESS']} user=bench dbname=bench"
QUEUE = "jobs"


def queue(connections):
    return PGMQueue(conn_string=DSN, pool_size=connections, init_extension=False)


def make():
    install_pgmq_from_sql(dsn=DSN)
    queue(1).create_queue(QUEUE)


def fill(numbers):
    to = queue(1)
    for at in range(0, len(numbers), 1000):
        to.send_batch(QUEUE, [contestant.payload(number) for number in numbers[at : at + 1000]])


def putter():
    to = queue(1)
    return lambda job: to.send(QUEUE, job)


def work(workers):
    of = queue(workers)

    def run():
        while True:
            found = of.read_with_poll(QUEUE, vt=30, qty=1, max_poll_seconds=5, poll_interval_ms=100)
            for message in found or []:
                contestant.record(message.message)
                of.delete(QUEUE, message.msg_id)

    threads = [threading.Thread(target=run) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


contestant.main(make, fill, putter, work)
