<?php

declare(strict_types=1);

use Psr\Container\ContainerInterface;
use Remora\Queue\Messenger\LeaseStamp;
use Remora\Queue\Messenger\Transport;
use Remora\Queue\Messenger\TransportFactory;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerRunningEvent;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\SentToFailureTransportStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;

foreach (['Messenger', 'EventDispatcher'] as $part) {
    if (!library("Symfony/Component/$part/autoload.php")) {
        return;
    }
}

final class Letter
{
    public function __construct(public readonly string $to)
    {
    }
}

/** The worker of Messenger, with its listeners for failures. It ends when nothing waits. */
function consume(Transport $transport, Transport $failures, Closure $handler, int $delay = 0): void
{
    $locate = static fn (array $services): ContainerInterface => new class ($services) implements ContainerInterface {
        public function __construct(private readonly array $services)
        {
        }

        public function get(string $id): mixed
        {
            return $this->services[$id];
        }

        public function has(string $id): bool
        {
            return isset($this->services[$id]);
        }
    };
    $events = new EventDispatcher();
    $strategies = $locate(['mails' => new MultiplierRetryStrategy(2, $delay)]);
    $events->addSubscriber(new SendFailedMessageForRetryListener($locate(['mails' => $transport]), $strategies));
    $events->addSubscriber(new SendFailedMessageToFailureTransportListener($locate(['mails' => $failures])));
    $events->addListener(WorkerRunningEvent::class, static function (WorkerRunningEvent $event): void {
        $event->isWorkerIdle() && $event->getWorker()->stop();
    });
    $bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([Letter::class => [$handler]]))]);
    (new Symfony\Component\Messenger\Worker(['mails' => $transport], $bus, $events))->run(['sleep' => 0]);
}

function transport(Scene $s, string $table, array $options = [], ?SerializerInterface $serializer = null): Transport
{
    $dsn = "remora://root@localhost/$s->database/$table?socket=" . urlencode(getenv('REMORA_QUEUE_SOCKET'));
    return (new TransportFactory())->createTransport($dsn, $options, $serializer ?? new PhpSerializer());
}

test('messenger: messages are handled or tried again or failed', function (Scene $s): void {
    [$transport, $failures] = [transport($s, 'mails'), transport($s, 'failures')];
    foreach (["ann\u{e9}", 'twice', 'never'] as $to) {
        $sent = $transport->send(new Envelope(new Letter($to)));
        same(strlen($sent->last(TransportMessageIdStamp::class)->getId()), 32);
    }
    same($transport->getMessageCount(), 3);
    $tried = [];
    consume($transport, $failures, function (Letter $letter) use (&$tried): void {
        $tried[] = $letter->to;
        if ($letter->to === 'never' || ($letter->to === 'twice' && count(array_keys($tried, 'twice')) === 1)) {
            throw new DomainException('no such host');
        }
    });
    sort($tried);
    same($tried, ["ann\u{e9}", 'never', 'never', 'never', 'twice', 'twice']);
    same([$transport->getMessageCount(), $failures->getMessageCount(), $s->count('mails')], [0, 1, 0]);
    [$failed] = $failures->get();
    $from = $failed->last(SentToFailureTransportStamp::class)->getOriginalReceiverName();
    same([$failed->getMessage()->to, $from], ['never', 'mails']);
});

test('messenger: a delay is one of the server', function (Scene $s): void {
    $transport = transport($s, 'mails');
    $transport->setup();
    $transport->send(new Envelope(new Letter('later'), [new DelayStamp(3_600_000)]));
    $transport->send(new Envelope(new Letter('now')));
    consume($transport, $transport, fn () => throw new DomainException('again in an hour'), 3_600_000);
    // Both wait, and are counted by nobody who asks for what waits now.
    same([$s->count('mails'), $transport->getMessageCount()], [2, 0]);
    $in = 'UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) BETWEEN 3500 AND 3601';
    same($s->value("SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM mails WHERE $in"), '2');
});

test('messenger: the next try and the end of the last one are one commit', function (Scene $s): void {
    $transport = transport($s, 'mails');
    $transport->send(new Envelope(new Letter('ann')));
    [$envelope] = $transport->get();
    $retry = $envelope->with(new RedeliveryStamp(1), new DelayStamp(0));
    $transport->send($retry);
    // The first one has gone, so whoever is killed now has put nothing twice.
    same([$s->count('mails'), $s->leasedUntil('mails')], [1, 0.0]);
    // It was replaced once, so this is one more.
    $transport->send($retry);
    same($s->count('mails'), 2);
    $transport->reject($envelope);
    $s->pdo->exec('DELETE FROM mails LIMIT 1');
    [$envelope] = $transport->get();
    // Somebody else has it meanwhile, and will try it again.
    $s->value("SELECT queue_release('{$envelope->last(LeaseStamp::class)->job->token}')");
    $s->value("SELECT queue_lease_json(600, 1, 'mails', 60)");
    $transport->send($envelope->with(new RedeliveryStamp(2)));
    same($s->count('mails'), 1);
    // What is no next try is put beside it, and so is one in a table that knows no ROLLBACK.
    $s->pdo->exec('ALTER TABLE mails TRANSACTIONAL=0');
    $other = transport($s, 'mails');
    $other->send($envelope);
    [$envelope] = $other->get();
    $other->send($envelope->with(new RedeliveryStamp(1)));
    same($s->count('mails'), 3);
    $other->ack($envelope);
    same($s->count('mails'), 2);
});

