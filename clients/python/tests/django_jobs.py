"""The tasks of django_site.py."""

from __future__ import annotations

import time
from typing import Any

from django.db import OperationalError, connection, transaction
from django_site import TASKS_APP

from remora_queue import Retry

if TASKS_APP == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task

# What tests give to tasks that run in their process.
hooks: dict[str, Any] = {}


def note(what: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO noted VALUES (%s)", (what,))


def noted(what: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM noted WHERE what = %s", (what,))
        return int(cursor.fetchone()[0])


@task
def add(a: int, b: int = 0) -> int:
    return a + b


@task(queue_name="mails")
def mail(to: str) -> str:
    note(to)
    return to


@task
async def later(a: int) -> int:
    return a + 1


@task(takes_context=True)
def which(context: Any) -> list[Any]:
    if context.attempt == 1:
        raise OSError("no such host")
    return [context.attempt, context.task_result.id]


@task
def fails(why: str) -> None:
    raise ValueError(why)


@task
def again(delay: float) -> None:
    raise Retry("not yet", delay=delay)


@task
def returns_nothing_that_json_has() -> Any:
    return object()


@task
def until_told(name: str) -> None:
    """Begins, and ends when somebody notes that it may."""
    note(f"{name} begins")
    while not noted(f"{name} may end"):
        time.sleep(0.05)
    note(f"{name} ends")


@task
def calls(hook: str) -> Any:
    return hooks[hook]()


@task(backend="exact", takes_context=True)
def exact(context: Any) -> None:
    note(f"exact {context.attempt}")
    if context.attempt == 1:
        raise OSError("no such host")


@task(backend="exact")
def with_hook() -> str:
    transaction.on_commit(lambda: note("hook"))
    transaction.on_commit(lambda: fails.call("of a hook"))
    return "done"


@task(backend="exact")
def ignores_deadlock() -> None:
    note("before the deadlock")
    try:
        hooks["deadlock"]()
    except OperationalError:
        note("after the deadlock")


@task(backend="forgets", takes_context=True)
def forgotten(context: Any) -> None:
    note(f"forgotten {context.attempt}")
    if context.attempt == 1:
        raise OSError("no such host")
