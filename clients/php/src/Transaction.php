<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * Work and the end of its message, in one transaction.
 *
 * @internal
 */
final class Transaction
{
    public static function begin(\PDO $pdo): void
    {
        Sql::exec($pdo, 'START TRANSACTION');
        Sql::exec($pdo, Statements::MARK);
    }

    /**
     * @param \Closure(): mixed $work after an error of it the transaction is rolled back
     * @param bool $isOpen whether it is open afterwards, because that failed, too
     */
    public static function commitWith(
        \PDO $pdo,
        Job $job,
        Keeper $keeper,
        \Closure $work,
        bool &$isOpen = false,
    ): void {
        try {
            try {
                $work();
            } catch (\Throwable $error) {
                throw $job->isLost() ? new LeaseLost($error->getMessage(), previous: $error) : $error;
            }
            $failure = $job->failure();
            if ($failure !== null) {
                throw new Retry($failure->reason, $failure->delay);
            }
            self::checkMark($pdo);
            // While the transaction has ended the row, its token is good for nobody.
            $keeper->keep([]);
            // Last, so that the row is locked for a short time only.
            if ((int) Sql::first($pdo, Statements::ack([$job->token]))[0] !== 1) {
                throw Job::lost($job->token);
            }
            Sql::exec($pdo, 'COMMIT');
        } catch (\Throwable $error) {
            $isOpen = !self::endWith($pdo, 'ROLLBACK');
            throw $error;
        }
    }

    /** False if the connection is gone, and the transaction with it. */
    public static function endWith(\PDO $pdo, string $statement): bool
    {
        try {
            Sql::exec($pdo, $statement);
            return true;
        } catch (\PDOException) {
            return false;
        }
    }

    /** If the work has gone with its transaction, its message must not end. */
    private static function checkMark(\PDO $pdo): void
    {
        try {
            Sql::exec($pdo, Statements::CHECK_MARK);
        } catch (\PDOException $error) {
            if (Errors::numberOf($error) !== Errors::NO_SAVEPOINT) {
                throw $error;
            }
            throw new QueueException('the transaction of the job had ended before its message, as a deadlock does');
        }
    }
}
