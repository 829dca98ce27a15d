"""A worker: leases messages, runs a function for each, and ends them."""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _link
from . import _statements as statements
from ._ender import PAUSE_FIRST, PAUSE_MAX, Ended, Ender
from ._errors import INTERRUPTED, LASTING, QueueError, Retry, number_of, reason_of
from ._job import Job, failed_of, jobs_of
from ._keeper import Keeper
from ._link import Connect, OwnLink
from ._queue import Queue, end_in_transaction

log = logging.getLogger("remora_queue")

# Seconds between two KILL QUERY: one that comes before the wait does nothing.
_KILL_EVERY = 0.2


class Worker:
    """Runs a function for the messages of a queue. See worker() for the options."""

    def __init__(
        self,
        queue: Queue,
        function: Callable[..., Any],
        *,
        connect: Connect | None = None,
        lease: float = 30,
        wait: float = 20,
        concurrency: int = 1,
        batch: int = 1,
        where: str | None = None,
        transaction: bool = False,
    ) -> None:
        connect = connect or queue.connect
        if connect is None:
            raise QueueError("a worker needs connect=, a function that opens a connection")
        if transaction and batch > 1:
            raise QueueError("a transaction ends one message: transaction=True goes with batch=1")
        self.queue = queue
        self.function = function
        self.connect = connect
        self.lease = lease
        self.wait = wait
        self.concurrency = concurrency
        self.batch = batch
        self.where = where
        self.transaction = transaction
        # Each job wakes one thread. So those that wait for something else have conditions of their own.
        self._lock = threading.RLock()
        self._has_ready = threading.Condition(self._lock)
        self._has_room = threading.Condition(self._lock)
        self._has_stopped = threading.Condition(self._lock)
        self._stopping = False
        self._ready: deque[list[Job]] = deque()
        self._free = concurrency
        # By id, until their messages have ended.
        self._running: dict[str, Job] = {}
        self._waiting: OwnLink | None = None
        self._failure: BaseException | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function itself, as tests do."""
        return self.function(*arguments)

    def stop(self) -> None:
        """Takes nothing more. run() returns when the jobs that run have ended. From any thread."""
        with self._lock:
            self._stopping = True
            for condition in (self._has_ready, self._has_room, self._has_stopped):
                condition.notify_all()

    def run(self, *, once: bool = False, signals: bool = True) -> None:
        """Works until stop(), SIGTERM or SIGINT; with `once` until nothing waits.

        A second signal does what it did before run(): by default it ends the program at once.
        """
        handlers = self._handle_signals() if signals else {}
        self._stopping, self._failure, self._free = False, None, self.concurrency
        self._keeper = Keeper(self.connect, self.lease)
        self._ender = Ender(self.connect, self.lease, self._ended)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.concurrency)]
        fetcher = threading.Thread(target=self._fetch, args=(once,), name="remora-queue-fetch", daemon=True)
        try:
            for thread in [fetcher, *threads]:
                thread.start()
            # This thread waits for no server, so that signals reach it whatever the driver does.
            with self._lock:
                self._has_stopped.wait_for(lambda: self._stopping)
            self._end_wait(fetcher)
            with self._lock:
                untried = [job for jobs in self._ready for job in jobs]
                self._ready.clear()
            self._over(untried)
            self._ender.end([Ended(job, untried=True) for job in untried])
            for thread in threads:
                thread.join()
        finally:
            self.stop()
            self._ender.close()
            self._keeper.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if self._failure:
            raise self._failure

    def _handle_signals(self) -> dict[signal.Signals, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        before: dict[signal.Signals, Any] = {}

        def handle(_number: int, _frame: Any) -> None:
            for number, handler in before.items():
                signal.signal(number, handler)
            # Not here: the thread that the signal interrupts may have the lock.
            threading.Thread(target=self.stop, daemon=True).start()

        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, handle)
        return before

    def _end_wait(self, fetcher: threading.Thread) -> None:
        """Ends the wait by KILL QUERY, which takes nothing, until the fetcher has seen that it is to end."""
        link: OwnLink | None = None
        while fetcher.is_alive():
            waiting = self._waiting
            try:
                if waiting:
                    link = link or OwnLink(self.connect, limit=_link.ANSWER_PATIENCE)
                    link.kill(waiting.id)
            except Exception as error:
                log.warning("the wait could not be ended, which is tried again: %s", error)
                if link:
                    link.close()
                link = None
            fetcher.join(_KILL_EVERY)
        if link:
            link.close()

    def _fetch(self, once: bool) -> None:
        pause = PAUSE_FIRST
        while free := self._until_free():
            try:
                limit = self.wait + _link.ANSWER_PATIENCE
                self._waiting = self._waiting or OwnLink(self.connect, limit=limit)
                # A job that ends while the server answers may have put something after the answer.
                was_idle = self._is_idle()
                if not self._lease_some(free, 0 if once else self.wait) and once:
                    if was_idle:
                        self.stop()
                    else:
                        self._until_idle()
                pause = PAUSE_FIRST
            except Exception as error:
                number = number_of(error)
                if number in LASTING:
                    self._failure = error
                    self.stop()
                if number in INTERRUPTED:
                    continue
                link, self._waiting = self._waiting, None
                if link:
                    link.close()
                if not self._stopping:
                    log.warning("the queue can't be asked, which is tried again: %s", error)
                with self._lock:
                    self._has_room.wait_for(lambda: self._stopping, pause)
                pause = min(pause * 2, PAUSE_MAX)
        link, self._waiting = self._waiting, None
        if link:
            link.close()

    def _until_free(self) -> int:
        """Waits until threads have nothing to do: how many. 0 when the worker is to stop."""
        with self._lock:
            self._has_room.wait_for(lambda: self._stopping or self._free > 0)
            return 0 if self._stopping else self._free

    def _is_idle(self) -> bool:
        """Whether no job runs."""
        with self._lock:
            return self._free == self.concurrency and not self._running

    def _until_idle(self) -> None:
        with self._lock:
            self._has_room.wait_for(lambda: self._stopping or self._is_idle())

    def _lease_some(self, free: int, wait: float) -> bool:
        """Leases what the free threads can begin at once. Whether there was something."""
        assert self._waiting
        rows = free * self.batch
        sql, values = statements.lease(self.queue.table, self.where, self.lease, rows, wait)
        found = jobs_of(self._waiting.run(sql, values)[0])
        self._begin([job for job in found if not self._runs_already(job)])
        return bool(found)

    def _runs_already(self, job: Job) -> bool:
        """Whether this message is here: its lease has ended, or it was returned, and it came again."""
        if job.id is None:
            return False
        with self._lock:
            runs = self._running.setdefault(job.id, job)
            if runs is job:
                return False
            runs.comes_again(job)
            if not runs.over:
                self._keeper.add(runs)
        return True

    def _ended(self, told: list[tuple[Ended, bool]]) -> None:
        """Tokens were used, and their jobs are gone. If one was stale, what came again ends in its place."""
        new, ends = [], []
        with self._lock:
            for one, stale in told:
                job = one.job
                if job.id is not None:
                    self._running.pop(job.id, None)
                again = job.again
                if not (again and again.id):
                    continue
                self._running[again.id] = again
                if stale or self._stopping:
                    again.over = True
                    ends.append(
                        Ended(again, one.failure, one.untried) if stale else Ended(again, untried=True)
                    )
                else:
                    new.append(again)
            self._begin(new)
            # It may wait until nothing runs.
            self._has_room.notify()
        self._ender.end(ends)

    def _begin(self, jobs: list[Job]) -> None:
        """Gives jobs to the threads."""
        for job in jobs:
            self._keeper.add(job)
        with self._lock:
            for at in range(0, len(jobs), self.batch):
                self._ready.append(jobs[at : at + self.batch])
                self._free -= 1
                # A thread that is not asleep looks before it sleeps.
                self._has_ready.notify()

    def _work(self) -> None:
        link: OwnLink | None = None
        while True:
            with self._lock:
                self._has_ready.wait_for(lambda: bool(self._ready) or self._stopping)
                if not self._ready:
                    break
                jobs = self._ready.popleft()
            ended = True
            try:
                if self.transaction:
                    link = link or OwnLink(self.connect, autocommit=False)
                    ended = self._call_in_transaction(link, jobs[0])
                else:
                    self.function(jobs[0] if self.batch == 1 else jobs)
            # Also SystemExit: a job must not end the worker.
            except BaseException as error:
                self._note(error, jobs)
                if link:
                    link.close()
                link = None
            self._over(jobs)
            self._ender.end([Ended(job, job.failure) for job in jobs if ended or job.failure])
            if not ended:
                self._ended([(Ended(job), False) for job in jobs if not job.failure])
            with self._lock:
                self._free += 1
                self._has_room.notify()
        if link:
            link.close()

    def _over(self, jobs: list[Job]) -> None:
        """From now on their tokens do not change."""
        with self._lock:
            for job in jobs:
                job.over = True
        for job in jobs:
            self._keeper.remove(job)

    def _note(self, error: BaseException, jobs: list[Job]) -> None:
        delay = error.delay if isinstance(error, Retry) else None
        failed = [job for job in jobs if job.failure is None]
        for job in failed:
            job.failure = (reason_of(error), delay)
        if not isinstance(error, Retry):
            log.warning(failed_of(jobs, len(failed)), exc_info=error)

    def _call_in_transaction(self, link: OwnLink, job: Job) -> bool:
        """The function's changes and the end of the message are one COMMIT. False: nothing is left to end."""
        # This begins the transaction.
        link.run(statements.MARK)
        try:
            self.function(job, link.connection)
            # While the transaction has ended the row, its token is good for nobody.
            self._over([job])
            if job.failure:
                link.rollback()
                return True
            end_in_transaction(link, job)
            return False
        except BaseException:
            link.rollback()
            raise


def worker(queue: Queue, **options: Any) -> Callable[[Callable[..., Any]], Worker]:
    """Makes a function a worker: `@worker(queue, lease=30)`, then `function.run()`.

    connect      opens a connection; by default that of the queue. A worker has three, and with `transaction`
                 one more for each thread.
    lease        seconds. A lease is extended while its job runs. So this is how long a message is away when
                 its worker is killed.
    wait         seconds that the server waits for a message; below the read timeout of the driver.
    concurrency  how many threads run the function.
    batch        with more than 1 the function gets a list of up to so many jobs.
    where        a condition: "priority > 3". literal() quotes values.
    transaction  the function gets the job and a connection. Its changes and the end of the message are one
                 COMMIT.

    The function's return ends the message. An exception is a failed try, with its text as the reason. Retry
    says when to try again.
    """

    def make(function: Callable[..., Any]) -> Worker:
        return Worker(queue, function, **options)

    return make
