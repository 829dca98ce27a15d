<?php

declare(strict_types=1);

// Runs clients/conformance/steps.tsv through PDO: conformance.php emulated|native
//
// How parameters are sent is up to the argument. The server is at the socket that REMORA_QUEUE_SOCKET names.
// With REMORA_QUEUE_RESTARTS=1 whoever started this restarts the server: it is asked with a line on standard
// output, "stop" or "kill", and answers with a line.

const DATABASE = 'php_conformance';
const STEPS = __DIR__ . '/../../conformance/steps.tsv';
const PATIENCE = 60;

/** A step gave something else. */
final class Failed extends Exception
{
}

function connect(string $socket, string $database = DATABASE, array $options = []): PDO
{
    $dsn = "mysql:unix_socket=$socket;dbname=$database;charset=utf8mb4";
    return new PDO($dsn, 'root', null, $options + [PDO::MYSQL_ATTR_FOUND_ROWS => true]);
}

function waitUntil(string $what, Closure $ready): void
{
    $end = microtime(true) + PATIENCE;
    while (!$ready()) {
        microtime(true) < $end || throw new Failed("not in time: $what");
        usleep(20_000);
    }
}

/** A process beside this one. It may close nothing: the connections in it are those of this one. */
function beside(Closure $run): int
{
    $process = pcntl_fork();
    if ($process !== 0) {
        return $process;
    }
    try {
        $run();
    } finally {
        while (true) {
            posix_kill(getmypid(), SIGKILL);
        }
    }
}

/** Sends a statement and ends when something has come of its answer, or when it waits. */
function abandon(string $sql, string $folder, bool $waits, array $options): void
{
    // Between the driver and the server: it closes both ends, with what is on its way.
    $path = "$folder/between";
    @unlink($path);
    $listens = stream_socket_server("unix://$path");
    $between = beside(function () use ($listens, $waits, $path): void {
        $driver = stream_socket_accept($listens, PATIENCE);
        $server = stream_socket_client('unix://' . getenv('REMORA_QUEUE_SOCKET'));
        while (true) {
            $ready = [$driver, $server];
            $none = null;
            stream_select($ready, $none, $none, PATIENCE);
            if (file_exists("$path.armed") && in_array($server, $ready, true)) {
                stream_socket_recvfrom($server, 1);
                return;
            }
            foreach ($ready as $one) {
                $data = fread($one, 65_536);
                if ($data === '' || $data === false) {
                    return;
                }
                fwrite($one === $driver ? $server : $driver, $data);
            }
        }
    });
    fclose($listens);
    $pdo = connect($path, DATABASE, $options);
    $id = $pdo->query('SELECT CONNECTION_ID()')->fetchColumn();
    $own = connect(getenv('REMORA_QUEUE_SOCKET'));
    $there = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = $id";
    if ($waits) {
        $sends = beside(fn () => $pdo->query($sql));
        $waits = "$there AND state LIKE 'Waiting in queue%'";
        waitUntil('it waits', fn (): bool => (bool) $own->query($waits)->fetchColumn());
        // The driver ends with its process, in the middle of the answer.
        posix_kill($sends, SIGKILL);
        posix_kill($between, SIGKILL);
        pcntl_waitpid($sends, $status);
    } else {
        // What is prepared in the server has been answered then.
        $statement = $pdo->prepare($sql);
        touch("$path.armed");
        try {
            $statement->execute();
        } catch (PDOException) {
            // It was cut off.
        }
        unlink("$path.armed");
    }
    pcntl_waitpid($between, $status);
    unset($statement, $pdo);
    waitUntil('its connection ends', fn (): bool => !$own->query($there)->fetchColumn());
}

/** What the steps before have left. */
final class Run
{
    /** @var array<string, PDO> */
    private array $connections = [];
    /** @var array<string, string> */
    private array $tokens = [];
    private mixed $last = null;

    public function __construct(private readonly array $options, private readonly string $folder)
    {
    }

