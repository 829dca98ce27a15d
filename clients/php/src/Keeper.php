<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * What runs a worker's statements and extends its leases.
 *
 * @internal
 */
interface Keeper
{
    /**
     * The first row of a statement that waits. Empty if the worker is to stop, which ends the wait.
     *
     * @return list<string|int|null>
     */
    public function ask(string $sql): array;

    /**
     * The first row of a statement that ends or extends messages.
     *
     * @return list<string|int|null>
     */
    public function tell(string $sql): array;

    /**
     * From now on these leases are extended, and no others.
     *
     * @param list<string> $tokens
     */
    public function keep(array $tokens): void;

    /** Whether it was seen that this lease has ended. */
    public function hasLost(string $token): bool;

    public function close(): void;
}