test('messenger: a message is a part of the transaction of the program', function (Scene $s): void {
    $factory = new TransportFactory(fn (): PDO => $s->pdo, $s->connects());
    $transport = $factory->createTransport('remora:///mails', ['transport_name' => 'mails'], new PhpSerializer());
    $s->pdo->beginTransaction();
    // Making the table would commit it.
    thrown(TransportException::class, fn () => $transport->send(new Envelope(new Letter('ann'))));
    same($s->pdo->inTransaction(), true);
    $s->pdo->rollBack();
    $transport->setup();
    $s->pdo->beginTransaction();
    $transport->send(new Envelope(new Letter('ann')));
    $s->pdo->rollBack();
    same($s->count('mails'), 0);
    $transport->send(new Envelope(new Letter('ann')));
    [$envelope] = $transport->get();
    $s->pdo->beginTransaction();
    $transport->send($envelope->with(new RedeliveryStamp(1)));
    $s->pdo->rollBack();
    // The lease continues as if nothing had been tried.
    same([$s->count('mails'), $s->failures('mails')], [1, ['0']]);
});

test('messenger: a handler may take longer than its lease', function (Scene $s): void {
    $transport = transport($s, 'mails', ['lease' => 1]);
    $transport->send(new Envelope(new Letter('ann')));
    [$envelope] = $transport->get();
    $s->untilExtended('mails', 1.2);
    $transport->keepalive($envelope, 600);
    same($s->leasedUntil('mails') > time() + 500, true);
    $transport->ack($envelope);
    same($s->count('mails'), 0);
    // Later versions of Messenger ask for it.
    if (!interface_exists(KeepaliveReceiverInterface::class)) {
        eval('namespace Symfony\Component\Messenger\Transport\Receiver;
            interface KeepaliveReceiverInterface extends ReceiverInterface
            {
                public function keepalive(\Symfony\Component\Messenger\Envelope $envelope, ?int $seconds = null): void;
            }');
    }
    same(transport($s, 'mails') instanceof KeepaliveReceiverInterface, true);
});

test('messenger: a handler may fork', function (Scene $s): void {
    $worker = $s->beside(function () use ($s): void {
        $transport = transport($s, 'mails', ['lease' => 1]);
        $transport->send(new Envelope(new Letter('ann')));
        [$envelope] = $transport->get();
        $process = pcntl_fork();
        if ($process === 0) {
            // What PHP does with the transport when a process ends.
            $transport->__destruct();
            posix_kill(getmypid(), SIGKILL);
        }
        pcntl_waitpid($process, $status);
        $s->untilExtended('mails', 1.2);
        $transport->ack($envelope);
    });
    same([$worker->value(), $s->count('mails')], [null, 0]);
});

test('messenger: what can be said twice is said again on another connection', function (Scene $s): void {
    $transport = transport($s, 'mails');
    $transport->send(new Envelope(new Letter('ann')));
    $kill = function () use ($s): void {
        foreach ($s->others() as $id) {
            $s->kill($id);
        }
    };
    $kill();
    [$envelope] = $transport->get();
    $kill();
    $transport->ack($envelope);
    same([$s->count('mails'), $transport->getMessageCount()], [0, 0]);
    $kill();
    // An INSERT might be there twice.
    thrown(TransportException::class, fn () => $transport->send(new Envelope(new Letter('ann'))));
});

test('messenger: a message that can not be read is removed', function (Scene $s): void {
    $bytes = new class implements SerializerInterface {
        public function decode(array $encodedEnvelope): Envelope
        {
            return $encodedEnvelope['body'] === "\xff" ? new Envelope(new Letter($encodedEnvelope['headers']['to']))
                : throw new MessageDecodingFailedException();
        }

        public function encode(Envelope $envelope): array
        {
            return ['body' => $envelope->getMessage()->to, 'headers' => ['to' => 'x']];
        }
    };
    $transport = transport($s, 'mails', [], $bytes);
    $transport->send(new Envelope(new Letter("\xff")));
    [$envelope] = $transport->get();
    same($envelope->getMessage()->to, 'x');
    $transport->ack($envelope);
    $transport->send(new Envelope(new Letter('other')));
    thrown(MessageDecodingFailedException::class, $transport->get(...));
    (new Remora\Queue\Queue('mails'))->put($s->pdo, [1]);
    thrown(MessageDecodingFailedException::class, $transport->get(...));
    same($s->count('mails'), 0);
});

test('messenger: addresses', function (Scene $s): void {
    $factory = new TransportFactory();
    same([$factory->supports('remora://x/y', []), $factory->supports('doctrine://x', [])], [true, false]);
    $unknown = 'remora://host/shop/mails?nothing=1';
    foreach (['remora://host', 'remora:///mails', 'remora://host/a/b/c', $unknown] as $wrong) {
        thrown(InvalidArgumentException::class, fn () => $factory->createTransport($wrong, [], new PhpSerializer()));
    }
    thrown(TransportException::class, fn () => transport($s, 'mails', ['auto_setup' => false])->get());
    same(transport($s, 'mails', ['wait' => 0.01, 'tries' => 3])->get(), []);
    same($s->rows("SHOW TABLES LIKE 'mails%'"), ['mails', 'mails_dead']);
});
