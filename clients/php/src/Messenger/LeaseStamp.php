<?php

declare(strict_types=1);

namespace Remora\Queue\Messenger;

use Remora\Queue\Job;
use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** The lease of a message that was received. */
final class LeaseStamp implements NonSendableStampInterface
{
    public function __construct(public readonly Job $job)
    {
    }
}
