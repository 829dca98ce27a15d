<?php

declare(strict_types=1);

use Remora\Queue\InTransaction;
use Remora\Queue\Job;
use Remora\Queue\LeaseLost;
use Remora\Queue\Queue;
use Remora\Queue\QueueException;
use Remora\Queue\Retry;

function prepared(Scene $s, ?Closure $connect = null): Queue
{
    $s->pdo->exec('CREATE TABLE done (n INT PRIMARY KEY) ENGINE=InnoDB');
    $queue = new Queue('jobs', $connect, tries: 2, backoff: [0, 1, 0]);
    $queue->create($s->pdo);
    return $queue;
}

/** Two rows, and a transaction by which the server ends another one that has changed less. */
function deadlock(Scene $s, PDO $pdo): void
{
    $other = $s->beside(function () use ($s): void {
        $s->pdo->exec('BEGIN');
        $s->pdo->exec('UPDATE ballast SET seq = seq + 1');
        $s->pdo->exec('UPDATE locked SET n = 12 WHERE n = 2');
        $s->flag('locked');
        $s->untilFlag('first');
        $s->pdo->exec('UPDATE locked SET n = 11 WHERE n = 1');
        $s->pdo->exec('ROLLBACK');
    });
    $s->untilFlag('locked');
    $pdo->exec('UPDATE locked SET n = 21 WHERE n = 1');
    $s->flag('first');
    until('the other one waits', fn (): bool => $s->value('SELECT variable_value FROM'
        . " information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'") === '1');
    $error = thrown(PDOException::class, fn () => $pdo->exec('UPDATE locked SET n = 22 WHERE n = 2'));
    same(number($error), 1213);
    $other->value();
    array_map($s->unflag(...), ['locked', 'first']);
}

function lockable(Scene $s): void
{
    $s->pdo->exec('CREATE TABLE ballast ENGINE=InnoDB SELECT seq FROM seq_1_to_100');
    $s->pdo->exec('CREATE TABLE locked (n INT PRIMARY KEY) ENGINE=InnoDB');
    $s->pdo->exec('INSERT INTO locked VALUES (1), (2)');
}

test('a message and its work are one commit', function (Scene $s): void {
    $queue = prepared($s);
    foreach ([1, 0] as $autocommit) {
        $pdo = $s->connect([PDO::ATTR_AUTOCOMMIT => $autocommit]);
        $s->pdo->exec('DELETE FROM done');
        $s->put($queue, $autocommit);
        $error = thrown(DomainException::class, fn () => $queue->take($pdo, function () use ($pdo): void {
            $pdo->exec('INSERT INTO done VALUES (77)');
            throw new DomainException('no such host');
        }));
        same($error->getMessage(), 'no such host');
        same($s->count('done'), 0);
        same($queue->take($pdo, function (Job $job) use ($pdo, $autocommit): void {
            same([$job->payload, $job->tries, $job->why], [$autocommit, 2, 'no such host']);
            $pdo->exec('INSERT INTO done VALUES (7)');
        }), true);
        same([$s->rows('SELECT n FROM done'), $s->count('jobs')], [['7'], 0]);
        same($queue->take($pdo, fn () => throw new LogicException('none was to come')), false);
        same($pdo->inTransaction(), false);
    }
});

test('a job that fails each time uses its tries up', function (Scene $s): void {
    $queue = prepared($s);
    $s->pdo->exec('INSERT INTO done VALUES (77)');
    $s->put($queue, 1);
    foreach ([1, 2] as $_) {
        $fails = fn () => $s->pdo->exec('INSERT INTO done VALUES (77)');
        $error = thrown(PDOException::class, fn () => $queue->take($s->pdo, $fails));
        same(number($error), 1062);
    }
    same(taken($queue, $s->pdo), null);
    same($s->rows('SELECT payload, failed FROM jobs_dead'), ['1|2']);
});

test('a retry says when and so does fail', function (Scene $s): void {
    $queue = prepared($s);
    $ways = [
        fn () => throw new Retry('later', 3600),
        fn (Job $job) => $job->fail('later', 3600),
        fn (Job $job) => $job->fail(new Retry('later', 3600)),
    ];
    foreach ($ways as $fails) {
        $s->put($queue, 1);
        $retry = thrown(Retry::class, fn () => $queue->take($s->pdo, $fails));
        same([$retry->getMessage(), $retry->delay], ['later', 3600.0]);
        same(taken($queue, $s->pdo), null);
    }
    same($s->value('SELECT due_later FROM information_schema.queues'
        . " WHERE table_schema = '$s->database' AND table_name = 'jobs'"), '3');
});

