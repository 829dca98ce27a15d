"""The queue for asyncio, over aiomysql.

async def connect():
    return await aiomysql.connect(...)

@aio.worker(queue, connect=connect, lease=30, concurrency=10)
async def send(job): ...

await send.run()
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from . import _link
from . import _statements as statements
from ._ender import PAUSE_FIRST, PAUSE_MAX
from ._errors import INTERRUPTED, LASTING, LeaseLost, Retry, check_mark_failed, number_of, reason_of
from ._job import Job, failed_of, jobs_of, stale_among
from ._queue import Message, Queue

log = logging.getLogger("remora_queue")

Connect = Callable[[], Awaitable[Any]]

_KILL_EVERY = 0.2


async def _run(connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
    """Runs a statement; its first row, or None."""
    async with connection.cursor() as cursor:
        await cursor.execute(sql, tuple(values) or None)
        return await cursor.fetchone() if cursor.description else None


async def create(connection: Any, queue: Queue) -> None:
    """Makes the tables of a queue if they are not there."""
    for sql in queue.ddl():
        await _run(connection, sql)


async def put(
    connection: Any, queue: Queue, payload: Any, *, outside_transaction: bool = False, **options: Any
) -> str:
    """As Queue.put()."""
    message = Message(payload, **options)
    return (await put_many(connection, queue, [message], outside_transaction=outside_transaction))[0]


async def put_many(
    connection: Any, queue: Queue, messages: Iterable[Message], *, outside_transaction: bool = False
) -> list[str]:
    """As Queue.put_many()."""
    ids, sql, values = queue.insert(messages)
    if ids:
        if not queue.is_known_transactional:
            state = await _run(connection, *statements.state(queue.database, queue.name))
            queue.check(state, outside_transaction)
        await _run(connection, sql, values)
    return ids


@asynccontextmanager
async def take(
    connection: Any,
    queue: Queue,
    *,
    connect: Connect | None = None,
    lease: float = 30,
    wait: float = 0,
    where: str | None = None,
) -> AsyncIterator[Job | None]:
    """As Queue.take(). `connect` opens the connection that extends the lease; without it nothing does."""
    in_transaction, autocommit, options = await _run(
        connection, *statements.state(queue.database, queue.name)
    )
    queue.check_take(in_transaction, options)
    jobs = jobs_of((await _run(connection, *statements.lease(queue.table, where, lease, 1, wait)))[0])
    if not jobs:
        yield None
        return
    job = jobs[0]
    is_over = False
    keeper = Keeper(connect, lease) if connect else None
    try:
        try:
            if int(autocommit):
                await _run(connection, statements.NO_AUTOCOMMIT)
            # This begins the transaction.
            await _run(connection, statements.MARK)
            if keeper:
                keeper.add(job)
            yield job
        finally:
            if keeper:
                await keeper.close()
        if job.failure:
            raise Retry(*job.failure)
        try:
            await _run(connection, statements.CHECK_MARK)
        except Exception as error:
            check_mark_failed(error)
            raise
        if not int((await _run(connection, *statements.ack([job.token])))[0]):
            raise LeaseLost(f"the lease of {job.token} has ended: somebody else has this message")
        await connection.commit()
        is_over = True
    except BaseException as error:
        # A cancelled statement of aiomysql closes its connection: the lease ends by itself.
        if not connection.closed:
            await connection.rollback()
            is_over = True
            if not isinstance(error, LeaseLost):
                delay = error.delay if isinstance(error, Retry) else None
                await _run(connection, *statements.nack([job.token], reason_of(error), delay))
        raise
    finally:
        if int(autocommit):
            await _autocommit_again(connection, is_over)


async def _autocommit_again(connection: Any, is_over: bool) -> None:
    """The connection is closed if it can't have autocommit again, which would commit what is not over."""
    is_on = False
    try:
        with suppress(Exception):
            if is_over:
                await _run(connection, statements.AUTOCOMMIT)
                is_on = True
    finally:
        if not is_on:
            connection.close()


