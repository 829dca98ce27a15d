<?php

declare(strict_types=1);

// What the tests share. Each has a database of its own on the server that REMORA_QUEUE_SOCKET names.

require __DIR__ . '/autoload.php';

use Remora\Queue\Message;
use Remora\Queue\Queue;

const SIGNS = "\u{e9}\u{1f600}'\"\\';?:n%s\n\0";

/** @var array<string, Closure> */
$tests = [];
/** @var array<string, string> */
$leftOut = [];

function test(string $name, Closure $run): void
{
    $GLOBALS['tests'][$name] = $run;
}

/** Whether PHP's include path has all of these. Reported, if it has not. */
function isHere(string ...$paths): bool
{
    foreach ($paths as $path) {
        if (stream_resolve_include_path($path) === false) {
            $GLOBALS['leftOut'][$path] = "there is no $path";
            return false;
        }
    }
    return true;
}

/** Loads a library from PHP's include path. False, and reported, if it is not there. */
function library(string $path): bool
{
    if (!isHere($path)) {
        return false;
    }
    // Debian's versions are older than this PHP.
    error_reporting(E_ALL & ~E_DEPRECATED);
    require_once $path;
    return true;
}

function same(mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new AssertionError('got ' . var_export($got, true) . ', wanted ' . var_export($wanted, true));
    }
}

/** What a function throws, which has to be of this class. */
function thrown(string $class, Closure $run): Throwable
{
    try {
        $run();
    } catch (Throwable $error) {
        if (!$error instanceof $class) {
            throw $error;
        }
        return $error;
    }
    throw new AssertionError("no $class was thrown");
}

/** Waits until something is so. */
function until(string $what, Closure $ready): void
{
    $end = microtime(true) + (float) (getenv('REMORA_QUEUE_PATIENCE') ?: 60);
    while (!$ready()) {
        if (microtime(true) > $end) {
            throw new AssertionError("not in time: $what");
        }
        usleep(10_000);
    }
}

function number(PDOException $error): int
{
    return $error->errorInfo[1];
}

/** A function that runs in a process beside the test. */
final class Beside
{
    public readonly int $process;
    /** @var resource */
    private $result;
    private string $told = '';

    public function __construct(Scene $scene, Closure $run)
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        $process = pcntl_fork();
        if ($process === 0) {
            $scene->isBeside();
            try {
                $told = [true, $run()];
            } catch (Throwable $error) {
                $told = [false, (string) $error];
            }
            fwrite($its, serialize($told));
            // Nothing may be closed: the connections are those of the test.
            posix_kill(getmypid(), SIGKILL);
        }
        fclose($its);
        $this->process = $process;
        $this->result = $mine;
        stream_set_blocking($mine, false);
    }

    public function hasEnded(): bool
    {
        $this->told .= stream_get_contents($this->result);
        return feof($this->result);
    }

    /** What the function has returned. */
    public function value(): mixed
    {
        until('it ends', $this->hasEnded(...));
        if ($this->told === '') {
            return null;
        }
        [$isGood, $value] = unserialize($this->told);
        return $isGood ? $value : throw new AssertionError("beside: $value");
    }

    public function kill(): void
    {
        posix_kill($this->process, SIGKILL);
        pcntl_waitpid($this->process, $status);
    }
}

/** A program in PHP. */
final class Program
{
    /** @var resource */
    private $process;
    private ?array $status = null;

    /** @param list<string> $arguments */
    public function __construct(array $arguments)
    {
        $this->process = proc_open([PHP_BINARY, ...$arguments], [1 => ['file', '/dev/null', 'w']], $pipes);
    }

    public function hasEnded(): bool
    {
        if ($this->status === null) {
            // Only the first one after the end knows how it ended.
            $status = proc_get_status($this->process);
            $this->status = $status['running'] ? null : $status;
        }
        return $this->status !== null;
    }

    /** Its exit status, or the signal that has ended it. */
    public function end(): int
    {
        until('it ends', $this->hasEnded(...));
        return $this->status['signaled'] ? $this->status['termsig'] : $this->status['exitcode'];
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    public function kill(): void
    {
        if (!$this->hasEnded()) {
            $this->signal(SIGKILL);
            $this->end();
        }
    }
}

/** A connection whose statements with a word in them go through a function. */
final class Tapped extends PDO
{
    public string $word = '';
    public ?Closure $by = null;

    private function tap(string $sql, Closure $run): mixed
    {
        return $this->by !== null && str_contains($sql, $this->word) ? ($this->by)($run, $sql) : $run();
    }

    public function query(string $query, ?int $fetchMode = null, mixed ...$more): PDOStatement|false
    {
        return $this->tap($query, fn () => parent::query($query));
    }

    public function exec(string $statement): int|false
    {
        return $this->tap($statement, fn () => parent::exec($statement));
    }
}

/** A test with a database of its own. */
final class Scene
{
    public readonly string $database;
    public readonly string $folder;
    public PDO $pdo;
    /** @var list<Beside|Program> */
    private array $started = [];
    /** @var list<PDO> */
    private array $ofTheTest = [];

    public function __construct(string $name)
    {
        $this->database = 'php_' . $name;
        $this->folder = sys_get_temp_dir() . '/' . uniqid('remora-queue-');
        mkdir($this->folder);
        $this->pdo = $this->connect(['database' => '']);
        $this->pdo->exec("DROP DATABASE IF EXISTS $this->database");
        $this->pdo->exec("CREATE DATABASE $this->database");
        $this->pdo->exec("USE $this->database");
    }

