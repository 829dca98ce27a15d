"""A message that was leased, as a worker's function sees it."""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Job:
    """One message. `payload` is what put() was given, `row` has all columns of the table."""

    payload: Any
    row: dict[str, Any]
    token: str
    tries: int
    """Which try this is, counted from 1."""
    why: str | None = None
    """Why the last try has failed."""
    lost: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set when the lease has ended although the job still runs: somebody else may have it too."""
    failure: tuple[str, float | None] | None = field(default=None, repr=False)
    over: bool = field(default=False, repr=False)
    """Whether its function has returned, so that its token is about to be used."""
    again: Job | None = field(default=None, repr=False)
    """The same message, leased again before it was known how the use of the token went."""

    @property
    def id(self) -> str | None:
        """What put() returned."""
        return self.row.get("id")

    @property
    def fence(self) -> int:
        """A number that only grows from lease to lease. What a job writes to can refuse a smaller one."""
        return int(self.token.rpartition(":")[2].partition("-")[0])

    def fail(self, reason: str, delay: float | None = None) -> None:
        """Says that this job has failed. The others of its batch are done unless they fail too."""
        self.failure = (reason, delay)

    def comes_again(self, job: Job) -> None:
        """The message was leased again while this job is here. One that runs continues with the new lease."""
        if self.over:
            self.again = job
        else:
            self.token, self.tries = job.token, job.tries


def jobs_of(answer: Any) -> list[Job]:
    """The jobs in what queue_lease_json() returned."""
    if isinstance(answer, (bytes, bytearray)):
        answer = answer.decode("ascii")
    found = json.loads(answer)
    return [Job(_payload(one["row"]), one["row"], one["token"], one["try"], one.get("why")) for one in found]


def failed_of(jobs: list[Job], count: int) -> str:
    """What a log is told of a function that has failed."""
    first = jobs[0].token
    return f"a job has failed: {first}" if count == 1 else f"{count} jobs have failed, the first is {first}"


def _payload(row: dict[str, Any]) -> Any:
    """A payload that is no JSON, as another program may have put it, stays text."""
    text = row.get("payload")
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def stale_among(answer: Any) -> set[str]:
    """The tokens in what queue_stale() returned."""
    if answer is None:
        return set()
    if isinstance(answer, (bytes, bytearray)):
        answer = answer.decode("utf-8")
    return set(split_tokens(answer))


def split_tokens(text: str) -> list[str]:
    """Tokens with commas between them. A name in backticks may have commas of its own."""
    parts, quoted, start = [], False, 0
    for at, sign in enumerate(text):
        if sign == "`":
            quoted = not quoted
        elif sign == "," and not quoted:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part]


def bytes_of(value: str) -> bytes:
    """The bytes of a binary column of `Job.row`, which JSON has as base64."""
    return base64.b64decode(value)
