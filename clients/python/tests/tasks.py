"""A Celery program that tests start and kill: celery -A tasks worker"""

from __future__ import annotations

import os
import time
from typing import Any

import pymysql
from celery import Celery

import remora_queue.kombu  # noqa: F401

SOCKET = os.environ["REMORA_QUEUE_SOCKET"]
DATABASE = os.environ.get("REMORA_QUEUE_DATABASE", "celerytests")


def connect() -> Any:
    return pymysql.connect(
        unix_socket=SOCKET, user="root", database=DATABASE, ssl_disabled=True, autocommit=True
    )


app = Celery("tasks", broker=f"remora://root@localhost/{DATABASE}", backend="rpc://")
app.conf.update(
    broker_transport_options={"connect": connect, "lease": 1.5},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=2,
    result_persistent=False,
)


def note(what: str) -> None:
    with connect() as connection:
        connection.cursor().execute("INSERT INTO noted VALUES (%s)", (what,))


def noted(what: str) -> int:
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM noted WHERE what = %s", (what,))
        return int(cursor.fetchone()[0])


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(bind=True, max_retries=3)
def flaky(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task
def until_told(name: str) -> None:
    """Begins, and ends when somebody notes that it may."""
    note(f"{name} begins")
    while not noted(f"{name} may end"):
        time.sleep(0.05)
    note(f"{name} ends")
