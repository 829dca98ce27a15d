"""What is known of a task beside its message, which is gone when the task has ended."""

# Django has no types.
# mypy: disable-error-code="import-untyped, import-not-found, misc"

from __future__ import annotations

from typing import Any

from django.db import models


class TaskRecord(models.Model):
    """A row of InnoDB, changed in the same COMMIT as the message that begins or ends."""

    id = models.CharField(primary_key=True, max_length=32)
    backend = models.CharField(max_length=190)
    task = models.CharField(max_length=500)
    message: Any = models.JSONField()
    status = models.CharField(max_length=10, default="READY")
    enqueued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    last_attempted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)
    worker_ids: Any = models.JSONField(default=list)
    errors: Any = models.JSONField(default=list)
    return_value: Any = models.JSONField(null=True)

    class Meta:
        app_label = "remora_queue"

    def __str__(self) -> str:
        return f"{self.task} {self.id} {self.status}"
