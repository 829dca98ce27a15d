<?php

declare(strict_types=1);

// A worker that tests stop and kill: work.php DATABASE QUEUE plain|transaction [SECONDS OF THE LEASE]
//
// Each job inserts its payload into the table `done` of InnoDB. It fails at its first try if the payload is a
// multiple of seven.

require __DIR__ . '/autoload.php';

use Remora\Queue\Job;
use Remora\Queue\Queue;
use Remora\Queue\Retry;
use Remora\Queue\Worker;

[, $database, $name, $kind] = $argv;
$socket = getenv('REMORA_QUEUE_SOCKET');
$connect = static fn (): PDO => new PDO("mysql:unix_socket=$socket;dbname=$database", 'root');

$work = static function (Job $job, ?PDO $pdo = null) use ($connect): void {
    if ($job->payload % 7 === 0 && $job->tries === 1) {
        throw new Retry('a first try');
    }
    ($pdo ?? $connect())->exec("INSERT INTO done VALUES ($job->payload)");
};

$worker = new Worker(
    new Queue($name, $connect),
    $work,
    lease: (float) ($argv[4] ?? 30),
    wait: 600,
    transaction: $kind === 'transaction',
    log: static fn () => null,
);
$worker->run();
