<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * Runs a handler for the messages of a queue. Its return ends the message. An exception is a failed try, with
 * its text as the reason. Retry is one that is expected, and says when to try again.
 */
final class Worker
{
    /** Seconds between two tries to reach the server: at first, and at most. */
    private const PAUSE_FIRST = 0.1;
    private const PAUSE_MAX = 5.0;
    /** No answer takes longer, unless the connection is broken. */
    private const ANSWER_PATIENCE = 5.0;

    private readonly \Closure $handler;
    private readonly \Closure $connect;
    private readonly \Closure $log;
    /** The connection of a handler with transactions. */
    private readonly Line $line;
    /** That connection, once it was seen that it is a good one. */
    private ?\PDO $checked = null;
    private ?Keeper $keeper = null;
    private bool $isStopping = false;
    private float $pause = 0;

    /**
     * @param callable $handler is given the Job; with `batch`, a list of them; with `transaction`, also a PDO
     * @param callable|null $connect opens a connection; by default that of the queue. A worker has two, with
     *     `transaction` three, and one more for a short time when it stops
     * @param float $lease seconds. A lease is extended while its job runs, if PHP has pcntl. So it is for how
     *     long a message is away when its worker is killed
     * @param float $wait for how many seconds the server waits for a message before the worker asks again
     * @param int $batch with more than 1 the handler is given up to so many jobs
     * @param bool $transaction what the handler changes in InnoDB on its PDO and the end of the message are
     *     one COMMIT, which the worker does
     * @param string|null $where a condition: "priority < 3". Queue::literal() quotes values
     * @param callable|null $log is told what went wrong, as text; by default it is error_log()
     */
    public function __construct(
        private readonly Queue $queue,
        callable $handler,
        ?callable $connect = null,
        private readonly float $lease = 30,
        private readonly float $wait = 20,
        private readonly int $batch = 1,
        private readonly bool $transaction = false,
        private readonly ?string $where = null,
        ?callable $log = null,
    ) {
        $connect ??= $queue->connect ?? throw new WrongUse('a worker needs `connect`, or its queue does');
        if ($lease <= 0 || $wait < 0 || $batch < 1 || ($transaction && $batch > 1)) {
            throw new WrongUse('times of a worker are not negative, a batch has a job, and a transaction only one');
        }
        $this->handler = $handler(...);
        $this->connect = $connect(...);
        $this->log = ($log ?? error_log(...))(...);
        $this->line = new Line($this->connect, null);
    }

    /**
     * Works until stop(), SIGTERM or SIGINT; with `once` until nothing waits. The job that runs may end. A
     * second signal does what it did before: by default it ends the program at once.
     *
     * While the server is away, it tries again. An error that would come again at every try comes out: that
     * of PDO for a wrong privilege, condition or table, or WrongUse.
     */
    public function run(bool $once = false, bool $signals = true): void
    {
        if ($this->keeper !== null) {
            throw new WrongUse('this worker runs already');
        }
        $this->isStopping = false;
        $this->keeper = $this->newKeeper();
        $restore = $signals && function_exists('pcntl_async_signals') ? $this->handleSignals() : null;
        try {
            $this->work($once);
        } finally {
            $this->keeper->close();
            $this->keeper = null;
            $this->line->close();
            $this->checked = null;
            if ($restore !== null) {
                $restore();
            }
        }
    }

    /** Takes nothing more. The job that runs may end. For handlers, and for those of signals. */
    public function stop(): void
    {
        $this->isStopping = true;
    }

    private function newKeeper(): Keeper
    {
        $isStopping = fn (): bool => $this->isStopping;
        if (ForkedKeeper::isPossible()) {
            return new ForkedKeeper($this->connect, $this->lease, $this->wait, $this->log, $isStopping);
        }
        $line = new Line($this->connect, $this->wait + max($this->lease, self::ANSWER_PATIENCE));
        return new LocalKeeper($line->first(...));
    }