class _Line:
    """A connection that is opened at its first statement, and again after an error."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Any = None
        self._lock = asyncio.Lock()
        self.id: int | None = None

    async def run(self, sql: str, values: Sequence[Any] = (), limit: float | None = None) -> Any:
        """After `limit` seconds without an answer the connection is closed: a broken one may never answer."""
        async with self._lock:
            try:
                return await asyncio.wait_for(self._run(sql, values), limit)
            except asyncio.TimeoutError:
                raise TimeoutError(f"no answer within {limit} s") from None

    async def _run(self, sql: str, values: Sequence[Any]) -> Any:
        try:
            if self._connection is None:
                self._connection = await self._connect()
                await _run(self._connection, "SET autocommit = 1")
                self.id = int((await _run(self._connection, "SELECT CONNECTION_ID()"))[0])
            return await _run(self._connection, sql, values)
        except BaseException as error:
            if number_of(error) not in INTERRUPTED:
                self.close()
            raise

    def close(self) -> None:
        connection, self._connection, self.id = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


class Keeper:
    """Extends leases from a task with a connection of its own."""

    def __init__(self, connect: Connect, lease: float) -> None:
        self._line = _Line(connect)
        self._lease = lease
        self._jobs: set[Job] = set()
        self._task = asyncio.ensure_future(self._keep())

    def add(self, job: Job) -> None:
        job.lost.clear()
        self._jobs.add(job)

    def remove(self, job: Job) -> None:
        self._jobs.discard(job)

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._line.close()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            jobs = {job.token: job for job in self._jobs}
            if not jobs:
                continue
            try:
                stale = stale_among(
                    (await self._line.run(*statements.extend(jobs, self._lease), self._lease))[1]
                )
            except Exception as error:
                log.warning("leases could not be extended, which is tried again: %s", error)
                continue
            for job in (jobs[token] for token in stale):
                if job in self._jobs and job.token in stale:
                    job.lost.set()
                    self._jobs.discard(job)
                    log.warning("the lease of %s has ended while its job runs", job.token)


class Worker:
    """Runs a coroutine function for the messages of a queue. See remora_queue.worker() for the options."""

    def __init__(
        self,
        queue: Queue,
        function: Callable[..., Awaitable[Any]],
        *,
        connect: Connect,
        lease: float = 30,
        wait: float = 20,
        concurrency: int = 1,
        batch: int = 1,
        where: str | None = None,
    ) -> None:
        self.queue = queue
        self.function = function
        self.connect = connect
        self.lease = lease
        self.wait = wait
        self.concurrency = concurrency
        self.batch = batch
        self.where = where

    def __call__(self, *arguments: Any) -> Awaitable[Any]:
        """Calls the function itself, as tests do."""
        return self.function(*arguments)

    def stop(self) -> None:
        """Takes nothing more. run() returns when the jobs that run have ended."""
        self._stopping.set()

    async def run(self, *, once: bool = False, signals: bool = True) -> None:
        """Works until stop(), SIGTERM or SIGINT; with `once` until nothing waits."""
        self._stopping = asyncio.Event()
        self._running: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper = Keeper(self.connect, self.lease)
        self._ends = _Line(self.connect)
        self._waits = _Line(self.connect)
        handled = self._handle_signals() if signals else []
        fetcher = asyncio.ensure_future(self._fetch(once))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({fetcher, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await self._end_wait(fetcher)
            await fetcher
        finally:
            stopping.cancel()
            while self._tasks:
                await asyncio.wait(self._tasks)
            await self._keeper.close()
            for line in (self._ends, self._waits):
                line.close()
            for number in handled:
                asyncio.get_running_loop().remove_signal_handler(number)

    def _handle_signals(self) -> list[signal.Signals]:
        loop = asyncio.get_running_loop()
        handled: list[signal.Signals] = []

        def handle() -> None:
            self.stop()
            # A second one does what it did before run().
            for number in handled:
                loop.remove_signal_handler(number)

        # Only the main thread can, and Windows can't.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, handle)
                handled.append(number)
        return handled

    async def _end_wait(self, fetcher: asyncio.Future[None]) -> None:
        """Ends the wait by KILL QUERY, which takes nothing. To cancel it would close the connection."""
        line = _Line(self.connect)
        while not fetcher.done():
            if self._waits.id is not None:
                with suppress(Exception):
                    await line.run(statements.kill(self._waits.id), limit=_link.ANSWER_PATIENCE)
            await asyncio.wait({fetcher}, timeout=_KILL_EVERY)
        line.close()

    async def _fetch(self, once: bool) -> None:
        pause = PAUSE_FIRST
        while not self._stopping.is_set():
            if len(self._tasks) >= self.concurrency:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                continue
            # A job that ends while the server answers may have put or returned something after the answer.
            was_idle = not self._tasks
            try:
                rows = (self.concurrency - len(self._tasks)) * self.batch
                wait = 0 if once else self.wait
                sql, values = statements.lease(self.queue.table, self.where, self.lease, rows, wait)
                limit = wait + _link.ANSWER_PATIENCE
                found = jobs_of((await self._waits.run(sql, values, limit))[0])
                pause = PAUSE_FIRST
            except Exception as error:
                if number_of(error) in LASTING:
                    raise
                if number_of(error) not in INTERRUPTED:
                    log.warning("the queue can't be asked, which is tried again: %s", error)
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._stopping.wait(), pause)
                    pause = min(pause * 2, PAUSE_MAX)
                continue
            self._begin(found)
            if once and not found:
                if was_idle:
                    return
                if self._tasks:
                    await asyncio.wait(self._tasks)

    def _begin(self, found: list[Job]) -> None:
        new = [job for job in found if not self._runs_already(job)]
        for job in new:
            self._keeper.add(job)
        for at in range(0, len(new), self.batch):
            task = asyncio.ensure_future(self._work(new[at : at + self.batch]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _runs_already(self, job: Job) -> bool:
        """Whether this message is here: its lease has ended, or it was returned, and it came again."""
        runs = self._running.setdefault(job.id, job) if job.id is not None else job
        if runs is job:
            return False
        runs.comes_again(job)
        if not runs.over:
            self._keeper.add(runs)
        return True

    async def _work(self, jobs: list[Job]) -> None:
        try:
            await self.function(jobs[0] if self.batch == 1 else jobs)
        except asyncio.CancelledError as error:
            self._note(error, jobs)
        except Exception as error:
            self._note(error, jobs)
        while jobs:
            jobs = await self._end(jobs)

    async def _end(self, jobs: list[Job]) -> list[Job]:
        """Ends jobs. Returns those that were leased again before, and end in their place."""
        ends: dict[tuple[str, float | None] | None, list[Job]] = {}
        for job in jobs:
            job.over = True
            self._keeper.remove(job)
            ends.setdefault(job.failure, []).append(job)
        left: list[Job] = []
        new: list[Job] = []
        for failure, some in ends.items():
            tokens = [job.token for job in some]
            sql = statements.ack(tokens) if failure is None else statements.nack(tokens, *failure)
            stale = await self._tell(sql)
            for job in some:
                again = job.again
                if job.id is not None:
                    self._running.pop(job.id, None)
                if again and again.id:
                    if job.token in stale:
                        self._running[again.id] = again
                        again.failure = failure
                        left.append(again)
                    elif self._stopping.is_set():
                        await self._tell(statements.release([again.token]))
                    else:
                        new.append(again)
        self._begin(new)
        return left

    def _note(self, error: BaseException, jobs: list[Job]) -> None:
        delay = error.delay if isinstance(error, Retry) else None
        failed = [job for job in jobs if job.failure is None]
        for job in failed:
            job.failure = (reason_of(error), delay)
        if not isinstance(error, Retry):
            log.warning(failed_of(jobs, len(failed)), exc_info=error)

    async def _tell(self, statement: statements.Statement) -> set[str]:
        """Ends messages, and returns stale tokens. When the server is away, leases end by themselves."""
        pause = PAUSE_FIRST
        until = asyncio.get_running_loop().time() + self.lease
        while True:
            try:
                stale = stale_among(
                    (await self._ends.run(*statement, max(self.lease, _link.ANSWER_PATIENCE)))[1]
                )
                break
            except Exception as error:
                log.warning("ends of jobs could not be told, which is tried again: %s", error)
                if number_of(error) in LASTING or asyncio.get_running_loop().time() > until:
                    return set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_MAX)
        for token in stale:
            log.warning("%s came too late: its message may be worked on twice", token)
        return stale


def worker(queue: Queue, **options: Any) -> Callable[[Callable[..., Awaitable[Any]]], Worker]:
    """Makes a coroutine function a worker. Options as those of remora_queue.worker(), no `transaction`."""

    def make(function: Callable[..., Awaitable[Any]]) -> Worker:
        return Worker(queue, function, **options)

    return make


__all__ = ["Worker", "create", "put", "put_many", "take", "worker"]
