<?php

declare(strict_types=1);

// The commands of the README that begin with nothing, with the server of a test. Composer is not asked: what
// it would bring is here.

/**
 * Runs the commands after a heading, in a folder with these files: what they print. Lines up to the one with
 * a text install something.
 *
 * @param array<string, string> $files
 * @param array<string, string> $meant what is written => what it means here
 */
function runNothing(Scene $s, string $heading, string $lastInstall, array $files, array $meant): string
{
    $readme = file_get_contents(__DIR__ . '/../README.md');
    same(preg_match('/' . preg_quote($heading) . '.*?```sh\n(.*?)```/s', $readme, $found), 1);
    [$installs, $commands] = explode($lastInstall, $found[1]);
    foreach (explode("\n", trim($installs)) as $line) {
        same(preg_match('/^(remora sandbox|composer|cd) |^echo .*> composer.json$/', $line), 1);
    }
    foreach ($files as $path => $text) {
        @mkdir(dirname("$s->folder/$path"), recursive: true);
        file_put_contents("$s->folder/$path", $text);
    }
    $commands = strtr($commands, $meant);
    same(str_contains($commands, '3307'), false);
    $options = 'cd ' . escapeshellarg($s->folder) . ' && exec bash -e -c ' . escapeshellarg($commands);
    exec("($options) 2>&1 < /dev/null", $told, $status);
    exec('rm -rf ' . escapeshellarg($s->folder) . '/*');
    same([$status, $status === 0 ? '' : implode("\n", $told)], [0, '']);
    return implode("\n", $told);
}

test('from nothing: a job is tried again', function (Scene $s): void {
    $files = ['vendor/autoload.php' => "<?php\nrequire '" . __DIR__ . "/autoload.php';\n"];
    $server = 'mysql:unix_socket=' . getenv('REMORA_QUEUE_SOCKET') . ";dbname=$s->database;";
    $meant = ['mysql:host=127.0.0.1;port=3307;dbname=shop;' => $server];
    $told = runNothing($s, '## From nothing', "composer require \"remora/queue:*@dev\"\n", $files, $meant);
    same(preg_match('/^try 1 after null$.*^try 2 after "no such host"$/ms', $told), 1);
});

test('from nothing: a job of Laravel is tried again', function (Scene $s): void {
    if (!isHere('Illuminate/autoload.php', 'Illuminate/Foundation/helpers.php')) {
        return;
    }
    $meant = [
        'DB_HOST=127.0.0.1 DB_PORT=3307 DB_DATABASE=shop' =>
            'DB_HOST=localhost DB_SOCKET=' . getenv('REMORA_QUEUE_SOCKET') . " DB_DATABASE=$s->database",
    ];
    $install = "composer require \"remora/queue:*@dev\"\n";
    $told = runNothing($s, 'The same through Laravel', $install, require __DIR__ . '/laravel_site.php', $meant);
    same(preg_match('/^try 1 for ann@example.org$.*^try 2 for ann@example.org$/ms', $told), 1);
});

test('from nothing: a message of Messenger is tried again', function (Scene $s): void {
    $parts = ['Bundle/FrameworkBundle', 'Component/Messenger', 'Component/Yaml'];
    if (!isHere(...array_map(static fn (string $part): string => "Symfony/$part/autoload.php", $parts))) {
        return;
    }
    $socket = getenv('REMORA_QUEUE_SOCKET');
    $meant = ['root@127.0.0.1:3307/shop/mails' => "root@localhost/$s->database/mails?socket=$socket"];
    $install = "composer require symfony/messenger \"remora/queue:*@dev\"\n";
    $told = runNothing($s, 'The same through Messenger', $install, require __DIR__ . '/symfony_site.php', $meant);
    same(preg_match('/^try 1 for ann@example.org$.*^try 2 for ann@example.org$/ms', $told), 1);
    same(str_contains($told, 'Sending for retry #1'), true);
});
