<?php

declare(strict_types=1);

use Illuminate\Bus\Dispatcher as Bus;
use Illuminate\Container\Container;
use Illuminate\Contracts\Bus\Dispatcher as BusContract;
use Illuminate\Contracts\Container\Container as ContainerContract;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Events\Dispatcher as EventsContract;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Database\Capsule\Manager as Capsule;
use Illuminate\Database\Connectors\ConnectionFactory;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Queue\QueueManager;
use Illuminate\Queue\Worker as LaravelWorker;
use Illuminate\Queue\WorkerOptions;
use Remora\Queue\Laravel\Queue as LaravelQueue;
use Remora\Queue\Laravel\ServiceProvider;

foreach (['Queue', 'Events', 'Bus'] as $part) {
    if (!library("Illuminate/$part/autoload.php")) {
        return;
    }
}

/** A handler by name, as old programs of Laravel have them. */
final class Handler
{
    public static ?Closure $by = null;

    public function fire(JobContract $job, mixed $data): void
    {
        (self::$by)($job, $data);
    }

    public function failed(mixed $data, Throwable $why): void
    {
        Application::$failed[] = "$data: {$why->getMessage()}";
    }
}

/** A job as an object. */
final class Welcome
{
    use InteractsWithQueue;

    public static array $done = [];

    public function __construct(public string $to)
    {
    }

    public function handle(): void
    {
        self::$done[] = "$this->to {$this->attempts()}";
        if ($this->attempts() === 1) {
            $this->release(0);
        }
    }
}

/** What of Laravel its queues need. */
final class Application
{
    /** @var list<string> */
    public static array $failed = [];
    public readonly Container $app;

    public function __construct(Scene $s, array $config = [])
    {
        self::$failed = [];
        $this->app = new Container();
        Container::setInstance($this->app);
        $capsule = new Capsule($this->app);
        $capsule->addConnection([
            'driver' => 'mysql', 'unix_socket' => getenv('REMORA_QUEUE_SOCKET'), 'database' => $s->database,
            'username' => 'root', 'password' => '', 'charset' => 'utf8mb4', 'host' => ['a', 'b'],
            'options' => [PDO::ATTR_PERSISTENT => false],
        ]);
        $this->app['db'] = $capsule->getDatabaseManager();
        $this->app['db.factory'] = new class ($this->app) extends ConnectionFactory {
            public function createConnector(array $config)
            {
                // Of several servers, one.
                same([is_string($config['host']), $config['options'][PDO::ATTR_PERSISTENT]], [true, false]);
                return parent::createConnector($config);
            }
        };
        $this->app['events'] = new Dispatcher($this->app);
        $this->app->instance(ContainerContract::class, $this->app);
        $this->app->instance(EventsContract::class, $this->app['events']);
        $this->app->bind(BusContract::class, fn () => new Bus($this->app));
        $this->app->singleton('queue', fn (): QueueManager => new QueueManager($this->app));
        $this->app['config']['queue.default'] = 'remora';
        $this->app['config']['queue.connections.remora'] = ['driver' => 'remora', 'queue' => 'jobs'] + $config;
        (new ServiceProvider($this->app))->register();
    }

    public function queue(): LaravelQueue
    {
        return $this->app['queue']->connection();
    }

    /** The worker of Laravel. It ends when nothing waits. */
    public function work(string $queues = 'jobs', int $tries = 3, int $backoff = 0): void
    {
        $silent = new class implements ExceptionHandler {
            public function report(Throwable $e)
            {
            }

            public function shouldReport(Throwable $e)
            {
                return false;
            }

            public function render($request, Throwable $e)
            {
            }

            public function renderForConsole($output, Throwable $e)
            {
            }
        };
        $worker = new LaravelWorker($this->app['queue'], $this->app['events'], $silent, fn (): bool => false);
        $options = new WorkerOptions(backoff: $backoff, sleep: 0, maxTries: $tries, stopWhenEmpty: true);
        $worker->daemon('remora', $queues, $options);
        // It leaves its own there.
        foreach ([SIGTERM, SIGUSR2, SIGCONT, SIGALRM] as $signal) {
            pcntl_signal($signal, SIG_DFL);
        }
        pcntl_async_signals(false);
    }
}

