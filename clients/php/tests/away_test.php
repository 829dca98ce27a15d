<?php

declare(strict_types=1);

use Remora\Queue\Job;
use Remora\Queue\Worker;

/** A way to the server that can be `shut`, or `silent`: then nothing arrives, and nothing is closed. */
function gate(Scene $s): Closure
{
    $path = "$s->folder/gate";
    $s->beside(function () use ($s, $path): void {
        $listens = stream_socket_server("unix://$path");
        $other = [];
        $close = function (mixed $one) use (&$other): void {
            $to = $other[(int) $one];
            unset($other[(int) $one], $other[(int) $to]);
            array_map(fclose(...), [$one, $to]);
        };
        while (true) {
            $isSilent = $s->flags('silent') > 0;
            if ($s->flags('shut') > 0) {
                while ($other !== []) {
                    $close(current($other));
                }
            }
            $ready = $isSilent ? [$listens] : [$listens, ...array_values($other)];
            $none = null;
            stream_select($ready, $none, $none, 0, 5_000);
            foreach ($ready as $one) {
                if ($one === $listens) {
                    $from = stream_socket_accept($listens);
                    $to = stream_socket_client('unix://' . getenv('REMORA_QUEUE_SOCKET'));
                    [$other[(int) $from], $other[(int) $to]] = [$to, $from];
                } elseif (isset($other[(int) $one])) {
                    $data = fread($one, 65_536);
                    $data === '' && feof($one) ? $close($one) : fwrite($other[(int) $one], $data);
                }
            }
        }
    });
    until('the gate is there', fn (): bool => file_exists($path));
    return $s->connects(['socket' => $path]);
}

test('a worker continues when the server was away', function (Scene $s): void {
    $queue = $s->queue('away', gate($s), 1);
    $worker = $s->beside(function () use ($s, $queue): array {
        $told = new Book();
        $ran = [];
        $worker = new Worker($queue, function (Job $job) use ($s, &$ran, &$worker): void {
            $ran[] = "$job->payload $job->tries";
            $s->flag('runs');
            $s->untilFlag('allowed');
            if ($job->payload === 2) {
                $worker->stop();
            }
        }, wait: 600, log: function (string $line) use ($s, $told): void {
            $told($line);
            $s->flag(str_contains($line, 'ends of jobs') ? 'told' : 'asks');
        });
        $worker->run();
        return $ran;
    });
    $s->untilFlag('runs');
    $s->flag('shut');
    $s->flag('allowed');
    // The job has ended, and the server does not know yet.
    $s->untilFlag('told', 2);
    same($s->failures('away'), ['0']);
    $s->unflag('shut');
    $s->untilWaiting(1);
    same($s->count('away'), 0);
    [$waits] = $s->waiting();
    $s->flag('shut');
    // The server looks for clients that are gone only every few seconds.
    $s->kill($waits);
    $s->untilFlag('asks', 2);
    $s->put($queue, 2);
    $s->unflag('shut');
    same($worker->value(), ['1 1', '2 1']);
});

test('a worker stops also when the server is away', function (Scene $s): void {
    $queue = $s->queue('away', gate($s), 1);
    $told = new Book();
    $worker = new Worker($queue, function () use ($s, &$worker): void {
        $s->flag('shut');
        $worker->stop();
    }, lease: 0.5, log: $told);
    $worker->run();
    same($told->has('it comes again when its lease has ended'), true);
    // Its lease ends by itself.
    same(taken(new Remora\Queue\Queue('away'), $s->pdo, wait: 60)->tries, 2);
});

test('an extension that is not answered does not hold up the next', function (Scene $s): void {
    $queue = $s->queue('silent', gate($s), 1);
    $told = new Book();
    (new Worker($queue, function (Job $job) use ($s, $told): void {
        $s->untilExtended('silent', 0.5);
        $s->flag('silent');
        until('it is seen', fn (): bool => !$job->isLost() && $told->has('leases could not be extended'));
        $s->unflag('silent');
        $s->untilExtended('silent', 0.5);
    }, lease: 2, log: $told))->run(once: true);
    same($s->count('silent'), 0);
});

test('a wait that is not answered ends', function (Scene $s): void {
    $queue = $s->queue('hangs', gate($s));
    $worker = $s->beside(function () use ($s, $queue): array {
        $told = new Book();
        $worker = new Worker($queue, function (Job $job) use (&$worker): void {
            $worker->stop();
        }, wait: 0.1, lease: 0.5, log: function (string $line) use ($s, $told): void {
            $told($line);
            $s->flag('told');
        });
        $worker->run();
        return $told->lines;
    });
    $s->untilWaiting(1);
    $s->flag('silent');
    // Whoever waits for an answer for ever says nothing.
    $s->untilFlag('told');
    $s->unflag('silent');
    $s->put($queue, 1);
    same(str_contains($worker->value()[0], "can't be asked"), true);
});
