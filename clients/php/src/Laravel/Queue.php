<?php

declare(strict_types=1);

namespace Remora\Queue\Laravel;

use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Database\Connection;
use Illuminate\Queue\Queue as BaseQueue;
use Remora\Queue\ForkedKeeper;
use Remora\Queue\Job as Leased;
use Remora\Queue\Keeper;
use Remora\Queue\LocalKeeper;
use Remora\Queue\Queue as Table;
use Remora\Queue\Sql;
use Remora\Queue\Statements;

/** Tables with ENGINE=QUEUE: each queue is one. A job is a part of the transaction that pushes it. */
final class Queue extends BaseQueue implements QueueContract, ClearableQueue
{
    /** @var array<string, Table> */
    private array $tables = [];
    private readonly Keeper $keeper;

    /**
     * @param \Closure(): Connection $database
     * @param \Closure(): \PDO $connect opens a connection from which leases are extended
     */
    public function __construct(
        private readonly \Closure $database,
        \Closure $connect,
        private readonly string $default,
        private readonly float $lease = 30,
        private readonly float $blockFor = 0,
        bool $dispatchAfterCommit = false,
    ) {
        $this->dispatchAfterCommit = $dispatchAfterCommit;
        $this->keeper = ForkedKeeper::isPossible()
            ? new ForkedKeeper($connect, $lease, 0, error_log(...))
            : new LocalKeeper(fn (string $sql): array => Sql::first($this->pdo(), $sql));
    }

    public function __destruct()
    {
        $this->keeper->close();
    }

    private function pdo(): \PDO
    {
        return ($this->database)()->getPdo();
    }

    private function table(?string $queue): Table
    {
        $name = $queue ?? $this->default;
        // Laravel counts tries, and has a table of failed jobs.
        return $this->tables[$name] ??= new Table($name, tries: 0);
    }

    /** Makes the table of a queue, if it is not there: for a migration. */
    public function create(?string $queue = null): void
    {
        $this->table($queue)->create($this->pdo());
    }

    public function push($job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $queue ?? $this->default, $data);
        $put = fn (string $payload, ?string $queue): string => $this->pushRaw($payload, $queue);
        return $this->enqueueUsing($job, $payload, $queue, null, $put);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $queue ?? $this->default, $data, $delay);
        $put = fn (string $payload, ?string $queue, mixed $delay): string => $this->table($queue)
            ->put($this->pdo(), $payload, delay: $this->secondsUntil($delay));
        return $this->enqueueUsing($job, $payload, $queue, $delay, $put);
    }

    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->table($queue)->put($this->pdo(), $payload);
    }

    /** All of them, or none. */
    public function bulk($jobs, $data = '', $queue = null)
    {
        ($this->database)()->transaction(fn () => parent::bulk($jobs, $data, $queue));
    }

    public function pop($queue = null)
    {
        $statement = Statements::lease($this->table($queue)->table, null, $this->lease, 1, $this->blockFor);
        $jobs = Leased::allOf(Sql::first($this->pdo(), $statement), $this->keeper, $this->lease);
        if ($jobs === []) {
            return null;
        }
        $this->keeper->keep([$jobs[0]->token]);
        $end = function (string $statement): void {
            Sql::first($this->pdo(), $statement);
            $this->keeper->keep([]);
        };
        return new Job($this->container, $jobs[0], $end, $this->connectionName, $queue ?? $this->default);
    }

    /**
     * Removes all jobs, as Laravel wants it: how many. Those that somebody works on or that were released for
     * later are beyond a DELETE. So this takes the privilege DROP, and commits.
     */
    public function clear($queue)
    {
        $count = $this->size($queue);
        Sql::exec($this->pdo(), "TRUNCATE TABLE {$this->table($queue)->table}");
        return $count;
    }

    public function size($queue = null)
    {
        return $this->count('SELECT COUNT(*) FROM %s', $queue);
    }

    // Laravel 12 and later ask for these.

    /** Jobs that wait now. */
    public function pendingSize($queue = null): int
    {
        return $this->count('SELECT COUNT(*) FROM %s WHERE payload IS NOT NULL', $queue);
    }

    /** Jobs that were pushed for later. */
    public function delayedSize($queue = null): int
    {
        $statement = 'SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM %s WHERE at > NOW(6)';
        return $this->count($statement, $queue);
    }

    /** Jobs that somebody works on, and those that were released for later. */
    public function reservedSize($queue = null): int
    {
        return max($this->size($queue) - $this->pendingSize($queue) - $this->delayedSize($queue), 0);
    }

    /** Seconds since 1970, if Laravel has written it into the job, as it does from 11 on. */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        $row = Sql::first($this->pdo(), sprintf('SELECT payload FROM %s LIMIT 1', $this->table($queue)->table));
        $payload = json_decode((string) json_decode((string) ($row[0] ?? '""')), true);
        return $payload['createdAt'] ?? null;
    }

    private function count(string $statement, ?string $queue): int
    {
        return (int) Sql::first($this->pdo(), sprintf($statement, $this->table($queue)->table))[0];
    }
}