    private function connection(string $name): PDO
    {
        return $this->connections[$name] ??= connect(getenv('REMORA_QUEUE_SOCKET'), DATABASE, $this->options);
    }

    /** A field with its tokens, its many letters and its letters by number. */
    private function text(string $field): string
    {
        return preg_replace_callback_array([
            '/\$([a-z])/' => fn (array $found): string => $this->tokens[$found[1]] ?? $found[0],
            '/\{(.)\*(\d+)\}/' => fn (array $found): string => str_repeat($found[1], (int) $found[2]),
            '/\{u\+([0-9a-f]+)\}/' => fn (array $found): string => html_entity_decode("&#x$found[1];"),
        ], $field);
    }

    /** Runs a line. False if nobody can restart the server for it. */
    public function step(array $fields): bool
    {
        [$name, $step, $expected] = $fields;
        $more = array_slice($fields, 3);
        preg_match('/^(@\w+)? ?(.*)$/s', $step, $found);
        [, $verb, $sql] = $found;
        if ($verb === '@stop' || $verb === '@kill') {
            return $this->restart(substr($verb, 1));
        }
        $sql = $this->text($sql);
        // What a regular expression says of a token is no token.
        $wanted = $expected[0] === '~' ? $expected : $this->text($expected);
        $rows = [];
        foreach ($more as $one) {
            if ($one[0] === 'A') {
                $rows[] = explode('|', $this->text(substr($one, 1)));
            }
        }
        $end = microtime(true) + PATIENCE;
        while (!self::fits($got = $this->result($name, $verb, $sql, $rows), $wanted)) {
            if ($verb !== '@until' || microtime(true) > $end) {
                throw new Failed(sprintf("%s %.150s\n  wanted %.150s\n  got    %.150s", $name, $step, $wanted, $got));
            }
            usleep(20_000);
        }
        foreach ($more as $one) {
            $this->checkMore($name, $one, $got);
        }
        return true;
    }

    private function restart(string $how): bool
    {
        if (getenv('REMORA_QUEUE_RESTARTS') !== '1') {
            return false;
        }
        echo "$how\n";
        fgets(STDIN) !== false || throw new Failed("no answer to $how");
        $this->connections = [];
        return true;
    }

    private function checkMore(string $name, string $one, string $got): void
    {
        if ($one[0] === 'W') {
            $numbers = $this->connection($name)->query('SHOW WARNINGS')->fetchAll(PDO::FETCH_COLUMN, 1);
            if (!in_array((int) substr($one, 1), $numbers)) {
                throw new Failed("wanted warning $one, got " . implode(', ', $numbers));
            }
        } elseif ($one[0] === '$') {
            preg_match_all('/"token":"([^"]+)"/', $got, $found);
            $names = explode(',', str_replace('$', '', $one));
            $this->tokens = array_combine($names, $found[1]) + $this->tokens;
        }
    }

    /** What a step gives, as text, also an error. */
    private function result(string $name, string $verb, string $sql, array $rows): string
    {
        try {
            return $this->do($name, $verb, $sql, $rows);
        } catch (PDOException $error) {
            try {
                $this->connection($name)->query('SELECT 1')->fetchAll();
            } catch (PDOException) {
                // After an error of the connection itself there is none.
                unset($this->connections[$name]);
            }
            return '!' . ($error->errorInfo[1] ?? 0);
        }
    }

    private function do(string $name, string $verb, string $sql, array $rows): string
    {
        switch ($verb) {
            case '@type':
                // PHP has one kind of text.
                return is_string($this->last) ? 'text' : 'bytes';
            case '@killwait':
                return $this->killWait($this->connection($name), $sql);
            case '@closewait':
            case '@closeunread':
                abandon($sql, $this->folder, $verb === '@closewait', $this->options);
                return '';
            case '@close':
            case '@reset':
                return $this->close($name);
            case '@begin':
                $this->connection($name)->beginTransaction();
                return '';
            case '@commit':
                $this->connection($name)->commit();
                return '';
            case '@rollback':
                $this->connection($name)->rollBack();
                return '';
            case '@many':
                // PDO has no call for many rows: the statement has them all.
                $places = '(?' . str_repeat(',?', count($rows[0]) - 1) . ')';
                $sql = preg_replace('/\(%s.*\)/', $places . str_repeat(",$places", count($rows) - 1), $sql);
                return $this->run($this->connection($name), $sql, array_merge(...$rows));
            default:
                return $this->run($this->connection($name), $sql, $rows[0] ?? null);
        }
    }

