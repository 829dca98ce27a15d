<?php

declare(strict_types=1);

namespace Remora\Queue\Laravel;

use Illuminate\Database\ConnectionResolverInterface;
use Illuminate\Database\Connectors\ConnectionFactory;
use Illuminate\Queue\Connectors\ConnectorInterface;
use Illuminate\Support\Arr;

/**
 * Makes a queue from its entry in config/queue.php: `queue` is the table, `connection` one of
 * config/database.php, `lease` seconds, `block_for` how many seconds the server waits for a job.
 */
final class Connector implements ConnectorInterface
{
    public function __construct(
        private readonly ConnectionResolverInterface $database,
        private readonly ConnectionFactory $factory,
    ) {
    }

    public function connect(array $config): Queue
    {
        $name = $config['connection'] ?? null;
        return new Queue(
            fn () => $this->database->connection($name),
            fn () => $this->open($this->database->connection($name)->getConfig()),
            // As Laravel's worker has it.
            $config['queue'] ?? 'default',
            (float) ($config['lease'] ?? $config['retry_after'] ?? 30),
            (float) ($config['block_for'] ?? 0),
            (bool) ($config['after_commit'] ?? false),
        );
    }

    /** A connection that is no part of Laravel's, for the process that extends leases. */
    private function open(array $config): \PDO
    {
        if (isset($config['host'])) {
            $config['host'] = Arr::random(Arr::wrap($config['host']));
        }
        $config['options'] = [\PDO::ATTR_PERSISTENT => false] + ($config['options'] ?? []);
        return $this->factory->createConnector($config)->connect($config);
    }
}
