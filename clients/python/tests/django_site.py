"""A site of Django that tests start and kill: django_site.py DATABASE COMMAND ..."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import django
import pymysql
from django.conf import settings

try:
    import MySQLdb  # noqa: F401

    OPTIONS: dict[str, Any] = {}
except ModuleNotFoundError:
    # Django asks for this version, and uses nothing that PyMySQL has not.
    pymysql.version_info = (2, 2, 1, "final", 0)
    pymysql.install_as_MySQLdb()
    # Else Django loads these once more by the other name, and then pymysql.err has other classes.
    for part in [part for part in sys.modules if part.startswith("pymysql.")]:
        sys.modules[part.replace("pymysql", "MySQLdb")] = sys.modules[part]
    OPTIONS = {"ssl_disabled": True}

TASKS_APP = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
BACKEND = "remora_queue.django.RemoraBackend"


def database(name: str) -> dict[str, Any]:
    socket = os.environ["REMORA_QUEUE_SOCKET"]
    return {
        "ENGINE": "django.db.backends.mysql",
        "HOST": socket,
        "USER": "root",
        "NAME": name,
        "OPTIONS": OPTIONS,
    }


def configure(name: str, **more: Any) -> None:
    once_at_once = {"tries": 2, "backoff": (0, 1, 0)}
    exact = {"table": "exact", "transaction": True, **once_at_once}
    settings.configure(
        DATABASES={
            "default": database(name),
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        INSTALLED_APPS=["remora_queue.django", *(["django_tasks"] if django.VERSION < (6,) else [])],
        TASKS={
            "default": {
                "BACKEND": BACKEND,
                "QUEUES": ["default", "mails"],
                "OPTIONS": {"table": "jobs", **once_at_once, **more},
            },
            "exact": {"BACKEND": BACKEND, "OPTIONS": exact},
            "forgets": {
                "BACKEND": BACKEND,
                "OPTIONS": {"table": "forgets", "keep_results": 0, **once_at_once},
            },
        },
        USE_TZ=True,
    )
    django.setup()
    # It writes tasks that fail, as some are to.
    logging.getLogger(TASKS_APP).addHandler(logging.NullHandler())


if __name__ == "__main__":
    configure(sys.argv[1], lease=1.5)
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *sys.argv[2:]])
