<?php

declare(strict_types=1);

use Remora\Queue\InTransaction;
use Remora\Queue\Job;
use Remora\Queue\Message;
use Remora\Queue\NotAQueue;
use Remora\Queue\Queue;
use Remora\Queue\WrongUse;

/** The job of the next message, which ends. Null if there is none. */
function taken(Queue $queue, PDO $pdo, mixed ...$options): ?Job
{
    $found = null;
    $came = $queue->take($pdo, function (Job $job) use (&$found): void {
        $found = $job;
    }, ...$options);
    same($came, $found !== null);
    return $found;
}

test('a message is there if its transaction is', function (Scene $s): void {
    $queue = new Queue('jobs');
    $queue->create($s->pdo);
    $s->pdo->beginTransaction();
    $queue->put($s->pdo, ['n' => 1]);
    $s->pdo->rollBack();
    same($s->count('jobs'), 0);
    $s->pdo->beginTransaction();
    $id = $queue->put($s->pdo, ['n' => SIGNS, 'f' => 1.0]);
    same(preg_match('/^[0-9a-f]{32}$/', $id), 1);
    $s->pdo->commit();
    $job = taken($queue, $s->pdo);
    same([$job->id, $job->payload, $job->tries, $job->why], [$id, ['n' => SIGNS, 'f' => 1.0], 1, null]);
    same($job->fence > 0 && str_contains($job->token, ":$job->fence-"), true);
    same(taken($queue, $s->pdo), null);
    thrown(WrongUse::class, fn () => $queue->put($s->pdo, "\xff"));
});

test('no attribute of a connection changes a message', function (Scene $s): void {
    $queue = new Queue('modes', fifo: true);
    $queue->create($s->pdo);
    $modes = [PDO::MYSQL_ATTR_INIT_COMMAND => "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'"];
    $sets = [
        [],
        $modes,
        [PDO::ATTR_ERRMODE => PDO::ERRMODE_SILENT, PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_OBJ],
        [PDO::ATTR_ORACLE_NULLS => PDO::NULL_TO_STRING, PDO::ATTR_CASE => PDO::CASE_UPPER],
        [PDO::ATTR_ORACLE_NULLS => PDO::NULL_EMPTY_STRING, PDO::ATTR_STRINGIFY_FETCHES => true],
        [PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false],
        [PDO::ATTR_AUTOCOMMIT => 0],
        ['dsn' => ';charset=latin1'],
    ];
    foreach ($sets as $set) {
        foreach ([true, false] as $emulates) {
            $pdo = $s->connect([PDO::ATTR_EMULATE_PREPARES => $emulates] + $set);
            $queue->put($pdo, SIGNS, key: SIGNS);
            if (isset($set[PDO::ATTR_AUTOCOMMIT])) {
                $pdo->commit();
            }
            $job = taken($queue, $pdo, where: 'payload != ' . Queue::literal('\\'));
            same([$job->payload, $job->row['message_key'], $job->row['at']], [SIGNS, SIGNS, null]);
            same($pdo->inTransaction(), false);
        }
    }
});

test('a silent connection hides no error and stays silent', function (Scene $s): void {
    $queue = new Queue('silent', fifo: true);
    $queue->create($s->pdo);
    foreach ([PDO::ERRMODE_SILENT, PDO::ERRMODE_WARNING] as $mode) {
        $pdo = $s->connect([PDO::ATTR_ERRMODE => $mode]);
        $long = fn () => $queue->putMany($pdo, [new Message(1), new Message(2, key: str_repeat('x', 200))]);
        same(number(thrown(PDOException::class, $long)), 1406);
        same(number(thrown(PDOException::class, fn () => taken($queue, $pdo, where: 'nothing = 1'))), 51001);
        same($pdo->getAttribute(PDO::ATTR_ERRMODE), $mode);
    }
    // All or none.
    same($s->count('silent'), 0);
});

