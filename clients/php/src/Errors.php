<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * What errors mean to a worker.
 *
 * @internal
 */
final class Errors
{
    /** RELEASE SAVEPOINT of one that is not there. */
    public const NO_SAVEPOINT = 1305;
    /** KILL QUERY of a connection that is gone. */
    public const UNKNOWN_THREAD = 1094;

    /** There is no such table, or it has another engine. */
    public const NO_TABLE = 1146;

    /** The table, a privilege or an argument is wrong: "Errors and warnings" in the server's manual. */
    private const LASTING = [
        1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305,
        51001, 51002, 51003, 51004, 51005, 51006, 51007,
    ];
    /** KILL QUERY or max_statement_time has ended a wait. The connection can be used on. */
    private const INTERRUPTED = [1317, 1969];

    /** The server's number of an error, and 0 if it has none. */
    public static function numberOf(\Throwable $error): int
    {
        return $error instanceof \PDOException ? (int) ($error->errorInfo[1] ?? 0) : 0;
    }

    /** Whether it will come again at every try. An error of the program itself does, too. */
    public static function isLasting(\Throwable $error): bool
    {
        if (!$error instanceof \PDOException) {
            return !$error instanceof KeeperGone;
        }
        return in_array(self::numberOf($error), self::LASTING, true);
    }

    public static function isInterrupted(\Throwable $error): bool
    {
        return in_array(self::numberOf($error), self::INTERRUPTED, true);
    }
}
