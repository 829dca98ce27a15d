"""A worker with a pool: threads share a few connections, and keep none while they work.

    worker.py URL [--threads N] [--once]     --once: end when nothing waits
"""

import argparse
import threading

from sqlalchemy import text

import jobs

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("url")
arguments.add_argument("--threads", type=int, default=8)
arguments.add_argument("--once", action="store_true")
arguments = arguments.parse_args()

engine = jobs.connect(arguments.url, size=4)


def resize(row, number):
    """The work. A worker that stood still and comes back late changes nothing: the other one's number is higher."""
    with jobs.alone(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO picture VALUES (:id, :number, 1) ON DUPLICATE KEY UPDATE"
                " times = times + (number < VALUES(number)), number = GREATEST(number, VALUES(number))"
            ),
            {"id": row["id"], "number": number},
        )


def run():
    while jobs.work(engine, "to_resize", resize, seconds=3, wait=1) or not arguments.once:
        pass


threads = [threading.Thread(target=run) for _ in range(arguments.threads)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
