<?php

declare(strict_types=1);

// Finds the classes of the package, where there is no composer.
spl_autoload_register(static function (string $class): void {
    $path = __DIR__ . '/../src/' . strtr(substr($class, strlen('Remora\\Queue\\')), '\\', '/') . '.php';
    if (str_starts_with($class, 'Remora\\Queue\\') && is_file($path)) {
        require $path;
    }
});
