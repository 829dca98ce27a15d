<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * The other process at a pipe has ended.
 *
 * @internal
 */
final class KeeperGone extends QueueException
{
}
