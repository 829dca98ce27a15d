"""A worker that tests stop and kill: work.py DATABASE QUEUE plain|transaction|aio [SECONDS OF THE LEASE]

Each job inserts its payload into the table `done` of InnoDB. It fails at its first try if the payload is a
multiple of seven.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import aiomysql
from support import SOCKET, open_by_driver

from remora_queue import Queue, Worker, aio, worker

DATABASE, QUEUE, KIND = sys.argv[1:4]
LEASE = float(sys.argv[4]) if len(sys.argv) > 4 else 30.0


def connect() -> Any:
    return open_by_driver(DATABASE)


async def connect_aio() -> Any:
    return await aiomysql.connect(unix_socket=SOCKET, user="root", db=DATABASE)


queue = Queue(QUEUE, connect=connect)
logging.getLogger("remora_queue").addHandler(logging.NullHandler())
NOTED = "INSERT INTO done VALUES (%s)"


def check(job: Any) -> None:
    if job.payload % 7 == 0 and job.tries == 1:
        raise RuntimeError("a first try")


def plain() -> Worker:
    @worker(queue, lease=LEASE, wait=600, concurrency=3)
    def work(job: Any) -> None:
        check(job)
        with connect() as connection:
            connection.cursor().execute(NOTED, (job.payload,))
            connection.commit()

    return work


def transaction() -> Worker:
    @worker(queue, lease=LEASE, wait=600, concurrency=3, transaction=True)
    def work(job: Any, connection: Any) -> None:
        check(job)
        connection.cursor().execute(NOTED, (job.payload,))

    return work


def in_asyncio() -> aio.Worker:
    @aio.worker(queue, connect=connect_aio, lease=LEASE, wait=600, concurrency=3)
    async def work(job: Any) -> None:
        check(job)
        async with aiomysql.connect(unix_socket=SOCKET, user="root", db=DATABASE) as connection:
            async with connection.cursor() as cursor:
                await cursor.execute(NOTED, (job.payload,))
            await connection.commit()

    return work


if KIND == "aio":
    asyncio.run(in_asyncio().run())
else:
    {"plain": plain, "transaction": transaction}[KIND]().run()
