<?php

declare(strict_types=1);

// An application of the Symfony in PHP's include path, as `composer create-project symfony/skeleton` makes
// one, and `composer require` with Messenger and this package: path => text.

$package = dirname(__DIR__);

return [
    'composer.json' => '{}',
    'vendor/autoload.php' => <<<PHP
        <?php
        error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
        foreach (['Bundle/FrameworkBundle', 'Component/Messenger', 'Component/Yaml'] as \$part) {
            require_once "Symfony/\$part/autoload.php";
        }
        require_once '$package/tests/autoload.php';
        spl_autoload_register(static function (string \$class): void {
            \$path = dirname(__DIR__) . '/src/' . strtr(substr(\$class, 4), '\\\\', '/') . '.php';
            if (str_starts_with(\$class, 'App\\\\') && is_file(\$path)) {
                require \$path;
            }
        });
        PHP,
    'bin/console' => <<<'PHP'
        <?php
        require dirname(__DIR__) . '/vendor/autoload.php';
        (new Symfony\Bundle\FrameworkBundle\Console\Application(new App\Kernel('dev', true)))->run();
        PHP,
    'src/Kernel.php' => <<<'PHP'
        <?php
        namespace App;

        class Kernel extends \Symfony\Component\HttpKernel\Kernel
        {
            use \Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
        }
        PHP,
    'config/bundles.php' =>
        "<?php\nreturn [Symfony\Bundle\FrameworkBundle\FrameworkBundle::class => ['all' => true]];\n",
    'config/services.yaml' => <<<'YAML'
        services:
            _defaults: { autowire: true, autoconfigure: true }
            App\:
                resource: '../src/'
                exclude: ['../src/Kernel.php']
        YAML,
    'config/packages/framework.yaml' => "framework: { secret: secret, http_method_override: false }\n",
];
