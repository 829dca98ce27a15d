<?php

declare(strict_types=1);

namespace Remora\Queue\Laravel;

use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider as Provider;

/** Makes `'driver' => 'remora'` known to config/queue.php. */
final class ServiceProvider extends Provider
{
    public function register(): void
    {
        $this->callAfterResolving('queue', function (QueueManager $manager): void {
            $manager->addConnector('remora', fn () => new Connector($this->app['db'], $this->app['db.factory']));
        });
    }
}
