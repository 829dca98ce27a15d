<?php

declare(strict_types=1);

namespace Remora\Queue\Laravel;

use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider as Provider;

/** Makes the connection `remora` and `'driver' => 'remora'` known to config/queue.php. */
final class ServiceProvider extends Provider
{
    public function register(): void
    {
        // What config/queue.php says of it goes before this.
        $this->mergeConfigFrom(__DIR__ . '/connection.php', 'queue.connections.remora');
        $this->callAfterResolving('queue', function (QueueManager $manager): void {
            $manager->addConnector('remora', fn () => new Connector($this->app['db'], $this->app['db.factory']));
        });
    }
}
