<?php

declare(strict_types=1);

namespace Remora\Queue;

/** The program gave a value that is none, such as a name with three parts. It comes again at every try. */
final class WrongUse extends QueueException
{
}
