<?php

declare(strict_types=1);

namespace Remora\Queue;

/** The lease has ended, and somebody else may have the message. */
final class LeaseLost extends QueueException
{
}
