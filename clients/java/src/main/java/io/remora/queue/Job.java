package io.remora.queue;

import java.time.Duration;
import java.util.Collections;
import java.util.Map;

/**
 * A message that is leased, as a handler sees it.
 *
 * @param <T> the type of the payload
 */
public final class Job<T> {
    private final Leased leased;
    private final T payload;

    private Job(Leased leased, T payload) {
        this.leased = leased;
        this.payload = payload;
    }

    static <T> Job<T> of(Leased leased, Codec<T> codec) throws Exception {
        return new Job<>(leased, codec.decode(leased.row.get("payload")));
    }

    /** The column {@code payload}, as the queue's codec reads it. */
    public T payload() {
        return payload;
    }

    /** What {@code put} returned: the column {@code id} as text. Null without such a column. */
    public String id() {
        return leased.row.get("id");
    }

    /** Which try this is, counted from 1. */
    public int tries() {
        return leased.tries();
    }

    /** Why the last try has failed. Null if nobody said so. */
    public String why() {
        return leased.why;
    }

    /** All columns as text, also numbers. Binary columns are base64. */
    public Map<String, String> row() {
        return Collections.unmodifiableMap(leased.row);
    }

    /** The name of the lease. It changes if the message comes again while its job runs. */
    public String token() {
        return leased.token();
    }

    /**
     * A number that only grows, from lease to lease. What a job writes to can refuse a smaller one than it
     * has seen.
     */
    public long fence() {
        String token = token();
        String numbers = token.substring(token.lastIndexOf(':') + 1);
        return Long.parseUnsignedLong(numbers.substring(0, numbers.indexOf('-')));
    }

    /** Whether the lease has ended while the job runs, so that somebody else may have the message. */
    public boolean isLost() {
        return leased.isLost();
    }

    /** This job has failed, and why. Others of its batch are done unless they fail too. */
    public void fail(String why) {
        leased.fail(new RetryException(why));
    }

    /** This job has failed, and its message comes again after this time. */
    public void fail(String why, Duration delay) {
        leased.fail(new RetryException(why, delay));
    }
}
