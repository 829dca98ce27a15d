<?php

declare(strict_types=1);

use Remora\Queue\Job;
use Remora\Queue\Line;
use Remora\Queue\Queue;
use Remora\Queue\Retry;
use Remora\Queue\Worker;
use Remora\Queue\WrongUse;

/** A connection of another driver. */
final class OfAnother extends PDO
{
    public function __construct()
    {
    }

    public function getAttribute(int $attribute): mixed
    {
        return $attribute === PDO::ATTR_DRIVER_NAME ? 'sqlite' : false;
    }
}

test('jobs are done or tried again or dead', function (Scene $s): void {
    $queue = $s->queue('some');
    $ids = $s->put($queue, 'good', 'twice', 'never', 'later');
    $told = new Book();
    $tried = [];
    (new Worker($queue, function (Job $job) use (&$tried, $ids): void {
        $tried[] = "$job->payload $job->tries";
        if ($job->payload === 'never' || ($job->payload === 'twice' && $job->tries === 1)) {
            throw new DomainException("no such h\u{f6}st");
        }
        if ($job->payload === 'later') {
            throw new Retry('not yet', 3600);
        }
        same($job->why, $job->tries > 1 ? 'no such h\\u00f6st' : null);
        same(in_array($job->id, $ids, true), true);
    }, log: $told))->run(once: true);
    sort($tried);
    same($tried, ['good 1', 'later 1', 'never 1', 'never 2', 'never 3', 'twice 1', 'twice 2']);
    same(count($told->lines), 4);
    same($s->rows('SELECT id, payload, failed, why FROM some_dead'), ["$ids[2]|\"never\"|3|no such h\\u00f6st"]);
    same($s->failures('some'), ['1']);
});

test('whatever a handler does is a failed try', function (Scene $s): void {
    $queue = $s->queue('odd', null, 'type', 'long', 'empty', 'bytes', 'retry');
    $told = new Book();
    (new Worker($queue, function (Job $job): void {
        match ($job->payload) {
            'type' => strlen([]),
            'long' => throw new DomainException(str_repeat("\u{e9}", 500)),
            'empty' => throw new DomainException(),
            'bytes' => throw new DomainException("\xff'\\"),
            'retry' => throw new Retry('again', -1),
        };
    }, log: $told))->run(once: true);
    $dead = $s->rows('SELECT payload, LEFT(why, 20), LENGTH(why) = 1000 FROM odd_dead ORDER BY payload');
    same($dead, [
        '"bytes"|\\ufffd\'\\|0', '"empty"|DomainException|0', '"long"|\\u00e9\\u00e9\\u00e9\\u|1',
        '"retry"|again|0', '"type"|strlen(): Argument #|0',
    ]);
    same($told->has('worker_test.php') && !$told->has('again'), true);
});

test('a batch ends without those that failed and with few statements', function (Scene $s): void {
    $ends = $s->through('queue_ack', function (Closure $run) use ($s): mixed {
        $s->flag('ack');
        return $run();
    });
    $queue = $s->queue('batch', $ends, ...range(0, 24));
    $sizes = [];
    (new Worker($queue, function (array $jobs) use (&$sizes): void {
        $sizes[] = count($jobs);
        foreach ($jobs as $job) {
            if ($job->payload === 7 || $job->payload === 23) {
                $job->fail('not this one', 3600);
            }
        }
        if ($jobs[0]->payload >= 20) {
            throw new DomainException('the last ones');
        }
    }, batch: 10, log: new Book()))->run(once: true);
    same(array_slice($sizes, 0, 3), [10, 10, 5]);
    // Those of the last batch are tried three times, then they are dead. 23 has said when it comes again.
    same([$s->count('batch'), $s->count('batch_dead'), $s->flags('ack')], [2, 4, 2]);
});

