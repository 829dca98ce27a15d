"""Jobs in a queue that is a table of MariaDB (ENGINE=QUEUE).

Queue.put() puts a message into the queue, in the caller's transaction. worker() makes a function a worker.
Queue.take() takes one message together with the caller's own changes. remora_queue.aio is for asyncio.
"""

from ._errors import InTransaction, LeaseLost, NotAQueue, QueueError, Retry
from ._job import Job
from ._queue import Message, Queue
from ._statements import literal
from ._worker import Worker, worker

__all__ = [
    "InTransaction",
    "Job",
    "LeaseLost",
    "Message",
    "NotAQueue",
    "Queue",
    "QueueError",
    "Retry",
    "Worker",
    "literal",
    "worker",
]
