"""A backend of Django's tasks: they are messages in a table with ENGINE=QUEUE.

    INSTALLED_APPS = [..., "remora_queue.django"]
    TASKS = {"default": {"BACKEND": "remora_queue.django.RemoraBackend", "OPTIONS": {"tries": 3}}}

`manage.py migrate` makes the tables, and `manage.py remora_worker` runs the tasks. A task is enqueued on
Django's own connection. So it is a part of the transaction there, and no hook of on_commit() is needed.
"""

from .backend import RemoraBackend

__all__ = ["RemoraBackend"]
