<?php

declare(strict_types=1);

namespace Remora\Queue\Messenger;

use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;

/** The transport for a Messenger that calls keepalive(): 7.2 and later. */
final class KeepaliveTransport extends Transport implements KeepaliveReceiverInterface
{
}
