<?php

declare(strict_types=1);

namespace Remora\Queue;

/** The base of this package's own errors. Those of PDO come out as they are. */
class QueueException extends \RuntimeException
{
}
