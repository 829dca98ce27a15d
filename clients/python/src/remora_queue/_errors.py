"""What can go wrong, and what a worker's function may raise."""

from __future__ import annotations

# Refusals that come again at every try: the table, a privilege or an argument is wrong. The server's manual
# lists them under "Errors and warnings".
LASTING = frozenset([1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305, *range(51001, 51008)])

# KILL QUERY, or max_statement_time: the wait has ended, and the connection can be used on.
INTERRUPTED = frozenset([1317, 1969])

# KILL QUERY of a connection that is gone.
UNKNOWN_THREAD = 1094


# RELEASE SAVEPOINT of one that is not there.
_NO_SAVEPOINT = 1305


class QueueError(Exception):
    """The base of this package's own errors. Those of the driver pass through as they are."""


class NotAQueue(QueueError):
    """There is no such table, or it has another engine."""


class InTransaction(QueueError):
    """The connection is within a transaction, and what was asked for would not be a part of it."""


class LeaseLost(QueueError):
    """The lease has expired, and somebody else has the message. The transaction was rolled back."""


class Retry(Exception):
    """Raised by a worker's function: try again, after `delay` seconds or as the queue's backoff says."""

    def __init__(self, reason: str = "", delay: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = delay


def number_of(error: BaseException) -> int | None:
    """The server's number of an error, whichever driver raised it."""
    error = getattr(error, "orig", None) or error
    number = getattr(error, "errno", None)
    if number is None and error.args:
        number = error.args[0]
    if not isinstance(number, int):
        return None
    # PyMySQL and aiomysql read the number with a sign: 51001 is -14535 there.
    return number + 0x10000 if number < 0 else number


def check_mark_failed(error: BaseException) -> None:
    """After an error of CHECK_MARK: if work has gone with its transaction, its message must not end."""
    if number_of(error) == _NO_SAVEPOINT:
        raise QueueError(
            "the transaction of the job had ended before its message, as a deadlock does"
        ) from None


def reason_of(error: BaseException) -> str:
    """Why a try has failed, as the queue keeps it: at most 1024 bytes."""
    if isinstance(error, Retry):
        text = error.reason
    else:
        text = f"{type(error).__name__}: {error}"
    return text.encode("ascii", "backslashreplace").decode("ascii")[:1000]
