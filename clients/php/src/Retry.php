<?php

declare(strict_types=1);

namespace Remora\Queue;

/** For a handler to throw: a failed try that is expected, so that nothing is logged. */
final class Retry extends \Exception
{
    /** The message comes again after `delay` seconds; null: as the queue's backoff says. */
    public function __construct(string $reason = '', public readonly ?float $delay = null)
    {
        parent::__construct($reason);
    }
}
