"""Our package for Python: one process with a thread for each worker."""

import os

import contestant
import pymysql
from remora_queue import Queue, worker
from remora_queue import Message


def connect():
    return pymysql.connect(
        unix_socket=os.environ["BENCH_ADDRESS"], user="root", database="bench", autocommit=True
    )


jobs = Queue("jobs", connect=connect)


def fill(numbers):
    with connect() as connection:
        for at in range(0, len(numbers), 1000):
            some = numbers[at : at + 1000]
            jobs.put_many(connection, [Message(contestant.payload(number)) for number in some])


def putter():
    connection = connect()
    return lambda job: jobs.put(connection, job)


def work(workers):
    worker(jobs, concurrency=workers)(lambda job: contestant.record(job.payload)).run()


contestant.main(lambda: jobs.create(connect()), fill, putter, work)
