<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * A failed try, as the queue is told of it. Equal ones can be told with one statement.
 *
 * @internal
 */
final class Failure
{
    private function __construct(public readonly string $reason, public readonly ?float $delay)
    {
    }

    public static function of(string|\Throwable $why, ?float $delay = null): self
    {
        if (is_string($why)) {
            return new self($why, $delay);
        }
        return new self(
            $why->getMessage() === '' ? $why::class : $why->getMessage(),
            $why instanceof Retry ? $why->delay : $delay,
        );
    }
}
