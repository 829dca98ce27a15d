<?php

declare(strict_types=1);

// The connection `remora` of config/queue.php, if nobody says more of it. Applications of Laravel 11 have a
// table `jobs` of their own.
return ['driver' => 'remora', 'queue' => 'remora_jobs'];
