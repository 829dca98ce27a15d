<?php

declare(strict_types=1);

// Runs the tests, or those with a text in their names: run.php [TEXT]

foreach (['pdo_mysql', 'pcntl', 'posix'] as $extension) {
    if (!extension_loaded($extension)) {
        fwrite(STDERR, "the tests need php-cli and php-mysql: there is no $extension\n");
        exit(1);
    }
}
if (getenv('REMORA_QUEUE_SOCKET') === false) {
    fwrite(STDERR, "REMORA_QUEUE_SOCKET must name the socket of a server\n");
    exit(1);
}
require __DIR__ . '/support.php';
foreach (glob(__DIR__ . '/*_test.php') as $file) {
    require $file;
}
// What workers of the tests log is in their way.
ini_set('error_log', '/dev/null');
$failed = $done = 0;
foreach ($tests as $name => $run) {
    if (!str_contains($name, $argv[1] ?? '')) {
        continue;
    }
    $began = microtime(true);
    $why = null;
    $scene = new Scene('test_' . ++$done);
    try {
        $run($scene);
    } catch (Throwable $why) {
        $failed++;
    }
    $scene->end();
    // What a test has left must not be closed in a process of the next one.
    unset($scene);
    gc_collect_cycles();
    printf("%s %s (%.2f s)\n%s", $why ? 'FAILED' : 'ok', $name, microtime(true) - $began, $why ? "$why\n" : '');
}
foreach ($leftOut as $why) {
    echo "left out: $why\n";
}
printf("%d tests, %d failed\n", $done, $failed);
exit($failed || !$done ? 1 : 0);
