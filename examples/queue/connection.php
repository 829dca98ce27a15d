<?php
/*
 * A queue connection with the methods that Laravel's have: push, later, pop and size, and for a job release, delete, fail.
 * Jobs that can't be done are set aside in failed_jobs, in the transaction that ends them.
 *
 *     connection.php DSN make             makes the tables
 *     connection.php DSN push N           N letters to write
 *     connection.php DSN work [--once]    writes them. --once: ends when nothing waits
 *
 * DSN is one of PDO, such as 'mysql:unix_socket=PATH;dbname=shop'.
 */

class Connection
{
    public function __construct(public readonly PDO $pdo, private string $queue, private int $retryAfter = 3)
    {
    }

    public function push(array $payload): void
    {
        $this->later(0, $payload);
    }

    /** Nobody is given the job before so many seconds are over. */
    public function later(int $delay, array $payload): void
    {
        $this->pdo->prepare("INSERT INTO $this->queue (payload, due) VALUES (?, UNIX_TIMESTAMP() + ?)")
            ->execute([json_encode($payload, JSON_THROW_ON_ERROR), $delay]);
    }

    /** The next job, for retryAfter seconds; after so many seconds of waiting, null. */
    public function pop(int $blockFor = 1): ?Job
    {
        $leased = json_decode($this->call('queue_lease_json', $this->retryAfter, 1, $this->queue, $blockFor) ?? '[]', true);
        return $leased ? new Job($this, $leased[0]) : null;
    }

    public function size(): int
    {
        return $this->pdo->query("SELECT COUNT(*) FROM $this->queue")->fetchColumn();
    }

    /** What a function of the queue returns. */
    public function call(string $function, mixed ...$arguments): mixed
    {
        $marks = implode(', ', array_fill(0, count($arguments), '?'));
        $statement = $this->pdo->prepare("SELECT $function($marks)");
        $statement->execute($arguments);
        return $statement->fetchColumn();
    }
}

class Job
{
    public readonly array $payload;

    public function __construct(private Connection $connection, private array $leased)
    {
        $this->payload = json_decode($leased['row']['payload'], true, flags: JSON_THROW_ON_ERROR);
    }

    public function attempts(): int
    {
        return $this->leased['try'];
    }

    /** The job is done. False if it took too long: somebody else has it now. */
    public function delete(): bool
    {
        return $this->connection->call('queue_ack', $this->leased['token']) === 1;
    }

    /** The work has failed, and is tried again after so many seconds. */
    public function release(int $delay = 0): bool
    {
        return $this->connection->call('queue_nack', $this->leased['token'], $delay) > 0;
    }

    /** The work is given up: the job and the reason are in failed_jobs, and the job is gone, both or neither. */
    public function fail(Throwable $why): bool
    {
        $pdo = $this->connection->pdo;
        $pdo->beginTransaction();
        $pdo->prepare('INSERT INTO failed_jobs (payload, exception) VALUES (?, ?)')
            ->execute([$this->leased['row']['payload'], $why->getMessage()]);
        $deleted = $this->delete();
        $deleted ? $pdo->commit() : $pdo->rollBack();
        return $deleted;
    }
}

/** The work: a letter is written once, however often it is tried. Every tenth one can't be. */
function write(PDO $pdo, array $letter): void
{
    if ($letter['id'] % 10 === 7) {
        throw new RuntimeException("no address for letter {$letter['id']}");
    }
    $pdo->prepare('INSERT IGNORE INTO letter VALUES (?)')->execute([$letter['id']]);
}

[, $dsn, $command, $argument] = $argv + [3 => null];
$connection = new Connection(new PDO($dsn, 'root'), 'letters');
if ($command === 'make') {
    $connection->pdo->exec('CREATE TABLE letters (payload TEXT NOT NULL, due BIGINT) ENGINE=QUEUE DUE=due TRANSACTIONAL=1');
    $connection->pdo->exec('CREATE TABLE failed_jobs (payload TEXT NOT NULL, exception TEXT NOT NULL)');
    $connection->pdo->exec('CREATE TABLE letter (id INT PRIMARY KEY)');
} elseif ($command === 'push') {
    for ($id = 1; $id <= $argument; $id++) {
        $id % 2 ? $connection->push(['id' => $id]) : $connection->later(1, ['id' => $id]);
    }
} else {
    while (($job = $connection->pop()) || $argument !== '--once') {
        try {
            if ($job) {
                write($connection->pdo, $job->payload);
                $job->delete();
            }
        } catch (RuntimeException $why) {
            $job->attempts() < 3 ? $job->release() : $job->fail($why);
        }
    }
}
