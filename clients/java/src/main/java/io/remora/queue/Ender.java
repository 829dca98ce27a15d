package io.remora.queue;

import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import javax.sql.DataSource;

/**
 * Ends messages that a worker is done with: many with one statement, on a connection of its own. While the
 * server is away, ends are kept.
 */
final class Ender {
    /** A job that is to end, and how: it has failed, it was not tried, or it is done. */
    record Ending(Leased job, Failure failed, boolean isUntried) {
        static Ending done(Leased job) {
            return new Ending(job, null, false);
        }

        static Ending untried(Leased job) {
            return new Ending(job, null, true);
        }

        static Ending failed(Leased job, Throwable error) {
            return new Ending(job, Failure.of(error), false);
        }

        /** The same end for another job. */
        Ending of(Leased other) {
            return new Ending(other, failed, isUntried);
        }

        /** Whether one statement can end both. */
        boolean isLike(Ending other) {
            return isUntried == other.isUntried && Objects.equals(failed, other.failed);
        }

        String statement(Collection<String> tokens) {
            if (isUntried) {
                return Sql.release(tokens);
            }
            return failed == null ? Sql.ack(tokens) : Sql.nack(failed, tokens);
        }
    }

    /** Is told of each job, when its token was used. */
    @FunctionalInterface
    interface After {
        void ended(Ending ending, boolean isStale);
    }

    private final Line line;
    private final Duration lease;
    private final System.Logger log;
    private final After after;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private List<Ending> left = new ArrayList<>();
    // When somebody waits for the end: until when what is left is tried.
    private Long until;

    Ender(DataSource from, Duration lease, System.Logger log, After after) {
        this.line = new Line(from);
        this.lease = lease;
        this.log = log;
        this.after = after;
    }

    void end(Collection<Ending> some) {
        lock.lock();
        try {
            left.addAll(some);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Nothing more comes. A lease that the server does not hear of in its time ends by itself. */
    void finish() {
        lock.lock();
        try {
            until = System.nanoTime() + lease.toNanos();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Ends what comes, until nothing more does. */
    void run() {
        Pauses pauses = new Pauses();
        try (line) {
            for (List<Ending> some = next(); !some.isEmpty(); some = next()) {
                try {
                    endSome(some);
                    pauses.reset();
                } catch (SQLException | RuntimeException error) {
                    log.log(System.Logger.Level.WARNING, "ends of jobs could not be told, which is tried again",
                            error);
                    if (Errors.isLasting(error) || isTooLate()) {
                        giveUp(some);
                    } else {
                        end(some);
                    }
                    pause(pauses.next());
                }
            }
        }
    }

    /**
     * Those that one statement can end, and are no longer left. There are none when all have ended, and no
     * more come.
     */
    List<Ending> next() {
        lock.lock();
        try {
            while (left.isEmpty() && until == null) {
                changed.awaitUninterruptibly();
            }
            List<Ending> some = new ArrayList<>();
            for (Iterator<Ending> all = left.iterator(); all.hasNext() && some.size() < Sql.TOKENS_AT_ONCE;) {
                Ending one = all.next();
                if (some.isEmpty() || one.isLike(some.get(0))) {
                    some.add(one);
                    all.remove();
                }
            }
            return some;
        } finally {
            lock.unlock();
        }
    }

    private boolean isTooLate() {
        lock.lock();
        try {
            return until != null && System.nanoTime() > until;
        } finally {
            lock.unlock();
        }
    }

    private void endSome(List<Ending> some) throws SQLException {
        List<String> tokens = some.stream().map(one -> one.job().token()).toList();
        String[] answer = line.run(some.get(0).statement(tokens), Sql.max(lease, Sql.ANSWER));
        Set<String> stale = Leased.staleIn(answer);
        for (Ending one : some) {
            boolean isStale = stale.contains(one.job().token());
            if (isStale && !one.isUntried()) {
                log.log(System.Logger.Level.WARNING,
                        "the end of a job came too late: its message may be worked on twice: {0}",
                        one.job().token());
            }
            after.ended(one, isStale);
        }
    }

    private void giveUp(List<Ending> some) {
        for (Ending one : some) {
            log.log(System.Logger.Level.WARNING,
                    "a job could not be ended; it comes again when its lease has ended: {0}", one.job().token());
            after.ended(one, false);
        }
    }

    private static void pause(Duration time) {
        try {
            Thread.sleep(time.toMillis());
        } catch (InterruptedException nobody) {
            // This thread is only known here.
        }
    }
}
