<?php

declare(strict_types=1);

namespace Remora\Queue\Messenger;

use Remora\Queue\Queue;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/**
 * Makes transports from `remora://user:password@host:port/database/table?lease=30`, which have a connection
 * of their own, and from `remora:///table`, which use that of the program. The options stand behind the
 * question mark or in the array.
 */
final class TransportFactory implements TransportFactoryInterface
{
    private const FORM = '#^remora://(?:([^:@/]*)(?::([^@/]*))?@)?([^:/?]*)(?::(\d+))?'
        . '/(?:([^/?]+)/)?([^/?]+)(?:\?(.*))?$#D';
    private const OPTIONS = ['lease' => 30.0, 'wait' => 0.0, 'tries' => 0, 'auto_setup' => true, 'socket' => ''];

    private readonly ?\Closure $connection;
    private readonly ?\Closure $connect;

    /**
     * @param callable|null $connection gives the program's PDO, for a DSN without a host: what is sent is a
     *     part of its transaction
     * @param callable|null $connect opens another one like it, from which leases are extended
     */
    public function __construct(?callable $connection = null, ?callable $connect = null)
    {
        $this->connection = $connection === null ? null : $connection(...);
        $this->connect = $connect === null ? null : $connect(...);
    }

    public function supports(#[\SensitiveParameter] string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'remora://');
    }

    public function createTransport(
        #[\SensitiveParameter] string $dsn,
        array $options,
        SerializerInterface $serializer,
    ): TransportInterface {
        if (preg_match(self::FORM, $dsn, $found, PREG_UNMATCHED_AS_NULL) !== 1) {
            throw new InvalidArgumentException('The DSN is no remora://user:password@host/database/table.');
        }
        [, $user, $password, $host, $port, $database, $table] = array_map(
            static fn (?string $part): ?string => $part === null ? null : rawurldecode($part),
            $found,
        );
        $options = self::options($found[7] ?? '', $options);
        if ($host === '') {
            $connection = $this->connection
                ?? throw new InvalidArgumentException('The DSN has no host, and the factory has no connection.');
            $connect = $this->connect;
        } else {
            $where = $options['socket'] === '' ? "host=$host" . ($port === null ? '' : ";port=$port")
                : "unix_socket={$options['socket']}";
            $server = "mysql:$where;charset=utf8mb4" . ($database === null ? '' : ";dbname=$database");
            $connection = $connect = static fn (): \PDO => new \PDO($server, $user, $password);
        }
        $class = interface_exists(KeepaliveReceiverInterface::class) ? KeepaliveTransport::class : Transport::class;
        return new $class(
            new Queue($table, $connect, tries: (int) $options['tries']),
            $connection,
            $serializer,
            lease: (float) $options['lease'],
            wait: (float) $options['wait'],
            autoSetup: filter_var($options['auto_setup'], FILTER_VALIDATE_BOOL),
            ownsConnection: $host !== '',
        );
    }

    /** @return array<string, mixed> */
    private static function options(string $query, array $options): array
    {
        parse_str($query, $given);
        unset($options['transport_name']);
        $given += $options;
        $unknown = array_diff_key($given, self::OPTIONS);
        if ($unknown !== []) {
            throw new InvalidArgumentException('Unknown options of remora://: ' . implode(', ', array_keys($unknown)));
        }
        return $given + self::OPTIONS;
    }
}
