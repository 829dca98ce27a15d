package io.remora.queue;

import java.time.Duration;

/** For a handler to throw: a failed try that is expected, so nothing is logged. */
public final class RetryException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Duration delay;

    /** Try again, as the queue's backoff says. The reason is what the next try is told: {@link Job#why()}. */
    public RetryException(String reason) {
        this(reason, null);
    }

    /** Try again after this time. */
    public RetryException(String reason, Duration delay) {
        super(reason);
        this.delay = delay;
    }

    /** How long the message waits. Null: as the queue's backoff says. */
    public Duration delay() {
        return delay;
    }
}