test('a transaction ends the message or changes nothing', function (Scene $s): void {
    $failing = false;
    $connect = $s->through('COMMIT', function (Closure $run) use (&$failing): mixed {
        if ($failing) {
            $failing = false;
            throw new PDOException('no COMMIT');
        }
        return $run();
    });
    $queue = $s->queue('exact', $connect, 1, 2, 3, 4, 5, 6);
    $s->pdo->exec('CREATE TABLE exactly (n INT PRIMARY KEY) ENGINE=InnoDB');
    $s->pdo->exec('INSERT INTO exactly VALUES (3)');
    $whys = [];
    (new Worker($queue, function (Job $job, PDO $pdo) use (&$failing, &$whys): void {
        if ($job->tries > 1 && $job->payload !== 3) {
            $whys[] = "$job->payload $job->why";
        }
        $pdo->exec("INSERT INTO exactly VALUES ($job->payload)");
        if ($job->payload === 2 && $job->tries === 1) {
            throw new DomainException('after its work');
        }
        if ($job->payload === 4 && $job->tries < 3) {
            $job->fail('not now');
        }
        $failing = $job->payload === 5 && $job->tries === 1;
        if ($job->payload === 6 && $job->tries === 1) {
            strlen([]);
        }
    }, transaction: true, log: new Book()))->run(once: true);
    same($s->rows('SELECT n FROM exactly ORDER BY n'), ['1', '2', '3', '4', '5', '6']);
    sort($whys);
    same(array_slice($whys, 0, 4), ['2 after its work', '4 not now', '4 not now', '5 no COMMIT']);
    same(count($whys), 5);
    // A transaction that fails each time does not come for ever.
    same($s->rows('SELECT payload, failed FROM exact_dead'), ['3|3']);
    same($s->count('exact'), 0);
});

test('a deadlock that a handler ignores does not end its message', function (Scene $s): void {
    $queue = $s->queue('ignored', null, 1);
    lockable($s);
    $s->pdo->exec('CREATE TABLE done (n INT) ENGINE=InnoDB');
    $tries = 0;
    (new Worker($queue, function (Job $job, PDO $pdo) use ($s, &$tries): void {
        if (++$tries === 1) {
            deadlock($s, $pdo);
        }
        $pdo->exec('INSERT INTO done VALUES (1)');
    }, transaction: true, log: new Book()))->run(once: true);
    same([$tries, $s->count('ignored'), $s->count('done')], [2, 0, 1]);
});

test('a worker with transactions commits nothing when its lease is lost', function (Scene $s): void {
    $connect = $s->through('queue_extend', fn () => throw new PDOException('not now'));
    $queue = $s->queue('stolen', $connect, 1);
    $s->pdo->exec('CREATE TABLE done (n INT) ENGINE=InnoDB');
    $worker = new Worker($queue, function (Job $job, PDO $pdo) use ($s, &$worker): void {
        $pdo->exec('INSERT INTO done VALUES (1)');
        $s->value("SELECT queue_lease_json(600, 1, 'stolen', 60)");
        $worker->stop();
    }, transaction: true, lease: 0.2, log: new Book());
    $worker->run();
    same([$s->count('done'), $s->count('stolen_dead'), $s->failures('stolen')], [0, 0, ['1']]);
});

test('a job that takes longer than its lease is given to nobody else', function (Scene $s): void {
    $queue = $s->queue('longer', null, 1);
    $seen = 0;
    $worker = new Worker($queue, function () use ($s, $queue, &$seen, &$worker): void {
        $seen++;
        $other = $s->beside(fn (): mixed => taken($queue, $s->pdo, wait: 600)?->payload);
        $s->untilWaiting(1);
        // Longer than two leases. The other one would get it if it were not extended.
        $end = $s->leasedUntil('longer') + 1;
        until('it is extended', fn (): bool => $s->leasedUntil('longer') > $end);
        same($other->hasEnded(), false);
        $other->kill();
        $worker->stop();
    }, lease: 1);
    $worker->run();
    same([$seen, $s->count('longer')], [1, 0]);
});

test('a message whose lease has ended is not run again by its worker', function (Scene $s): void {
    $connect = $s->through('queue_extend', fn () => throw new PDOException('not now'));
    $queue = $s->queue('again', $connect, 1);
    $told = new Book();
    $ran = 0;
    (new Worker($queue, function () use ($s, &$ran): void {
        $ran++;
        until('it waits again', fn (): bool => count($s->rows('SELECT id FROM again')) === 1);
    }, lease: 0.3, log: $told))->run(once: true);
    same([$ran, $s->count('again'), $s->count('again_dead')], [1, 0, 0]);
    same($told->has('leases could not be extended'), true);
});

