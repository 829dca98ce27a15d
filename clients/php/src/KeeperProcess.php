<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * The process beside a worker. It has copies of all that the worker had, also of its connections, which are
 * still the worker's. So it ends by a signal that lets PHP close nothing.
 *
 * @internal
 */
final class KeeperProcess
{
    /** A lease is extended so often while it lasts. Two tries may fail before it ends. */
    private const EXTENSIONS_OF_LEASE = 3;
    /** Seconds. No answer takes longer, unless the connection is broken. */
    private const ANSWER_PATIENCE = 5;
    private const FOR_EVER = 3600.0;

    /** Waits, and does nothing else. */
    private readonly Line $asks;
    /** A connection that does not answer must not use up the lease. */
    private readonly Line $tells;
    /** @var list<string> */
    private array $kept = [];
    private float $next = 0;

    public function __construct(
        private readonly Pipe $pipe,
        private readonly int $worker,
        private readonly \Closure $connect,
        private readonly float $lease,
        float $wait,
    ) {
        $this->asks = new Line($connect, $wait + max($lease, self::ANSWER_PATIENCE));
        $this->tells = new Line($connect, $lease);
    }

    /** @param list<int> $mask the signals that were blocked before */
    public function run(array $mask): never
    {
        // What the worker does at signals is not for this process, which they do not end either.
        pcntl_async_signals(false);
        pcntl_sigprocmask(SIG_SETMASK, $mask);
        try {
            while ($this->step()) {
            }
            $this->asks->close();
            $this->tells->close();
        } catch (\Throwable) {
            // The worker is gone, or will see that this is.
        }
        while (true) {
            posix_kill(getmypid(), SIGKILL);
        }
    }

    private function step(): bool
    {
        $left = $this->kept === [] ? self::FOR_EVER : $this->next - self::now();
        $request = $this->pipe->receive($left);
        // The worker's end may still be open in a program that its handler has begun.
        if (posix_getppid() !== $this->worker) {
            return false;
        }
        switch ($request[0] ?? null) {
            case 'ask':
                $this->ask($request[1]);
                break;
            case 'tell':
                $this->pipe->send($this->answer($this->tells, $request[1]));
                // It may have been an end, and then the worker says what to keep from now on.
                $this->next = max($this->next, self::now() + $this->lease / self::EXTENSIONS_OF_LEASE);
                break;
            case 'keep':
                $this->kept = $request[1];
                $this->next = self::now() + $this->lease / self::EXTENSIONS_OF_LEASE;
                break;
            case 'end':
                return false;
            default:
                $this->extend();
        }
        return true;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private function ask(string $sql): void
    {
        try {
            // Both, before anything is sent: what they share is an error of the program.
            $this->tells->open();
            $this->asks->open();
            $this->pipe->send(['waits', $this->asks->id()]);
        } catch (KeeperGone $gone) {
            throw $gone;
        } catch (\Throwable $error) {
            $this->pipe->send(self::told($error));
            return;
        }
        $answer = $this->answer($this->asks, $sql);
        try {
            $this->pipe->send($answer);
        } catch (KeeperGone $gone) {
            // The worker has ended during the wait. Nobody has tried these.
            $jobs = $answer[0] === 'row' ? json_decode((string) $answer[1][0], true) : [];
            if ($jobs !== []) {
                $this->tells->first(Statements::release(array_column($jobs, 'token')));
            }
            throw $gone;
        }
    }

    /** @return list<mixed> */
    private function answer(Line $line, string $sql): array
    {
        try {
            return ['row', $line->first($sql)];
        } catch (\Throwable $error) {
            return self::told($error);
        }
    }

    /** @return list<mixed> */
    private static function told(\Throwable $error): array
    {
        $info = $error instanceof \PDOException ? $error->errorInfo ?? ['HY000', 0, ''] : null;
        return ['error', $error->getMessage(), $info];
    }

    private function extend(): void
    {
        $this->next = self::now() + $this->lease / self::EXTENSIONS_OF_LEASE;
        if ($this->kept === []) {
            return;
        }
        try {
            $stale = Statements::staleAmong($this->tells->first(Statements::extend($this->kept, $this->lease)));
        } catch (\Throwable $error) {
            $text = "leases could not be extended, which is tried again: {$error->getMessage()}";
            $this->pipe->send(['log', $text]);
            return;
        }
        foreach ($stale as $token) {
            $this->pipe->send(['lost', $token]);
        }
        $this->kept = array_values(array_diff($this->kept, $stale));
    }
}
