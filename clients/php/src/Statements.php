<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * SQL without parameters: how PDO puts those in depends on its attributes and on the sql_mode. The text means
 * the same in every mode and character set.
 *
 * @internal
 */
final class Statements
{
    /** What connections of a worker's own are, whatever the program makes of them. */
    public const OWN_SESSION = 'SET NAMES utf8mb4, autocommit = 1';
    /** What a handler does after a deadlock, which ends its transaction, is not committed by itself then. */
    public const NO_AUTOCOMMIT = 'SET autocommit = 0';
    /** Is there for as long as the transaction is. */
    public const MARK = 'SAVEPOINT remora_queue';
    public const CHECK_MARK = 'RELEASE SAVEPOINT remora_queue';

    /** The queue keeps a reason of at most 1024 bytes. */
    private const REASON_MAX = 1000;

    /** A name in backticks, as SQL and the functions of the queue want it. */
    public static function quoted(string $name): string
    {
        return '`' . str_replace('`', '``', $name) . '`';
    }

    public static function isAscii(string $text): bool
    {
        return preg_match('/^[\x00-\x7e]*$/D', $text) === 1;
    }

    /** Text as an SQL expression. What is not plain is hex. */
    public static function value(string $text): string
    {
        if (!self::isAscii($text) || strpbrk($text, "\\\0") !== false) {
            return "_utf8mb4 x'" . bin2hex($text) . "'";
        }
        return "'" . str_replace("'", "''", $text) . "'";
    }

    public static function nullable(?string $text): string
    {
        return $text === null ? 'NULL' : self::value($text);
    }

    /** Text in ASCII, as JSON has it: a connection with another character set changes nothing. */
    public static function escaped(string $text): string
    {
        $escape = static fn (array $found): string => trim(
            json_encode($found[0], JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE),
            '"',
        );
        return (string) preg_replace_callback('/[\x80-\xff]+/', $escape, $text);
    }

    /** Whatever the locale says of decimals. */
    public static function seconds(float $seconds): string
    {
        return sprintf("'%.3F'", $seconds);
    }

    /** Asks for rows. Their numbers are text, because the largest are no integers of PHP. */
    public static function lease(string $table, ?string $where, float $lease, int $rows, float $wait): string
    {
        return sprintf(
            "SET STATEMENT queue_json_strings = ON FOR SELECT queue_lease_json(%s, '%d', %s, %s)",
            self::seconds($lease),
            $rows,
            self::value($where === null ? $table : "$table:$where"),
            self::seconds($wait),
        );
    }

    // Each of these gives how many tokens were valid, and the others.

    /** @param list<string> $tokens */
    public static function ack(array $tokens): string
    {
        return 'SELECT queue_ack(' . self::joined($tokens) . '), queue_stale()';
    }

    /** @param list<string> $tokens */
    public static function extend(array $tokens, float $lease): string
    {
        return 'SELECT queue_extend(' . self::joined($tokens) . ', ' . self::seconds($lease) . '), queue_stale()';
    }

    /** @param list<string> $tokens */
    public static function release(array $tokens): string
    {
        return 'SELECT queue_release(' . self::joined($tokens) . '), queue_stale()';
    }

    /** @param list<string> $tokens */
    public static function nack(array $tokens, Failure $failure): string
    {
        return sprintf(
            'SELECT queue_nack(%s, %s, %s), queue_stale()',
            self::joined($tokens),
            // The queue would refuse a time before now, and the message would wait for the end of its lease.
            $failure->delay === null ? 'NULL' : self::seconds(max($failure->delay, 0)),
            self::value(substr(self::escaped($failure->reason), 0, self::REASON_MAX)),
        );
    }

    /** @param list<string> $tokens */
    private static function joined(array $tokens): string
    {
        return self::value(implode(',', $tokens));
    }

    /** Asks whether there is a transaction, for autocommit, what the table is, and for the character set. */
    public static function state(?string $database, string $table): string
    {
        return sprintf(
            "SELECT @@in_transaction, @@autocommit, (SELECT CONCAT(engine, ' ', create_options)"
                . ' FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE())'
                . ' AND table_name = %s), @@character_set_connection',
            self::nullable($database),
            self::value($table),
        );
    }

    /**
     * The stale ones, in what a statement with queue_stale() gave. A name in backticks may have commas.
     *
     * @param list<string|int|null> $row
     * @return list<string>
     */
    public static function staleAmong(array $row): array
    {
        preg_match_all('/(?:`[^`]*`|[^,`])+/', (string) ($row[1] ?? ''), $found);
        return $found[0];
    }
}
