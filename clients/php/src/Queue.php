<?php

declare(strict_types=1);

namespace Remora\Queue;

/** A table with ENGINE=QUEUE: its DDL, putting messages into it, and taking one in a transaction. */
final class Queue
{
    /** A part of a name, as in SQL. */
    private const PART = '(`(?:[^`]|``)+`|[^`.]+)';
    private const IS_TRANSACTIONAL = '/\btransactional`?\s*=\s*\'?1/i';

    /** The table's name without its database. */
    public readonly string $name;
    /** The name's first part. Null if the connection's database decides. */
    public readonly ?string $database;
    /** The full name in backticks, for SQL and for the functions of the queue. */
    public readonly string $table;
    /** The table of messages that have failed `tries` times, without its database. */
    public readonly string $dead;
    /** @internal */
    public readonly ?\Closure $connect;

    /** What the table itself says, once somebody has looked. */
    private bool $isTransactional = false;

    /**
     * The name is `table` or `db.table`; a part with a dot in it is in backticks. The options are those of
     * create(); an existing table keeps its own. `fifo`, `dedupeFor` and `priority` say which columns the
     * table has: give them as when it was made.
     *
     * @param callable|null $connect opens a connection for those who need one of their own: workers, and
     *     take() to extend its lease
     * @param bool $transactional without it ROLLBACK does not undo a put, which is faster
     * @param int $tries how often a message is tried before it is moved to NAME_dead; 0 for no limit
     * @param array{float|int, float|int, float|int} $backoff how many seconds a message waits after a failed
     *     try, by which factor each further wait is longer, and the longest one, 0 for no limit
     * @param bool $fifo messages may have a key
     * @param int|null $dedupeFor messages may have a `dedupe`. A second one with the same is left out for so
     *     many seconds; with 0, for as long as the first one waits
     * @param bool $priority messages may have a priority
     * @param int $keep for how many seconds messages are kept that have ended
     */
    public function __construct(
        string $name,
        ?callable $connect = null,
        private readonly bool $transactional = true,
        private readonly int $tries = 5,
        private readonly array $backoff = [10, 2, 3600],
        private readonly bool $fifo = false,
        private readonly ?int $dedupeFor = null,
        private readonly bool $priority = false,
        private readonly int $keep = 0,
    ) {
        $form = '/^(?:' . self::PART . '\.)?' . self::PART . '$/Ds';
        if (preg_match($form, $name, $found) !== 1 || str_contains($name, '\\')) {
            throw new WrongUse("'$name' is no name of a table; write db.table, with backticks around odd parts");
        }
        if ($tries < 0 || $keep < 0 || $dedupeFor < 0 || count($backoff) !== 3 || min($backoff) < 0) {
            throw new WrongUse('numbers and times of a queue are not negative, and a backoff has three');
        }
        $this->database = $found[1] === '' ? null : self::unquoted($found[1]);
        $this->name = self::unquoted($found[2]);
        $this->table = $this->named($this->name);
        $this->dead = $this->name . '_dead';
        $this->connect = $connect === null ? null : $connect(...);
    }

    private static function unquoted(string $part): string
    {
        return $part[0] === '`' ? str_replace('``', '`', substr($part, 1, -1)) : $part;
    }

    private function named(string $name): string
    {
        $before = $this->database === null ? '' : Statements::quoted($this->database) . '.';
        return $before . Statements::quoted($name);
    }

    /** Text or an integer as a condition has it. */
    public static function literal(string|int $value): string
    {
        return is_int($value) ? (string) $value : "'" . strtr($value, ['\\' => '\\\\', "'" => "''"]) . "'";
    }

    /**
     * The statements that create() runs, for those who keep their DDL elsewhere.
     *
     * @return list<string>
     */
    public function ddl(): array
    {
        $columns = [
            'id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL',
            'payload LONGTEXT NOT NULL',
            'at TIMESTAMP(6) NULL',
        ];
        $options = ['DUE=at', "KEEP=$this->keep"];
        if ($this->fifo) {
            $columns[] = 'message_key VARCHAR(190) COLLATE utf8mb4_bin NULL';
            $options[] = 'FIFO=message_key';
        }
        if ($this->dedupeFor !== null) {
            $columns[] = 'dedupe_key VARCHAR(190) COLLATE utf8mb4_bin NULL';
            $options[] = "DEDUPE=dedupe_key DEDUPE_FOR=$this->dedupeFor";
        }
        if ($this->priority) {
            $columns[] = 'priority INT NOT NULL DEFAULT 0';
            $options[] = 'PRIORITY=priority';
        }
        if ($this->transactional) {
            $options[] = 'TRANSACTIONAL=1';
        }
        if ($this->tries === 0) {
            return [self::creation($this->table, $columns, $options)];
        }
        $dead = $this->named($this->dead);
        $options[] = "TRIES=$this->tries BACKOFF='" . implode(',', $this->backoff) . "'";
        $options[] = "DEAD='" . str_replace("'", "''", $dead) . "'";
        $more = [...$columns, 'failed INT NULL', 'why TEXT NULL'];
        return [
            self::creation($dead, $more, ['FAILED=failed', 'WHY=why']),
            self::creation($this->table, $columns, $options),
        ];
    }