test('a condition that the character set changes is refused', function (Scene $s): void {
    $queue = new Queue('charset', fifo: true);
    $queue->create($s->pdo);
    $where = 'message_key = ' . Queue::literal("\u{e9}");
    $latin = $s->connect(['dsn' => ';charset=latin1']);
    thrown(WrongUse::class, fn () => taken($queue, $latin, where: $where));
    $queue->put($latin, 1, key: "\u{e9}");
    same(taken($queue, $s->pdo, where: $where)->payload, 1);
});

test('a put that ROLLBACK would not undo is refused', function (Scene $s): void {
    $queue = new Queue('plain', transactional: false);
    $queue->create($s->pdo);
    $s->pdo->exec('SET autocommit = 0');
    thrown(InTransaction::class, fn () => $queue->put($s->pdo, 1));
    $s->pdo->exec('COMMIT');
    $s->pdo->exec('SET autocommit = 1');
    $s->pdo->beginTransaction();
    thrown(InTransaction::class, fn () => $queue->put($s->pdo, 1));
    same($s->count('plain'), 0);
    $queue->put($s->pdo, 1, outsideTransaction: true);
    $s->pdo->rollBack();
    $queue->put($s->pdo, 2);
    same($s->count('plain'), 2);
    thrown(WrongUse::class, fn () => taken($queue, $s->pdo));
});

test('the table decides whether it is a part of transactions', function (Scene $s): void {
    (new Queue('really_plain', transactional: false))->create($s->pdo);
    $s->pdo->exec('CREATE TABLE other (id INT) ENGINE=InnoDB');
    $s->pdo->beginTransaction();
    $classes = ['really_plain' => InTransaction::class, 'other' => NotAQueue::class, 'none' => NotAQueue::class];
    foreach ($classes as $name => $class) {
        thrown($class, fn () => (new Queue($name))->put($s->pdo, 1));
    }
});

test('a delay needs no care for time zones', function (Scene $s): void {
    $queue = new Queue('later');
    $queue->create($s->pdo);
    $at = new DateTimeImmutable('+1 hour', new DateTimeZone('+02:00'));
    foreach (['-05:00', '+00:00', '+05:00'] as $zone) {
        $s->pdo->exec("SET time_zone = '$zone'");
        $queue->put($s->pdo, 'delay', delay: 3599.5);
        $queue->put($s->pdo, 'at', at: DateTime::createFromImmutable($at));
    }
    $in = 'UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) BETWEEN 3000 AND 3600';
    same($s->value("SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM later WHERE $in"), '6');
    thrown(WrongUse::class, fn () => $queue->put($s->pdo, 1, delay: 1, at: $at));
    thrown(WrongUse::class, fn () => $queue->put($s->pdo, 1, delay: -1));
});

test('a short delay is exact', function (Scene $s): void {
    $queue = new Queue('soon');
    $queue->create($s->pdo);
    $queue->put($s->pdo, 'soon', delay: 0.25);
    same(taken($queue, $s->pdo), null);
    // The row knows when it was due, and it was not given before.
    $job = taken($queue, $s->pdo, wait: 60);
    same($s->value("SELECT UTC_TIMESTAMP(6) >= '{$job->row['at']}'"), '1');
});

test('keys, duplicates and priorities', function (Scene $s): void {
    $queue = new Queue('all_of_them', fifo: true, dedupeFor: 60, priority: true);
    $queue->create($s->pdo);
    $ids = $queue->putMany($s->pdo, [
        new Message(1, key: 'a', priority: 5),
        new Message(2, key: 'a', priority: 1),
        new Message(3, key: 'b', priority: 4),
        new Message(4, dedupe: 'x', priority: 6),
        new Message(5, dedupe: 'x'),
    ]);
    same(count(array_unique($ids)), 5);
    same($queue->putMany($s->pdo, []), []);
    $queue->create($s->pdo);
    foreach ([3, 1, 2, 4] as $wanted) {
        same(taken($queue, $s->pdo)->payload, $wanted);
    }
    same(taken($queue, $s->pdo), null);
    $bare = new Queue('bare');
    $bare->create($s->pdo);
    foreach ([['key' => 'a'], ['dedupe' => 'a'], ['priority' => 0]] as $wrong) {
        thrown(WrongUse::class, fn () => $bare->put($s->pdo, 1, ...$wrong));
    }
    // While the first one waits, another one is left out; then no longer.
    $waits = new Queue('waits', dedupeFor: 0);
    $waits->create($s->pdo);
    foreach ([1, 2] as $_) {
        $waits->put($s->pdo, 1, dedupe: 'x');
        $waits->put($s->pdo, 2, dedupe: 'x');
        same($s->count('waits'), 1);
        taken($waits, $s->pdo);
    }
});