test('laravel: jobs are done or tried again or failed', function (Scene $s): void {
    $laravel = new Application($s);
    $queue = $laravel->queue();
    $queue->create();
    $queue->create('high');
    $id = $queue->push('Handler@fire', "good\u{e9}");
    same(strlen($id), 32);
    $queue->bulk(['Handler@fire', 'Handler@fire'], 'many');
    $queue->push('Handler@fire', 'twice');
    $queue->pushOn('high', 'Handler@fire', 'first');
    $queue->push('Handler@fire', 'never');
    $laravel->app['events']->listen(JobFailed::class, function (JobFailed $event): void {
        Application::$failed[] = $event->job->getQueue();
    });
    $tried = [];
    Handler::$by = function (JobContract $job, mixed $data) use (&$tried): void {
        $tried[] = "$data {$job->attempts()}";
        if ($data === 'never' || ($data === 'twice' && $job->attempts() === 1)) {
            throw new DomainException('no such host');
        }
        $job->delete();
    };
    $laravel->work('high,jobs');
    same($tried[0], 'first 1');
    sort($tried);
    same($tried, [
        'first 1', "good\u{e9} 1", 'many 1', 'many 1', 'never 1', 'never 2', 'never 3', 'twice 1', 'twice 2',
    ]);
    same(Application::$failed, ['never: no such host', 'jobs']);
    same([$queue->size(), $queue->size('high'), $s->count('jobs')], [0, 0, 0]);
});

test('laravel: a job as an object releases itself', function (Scene $s): void {
    $laravel = new Application($s);
    $laravel->queue()->create();
    Welcome::$done = [];
    $laravel->queue()->push(new Welcome('ann'));
    $laravel->work();
    same([Welcome::$done, $s->count('jobs')], [['ann 1', 'ann 2'], 0]);
});

test('laravel: a job is a part of the transaction', function (Scene $s): void {
    $laravel = new Application($s);
    $queue = $laravel->queue();
    $queue->create();
    $ways = [fn () => $queue->push('Handler@fire'), fn () => $queue->bulk(['Handler@fire', 'Handler@fire'])];
    foreach ($ways as $push) {
        $laravel->app['db']->beginTransaction();
        $push();
        $laravel->app['db']->rollBack();
    }
    same($queue->size(), 0);
    thrown(TypeError::class, fn () => $queue->bulk(['Handler@fire', new class {
        public function backoff(): never
        {
            strlen([]);
        }
    }]));
    same($queue->size(), 0);
});

test('laravel: sizes and delays and clear', function (Scene $s): void {
    $queue = (new Application($s))->queue();
    $queue->create();
    $queue->later(3600, 'Handler@fire', 'later');
    $queue->later(new DateInterval('PT1H'), 'Handler@fire', 'later');
    $queue->push('Handler@fire', 'now');
    $queue->push('Handler@fire', 'now');
    $sizes = fn (): array => [$queue->size(), $queue->pendingSize(), $queue->delayedSize(), $queue->reservedSize()];
    same($sizes(), [4, 2, 2, 0]);
    same($queue->creationTimeOfOldestPendingJob(), null);
    $job = $queue->pop();
    same($sizes(), [4, 1, 2, 1]);
    $job->release(600);
    same([$job->isReleased(), $sizes()], [true, [4, 1, 2, 1]]);
    $in = 'UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) BETWEEN 3500 AND 3601';
    same($s->value("SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM jobs WHERE $in"), '2');
    // Also what somebody works on.
    $working = $queue->pop();
    same([$queue->clear('jobs'), $queue->size()], [4, 0]);
    $working->delete();
    same($working->isDeleted(), true);
    $queue->pushRaw('{"createdAt":1700000000}');
    same($queue->creationTimeOfOldestPendingJob(), 1_700_000_000);
    same($queue->pop()->getRawBody(), '{"createdAt":1700000000}');
});

test('laravel: a job may take longer than its lease', function (Scene $s): void {
    $laravel = new Application($s, ['lease' => 1]);
    $laravel->queue()->create();
    $laravel->queue()->push('Handler@fire');
    $ran = 0;
    Handler::$by = function (JobContract $job) use ($s, &$ran): void {
        $ran++;
        $s->untilExtended('jobs', 1.2);
        $job->delete();
    };
    $laravel->work();
    same([$ran, $s->count('jobs')], [1, 0]);
});

test('laravel: a queue may wait', function (Scene $s): void {
    $laravel = new Application($s, ['block_for' => 600]);
    $laravel->queue()->create();
    $popped = $s->beside(fn (): string => (new Application($s, ['block_for' => 600]))->queue()->pop()->getRawBody());
    $s->untilWaiting(1);
    $laravel->queue()->pushRaw('{}');
    same($popped->value(), '{}');
});

test('laravel: jobs may wait for the end of a transaction', function (Scene $s): void {
    $laravel = new Application($s, ['after_commit' => true]);
    $laravel->queue()->create();
    $ended = [];
    $laravel->app['db.transactions'] = new class ($ended) {
        public function __construct(public array &$callbacks)
        {
        }

        public function addCallback(Closure $callback): void
        {
            $this->callbacks[] = $callback;
        }
    };
    $laravel->queue()->push('Handler@fire');
    $laravel->queue()->later(60, 'Handler@fire');
    same([count($ended), $s->count('jobs')], [2, 0]);
    $ended[0]();
    $ended[1]();
    same([$laravel->queue()->pendingSize(), $laravel->queue()->delayedSize()], [1, 1]);
});