    private static function creation(string $table, array $columns, array $options): string
    {
        return "CREATE TABLE IF NOT EXISTS $table (" . implode(', ', $columns)
            . ') ENGINE=QUEUE CHARSET=utf8mb4 ' . implode(' ', $options);
    }

    /** Makes the tables if they are not there. As all DDL, it commits the connection's transaction. */
    public function create(\PDO $pdo): void
    {
        foreach ($this->ddl() as $statement) {
            Sql::exec($pdo, $statement);
        }
    }

    /**
     * Puts a message into the queue and gives its id. It is a part of the connection's transaction: workers
     * see it when that commits, and never if it does not.
     *
     * `payload` is what JSON can hold. The message comes after `delay` seconds, or at the time `at`. Messages
     * with the same `key` come one at a time and in order. One whose `dedupe` came before is left out.
     *
     * A queue that is not transactional refuses a transaction, with InTransaction, because ROLLBACK would not
     * undo the put: `outsideTransaction` says that this is meant.
     */
    public function put(
        \PDO $pdo,
        mixed $payload,
        ?float $delay = null,
        ?\DateTimeInterface $at = null,
        ?string $key = null,
        ?string $dedupe = null,
        ?int $priority = null,
        bool $outsideTransaction = false,
    ): string {
        $message = new Message($payload, $delay, $at, $key, $dedupe, $priority);
        return $this->putMany($pdo, [$message], $outsideTransaction)[0];
    }

    /**
     * Puts messages with one statement, all or none of them, and gives their ids.
     *
     * @param iterable<Message> $messages
     * @return list<string>
     */
    public function putMany(\PDO $pdo, iterable $messages, bool $outsideTransaction = false): array
    {
        $ids = $rows = [];
        foreach ($messages as $message) {
            $ids[] = $id = bin2hex(random_bytes(16));
            $rows[] = "('$id'," . $this->values($message) . ')';
        }
        if ($ids === []) {
            return [];
        }
        if (!$this->isTransactional) {
            [$inTransaction, $autocommit] = $this->look($pdo);
            if (!$this->isTransactional && !$outsideTransaction && ($inTransaction || !$autocommit)) {
                throw new InTransaction("$this->table is not TRANSACTIONAL, so ROLLBACK would not undo this put; "
                    . 'outsideTransaction: true says that this is meant');
            }
        }
        $columns = 'id,payload,at' . ($this->fifo ? ',message_key' : '')
            . ($this->dedupeFor !== null ? ',dedupe_key' : '') . ($this->priority ? ',priority' : '');
        // In UTC no time occurs twice, and none is missing.
        Sql::exec($pdo, "SET STATEMENT time_zone = '+00:00' FOR INSERT INTO $this->table ($columns) VALUES "
            . implode(',', $rows));
        return $ids;
    }

    /** The columns after the id. What the table has no column for would be lost, and is refused. */
    private function values(Message $message): string
    {
        try {
            $payload = json_encode(
                $message->payload,
                JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION,
            );
        } catch (\JsonException $error) {
            throw new WrongUse("a payload is what JSON can hold: {$error->getMessage()}", previous: $error);
        }
        $values = Statements::value($payload) . ',' . self::due($message->delay, $message->at);
        foreach (
            [
                ['key', $this->fifo, $message->key, Statements::nullable($message->key)],
                ['dedupe', $this->dedupeFor !== null, $message->dedupe, Statements::nullable($message->dedupe)],
                ['priority', $this->priority, $message->priority, (string) (int) $message->priority],
            ] as [$name, $isThere, $given, $sql]
        ) {
            if ($isThere) {
                $values .= ",$sql";
            } elseif ($given !== null) {
                throw new WrongUse("$this->table has no column for $name; make the Queue with the option for it");
            }
        }
        return $values;
    }

