<?php

declare(strict_types=1);

namespace Remora\Queue;

/** The connection is within a transaction, and what was asked for would be no part of it. */
final class InTransaction extends QueueException
{
}