    private function run(PDO $on, string $sql, ?array $values): string
    {
        $statement = $values === null ? $on->query($sql) : $on->prepare($sql);
        if ($values !== null) {
            $statement->execute($values);
        }
        if ($statement->columnCount() === 0) {
            return (string) $statement->rowCount();
        }
        $rows = $statement->fetchAll(PDO::FETCH_NUM);
        $this->last = $rows[0][0] ?? null;
        return implode("\n", array_map(fn (array $row): string => implode('|', array_map(
            fn (mixed $value): string => (string) ($value ?? 'NULL'),
            $row,
        )), $rows));
    }

    private function killWait(PDO $on, string $sql): string
    {
        $id = $on->query('SELECT CONNECTION_ID()')->fetchColumn();
        $killer = beside(function () use ($id): void {
            $own = connect(getenv('REMORA_QUEUE_SOCKET'));
            $waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = $id"
                . " AND state LIKE 'Waiting in queue%'";
            waitUntil('it waits', fn (): bool => (bool) $own->query($waits)->fetchColumn());
            $own->exec("KILL QUERY $id");
        });
        try {
            return $this->run($on, $sql, null);
        } finally {
            pcntl_waitpid($killer, $status);
        }
    }

    /** PDO has no call that resets a connection: it is closed. Until the server has noticed. */
    private function close(string $name): string
    {
        $id = $this->connection($name)->query('SELECT CONNECTION_ID()')->fetchColumn();
        unset($this->connections[$name]);
        $own = connect(getenv('REMORA_QUEUE_SOCKET'));
        $there = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = $id";
        waitUntil('its connection ends', fn (): bool => !$own->query($there)->fetchColumn());
        return '';
    }

    private static function fits(string $got, string $wanted): bool
    {
        return match (true) {
            $wanted === 'ok' => !str_starts_with($got, '!'),
            $wanted === '!' => str_starts_with($got, '!'),
            // Its first sign begins the expression, and no other one is like it.
            str_starts_with($wanted, '~') => preg_match("$wanted~s", $got) === 1,
            default => $got === $wanted,
        };
    }
}

$kind = $argv[1] ?? 'emulated';
$server = connect(getenv('REMORA_QUEUE_SOCKET'), '');
$server->exec('DROP DATABASE IF EXISTS ' . DATABASE);
$server->exec('CREATE DATABASE ' . DATABASE . ' CHARACTER SET utf8mb4');
$folder = sys_get_temp_dir() . '/' . uniqid('remora-queue-');
mkdir($folder);
register_shutdown_function(function () use ($folder): void {
    array_map(unlink(...), glob("$folder/*"));
    rmdir($folder);
});
$run = new Run([PDO::ATTR_EMULATE_PREPARES => $kind === 'emulated'], $folder);
$done = 0;
foreach (explode("\n", file_get_contents(STEPS)) as $at => $line) {
    if ($line === '' || $line[0] === '#') {
        continue;
    }
    try {
        if (!$run->step(explode("\t", $line))) {
            fprintf(STDERR, "left out from line %d on: nobody restarts the server\n", $at + 1);
            break;
        }
    } catch (Failed $failed) {
        fprintf(STDERR, "steps.tsv:%d: %s\n", $at + 1, $failed->getMessage());
        exit(1);
    }
    $done++;
}
fprintf(STDERR, "PDO, %s: %d steps\n", $kind, $done);