    /** From when on a message is given. The server's clock decides. */
    private static function due(?float $delay, ?\DateTimeInterface $at): string
    {
        if ($delay < 0) {
            throw new WrongUse("the delay $delay is negative");
        }
        if ($at === null) {
            $micros = (int) round(($delay ?? 0) * 1_000_000);
            return $micros === 0 ? 'NULL' : "NOW(6) + INTERVAL $micros MICROSECOND";
        }
        if ($delay !== null) {
            throw new WrongUse('either `delay` or `at`');
        }
        $utc = \DateTimeImmutable::createFromInterface($at)->setTimezone(new \DateTimeZone('UTC'));
        return "'" . $utc->format('Y-m-d H:i:s.u') . "'";
    }

    /**
     * Takes a message and the caller's changes in one transaction: both are there, or neither. False if no
     * message came within `wait` seconds. When `work` has returned, the message is ended and the transaction
     * committed. `work` is given the Job, and leaves COMMIT and ROLLBACK to take().
     *
     * An exception of `work` rolls back, is a failed try, and comes out. LeaseLost says that somebody else
     * has the message meanwhile, and nothing is committed. The lease of so many seconds is extended while the
     * work continues, if the queue has `connect` and PHP has pcntl.
     */
    public function take(
        \PDO $pdo,
        callable $work,
        float $lease = 30,
        float $wait = 0,
        ?string $where = null,
    ): bool {
        $autocommit = $this->checkTake($pdo, $where);
        $run = static fn (string $sql): array => Sql::first($pdo, $sql);
        $keeper = $this->connect !== null && ForkedKeeper::isPossible()
            ? new ForkedKeeper($this->connect, $lease, 0, error_log(...)) : new LocalKeeper($run);
        $jobs = Job::allOf($run(Statements::lease($this->table, $where, $lease, 1, $wait)), $keeper, $lease);
        if ($jobs === []) {
            return false;
        }
        [$job] = $jobs;
        $keeper->keep([$job->token]);
        $isOpen = false;
        try {
            if ($autocommit) {
                Sql::exec($pdo, Statements::NO_AUTOCOMMIT);
            }
            Transaction::begin($pdo);
            Transaction::commitWith($pdo, $job, $keeper, static fn () => $work($job), $isOpen);
        } catch (\Throwable $error) {
            $this->nack($job, $error, [$run, $keeper->tell(...)]);
            throw $error;
        } finally {
            $keeper->close();
            // It would commit what is open.
            if ($autocommit && !$isOpen) {
                Transaction::endWith($pdo, 'SET autocommit = 1');
            }
        }
        return true;
    }

    /**
     * The connection may be gone with an error, so another one is tried. If that fails too, the lease ends by
     * itself.
     *
     * @param list<\Closure> $ways
     */
    private function nack(Job $job, \Throwable $why, array $ways): void
    {
        foreach ($ways as $run) {
            try {
                $run(Statements::nack([$job->token], Failure::of($why)));
                return;
            } catch (\PDOException | KeeperGone $error) {
                continue;
            }
        }
        error_log("the failure of $job->token could not be told; it comes again when its lease has ended: "
            . $error->getMessage());
    }

    /**
     * Refuses to take where COMMIT would not end the message, or where something would not be seen. Whether
     * the connection has autocommit.
     *
     * @internal
     */
    public function checkTake(\PDO $pdo, ?string $where = null): bool
    {
        [$inTransaction, $autocommit, $charset] = $this->look($pdo);
        if (!$this->isTransactional) {
            throw new WrongUse("$this->table is not TRANSACTIONAL: COMMIT can't end its messages");
        }
        if ($inTransaction) {
            throw new InTransaction('take() begins a transaction of its own: commit the one before, '
                . 'which may not see what was committed together with the message');
        }
        // The server reads arguments of functions in the character set of the connection.
        if (!Statements::isAscii($this->table . $where) && !str_starts_with($charset, 'utf8')) {
            throw new WrongUse('a name or a condition has letters that need a connection with charset=utf8mb4');
        }
        return $autocommit;
    }

    /** @internal */
    public function isTransactional(\PDO $pdo): bool
    {
        if (!$this->isTransactional) {
            $this->look($pdo);
        }
        return $this->isTransactional;
    }

    /**
     * Whether the connection is in a transaction, whether it has autocommit, and its character set. Notes
     * what the table is.
     *
     * @return array{bool, bool, string}
     */
    private function look(\PDO $pdo): array
    {
        $found = Sql::first($pdo, Statements::state($this->database, $this->name));
        if (!str_starts_with((string) $found[2], 'QUEUE')) {
            throw new NotAQueue("$this->table is no table with ENGINE=QUEUE; create() makes one");
        }
        $this->isTransactional = preg_match(self::IS_TRANSACTIONAL, $found[2]) === 1;
        return [(bool) $found[0], (bool) $found[1], (string) $found[3]];
    }
}