test('names have almost any sign', function (Scene $s): void {
    foreach (['', 'a.b.c', '`a', 'a\\b', '.a', "a.\n."] as $wrong) {
        thrown(WrongUse::class, fn () => new Queue($wrong));
    }
    $s->pdo->exec("CREATE DATABASE IF NOT EXISTS `php.too \u{e9}`");
    $name = "`php.too \u{e9}`.`a.b,c``d:e?'\"%s :x\u{e9}`";
    $queue = new Queue($name, $s->connects());
    same([$queue->database, $queue->name, $queue->table], ["php.too \u{e9}", "a.b,c`d:e?'\"%s :x\u{e9}", $name]);
    $queue->create($s->pdo);
    $marks = new Queue('`what? :name`');
    $marks->create($s->pdo);
    foreach ([true, false] as $emulates) {
        $pdo = $s->connect([PDO::ATTR_EMULATE_PREPARES => $emulates]);
        foreach ([$queue, $marks] as $one) {
            $one->put($pdo, "it's");
            same(taken($one, $pdo, where: 'payload = ' . Queue::literal('"it\'s"'))->payload, "it's");
        }
    }
    $s->pdo->exec("DROP DATABASE `php.too \u{e9}`");
});

test('numbers that PHP would change are text', function (Scene $s): void {
    $s->pdo->exec('CREATE TABLE big (id BIGINT UNSIGNED, payload TEXT, data BLOB, none INT)'
        . ' ENGINE=QUEUE TRANSACTIONAL=1');
    $s->pdo->exec("INSERT INTO big VALUES (18446744073709551615, 'no JSON', 'bytes', NULL), (1, NULL, '', 5),"
        . " (2, '[18446744073709551615, 9007199254740993]', '', 5)");
    $queue = new Queue('big');
    $job = taken($queue, $s->pdo);
    same([$job->id, $job->payload, $job->row['none']], ['18446744073709551615', 'no JSON', null]);
    same(base64_decode($job->row['data']), 'bytes');
    $job = taken($queue, $s->pdo);
    same([$job->payload, $job->row['none']], [null, '5']);
    same(taken($queue, $s->pdo)->payload, ['18446744073709551615', 9007199254740993]);
});

test('options are those of the table', function (Scene $s): void {
    $queue = new Queue('everything', tries: 7, keep: 3600, backoff: [1.5, 1.5, 60]);
    $queue->create($s->pdo);
    $table = $s->rows("SHOW CREATE TABLE $queue->table")[0];
    $options = ["`TRIES`='7'", "`BACKOFF`='1.5,1.5,60'", "`KEEP`='3600'", "`DEAD`='`everything_dead`'"];
    foreach ([...$options, 'TRANSACTIONAL=1'] as $wanted) {
        same(str_contains($table, $wanted) ? $wanted : $table, $wanted);
    }
    $endless = new Queue('endless', tries: 0);
    same(count($endless->ddl()), 1);
    $endless->create($s->pdo);
    $numbers = [['tries' => -1], ['keep' => -1], ['dedupeFor' => -1]];
    foreach ([...$numbers, ['backoff' => [1, 2]], ['backoff' => [-1, 2, 3]]] as $wrong) {
        thrown(WrongUse::class, fn () => new Queue('x', ...$wrong));
    }
});
