<?php

declare(strict_types=1);

namespace Remora\Queue;

/** A message for Queue::putMany(). The fields are those of Queue::put(). */
final class Message
{
    public function __construct(
        public readonly mixed $payload,
        public readonly ?float $delay = null,
        public readonly ?\DateTimeInterface $at = null,
        public readonly ?string $key = null,
        public readonly ?string $dedupe = null,
        public readonly ?int $priority = null,
    ) {
    }
}
