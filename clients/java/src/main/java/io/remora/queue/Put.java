package io.remora.queue;

import java.time.Duration;
import java.time.Instant;

/**
 * When and how a message is to be given: {@code new Put().delay(Duration.ofMinutes(1)).key("ann")}. Each
 * method returns another object.
 */
public final class Put {
    final Duration delay;
    final Instant at;
    final String key;
    final String dedupe;
    final int priority;
    final boolean isOutside;

    /** At once, and a part of the connection's transaction. */
    public Put() {
        this(null, null, null, null, 0, false);
    }

    private Put(Duration delay, Instant at, String key, String dedupe, int priority, boolean isOutside) {
        this.delay = delay;
        this.at = at;
        this.key = key;
        this.dedupe = dedupe;
        this.priority = priority;
        this.isOutside = isOutside;
    }

    /** The time from now on, by the server's clock, to the microsecond. */
    public Put delay(Duration delay) {
        return new Put(delay, at, key, dedupe, priority, isOutside);
    }

    /** When the message is given. Not with a delay. */
    public Put at(Instant at) {
        return new Put(delay, at, key, dedupe, priority, isOutside);
    }

    /** For queues with fifo: messages with the same key come one at a time and in order. */
    public Put key(String key) {
        return new Put(delay, at, key, dedupe, priority, isOutside);
    }

    /** For queues with dedupe: the message is left out if one with the same value came before. */
    public Put dedupe(String dedupe) {
        return new Put(delay, at, key, dedupe, priority, isOutside);
    }

    /** For queues with priority: the lowest comes first. */
    public Put priority(int priority) {
        return new Put(delay, at, key, dedupe, priority, isOutside);
    }

    /** It is meant that ROLLBACK does not undo the put into a plain queue. */
    public Put outsideTransaction() {
        return new Put(delay, at, key, dedupe, priority, true);
    }
}