    /** What undoes it. */
    private function handleSignals(): \Closure
    {
        $isAsync = pcntl_async_signals(true);
        $before = [];
        $restore = static function () use (&$before): void {
            foreach ($before as $signal => $handler) {
                pcntl_signal($signal, $handler);
            }
        };
        foreach ([SIGTERM, SIGINT] as $signal) {
            $before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, function () use ($restore): void {
                $this->stop();
                $restore();
            });
        }
        return static function () use ($restore, $isAsync): void {
            $restore();
            pcntl_async_signals($isAsync);
        };
    }

    private function work(bool $once): void
    {
        while (!$this->isStopping) {
            $jobs = $this->lease($once ? 0 : $this->wait);
            if ($jobs === [] && $once) {
                // All ends were told before it was asked, so what has come again was there.
                return;
            }
            if ($jobs === null || $jobs === []) {
                continue;
            }
            if ($this->isStopping) {
                $this->tell(Statements::release(Job::tokensOf($jobs)), $jobs);
            } else {
                $this->handle($jobs);
            }
        }
    }

    /**
     * What can begin at once. Null if the queue could not be asked.
     *
     * @return list<Job>|null
     */
    private function lease(float $wait): ?array
    {
        try {
            $statement = Statements::lease($this->queue->table, $this->where, $this->lease, $this->batch, $wait);
            $jobs = Job::allOf($this->keeper->ask($statement), $this->keeper, $this->lease);
            $this->pause = 0;
            return $jobs;
        } catch (\Throwable $error) {
            if (Errors::isLasting($error)) {
                throw $error;
            }
            if (!Errors::isInterrupted($error) && !$this->isStopping) {
                ($this->log)("the queue can't be asked, which is tried again: {$error->getMessage()}");
                $this->pause();
            }
            return null;
        }
    }

    /** Longer and longer. A signal ends it. */
    private function pause(): void
    {
        $this->pause = min(max(2 * $this->pause, self::PAUSE_FIRST), self::PAUSE_MAX);
        usleep((int) ($this->pause * 1_000_000));
    }

    /** @param non-empty-list<Job> $jobs */
    private function handle(array $jobs): void
    {
        $this->keeper->keep(Job::tokensOf($jobs));
        $pdo = $this->transaction ? $this->begin($jobs[0]) : null;
        if ($this->transaction && $pdo === null) {
            return;
        }
        $isEnded = false;
        try {
            if ($pdo !== null) {
                $work = fn () => ($this->handler)($jobs[0], $pdo);
                Transaction::commitWith($pdo, $jobs[0], $this->keeper, $work);
                $isEnded = true;
            } else {
                ($this->handler)($this->batch === 1 ? $jobs[0] : $jobs);
            }
        } catch (\Throwable $error) {
            $this->note($jobs, $error);
        }
        if (!$isEnded) {
            $this->end($jobs);
        }
    }

    /** Begins the transaction of a job. Null if there is no connection for it: the job was not tried. */
    private function begin(Job $job): ?\PDO
    {
        try {
            $pdo = $this->line->open();
            if ($pdo !== $this->checked) {
                $this->queue->checkTake($pdo);
                Sql::exec($pdo, Statements::NO_AUTOCOMMIT);
                $this->checked = $pdo;
            }
            Transaction::begin($pdo);
            return $pdo;
        } catch (\Throwable $error) {
            // The last job may have broken it, or the server has closed it since.
            $this->line->close();
            $this->keeper->keep([]);
            $this->tell(Statements::release([$job->token]), [$job]);
            if (Errors::isLasting($error)) {
                throw $error;
            }
            ($this->log)("no transaction can be begun, which is tried again: {$error->getMessage()}");
            $this->pause();
            return null;
        }
    }

    /**
     * Gives the jobs their failure, if they have none.
     *
     * @param non-empty-list<Job> $jobs
     */
    private function note(array $jobs, \Throwable $error): void
    {
        $failed = array_filter($jobs, static fn (Job $job): bool => $job->failure() === null);
        foreach ($failed as $job) {
            $job->fail($error);
        }
        if (!$error instanceof Retry) {
            $count = count($failed);
            $told = $count === 1 ? 'a job has failed:' : "$count jobs have failed, the first is";
            ($this->log)("$told {$jobs[0]->token}: $error");
        }
    }

    /**
     * Ends jobs, with as few statements as it takes.
     *
     * @param non-empty-list<Job> $jobs
     */
    private function end(array $jobs): void
    {
        $groups = [];
        foreach ($jobs as $job) {
            $groups[serialize($job->failure())][] = $job;
        }
        while ($groups !== []) {
            $some = array_shift($groups);
            $tokens = Job::tokensOf($some);
            $failure = $some[0]->failure();
            $this->tell($failure === null ? Statements::ack($tokens) : Statements::nack($tokens, $failure), $some);
            $this->keeper->keep(Job::tokensOf(array_merge(...array_values($groups))));
        }
    }

    /**
     * Tells the queue, until it hears. Nothing is leased before: a message of which only the end is missing
     * must not come again. What is told twice is stale, and nothing happens twice.
     *
     * @param non-empty-list<Job> $jobs
     */
    private function tell(string $statement, array $jobs): void
    {
        $end = null;
        while (true) {
            try {
                foreach (Statements::staleAmong($this->keeper->tell($statement)) as $token) {
                    ($this->log)("the end of $token came too late: its message may be worked on twice");
                }
                $this->pause = 0;
                return;
            } catch (\Throwable $error) {
                if (Errors::isLasting($error)) {
                    throw $error;
                }
            }
            ($this->log)("ends of jobs could not be told, which is tried again: {$error->getMessage()}");
            if ($this->isStopping) {
                $end ??= hrtime(true) / 1e9 + $this->lease;
            }
            if ($end !== null && hrtime(true) / 1e9 > $end) {
                ($this->log)("{$jobs[0]->token} could not be ended; it comes again when its lease has ended");
                return;
            }
            $this->pause();
        }
    }
}