    public function end(): void
    {
        foreach ($this->started as $one) {
            $one->kill();
        }
        array_map(unlink(...), glob("$this->folder/*"));
        rmdir($this->folder);
        $this->connect()->exec("SET STATEMENT lock_wait_timeout = 5 FOR DROP DATABASE $this->database");
    }

    /** @param array<int|string, mixed> $options of PDO, and `socket`, `database` and `dsn` */
    public function connect(array $options = [], string $class = PDO::class): PDO
    {
        $socket = $options['socket'] ?? getenv('REMORA_QUEUE_SOCKET');
        $database = $options['database'] ?? $this->database;
        $more = $options['dsn'] ?? ';charset=utf8mb4';
        unset($options['socket'], $options['database'], $options['dsn']);
        return new $class("mysql:unix_socket=$socket;dbname=$database$more", 'root', null, $options);
    }

    /** @return Closure(): PDO */
    public function connects(array $options = []): Closure
    {
        return fn (): PDO => $this->connect($options);
    }

    /** Connections on which statements with a word go through a function: it is given what runs them. */
    public function through(string $word, Closure $by): Closure
    {
        return function () use ($word, $by): PDO {
            $made = $this->connect(class: Tapped::class);
            [$made->word, $made->by] = [$word, $by];
            return $made;
        };
    }

    public function beside(Closure $run): Beside
    {
        return $this->started[] = new Beside($this, $run);
    }

    public function program(string ...$arguments): Program
    {
        return $this->started[] = new Program($arguments);
    }

    /** In the other process the connections are still those of the test, and may not even be closed. */
    public function isBeside(): void
    {
        $this->started = [];
        $this->ofTheTest[] = $this->pdo;
        $this->pdo = $this->connect();
    }

    // What processes tell each other.

    public function flag(string $name): void
    {
        file_put_contents("$this->folder/$name", "x", FILE_APPEND);
    }

    public function unflag(string $name): void
    {
        unlink("$this->folder/$name");
    }

    /** How often it was set. */
    public function flags(string $name): int
    {
        clearstatcache();
        return (int) @filesize("$this->folder/$name");
    }

    public function untilFlag(string $name, int $times = 1): void
    {
        until("it is $name", fn (): bool => $this->flags($name) >= $times);
    }

    /** @return list<string> each row, with a bar between its columns */
    public function rows(string $sql): array
    {
        $rows = $this->pdo->query($sql)->fetchAll(PDO::FETCH_NUM);
        return array_map(static fn (array $row): string => implode('|', array_map(
            static fn (mixed $value): string => (string) ($value ?? 'NULL'),
            $row,
        )), $rows);
    }

    public function value(string $sql): string
    {
        return $this->rows($sql)[0];
    }

    public function count(string $table): int
    {
        return (int) $this->value("SELECT COUNT(*) FROM $table");
    }

    /** When the last lease of a table ends, in seconds; 0 when there is none. */
    public function leasedUntil(string $table): float
    {
        return (float) $this->value('SELECT CAST(MAX(UNIX_TIMESTAMP(until)) AS DOUBLE) FROM'
            . " information_schema.queue_owned WHERE table_schema = '$this->database'"
            . " AND table_name = '$table' AND connection_id = 0");
    }

    public function untilExtended(string $table, float $by): void
    {
        $first = $this->leasedUntil($table);
        until('it is extended', fn (): bool => $this->leasedUntil($table) > $first + $by);
    }

    /** @return list<string> how many tries each owned row of a table has failed */
    public function failures(string $table): array
    {
        return $this->rows('SELECT failed FROM information_schema.queue_owned'
            . " WHERE table_schema = '$this->database' AND table_name = '$table'");
    }

    /** @return list<string> the connections that wait for a message */
    public function waiting(): array
    {
        return $this->rows('SELECT id FROM information_schema.processlist'
            . " WHERE db = '$this->database' AND state = 'Waiting in queue_lease'");
    }

    /** @return list<string> the connections to this database that are not the test's */
    public function others(): array
    {
        return $this->rows('SELECT id FROM information_schema.processlist'
            . " WHERE db = '$this->database' AND id != CONNECTION_ID()");
    }

    /** Ends a connection, if it is still there. */
    public function kill(string $id): void
    {
        try {
            $this->pdo->exec("KILL CONNECTION $id");
        } catch (PDOException $error) {
            if ($error->errorInfo[1] !== 1094) {
                throw $error;
            }
        }
    }

    public function untilWaiting(int $count): void
    {
        until("$count wait", fn (): bool => count($this->waiting()) === $count);
    }

    /** A queue that tries at once, three times, with messages. */
    public function queue(string $name, ?Closure $connect = null, mixed ...$payloads): Queue
    {
        $queue = new Queue($name, $connect ?? $this->connects(), tries: 3, backoff: [0, 1, 0]);
        $queue->create($this->pdo);
        $this->put($queue, ...$payloads);
        return $queue;
    }

    /** @return list<string> */
    public function put(Queue $queue, mixed ...$payloads): array
    {
        $messages = array_map(static fn (mixed $payload): Message => new Message($payload), $payloads);
        return $queue->putMany($this->pdo, $messages);
    }
}

/** A log that keeps what it was told. */
final class Book
{
    /** @var list<string> */
    public array $lines = [];

    public function __invoke(string $line): void
    {
        $this->lines[] = $line;
    }

    public function has(string $text): bool
    {
        return str_contains(implode("\n", $this->lines), $text);
    }
}
