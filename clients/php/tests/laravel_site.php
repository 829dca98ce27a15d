<?php

declare(strict_types=1);

// An application of the Laravel in PHP's include path, as `composer create-project laravel/laravel` and
// `composer require remora/queue` make one: path => text.

$package = dirname(__DIR__);

return [
    'vendor/autoload.php' => <<<PHP
        <?php
        error_reporting(E_ALL & ~E_DEPRECATED);
        require_once 'Illuminate/autoload.php';
        require_once '$package/tests/autoload.php';
        spl_autoload_register(static function (string \$class): void {
            \$path = dirname(__DIR__) . '/' . lcfirst(strtr(\$class, '\\\\', '/')) . '.php';
            if (str_starts_with(\$class, 'App\\\\') && is_file(\$path)) {
                require \$path;
            }
        });
        PHP,
    'vendor/composer/installed.json' => '{"packages": [' . file_get_contents("$package/composer.json") . ']}',
    'artisan' => <<<'PHP'
        <?php
        require __DIR__ . '/vendor/autoload.php';
        $app = new Illuminate\Foundation\Application(__DIR__);
        $app->singleton(Illuminate\Contracts\Console\Kernel::class, App\Kernel::class);
        $app->singleton(
            Illuminate\Contracts\Debug\ExceptionHandler::class,
            Illuminate\Foundation\Exceptions\Handler::class,
        );
        exit($app->make(Illuminate\Contracts\Console\Kernel::class)->handle(
            new Symfony\Component\Console\Input\ArgvInput(),
            new Symfony\Component\Console\Output\ConsoleOutput(),
        ));
        PHP,
    'app/Kernel.php' => <<<'PHP'
        <?php
        namespace App;

        class Kernel extends \Illuminate\Foundation\Console\Kernel
        {
            protected function commands()
            {
                require base_path('routes/console.php');
            }
        }
        PHP,
    'config/app.php' => <<<'PHP'
        <?php
        return ['env' => 'local', 'timezone' => 'UTC', 'providers' => [
            Illuminate\Bus\BusServiceProvider::class,
            Illuminate\Cache\CacheServiceProvider::class,
            Illuminate\Database\DatabaseServiceProvider::class,
            Illuminate\Filesystem\FilesystemServiceProvider::class,
            Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
            Illuminate\Queue\QueueServiceProvider::class,
        ]];
        PHP,
    'config/database.php' => <<<'PHP'
        <?php
        return ['default' => env('DB_CONNECTION'), 'migrations' => 'migrations', 'connections' => ['mysql' => [
            'driver' => 'mysql', 'host' => env('DB_HOST'), 'port' => env('DB_PORT'),
            'unix_socket' => env('DB_SOCKET', ''), 'database' => env('DB_DATABASE'),
            'username' => env('DB_USERNAME'), 'password' => env('DB_PASSWORD'), 'charset' => 'utf8mb4',
        ]]];
        PHP,
    'config/queue.php' => <<<'PHP'
        <?php
        return [
            'default' => env('QUEUE_CONNECTION', 'sync'),
            'connections' => ['sync' => ['driver' => 'sync']],
            'failed' => ['driver' => 'null'],
        ];
        PHP,
    'config/cache.php' => "<?php\nreturn ['default' => 'array', 'stores' => ['array' => ['driver' => 'array']]];\n",
    'config/logging.php' => <<<'PHP'
        <?php
        return ['default' => 'single', 'channels' => [
            'single' => ['driver' => 'single', 'path' => storage_path('laravel.log')],
        ]];
        PHP,
    'routes/console.php' => "<?php\n\n",
    'bootstrap/cache/.gitignore' => '',
    'database/migrations/.gitignore' => '',
    'storage/.gitignore' => '',
];
