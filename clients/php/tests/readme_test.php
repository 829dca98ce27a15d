<?php

declare(strict_types=1);

// The examples of the README run as they stand. Only the server, the database and the names are those of a
// test.

use Remora\Queue\Queue;

/** An example, by the first words in it. */
function example(Scene $s, string $begin): string
{
    preg_match_all('/```php\n(.*?)```/s', file_get_contents(__DIR__ . '/../README.md'), $found);
    same(count($found[1]), 4);
    foreach ($found[1] as $code) {
        if (str_contains($code, $begin)) {
            $server = 'mysql:unix_socket=' . getenv('REMORA_QUEUE_SOCKET') . ";dbname=$s->database;";
            $code = str_replace(['mysql:host=localhost;dbname=shop;', 'shop.'], [$server, "$s->database."], $code);
            return "use Remora\\Queue\\{Job, Queue, Retry, Worker};\n"
                . str_replace(["'shop', 'secret'", 'use Remora\Queue\{Job, Queue, Worker};'], ["'root'", ''], $code);
        }
    }
    throw new AssertionError("no example has $begin");
}

test('readme: the first lines do what they say', function (Scene $s): void {
    $first = "<?php\nrequire '" . __DIR__ . "/autoload.php';\n" . example($s, '$worker->run()');
    file_put_contents("$s->folder/first.php", $first);
    $program = $s->program('-d', 'error_log=/dev/null', "$s->folder/first.php");
    until('the table is there', fn (): bool => $s->rows("SHOW TABLES LIKE 'mails'") !== []);
    until('a try has failed', fn (): bool => $s->failures('mails') === ['1']);
    // In ten seconds, and not at once.
    same($s->leasedUntil('mails') > time() + 5, true);
    $s->untilWaiting(1);
    $program->signal(SIGTERM);
    same($program->end(), 0);
});

test('readme: a message and an order, shelves and pages', function (Scene $s): void {
    [$pdo, $connect] = [$s->pdo, $s->connects()];
    $pdo->exec('CREATE TABLE bought (n INT) ENGINE=InnoDB');
    eval(example($s, "'shop.orders'"));
    same([$s->count('bought'), $s->count('orders')], [1, 1]);
    $pdo->exec('CREATE TABLE stock (item INT, amount INT) ENGINE=InnoDB SELECT 7 item, 1 amount');
    $pdo->exec('CREATE TABLE sizes (url VARCHAR(200) PRIMARY KEY, size INT)');
    $orders->put($pdo, ['order' => 8]);
    $pages = new Queue('pages', $connect);
    $pages->create($pdo);
    $s->put($pages, ['url' => 'data:,twelve'], ['url' => '/nowhere']);
    until('the order is due', fn (): bool => count($s->rows('SELECT id FROM orders')) === 2);
    eval(example($s, '$shelves'));
    same([$s->rows('SELECT item, amount FROM stock'), $s->failures('orders')], [['7|0'], ['1']]);
    same([$s->rows('SELECT size FROM sizes'), $s->failures('pages')], [['6'], ['1']]);
});

test('readme: one job in a transaction', function (Scene $s): void {
    $pdo = $s->connect();
    $pdo->exec('CREATE TABLE sent (mail TEXT) ENGINE=InnoDB');
    $mails = $s->queue('mails', null, ['to' => 'ann@example.org']);
    eval(example($s, '$came'));
    same([$came, $s->rows('SELECT mail FROM sent'), $s->count('mails')], [true, ['ann@example.org'], 0]);
});
