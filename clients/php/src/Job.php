<?php

declare(strict_types=1);

namespace Remora\Queue;

/** A message that is leased, as a handler sees it. */
final class Job
{
    /**
     * The column `payload`, read as JSON: objects are arrays, and integers that are none of PHP are text.
     * Text that is no JSON, as another program may have put it, is itself. Null without such a column.
     */
    public readonly mixed $payload;
    /** What Queue::put() returned: the column `id`. Null without such a column. */
    public readonly ?string $id;
    /** A number that only grows. What a job writes to can refuse a smaller one than it has seen. */
    public readonly int $fence;

    private ?Failure $failure = null;
    private bool $isLost = false;

    /**
     * @internal
     * @param array<string, string|null> $row all columns as text, also numbers. Binary columns are base64.
     * @param int $tries which try this is, counted from 1
     * @param string|null $why why the last try has failed
     * @param string $token names the lease
     */
    public function __construct(
        public readonly string $token,
        public readonly int $tries,
        public readonly ?string $why,
        public readonly array $row,
        private readonly Keeper $keeper,
        private readonly float $lease,
    ) {
        $this->id = $row['id'] ?? null;
        $this->payload = self::decoded($row['payload'] ?? null);
        $this->fence = (int) substr(strrchr($token, ':') ?: ':0', 1);
    }

    private static function decoded(?string $payload): mixed
    {
        try {
            return $payload === null ? null
                : json_decode($payload, true, flags: JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
        } catch (\JsonException) {
            return $payload;
        }
    }

    /**
     * The messages in what queue_lease_json() returned.
     *
     * @internal
     * @param list<string|int|null> $row
     * @return list<self>
     */
    public static function allOf(array $row, Keeper $keeper, float $lease): array
    {
        return array_map(
            static fn (array $one): self => new self(
                $one['token'],
                (int) $one['try'],
                $one['why'] ?? null,
                $one['row'],
                $keeper,
                $lease,
            ),
            json_decode((string) ($row[0] ?? '[]'), true, flags: JSON_THROW_ON_ERROR),
        );
    }

    /**
     * This job of a batch has failed, and comes again after `delay` seconds, or as the queue's backoff says.
     * The others are done unless they fail too.
     */
    public function fail(string|\Throwable $why, ?float $delay = null): void
    {
        $this->failure = Failure::of($why, $delay);
    }

    /** @internal */
    public function failure(): ?Failure
    {
        return $this->failure;
    }

    /** Whether somebody else may have the message, because the lease has ended while the job runs. */
    public function isLost(): bool
    {
        return $this->isLost = $this->isLost || $this->keeper->hasLost($this->token);
    }

    /**
     * The lease ends in so many seconds from now, by default in as many as at first. Where PHP has pcntl this
     * is done without it. LeaseLost says that somebody else has the message.
     */
    public function extend(?float $seconds = null): void
    {
        $row = $this->keeper->tell(Statements::extend([$this->token], $seconds ?? $this->lease));
        if ((int) $row[0] !== 1) {
            $this->isLost = true;
            throw self::lost($this->token);
        }
    }

    /** @internal */
    public static function lost(string $token): LeaseLost
    {
        return new LeaseLost("the lease of $token has ended: somebody else may have its message");
    }

    /**
     * @internal
     * @param list<self> $jobs
     * @return list<string>
     */
    public static function tokensOf(array $jobs): array
    {
        return array_map(static fn (self $job): string => $job->token, $jobs);
    }
}