test('a job can see that somebody else has its message', function (Scene $s): void {
    $queue = $s->queue('lost', $s->through('queue_extend', function (Closure $run) use ($s): mixed {
        $s->untilFlag('stolen');
        return $run();
    }), 1);
    $told = new Book();
    $worker = new Worker($queue, function (Job $job) use ($s, &$worker): void {
        same($job->isLost(), false);
        $s->value("SELECT queue_lease_json(600, 1, 'lost', 60)");
        $s->flag('stolen');
        until('it is told', $job->isLost(...));
        $worker->stop();
    }, lease: 0.3, log: $told);
    $worker->run();
    same($told->has('has ended while its job runs') && $told->has('came too late'), true);
    // It was given once more: the lease that ended is a failed try, and the late end is none.
    same($s->failures('lost'), ['1']);
});

test('an end is told again when its connection breaks', function (Scene $s): void {
    foreach (['queue_ack', 'queue_nack'] as $function) {
        $gone = new PDOException('gone away');
        $connect = $s->through("SELECT $function", function (Closure $run) use ($s, $function, $gone): mixed {
            $s->flag($function);
            // The first one is not heard, and of the second one the answer is lost.
            if ($s->flags($function) === 1) {
                throw $gone;
            }
            $row = $run();
            return $s->flags($function) === 2 ? throw $gone : $row;
        });
        $queue = $s->queue("told_$function", $connect, 1);
        $ran = 0;
        (new Worker($queue, function () use ($function, &$ran): void {
            $ran++;
            if ($function === 'queue_nack') {
                throw new Retry('later', 3600);
            }
        }, log: new Book()))->run(once: true);
        same([$ran, $s->flags($function)], [1, 3]);
        same($s->failures("told_$function"), $function === 'queue_nack' ? ['1'] : []);
    }
});

test('a worker does not end while a message may come back', function (Scene $s): void {
    $queue = $s->queue('back', null, 1);
    $ran = [];
    (new Worker($queue, function (Job $job) use (&$ran): void {
        $ran[] = $job->tries;
        if ($job->tries < 3) {
            throw new Retry('at once', 0);
        }
    }))->run(once: true);
    same($ran, [1, 2, 3]);
});

test('what will never work ends a worker', function (Scene $s): void {
    $queue = $s->queue('wrong', null, 1);
    $none = fn () => null;
    $run = fn (Queue $queue, mixed ...$options) => (new Worker($queue, $none, ...$options))->run();
    same(number(thrown(PDOException::class, fn () => $run($queue, where: 'nothing = 1'))), 51001);
    same(number(thrown(PDOException::class, fn () => $run(new Queue('nothing', $s->connects())))), 1146);
    $plain = new Queue('plain', $s->connects(), transactional: false);
    $plain->create($s->pdo);
    $plain->put($s->pdo, 1);
    $shared = $s->connect();
    foreach (
        [
            fn () => $run(new Queue('wrong')),
            fn () => $run($queue, batch: 0),
            fn () => $run($queue, lease: 0),
            fn () => $run($queue, wait: -1),
            fn () => $run($queue, batch: 2, transaction: true),
            fn () => $run($plain, transaction: true),
            fn () => $run($queue, connect: fn () => $shared),
            fn () => $run($queue, connect: fn () => null),
            fn () => $run($queue, connect: $s->connects([PDO::ATTR_PERSISTENT => true])),
            fn () => $run($queue, connect: fn () => strlen([])),
        ] as $wrong
    ) {
        thrown(WrongUse::class, $wrong);
    }
    $other = thrown(WrongUse::class, fn () => $run($queue, connect: fn () => new OfAnother()));
    same(str_contains($other->getMessage(), 'of the driver mysql'), true);
    // No message was tried, and the connection of the program was not used.
    same([taken(new Queue('wrong'), $s->pdo)->tries, $s->leasedUntil('plain')], [1, 0.0]);
    same($shared->query('SELECT 1')->fetchColumn(), 1);
    thrown(WrongUse::class, function () use ($queue, $s, &$worker): void {
        $s->put($queue, 1);
        $worker = new Worker($queue, function () use (&$worker): void {
            $worker->run();
        }, log: fn (string $line) => throw new WrongUse($line));
        $worker->run(once: true);
    });
});

