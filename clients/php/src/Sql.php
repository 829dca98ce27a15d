<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * Runs statements on a connection of PDO, whatever its attributes are.
 *
 * @internal
 */
final class Sql
{
    /**
     * The first row of a statement. NULL may be an empty text in it, and the other way round:
     * PDO::ATTR_ORACLE_NULLS says so.
     *
     * @return list<string|int|null>
     */
    public static function first(\PDO $pdo, string $sql): array
    {
        return self::loudly($pdo, static function () use ($pdo, $sql): array {
            $row = $pdo->query($sql)->fetch(\PDO::FETCH_NUM);
            return $row === false ? [] : $row;
        });
    }

    /** Runs a statement without rows. PDO looks for no placeholders here, which a name may have. */
    public static function exec(\PDO $pdo, string $sql): void
    {
        self::loudly($pdo, static fn () => $pdo->exec($sql));
    }

    /** An error is an exception, also on a connection that is silent. */
    private static function loudly(\PDO $pdo, \Closure $run): mixed
    {
        $before = $pdo->getAttribute(\PDO::ATTR_ERRMODE);
        $pdo->setAttribute(\PDO::ATTR_ERRMODE, \PDO::ERRMODE_EXCEPTION);
        try {
            return $run();
        } finally {
            $pdo->setAttribute(\PDO::ATTR_ERRMODE, $before);
        }
    }
}
