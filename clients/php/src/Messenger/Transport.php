<?php

declare(strict_types=1);

namespace Remora\Queue\Messenger;

use Remora\Queue\Errors;
use Remora\Queue\ForkedKeeper;
use Remora\Queue\Job;
use Remora\Queue\Keeper;
use Remora\Queue\LocalKeeper;
use Remora\Queue\NotAQueue;
use Remora\Queue\Queue;
use Remora\Queue\QueueException;
use Remora\Queue\Sql;
use Remora\Queue\Statements;
use Remora\Queue\Transaction;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\SetupableTransportInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/**
 * Sends messages into a queue, as a part of the connection's transaction, and receives them by lease.
 *
 * Messenger tries again by sending a message once more and then rejecting it. Here both are one transaction.
 */
class Transport implements TransportInterface, SetupableTransportInterface, MessageCountAwareInterface
{
    private ?\PDO $pdo = null;
    private readonly Keeper $keeper;
    /** @var array<string, Job> by token: what was received and has not ended */
    private array $held = [];

    /**
     * @param \Closure(): \PDO $connection
     * @param bool $ownsConnection whether a broken connection may be opened again
     */
    public function __construct(
        private readonly Queue $queue,
        private readonly \Closure $connection,
        private readonly SerializerInterface $serializer,
        private readonly float $lease = 30,
        private readonly float $wait = 0,
        private readonly bool $autoSetup = true,
        private readonly bool $ownsConnection = false,
    ) {
        $this->keeper = $queue->connect !== null && ForkedKeeper::isPossible()
            ? new ForkedKeeper($queue->connect, $lease, 0, error_log(...))
            : new LocalKeeper(fn (string $sql): array => Sql::first($this->pdo(), $sql));
    }

    public function __destruct()
    {
        $this->keeper->close();
    }

    public function send(Envelope $envelope): Envelope
    {
        $encoded = $this->serializer->encode($envelope);
        $isText = preg_match('//u', $encoded['body']) === 1;
        $payload = [
            'body' => $isText ? $encoded['body'] : base64_encode($encoded['body']),
            'headers' => $encoded['headers'] ?? [],
        ] + ($isText ? [] : ['base64' => true]);
        $delay = $envelope->last(DelayStamp::class)?->getDelay() ?? 0;
        $job = $envelope->last(LeaseStamp::class)?->job;
        $isRetry = isset($this->held[$job?->token]) && $envelope->last(RedeliveryStamp::class) !== null;
        $id = $this->orSetUp(function () use ($payload, $delay, $job, $isRetry): ?string {
            $put = fn (): string => $this->queue->put($this->pdo(), $payload, delay: $delay / 1000);
            return $isRetry && $this->queue->isTransactional($this->pdo()) ? $this->replace($job, $put) : $put();
        });
        return $id === null ? $envelope : $envelope->with(new TransportMessageIdStamp($id));
    }

    /** Puts a message and ends the one that it is a retry of. Null if somebody else has that meanwhile. */
    private function replace(Job $job, \Closure $put): ?string
    {
        $pdo = $this->pdo();
        $isOurs = !$pdo->inTransaction();
        if ($isOurs) {
            Sql::exec($pdo, 'START TRANSACTION');
        }
        try {
            $id = (int) Sql::first($pdo, Statements::ack([$job->token]))[0] === 1 ? $put() : null;
            if ($isOurs) {
                Sql::exec($pdo, 'COMMIT');
            }
        } catch (\Throwable $error) {
            if ($isOurs) {
                Transaction::endWith($pdo, 'ROLLBACK');
            }
            throw $error;
        }
        $this->forget($job);
        return $id;
    }

    public function get(): iterable
    {
        $statement = Statements::lease($this->queue->table, null, $this->lease, 1, $this->wait);
        $found = $this->orSetUp(fn (): array => $this->orAgain($statement));
        $envelopes = [];
        foreach (Job::allOf($found, $this->keeper, $this->lease) as $job) {
            $this->held[$job->token] = $job;
            $this->keeper->keep(array_keys($this->held));
            $envelopes[] = $this->decoded($job)->with(new LeaseStamp($job), new TransportMessageIdStamp($job->id));
        }
        return $envelopes;
    }

    private function decoded(Job $job): Envelope
    {
        try {
            if (!is_array($job->payload) || !is_string($job->payload['body'] ?? null)) {
                throw new MessageDecodingFailedException('The message was not put by this transport.');
            }
            ['body' => $body, 'headers' => $headers] = $job->payload + ['headers' => []];
            $body = isset($job->payload['base64']) ? base64_decode($body) : $body;
            return $this->serializer->decode(['body' => $body, 'headers' => $headers]);
        } catch (MessageDecodingFailedException $error) {
            $this->end($job);
            throw $error;
        }
    }

    public function ack(Envelope $envelope): void
    {
        $this->end($this->jobOf($envelope));
    }

    public function reject(Envelope $envelope): void
    {
        $this->end($this->jobOf($envelope));
    }

    /** Extends the lease, which a process does by itself where PHP has pcntl. */
    public function keepalive(Envelope $envelope, ?int $seconds = null): void
    {
        $this->orTransportError(fn () => $this->jobOf($envelope)->extend(max($this->lease, $seconds ?? 0)));
    }

    public function getMessageCount(): int
    {
        // A condition leaves out those that somebody has, and those that are delayed.
        $count = "SELECT COUNT(*) FROM {$this->queue->table} WHERE payload IS NOT NULL";
        return (int) $this->orSetUp(fn (): array => $this->orAgain($count))[0];
    }

    public function setup(): void
    {
        $this->orTransportError(fn () => $this->queue->create($this->pdo()));
    }

    private function jobOf(Envelope $envelope): Job
    {
        return $envelope->last(LeaseStamp::class)?->job
            ?? throw new LogicException('The envelope was not received from this transport.');
    }

    /** Somebody else may have the message meanwhile. Then this does nothing. */
    private function end(Job $job): void
    {
        if (!isset($this->held[$job->token])) {
            return;
        }
        $this->orTransportError(fn (): array => $this->orAgain(Statements::ack([$job->token])));
        $this->forget($job);
    }

    private function forget(Job $job): void
    {
        unset($this->held[$job->token]);
        $this->keeper->keep(array_keys($this->held));
    }

    private function pdo(): \PDO
    {
        return $this->pdo ??= ($this->connection)();
    }

    /**
     * Runs a statement that may be said twice: after an error of the connection, on a new one.
     *
     * @return list<string|int|null>
     */
    private function orAgain(string $sql): array
    {
        try {
            return Sql::first($this->pdo(), $sql);
        } catch (\PDOException $error) {
            if (!$this->ownsConnection || Errors::isLasting($error)) {
                throw $error;
            }
            $this->pdo = null;
            return Sql::first($this->pdo(), $sql);
        }
    }

    /** Makes the table if it is not there, unless that would commit the program's transaction. */
    private function orSetUp(\Closure $run): mixed
    {
        return $this->orTransportError(function () use ($run): mixed {
            try {
                return $run();
            } catch (\PDOException | NotAQueue $error) {
                $isMissing = $error instanceof NotAQueue || Errors::numberOf($error) === Errors::NO_TABLE;
                if (!$isMissing || !$this->autoSetup || $this->pdo()->inTransaction()) {
                    throw $error;
                }
            }
            $this->queue->create($this->pdo());
            return $run();
        });
    }

    private function orTransportError(\Closure $run): mixed
    {
        try {
            return $run();
        } catch (\PDOException | QueueException $error) {
            throw new TransportException($error->getMessage(), 0, $error);
        }
    }
}
