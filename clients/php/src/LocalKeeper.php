<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * For a PHP without pcntl, or a program without `connect`: nobody extends leases but Job::extend().
 *
 * @internal
 */
final class LocalKeeper implements Keeper
{
    /** @param \Closure(string): list<string|int|null> $run */
    public function __construct(private readonly \Closure $run)
    {
    }

    public function ask(string $sql): array
    {
        return ($this->run)($sql);
    }

    public function tell(string $sql): array
    {
        return ($this->run)($sql);
    }

    public function keep(array $tokens): void
    {
    }

    public function hasLost(string $token): bool
    {
        return false;
    }

    public function close(): void
    {
    }
}
