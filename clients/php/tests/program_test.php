<?php

declare(strict_types=1);

use Remora\Queue\Queue;
use Remora\Queue\Worker;

/** A queue for workers that are killed. */
function killable(Scene $s): Queue
{
    $queue = new Queue('jobs', $s->connects(), tries: 50, backoff: [0, 1, 0]);
    $queue->create($s->pdo);
    $s->pdo->exec('CREATE TABLE done (n INT) ENGINE=InnoDB');
    return $queue;
}

function worker(Scene $s, string ...$arguments): Program
{
    return $s->program(__DIR__ . '/work.php', $s->database, 'jobs', ...$arguments);
}

test('signals stop a worker that waits', function (Scene $s): void {
    $queue = killable($s);
    foreach ([SIGTERM, SIGINT] as $signal) {
        $started = worker($s, 'plain');
        $s->untilWaiting(1);
        $started->signal($signal);
        // It would wait for ten minutes. Nothing is taken any more.
        same($started->end(), 0);
        same(count($s->waiting()), 0);
        $s->put($queue, 1);
        same(taken($queue, $s->pdo)->tries, 1);
    }
});

test('a signal lets a job end and a second one does not', function (Scene $s): void {
    $queue = killable($s);
    foreach (['one', 'two'] as $signals) {
        $s->put($queue, 1);
        $worker = $s->beside(function () use ($s, $queue, $signals): string {
            (new Worker($queue, function () use ($s, $signals): void {
                $s->flag("runs $signals");
                until('it is heard', fn (): bool => pcntl_signal_get_handler(SIGTERM) === SIG_DFL);
                $s->flag("heard $signals");
                $s->untilFlag("allowed $signals");
            }, wait: 600))->run();
            return 'ended';
        });
        $s->untilFlag("runs $signals");
        posix_kill($worker->process, SIGTERM);
        $s->untilFlag("heard $signals");
        $signals === 'one' ? $s->flag('allowed one') : posix_kill($worker->process, SIGTERM);
        same($worker->value(), $signals === 'one' ? 'ended' : null);
        same($s->count('jobs'), $signals === 'one' ? 0 : 1);
    }
});

test('a worker that waits stops also when nothing is answered', function (Scene $s): void {
    $queue = $s->queue('silent', gate($s));
    $worker = $s->beside(function () use ($queue): string {
        (new Worker($queue, fn () => null, wait: 600, log: new Book()))->run();
        return 'ended';
    });
    $s->untilWaiting(1);
    $s->flag('silent');
    posix_kill($worker->process, SIGTERM);
    same($worker->value(), 'ended');
    $s->unflag('silent');
});

test('signals for a group of processes are those of the worker', function (Scene $s): void {
    $queue = killable($s);
    $s->put($queue, 1);
    $worker = $s->beside(function () use ($s, $queue): string {
        posix_setpgid(0, 0);
        pcntl_signal(SIGUSR1, fn () => $s->flag('used'));
        (new Worker($queue, function () use ($s): void {
            $s->flag('runs');
            until('it is heard', fn (): bool => pcntl_signal_get_handler(SIGINT) === SIG_DFL);
            // The process that extends is in the group, too.
            $s->untilExtended('jobs', 0.7);
        }, lease: 1))->run();
        return 'ended';
    });
    $s->untilFlag('runs');
    posix_kill(-$worker->process, SIGUSR1);
    $s->untilFlag('used');
    // As a terminal does it.
    posix_kill(-$worker->process, SIGINT);
    same([$worker->value(), $s->count('jobs'), $s->flags('used')], ['ended', 0, 1]);
});

test('a worker without pcntl extends by hand', function (Scene $s): void {
    $queue = killable($s);
    $s->put($queue, 1, 2, 7);
    file_put_contents("$s->folder/alone.php", '<?php
        require "' . __DIR__ . '/autoload.php";
        use Remora\Queue\{Job, Queue, Worker};
        $server = "mysql:unix_socket=" . getenv("REMORA_QUEUE_SOCKET") . ";dbname=' . $s->database . '";
        $connect = fn () => new PDO($server, "root");
        $worker = new Worker(new Queue("jobs", $connect), function (Job $job) use ($connect) {
            $job->extend(600);
            $until = "SELECT MAX(until) > NOW() + INTERVAL 500 SECOND FROM information_schema.queue_owned
                WHERE table_schema = DATABASE()";
            if ($connect()->query($until)->fetchColumn() != 1 || $job->isLost()) {
                throw new Exception("not extended");
            }
            $connect()->exec("INSERT INTO done VALUES ($job->payload)");
        });
        $worker->run(once: true);
    ');
    same($s->program('-d', 'disable_functions=pcntl_fork', "$s->folder/alone.php")->end(), 0);
    same($s->rows('SELECT n FROM done ORDER BY n'), ['1', '2', '7']);
});

/** Does 100 jobs with workers that are killed again and again. */
function killAtRandom(Scene $s, string $kind): void
{
    $queue = killable($s);
    $s->put($queue, ...range(0, 99));
    mt_srand(7);
    while ($s->count('jobs') > 0) {
        $started = worker($s, $kind, '0.5');
        $enough = $s->count('done') + mt_rand(5, 40);
        until('the worker does something', fn (): bool => $s->count('done') >= $enough || $s->count('jobs') === 0);
        $started->kill();
    }
    same($s->count('jobs_dead'), 0);
    same($s->value('SELECT COUNT(DISTINCT n) FROM done'), '100');
}

test('no job is lost when workers are killed', function (Scene $s): void {
    killAtRandom($s, 'plain');
});

test('jobs in transactions are done once when workers are killed', function (Scene $s): void {
    killAtRandom($s, 'transaction');
    same($s->count('done'), 100);
});
