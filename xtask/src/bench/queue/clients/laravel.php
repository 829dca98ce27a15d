<?php

declare(strict_types=1);

// Laravel's own worker, over its database driver or over our package for PHP: a process for each worker.
// contestant.py says what the words mean. A worker that finds nothing sleeps for 3 seconds, Laravel's default;
// over our package the server waits instead.

use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Queue\Job;
use Illuminate\Contracts\Queue\Queue;
use Illuminate\Database\Capsule\Manager as Capsule;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Connectors\DatabaseConnector;
use Illuminate\Queue\DatabaseQueue;
use Illuminate\Queue\QueueManager;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Remora\Queue\Laravel\ServiceProvider;

const LANES = 8;
const RATED = 1_000_000_000;

error_reporting(E_ALL & ~E_DEPRECATED);
foreach (['Queue', 'Events', 'Database'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}
spl_autoload_register(function (string $class): void {
    if (str_starts_with($class, 'Remora\Queue\\')) {
        require getenv('BENCH_CLIENT') . '/' . str_replace('\\', '/', substr($class, 13)) . '.php';
    }
});

function now(): int
{
    return (int) (microtime(true) * 1_000_000);
}

function payload(int $id, ?int $put = null): array
{
    return ['id' => $id, 'put' => $put ?? now(), 'pad' => str_repeat('x', 80)];
}

final class Handler
{
    /** @var resource */
    private static $done;

    public function fire(Job $job, array $data): void
    {
        self::$done ??= fopen(getenv('BENCH_DONE'), 'a');
        fwrite(self::$done, "{$data['id']} {$data['put']} " . now() . "\n");
        $job->delete();
    }
}

function laravel(): Container
{
    $app = new Container();
    Container::setInstance($app);
    $capsule = new Capsule($app);
    $capsule->addConnection([
        'driver' => 'mysql', 'unix_socket' => getenv('BENCH_ADDRESS'), 'database' => 'bench', 'username' => 'root',
        'password' => '', 'charset' => 'utf8mb4', 'host' => 'localhost',
    ]);
    $app['db'] = $capsule->getDatabaseManager();
    $app['db.factory'] = new Illuminate\Database\Connectors\ConnectionFactory($app);
    $app['events'] = new Dispatcher($app);
    $app->singleton('queue', fn (): QueueManager => new QueueManager($app));
    $app['config']['queue.default'] = 'bench';
    $app['config']['queue.connections.bench'] = getenv('BENCH_BROKER') === 'remora'
        ? ['driver' => 'remora', 'queue' => 'jobs', 'block_for' => 20]
        : ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default'];
    (new ServiceProvider($app))->register();
    $app['queue']->addConnector('database', fn () => new DatabaseConnector($app['db']));
    return $app;
}

function queue(): Queue
{
    return laravel()['queue']->connection();
}

/** Makes the table as queue:table does. */
function make(): void
{
    if (getenv('BENCH_BROKER') === 'remora') {
        queue()->create('jobs');
        return;
    }
    laravel()['db']->connection()->getSchemaBuilder()->create('jobs', function ($table): void {
        $table->bigIncrements('id');
        $table->string('queue')->index();
        $table->longText('payload');
        $table->unsignedTinyInteger('attempts');
        $table->unsignedInteger('reserved_at')->nullable();
        $table->unsignedInteger('available_at');
        $table->unsignedInteger('created_at');
    });
}

/** The part of one process. */
function fill(int $count, int $number): void
{
    $queue = queue();
    $ids = [];
    for ($id = $number; $id < $count; $id += LANES) {
        $ids[] = $id;
    }
    if ($queue instanceof DatabaseQueue) {
        foreach (array_chunk($ids, 500) as $some) {
            bulk(array_map(payload(...), $some));
        }
        return;
    }
    foreach ($ids as $id) {
        $queue->push('Handler', payload($id));
    }
}

/** Rows as the database driver's push() makes them, many with one INSERT. */
function bulk(array $rows): void
{
    $made = array_map(fn (array $row): array => [
        'queue' => 'default', 'attempts' => 0, 'reserved_at' => null, 'available_at' => time(),
        'created_at' => time(),
        'payload' => json_encode([
            'uuid' => bin2hex(random_bytes(16)), 'displayName' => 'Handler', 'job' => 'Handler', 'maxTries' => null,
            'maxExceptions' => null, 'failOnTimeout' => false, 'backoff' => null, 'timeout' => null, 'data' => $row,
        ]),
    ], $rows);
    laravel()['db']->table('jobs')->insert($made);
}

function lane(int $number, int $begin, int $rate, int $count): void
{
    $queue = queue();
    $queue->push('Handler', payload($number));
    for ($job = $number; $job < $count; $job += LANES) {
        $at = $begin + intdiv($job * 1_000_000, $rate);
        usleep(max(0, $at - now()));
        $queue->push('Handler', payload(RATED + $job, $at));
    }
}

function work(): void
{
    $app = laravel();
    $handler = new class implements ExceptionHandler {
        public function report(Throwable $e)
        {
            fwrite(STDERR, "$e\n");
        }

        public function shouldReport(Throwable $e)
        {
            return true;
        }

        public function render($request, Throwable $e)
        {
        }

        public function renderForConsole($output, Throwable $e)
        {
        }
    };
    $worker = new Worker($app['queue'], $app['events'], $handler, fn (): bool => false);
    $isOurs = getenv('BENCH_BROKER') === 'remora';
    $worker->daemon('bench', $isOurs ? 'jobs' : 'default', new WorkerOptions(sleep: $isOurs ? 0 : 3));
}

/** Runs a function in so many processes. */
function inProcesses(int $count, Closure $run): void
{
    for ($number = 0; $number < $count; $number++) {
        if (pcntl_fork() === 0) {
            $run($number);
            exit(0);
        }
    }
    while (pcntl_wait($status) > 0) {
        $status === 0 || exit(1);
    }
}

[, $what, $first, $second] = $argv + [2 => '0', 3 => '0'];
match ($what) {
    'make' => make(),
    'fill' => inProcesses(LANES, fn (int $number) => fill((int) $first, $number)),
    'put' => (function (int $rate, int $count): void {
        $begin = now() + 1_000_000;
        inProcesses(LANES, fn (int $number) => lane($number, $begin, $rate, $count));
    })((int) $first, (int) $second),
    'work' => inProcesses((int) $first, fn () => work()),
};