test('a worker continues when its connections end', function (Scene $s): void {
    foreach ([false, true] as $transaction) {
        $name = $transaction ? 'broken_exact' : 'broken';
        $queue = $s->queue($name);
        $worker = $s->beside(function () use ($s, $queue, $transaction, $name): array {
            $done = [];
            $worker = new Worker($queue, function (Job $job) use ($s, $name, &$done, &$worker): void {
                $done[] = "$job->payload $job->tries";
                $s->flag($name);
                if (count($done) === 3) {
                    $worker->stop();
                }
            }, transaction: $transaction, wait: 600, log: new Book());
            $worker->run();
            return $done;
        });
        foreach ([0, 1, 2] as $payload) {
            $s->untilWaiting(1);
            $before = $s->others();
            foreach ($before as $id) {
                $s->kill($id);
            }
            until('they end', fn (): bool => array_intersect($before, $s->others()) === []);
            $s->untilWaiting(1);
            $s->put($queue, $payload);
            $s->untilFlag($name, $payload + 1);
        }
        same($worker->value(), ['0 1', '1 1', '2 1']);
        same($s->count($name), 0);
    }
});

test('a wait that somebody has ended begins again', function (Scene $s): void {
    $queue = $s->queue('interrupted', $s->through('queue_lease', function (Closure $run) use ($s): mixed {
        $s->flag('asked');
        return $run();
    }));
    $worker = $s->beside(function () use ($queue): array {
        $told = new Book();
        $worker = new Worker($queue, function () use (&$worker): void {
            $worker->stop();
        }, wait: 600, log: $told);
        $worker->run();
        return $told->lines;
    });
    $s->untilWaiting(1);
    $before = $s->waiting();
    $s->pdo->exec("KILL QUERY $before[0]");
    // On the same connection.
    $s->untilFlag('asked', 2);
    $s->untilWaiting(1);
    same($s->waiting(), $before);
    $s->put($queue, 1);
    same($worker->value(), []);
});

test('a worker continues when its keeper is killed', function (Scene $s): void {
    $queue = $s->queue('kept');
    $worker = $s->beside(function () use ($s, $queue): int {
        $ran = 0;
        $worker = new Worker($queue, function (Job $job) use ($s, &$ran, &$worker): void {
            $ran++;
            if ($job->payload === 2) {
                $s->flag('runs');
                $s->untilFlag('killed');
                // Another one is made for this, and it extends from then on.
                $job->extend();
                $s->untilExtended('kept', 0.7);
                $worker->stop();
            }
        }, wait: 600, lease: 1, log: new Book());
        $worker->run();
        return $ran;
    });
    $killKeeper = function () use ($worker): void {
        $keepers = explode(' ', trim(file_get_contents("/proc/$worker->process/task/$worker->process/children")));
        same(count($keepers), 1);
        posix_kill((int) $keepers[0], SIGKILL);
    };
    $s->untilWaiting(1);
    $before = $s->waiting();
    $killKeeper();
    // The server looks for clients that are gone only every few seconds.
    $s->kill($before[0]);
    until('another one waits', fn (): bool => count(array_diff($s->waiting(), $before)) === 1);
    $s->put($queue, 1);
    until('it is done', fn (): bool => $s->count('kept') === 0);
    $s->put($queue, 2);
    $s->untilFlag('runs');
    $killKeeper();
    $s->flag('killed');
    same([$worker->value(), $s->count('kept')], [2, 0]);
});

