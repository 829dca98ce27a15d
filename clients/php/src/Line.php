<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * A connection of a worker's own: opened when it is first used, and again after an error.
 *
 * @internal
 */
final class Line
{
    /** @var \WeakMap<\PDO, true>|null */
    private static ?\WeakMap $used = null;

    private ?\PDO $pdo = null;
    private ?string $id = null;

    /** After `limit` seconds without an answer the connection is closed, with an error. Null: as PHP says. */
    public function __construct(private readonly \Closure $connect, private readonly ?float $limit)
    {
    }

    /** The connection as the program has made it. */
    public function open(): \PDO
    {
        if ($this->pdo !== null) {
            return $this->pdo;
        }
        $made = $this->limit === null ? ($this->connect)() : $this->connectWithLimit($this->limit);
        if (!$made instanceof \PDO || $made->getAttribute(\PDO::ATTR_DRIVER_NAME) !== 'mysql') {
            throw new WrongUse('`connect` must return a PDO of the driver mysql');
        }
        self::$used ??= new \WeakMap();
        if (isset(self::$used[$made]) || $made->getAttribute(\PDO::ATTR_PERSISTENT)) {
            throw new WrongUse('`connect` must open a new connection each time, and no persistent one');
        }
        self::$used[$made] = true;
        return $this->pdo = $made;
    }

    /** PDO::ATTR_TIMEOUT is only for the time to connect. What a connection is given here stays its own. */
    private function connectWithLimit(float $limit): mixed
    {
        $before = ini_set('mysqlnd.net_read_timeout', (string) max(1, (int) ceil($limit)));
        try {
            return ($this->connect)();
        } finally {
            if ($before !== false) {
                ini_set('mysqlnd.net_read_timeout', $before);
            }
        }
    }

    /** The number of the connection, which is made ready for statements. */
    public function id(): string
    {
        if ($this->id === null) {
            $this->guarded(function (\PDO $pdo): void {
                Sql::exec($pdo, Statements::OWN_SESSION);
                $this->id = (string) Sql::first($pdo, 'SELECT CONNECTION_ID()')[0];
            });
        }
        return (string) $this->id;
    }

    /** @return list<string|int|null> */
    public function first(string $sql): array
    {
        $this->id();
        return $this->guarded(static fn (\PDO $pdo): array => Sql::first($pdo, $sql));
    }

    /** Ends the wait of another connection. Nothing is wrong if it does not wait or is gone. */
    public function kill(string $other): void
    {
        $this->id();
        $this->guarded(static function (\PDO $pdo) use ($other): void {
            try {
                Sql::exec($pdo, "KILL QUERY $other");
            } catch (\PDOException $error) {
                if (Errors::numberOf($error) !== Errors::UNKNOWN_THREAD) {
                    throw $error;
                }
            }
        });
    }

    /** Closes the connection after an error that it may not have survived. */
    private function guarded(\Closure $run): mixed
    {
        try {
            return $run($this->open());
        } catch (\Throwable $error) {
            if (!Errors::isInterrupted($error)) {
                $this->close();
            }
            throw $error;
        }
    }

    public function close(): void
    {
        $this->pdo = $this->id = null;
    }
}
