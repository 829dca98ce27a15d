<?php

declare(strict_types=1);

namespace Remora\Queue;

/**
 * One end of what joins a worker and its keeper: lines of JSON.
 *
 * @internal
 */
final class Pipe
{
    private string $arrived = '';
    /** Up to here no line ends. */
    private int $searched = 0;

    /** @param resource $stream */
    public function __construct(private $stream)
    {
        stream_set_blocking($stream, false);
    }

    /** @param list<mixed> $message */
    public function send(array $message): void
    {
        $left = json_encode($message, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
        while ($left !== '') {
            $sent = @fwrite($this->stream, $left);
            if ($sent === false || ($sent === 0 && feof($this->stream))) {
                throw new KeeperGone('the keeper of a worker has ended');
            }
            $left = substr($left, $sent);
            if ($left !== '') {
                $this->select(null, [$this->stream], 1);
            }
        }
    }

    /**
     * The next message, or null if none comes in this time. A signal may end the time.
     *
     * @return list<mixed>|null
     */
    public function receive(float $seconds): ?array
    {
        while (($end = strpos($this->arrived, "\n", $this->searched)) === false) {
            $this->searched = strlen($this->arrived);
            if (!$this->select([$this->stream], null, $seconds)) {
                return null;
            }
            $more = (string) @fread($this->stream, 1 << 16);
            if ($more === '' && feof($this->stream)) {
                throw new KeeperGone('the keeper of a worker has ended');
            }
            $this->arrived .= $more;
        }
        $line = substr($this->arrived, 0, $end);
        $this->arrived = substr($this->arrived, $end + 1);
        $this->searched = 0;
        return json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    }

    private function select(?array $read, ?array $write, float $seconds): bool
    {
        $none = null;
        $micros = (int) (max($seconds, 0) * 1_000_000);
        // It warns of a signal.
        return (bool) @stream_select($read, $write, $none, intdiv($micros, 1_000_000), $micros % 1_000_000);
    }

    public function close(): void
    {
        fclose($this->stream);
    }
}
