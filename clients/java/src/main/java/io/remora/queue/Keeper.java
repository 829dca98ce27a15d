package io.remora.queue;

import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;

/**
 * Extends leases while the work continues, on a connection of its own. Jobs that end before their first
 * extension cost no connection.
 */
final class Keeper implements AutoCloseable {
    // A lease is extended so often while it lasts. Two tries may fail before it ends.
    private static final int EXTENSIONS = 3;
    // For so long the end of an extension that is under way is waited for.
    private static final long PATIENCE_MS = 5000;

    private final Line line;
    private final Duration lease;
    private final System.Logger log;
    private final Set<Leased> jobs = new HashSet<>();
    private final CountDownLatch closing = new CountDownLatch(1);
    private Thread thread;

    /** One that extends when it is told to, for tests. */
    Keeper(DataSource from, Duration lease, System.Logger log) {
        this.line = new Line(from);
        this.lease = lease;
        this.log = log;
    }

    static Keeper start(DataSource from, Duration lease, System.Logger log) {
        Keeper made = new Keeper(from, lease, log);
        made.thread = Connections.start("remora-queue-extend", made::run);
        return made;
    }

    synchronized void add(Leased job) {
        jobs.add(job);
    }

    synchronized void remove(Leased job) {
        jobs.remove(job);
    }

    /** Ends also an extension that is under way: a broken connection may never answer. */
    @Override
    public void close() {
        closing.countDown();
        line.abort();
        // A pool hears this while it has no connection.
        thread.interrupt();
        boolean isInterrupted = Thread.interrupted();
        try {
            thread.join(PATIENCE_MS);
        } catch (InterruptedException interrupt) {
            isInterrupted = true;
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        try (line) {
            long every = Math.max(lease.toMillis() / EXTENSIONS, 1);
            while (!closing.await(every, TimeUnit.MILLISECONDS)) {
                try {
                    extend();
                } catch (SQLException | RuntimeException error) {
                    if (closing.getCount() > 0) {
                        log.log(System.Logger.Level.WARNING, "leases could not be extended, which is tried again",
                                error);
                    }
                }
            }
        } catch (InterruptedException interrupt) {
            // It is closed.
        }
    }

    void extend() throws SQLException {
        Map<String, Leased> byToken = byToken();
        List<String> tokens = new ArrayList<>(byToken.keySet());
        for (int from = 0; from < tokens.size(); from += Sql.TOKENS_AT_ONCE) {
            List<String> some = tokens.subList(from, Math.min(from + Sql.TOKENS_AT_ONCE, tokens.size()));
            // A connection that does not answer must not use up the lease.
            String[] answer = line.run(Sql.extend(some, lease), lease);
            for (String token : Leased.staleIn(answer)) {
                lose(byToken.get(token), token);
            }
        }
    }

    private synchronized Map<String, Leased> byToken() {
        Map<String, Leased> made = new LinkedHashMap<>();
        jobs.forEach(job -> made.put(job.token(), job));
        return made;
    }

    /**
     * Tells a job that its lease has ended. One that is leased again meanwhile has another token, and one
     * that has ended is gone.
     */
    private synchronized void lose(Leased job, String token) {
        if (job != null && jobs.contains(job) && job.token().equals(token)) {
            jobs.remove(job);
            log.log(System.Logger.Level.WARNING, "the lease has ended while its job runs: {0}", token);
            job.lose();
        }
    }
}
