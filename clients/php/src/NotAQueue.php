<?php

declare(strict_types=1);

namespace Remora\Queue;

/** There is no such table, or it has another engine. */
final class NotAQueue extends QueueException
{
}
