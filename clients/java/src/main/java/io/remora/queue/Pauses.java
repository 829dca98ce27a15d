package io.remora.queue;

import java.time.Duration;

/** Those between tries that fail: longer and longer. */
final class Pauses {
    private static final long FIRST_MS = 100;
    private static final long MOST_MS = 5000;

    private long before;

    Duration next() {
        before = Math.min(Math.max(2 * before, FIRST_MS), MOST_MS);
        return Duration.ofMillis(before);
    }

    /** For a try that has succeeded. */
    void reset() {
        before = 0;
    }
}
