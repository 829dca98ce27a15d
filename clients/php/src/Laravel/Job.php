<?php

declare(strict_types=1);

namespace Remora\Queue\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job as BaseJob;
use Remora\Queue\Failure;
use Remora\Queue\Job as Leased;
use Remora\Queue\Statements;

/** A job that is leased. Its attempts are the tries of its message. */
final class Job extends BaseJob implements JobContract
{
    /** @param \Closure(string): void $end runs the statement that ends the lease */
    public function __construct(
        Container $container,
        private readonly Leased $leased,
        private readonly \Closure $end,
        string $connectionName,
        string $queue,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $queue;
    }

    public function getJobId(): ?string
    {
        return $this->leased->id;
    }

    public function getRawBody(): string
    {
        return (string) $this->leased->payload;
    }

    public function attempts(): int
    {
        return $this->leased->tries;
    }

    /** Somebody else may have the message meanwhile. Then this does nothing. */
    public function delete(): void
    {
        parent::delete();
        ($this->end)(Statements::ack([$this->leased->token]));
    }

    /** @param int $delay */
    public function release($delay = 0): void
    {
        parent::release($delay);
        ($this->end)(Statements::nack([$this->leased->token], Failure::of('released', (float) $delay)));
    }
}