test('what is given to a worker that is gone is returned and was not tried', function (Scene $s): void {
    $queue = $s->queue('gone');
    $worker = $s->beside(fn () => (new Worker($queue, fn () => $s->flag('ran'), wait: 600))->run());
    $s->untilWaiting(1);
    $worker->kill();
    $s->put($queue, 1);
    $job = taken($queue, $s->pdo, wait: 600);
    same([$job->tries, $s->flags('ran'), $s->leasedUntil('gone')], [1, 0, 0.0]);
    $s->untilWaiting(0);
});

test('nobody extends for a worker that is gone though a program of its handler runs on', function (Scene $s): void {
    $queue = $s->queue('runs_on', null, 1);
    $worker = $s->beside(fn () => (new Worker($queue, function () use ($s): void {
        $program = proc_open(['sleep', '600'], [], $pipes);
        file_put_contents("$s->folder/program", proc_get_status($program)['pid']);
        $s->flag('runs');
        $s->untilFlag('never set');
    }, lease: 1))->run());
    $s->untilFlag('runs');
    $worker->kill();
    try {
        same(taken($queue, $s->pdo, wait: 10)?->tries, 2);
    } finally {
        posix_kill((int) file_get_contents("$s->folder/program"), SIGKILL);
    }
});

test('what is given to a worker that stops is returned and was not tried', function (Scene $s): void {
    $queue = $s->queue('stops', $s->through('queue_lease', function (Closure $run): mixed {
        $answer = $run();
        posix_kill(posix_getppid(), SIGTERM);
        // The worker has not heard of the answer, and has heard the signal.
        return $answer;
    }), 1);
    (new Worker($queue, fn () => $s->flag('ran'), wait: 600, log: new Book()))->run();
    same([taken(new Queue('stops'), $s->pdo)->tries, $s->flags('ran')], [1, 0]);
});

test('nothing is told of a job that has ended', function (Scene $s): void {
    $asks = $s->through('queue_lease', function (Closure $run) use ($s): mixed {
        $s->flag('asked');
        return $run();
    });
    // Longer than until the next extension would be.
    $commits = $s->through('COMMIT', function (Closure $run): mixed {
        usleep(300_000);
        return $run();
    });
    foreach (['plain' => $asks, 'exact' => $commits] as $name => $connect) {
        $queue = $s->queue($name, $connect, 1);
        $told = new Book();
        $options = ['lease' => 0.6, 'wait' => 0.15, 'transaction' => $name === 'exact', 'log' => $told];
        $worker = new Worker($queue, function (Job $job) use ($s, $queue, &$worker): void {
            if ($job->payload === 2) {
                $worker->stop();
            } else {
                $queue->put($s->pdo, 2, delay: 0.9);
            }
        }, ...$options);
        $worker->run();
        same([$told->lines, $s->count($name)], [[], 0]);
    }
});

test('the connections of a worker are as it needs them', function (Scene $s): void {
    $before = ini_get('mysqlnd.net_read_timeout');
    (new Line($s->connects(), 7))->open();
    same(ini_get('mysqlnd.net_read_timeout'), $before);
    $connect = $s->connects(['dsn' => ';charset=latin1', PDO::ATTR_AUTOCOMMIT => 0]);
    $queue = $s->queue("n\u{e9}", $connect, "\u{e9}");
    $where = 'payload = ' . Queue::literal('"\u00e9"');
    (new Worker($queue, fn () => null, where: $where))->run(once: true);
    same($s->count($queue->table), 0);
});

test('a worker runs again after a stop and leaves nothing', function (Scene $s): void {
    foreach ([false, true] as $transaction) {
        $queue = $s->queue('twice');
        $left = $s->beside(function () use ($s, $queue, $transaction): array {
            $done = 0;
            $worker = new Worker($queue, function () use (&$done): void {
                $done++;
            }, transaction: $transaction);
            foreach ([1, 2] as $payload) {
                $s->put($queue, $payload);
                $worker->run(once: true);
            }
            $s->put($queue, 3);
            $queue->take($s->pdo, fn () => $done++);
            // No process, and of connections only that of the test itself.
            until('its connections end', fn (): bool => count($s->others()) === 1);
            return [$done, pcntl_waitpid(-1, $status, WNOHANG)];
        });
        same($left->value(), [2, -1]);
    }
});
