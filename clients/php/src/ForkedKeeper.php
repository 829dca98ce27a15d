<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * The worker's end of a process that waits for messages and extends leases. PHP has one thread, and a driver
 * that waits hears no signal: so the worker itself waits for the process, which a signal ends at once.
 *
 * @internal
 */
final class ForkedKeeper implements Keeper
{
    /** A signal that comes right before a wait does not end it. */
    private const LOOK_EVERY = 1.0;
    /** Between two KILL QUERY: one that comes before the wait does nothing. */
    private const KILL_EVERY = 0.2;
    /** After so long without success the process is killed, which closes the connection. */
    private const KILL_PATIENCE = 5.0;

    private ?Pipe $pipe = null;
    private int $process = 0;
    /** The process that has made it. One that a handler has forked is another one. */
    private int $worker = 0;
    /** @var list<string> */
    private array $kept = [];
    /** @var array<string, true> */
    private array $lost = [];

    /** @param \Closure(string): void $log is told what went wrong */
    public function __construct(
        private readonly \Closure $connect,
        private readonly float $lease,
        private readonly float $wait,
        private readonly \Closure $log,
        private readonly ?\Closure $isStopping = null,
    ) {
    }

    public static function isPossible(): bool
    {
        return function_exists('pcntl_fork') && function_exists('posix_kill');
    }

    public function ask(string $sql): array
    {
        $this->send(['ask', $sql]);
        $id = null;
        while ($this->isStopping === null || !($this->isStopping)()) {
            $message = $this->receive(self::LOOK_EVERY);
            if ($message !== null && $message[0] === 'waits') {
                $id = $message[1];
            } elseif ($message !== null) {
                return self::answer($message);
            }
        }
        return $this->endWait($id);
    }

    /**
     * Ends the wait of a connection by KILL QUERY, because nothing is lost by that: one that is closed while
     * the answer is on its way has leased a message to nobody.
     *
     * @return list<string|int|null>
     */
    private function endWait(?string $id): array
    {
        $line = new Line($this->connect, self::KILL_PATIENCE);
        $end = hrtime(true) / 1e9 + self::KILL_PATIENCE;
        while (hrtime(true) / 1e9 < $end) {
            try {
                if ($id !== null) {
                    $line->kill($id);
                }
            } catch (\Throwable $error) {
                ($this->log)("the wait could not be ended, which is tried again: {$error->getMessage()}");
            }
            $message = $this->receive(self::KILL_EVERY);
            if ($message !== null && $message[0] === 'waits') {
                $id = $message[1];
            } elseif ($message !== null) {
                return self::answer($message);
            }
        }
        $this->kill();
        return [];
    }

    public function tell(string $sql): array
    {
        try {
            return $this->tellOnce($sql);
        } catch (KeeperGone) {
            // To another process. What is said twice happens once.
            return $this->tellOnce($sql);
        }
    }

    /** @return list<string|int|null> */
    private function tellOnce(string $sql): array
    {
        $this->send(['tell', $sql]);
        do {
            $message = $this->receive(self::LOOK_EVERY);
        } while ($message === null);
        return self::answer($message);
    }

    public function keep(array $tokens): void
    {
        $this->kept = $tokens;
        $this->lost = [];
        if ($tokens === [] && $this->pipe === null) {
            return;
        }
        try {
            $this->send(['keep', $tokens]);
        } catch (KeeperGone) {
            // The next statement makes another process, which is told of them.
        }
    }

    public function hasLost(string $token): bool
    {
        while ($this->pipe !== null) {
            try {
                if ($this->receive(0) === null) {
                    break;
                }
            } catch (KeeperGone) {
                break;
            }
        }
        return isset($this->lost[$token]);
    }

    public function close(): void
    {
        if ($this->worker !== getmypid()) {
            return;
        }
        try {
            $this->pipe?->send(['end']);
            // It ends without an answer.
            $this->pipe?->receive(self::LOOK_EVERY);
        } catch (KeeperGone) {
            // That is what was asked for.
        }
        $this->kill();
    }

    private function kill(): void
    {
        if ($this->pipe === null) {
            return;
        }
        $this->pipe->close();
        $this->pipe = null;
        posix_kill($this->process, SIGKILL);
        do {
            // A signal ends it too early.
            $waited = pcntl_waitpid($this->process, $status);
        } while ($waited === -1 && pcntl_get_last_error() === PCNTL_EINTR);
    }

    /** @param list<mixed> $message */
    private function send(array $message): void
    {
        $this->begin();
        try {
            $this->pipe->send($message);
        } catch (KeeperGone $gone) {
            $this->kill();
            throw $gone;
        }
    }

    /**
     * The next answer. Null if none came in this time.
     *
     * @return list<mixed>|null
     */
    private function receive(float $seconds): ?array
    {
        try {
            $message = $this->pipe->receive($seconds);
        } catch (KeeperGone $gone) {
            $this->kill();
            throw $gone;
        }
        switch ($message[0] ?? null) {
            case 'lost':
                $this->lost[$message[1]] = true;
                ($this->log)("the lease of $message[1] has ended while its job runs");
                return $this->receive($seconds);
            case 'log':
                ($this->log)($message[1]);
                return $this->receive($seconds);
        }
        return $message;
    }

    /**
     * @param list<mixed> $message
     * @return list<string|int|null>
     */
    private static function answer(array $message): array
    {
        if ($message[0] === 'row') {
            return $message[1];
        }
        [, $text, $info] = $message;
        if ($info === null) {
            throw new WrongUse($text);
        }
        $error = new \PDOException($text);
        $error->errorInfo = $info;
        throw $error;
    }

    private function begin(): void
    {
        if ($this->pipe !== null && $this->worker === getmypid()) {
            return;
        }
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        // A signal for the whole group, as a terminal sends it, is handled by the worker alone.
        pcntl_sigprocmask(SIG_BLOCK, [SIGTERM, SIGINT], $before);
        $this->worker = getmypid();
        $process = pcntl_fork();
        if ($process === 0) {
            fclose($mine);
            $made = new KeeperProcess(new Pipe($its), $this->worker, $this->connect, $this->lease, $this->wait);
            $made->run($before);
        }
        pcntl_sigprocmask(SIG_SETMASK, $before);
        fclose($its);
        if ($process < 0) {
            throw new KeeperGone('no process for the keeper of a worker could be made');
        }
        $this->process = $process;
        $this->pipe = new Pipe($mine);
        if ($this->kept !== []) {
            $this->send(['keep', $this->kept]);
        }
    }
}