test('work that a deadlock has rolled back does not end the message', function (Scene $s): void {
    $queue = prepared($s);
    lockable($s);
    foreach ([1, 0] as $autocommit) {
        $pdo = $s->connect([PDO::ATTR_AUTOCOMMIT => $autocommit]);
        $s->put($queue, $autocommit);
        $error = thrown(QueueException::class, fn () => $queue->take($pdo, function () use ($s, $pdo): void {
            deadlock($s, $pdo);
            // This begins another transaction, which must not be committed either.
            $pdo->exec('INSERT INTO done VALUES (1)');
        }));
        same(str_contains($error->getMessage(), 'the transaction of the job had ended'), true);
        same([$s->count('done'), (int) $pdo->query('SELECT @@autocommit')->fetchColumn()], [0, $autocommit]);
        $job = taken($queue, $pdo);
        same([$job->tries, $job->why], [2, $error->getMessage()]);
    }
});

test('nothing is committed when the lease is lost', function (Scene $s): void {
    $queue = prepared($s);
    $s->put($queue, 1);
    $pdo = $s->connect();
    thrown(LeaseLost::class, fn () => $queue->take($pdo, function () use ($s, $pdo): void {
        $pdo->exec('INSERT INTO done VALUES (5)');
        same(str_contains($s->value("SELECT queue_lease_json(600, 1, 'jobs', 60)"), '"try":2'), true);
    }, lease: 0.05));
    same([$s->count('done'), $s->count('jobs_dead'), $s->failures('jobs')], [0, 0, ['1']]);
});

test('the work can see that the lease is lost', function (Scene $s): void {
    $connect = $s->through('queue_extend', function (Closure $run) use ($s): mixed {
        $s->untilFlag('stolen');
        return $run();
    });
    $queue = prepared($s, $connect);
    $s->put($queue, 1);
    $pdo = $s->connect();
    $lost = thrown(LeaseLost::class, fn () => $queue->take($pdo, function (Job $job) use ($s): void {
        same($job->isLost(), false);
        $s->value("SELECT queue_lease_json(600, 1, 'jobs', 60)");
        $s->flag('stolen');
        until('it is told', $job->isLost(...));
        throw new DomainException('what a pity');
    }, lease: 0.3));
    same($lost->getPrevious()::class, DomainException::class);
    same($s->failures('jobs'), ['1']);
});

test('a lease is extended while the work continues', function (Scene $s): void {
    $queue = prepared($s, $s->connects());
    $s->put($queue, 1);
    $pdo = $s->connect();
    same($queue->take($pdo, fn () => $s->untilExtended('jobs', 0.5), lease: 1.5), true);
    // The process that did it had this connection, too, and has not closed it.
    same((string) $pdo->query('SELECT 1')->fetchColumn(), '1');
});

test('a job without a keeper extends its lease by hand', function (Scene $s): void {
    $queue = prepared($s);
    $s->put($queue, 1);
    $pdo = $s->connect();
    $queue->take($pdo, function (Job $job) use ($s): void {
        $first = $s->leasedUntil('jobs');
        $job->extend(900);
        same($s->leasedUntil('jobs') > $first + 800, true);
        $job->extend();
        same($s->leasedUntil('jobs') < $first + 800, true);
    });
    $s->put($queue, 1);
    thrown(LeaseLost::class, fn () => $queue->take($pdo, function (Job $job) use ($s): void {
        $s->value("SELECT queue_lease_json(600, 1, 'jobs', 60)");
        thrown(LeaseLost::class, $job->extend(...));
        same($job->isLost(), true);
    }, lease: 0.05));
});

test('it begins with a transaction of its own', function (Scene $s): void {
    $queue = prepared($s);
    $s->pdo->beginTransaction();
    thrown(InTransaction::class, fn () => taken($queue, $s->pdo));
    $s->pdo->rollBack();
    same(taken($queue, $s->pdo), null);
});

test('a failure is told also when the connection is gone', function (Scene $s): void {
    $queue = prepared($s, $s->connects());
    $s->put($queue, 1);
    $pdo = $s->connect();
    $id = $pdo->query('SELECT CONNECTION_ID()')->fetchColumn();
    thrown(DomainException::class, fn () => $queue->take($pdo, function () use ($s, $pdo, $id): void {
        $s->pdo->exec("KILL $id");
        thrown(PDOException::class, fn () => $pdo->exec('INSERT INTO done VALUES (1)'));
        throw new DomainException('what a pity');
    }));
    $job = taken($queue, $s->pdo);
    same([$job->tries, $job->why], [2, 'what a pity']);
});

test('a put ends the wait', function (Scene $s): void {
    $queue = prepared($s);
    $taking = $s->beside(fn (): mixed => taken($queue, $s->pdo, wait: 600)->payload);
    $s->untilWaiting(1);
    $s->put($queue, 5);
    same($taking->value(), 5);
});
