package io.remora.queue;

import java.time.Duration;

/**
 * Options of {@link JobQueue#take}: {@code new Take().wait(Duration.ofSeconds(5))}. Each method returns
 * another object.
 */
public final class Take {
    final Duration lease;
    final Duration wait;
    final String where;

    /** A lease of 30 seconds, without a wait. */
    public Take() {
        this(Sql.LEASE, Duration.ZERO, null);
    }

    private Take(Duration lease, Duration wait, String where) {
        this.lease = lease;
        this.wait = wait;
        this.where = where;
    }

    /** It is extended while the work continues, if the queue has a DataSource. */
    public Take lease(Duration lease) {
        return new Take(Sql.positive(lease, "a lease"), wait, where);
    }

    /** For how long the server waits for a message. */
    public Take wait(Duration wait) {
        return new Take(lease, Sql.notNegative(wait, "a wait"), where);
    }

    /** A condition, for example {@code priority < 3}. {@link JobQueue#literal} quotes values. */
    public Take where(String where) {
        return new Take(lease, wait, where);
    }
}
