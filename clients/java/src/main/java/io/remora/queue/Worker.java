package io.remora.queue;

import io.remora.queue.Ender.Ending;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import javax.sql.DataSource;

/**
 * Runs a handler for the messages of a queue, in threads of its own. {@link JobQueue#worker}, {@link
 * JobQueue#batchWorker} and {@link JobQueue#transactionWorker} make one.
 *
 * <p>While the server is away, it tries again. An error that would come again at every try ends it: that of
 * the driver for a wrong privilege, condition or table.
 */
public final class Worker implements AutoCloseable {
    private final JobQueue<?> queue;
    private final Builder options;
    private final Handling handling;
    private final Transactions transactions;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    // Groups of jobs that nobody has begun.
    private final Deque<List<Leased>> ready = new ArrayDeque<>();
    // By key, until their messages have ended.
    private final Map<String, Leased> running = new HashMap<>();
    // How many handlers run.
    private int busy;
    private volatile boolean isStopping;
    // Leases messages, and then waits for the end of all. Null when the worker does not run.
    private Thread fetcher;
    // Whether the fetcher still leases: an interrupt ends that.
    private boolean isFetching;
    private Throwable failure;
    private Keeper keeper;
    private Ender ender;
    private ExecutorService threads;

    private Worker(Builder options) {
        this.queue = options.queue;
        this.options = options;
        this.transactions =
                options.transactions == null ? new JdbcTransactions(options.dataSource) : options.transactions;
        this.handling = options.work == null ? options.handling : jobs -> commit(jobs.get(0));
    }

    /** Starts it, and returns. Its threads keep the program alive. */
    public void start() {
        start(false);
    }

    private void start(boolean isOnce) {
        lock.lock();
        try {
            if (fetcher != null) {
                throw new IllegalStateException("this worker runs already; make another one");
            }
            isStopping = false;
            failure = null;
            keeper = Keeper.start(options.dataSource, options.lease, options.log);
            ender = new Ender(options.dataSource, options.lease, options.log, this::ended);
            threads = Executors.newCachedThreadPool(options.threads);
            isFetching = true;
            fetcher = new Thread(() -> live(isOnce), "remora-queue-" + queue.name());
            fetcher.start();
        } finally {
            lock.unlock();
        }
    }

    /** Lets it take nothing more; the jobs that run end. A handler may call this. It does not wait. */
    public void stop() {
        lock.lock();
        try {
            isStopping = true;
            if (isFetching) {
                fetcher.interrupt();
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Whether it was started and has not ended. */
    public boolean isRunning() {
        lock.lock();
        try {
            return fetcher != null;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Waits until it has ended.
     *
     * @throws SQLException why it has ended by itself
     */
    public void await() throws SQLException, InterruptedException {
        lock.lockInterruptibly();
        try {
            while (fetcher != null) {
                changed.await();
            }
            if (failure instanceof SQLException error) {
                throw error;
            }
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Works until it is stopped. An interrupt stops it, too: when the jobs that run have ended, that is
     * thrown.
     */
    public void run() throws SQLException, InterruptedException {
        run(false);
    }

    /** Works until nothing waits and no job runs, for cron and tests. */
    public void runOnce() throws SQLException, InterruptedException {
        run(true);
    }

    private void run(boolean isOnce) throws SQLException, InterruptedException {
        start(isOnce);
        try {
            await();
        } catch (InterruptedException interrupt) {
            close();
            throw interrupt;
        }
    }

    /**
     * Stops it, and waits until the jobs that run have ended. An interrupt meanwhile interrupts the handlers.
     * No handler may call this.
     */
    @Override
    public void close() {
        boolean isInterrupted = false;
        stop();
        lock.lock();
        try {
            while (fetcher != null) {
                try {
                    changed.await();
                } catch (InterruptedException interrupt) {
                    isInterrupted = true;
                    threads.shutdownNow();
                }
            }
        } finally {
            lock.unlock();
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void live(boolean isOnce) {
        Thread ending = new Thread(ender::run, "remora-queue-end");
        ending.start();
        Throwable error = null;
        try {
            fetch(isOnce);
        } catch (SQLException | RuntimeException | Error fetching) {
            options.log.log(System.Logger.Level.ERROR, "the worker ends", fetching);
            error = fetching;
        }
        lock.lock();
        try {
            isFetching = false;
            isStopping = true;
            ready.forEach(jobs -> end(jobs.stream().map(Ending::untried).toList()));
            ready.clear();
            while (busy > 0) {
                changed.awaitUninterruptibly();
            }
        } finally {
            lock.unlock();
        }
        // Of stop(), which interrupts nothing from here on.
        Thread.interrupted();
        ender.finish();
        joinUninterruptibly(ending);
        keeper.close();
        threads.shutdown();
        lock.lock();
        try {
            failure = error;
            fetcher = null;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private static void joinUninterruptibly(Thread thread) {
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException interrupt) {
                // Nobody else knows this thread.
            }
        }
    }

    /** Leases messages until the worker is to stop. The exception is one that would come again. */
    private void fetch(boolean isOnce) throws SQLException {
        Pauses pauses = new Pauses();
        try (Line line = new Line(options.dataSource)) {
            for (int free = untilFree(); free > 0; free = untilFree()) {
                // A job that ends while the server answers may have put something after the answer.
                boolean wasIdle = isIdle();
                try {
                    boolean hasFound = leaseSome(line, free, isOnce ? Duration.ZERO : options.wait);
                    pauses.reset();
                    if (isOnce && !hasFound) {
                        if (wasIdle) {
                            return;
                        }
                        untilIdle();
                    }
                } catch (SQLException | RuntimeException error) {
                    if (isStopping) {
                        return;
                    }
                    if (Errors.isLasting(error)) {
                        throw error;
                    }
                    if (!Errors.isInterrupted(error)) {
                        options.log.log(System.Logger.Level.WARNING,
                                "the queue can't be asked, which is tried again", error);
                        pause(pauses.next());
                    }
                }
            }
        }
    }

    private void pause(Duration time) {
        lock.lock();
        try {
            long left = time.toNanos();
            while (!isStopping && left > 0) {
                left = changed.awaitNanos(left);
            }
        } catch (InterruptedException interrupt) {
            // It is to stop.
        } finally {
            lock.unlock();
        }
    }

    /** Waits until handlers have nothing to do: how many. 0 when the worker is to stop. */
    private int untilFree() {
        lock.lock();
        try {
            while (!isStopping) {
                int free = options.concurrency - busy - ready.size();
                if (free > 0) {
                    return free;
                }
                changed.awaitUninterruptibly();
            }
            return 0;
        } finally {
            lock.unlock();
        }
    }

    private boolean isIdle() {
        lock.lock();
        try {
            return running.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    private void untilIdle() {
        lock.lock();
        try {
            while (!isStopping && !running.isEmpty()) {
                changed.awaitUninterruptibly();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Leases what can begin at once. Whether there was something. */
    private boolean leaseSome(Line line, int free, Duration wait) throws SQLException {
        line.check(on -> queue.checkLease(on, options.where, options.work != null));
        String sql = Sql.lease(queue.table(), options.where, options.lease, free * options.batch, wait);
        String[] answer = line.await(sql, wait.plus(Sql.max(options.lease, Sql.ANSWER)), options.log);
        List<Leased> found = Leased.allOf(answer);
        lock.lock();
        try {
            List<Leased> fresh = new ArrayList<>();
            for (Leased job : found) {
                if (!runsAlready(job)) {
                    fresh.add(job);
                }
            }
            beginSome(fresh);
        } finally {
            lock.unlock();
        }
        return !found.isEmpty();
    }

    // What follows is called with the lock, unless it says so.

    /** Whether this message is here: its lease has ended, or it was returned, and it came again. */
    private boolean runsAlready(Leased job) {
        Leased runs = running.putIfAbsent(job.key(), job);
        if (runs != null && runs.comesAgain(job)) {
            keeper.add(runs);
        }
        return runs != null;
    }

    /** Begins jobs, as many as handlers are free for. */
    private void beginSome(List<Leased> jobs) {
        jobs.forEach(keeper::add);
        for (int from = 0; from < jobs.size(); from += options.batch) {
            ready.add(List.copyOf(jobs.subList(from, Math.min(from + options.batch, jobs.size()))));
        }
        while (!ready.isEmpty() && busy < options.concurrency && !isStopping) {
            List<Leased> next = ready.remove();
            busy++;
            try {
                threads.execute(() -> work(next));
            } catch (OutOfMemoryError error) {
                // There is no thread more.
                options.log.log(System.Logger.Level.ERROR, "a handler could not begin", error);
                busy--;
                end(next.stream().map(Ending::untried).toList());
            }
        }
        changed.signalAll();
    }

    /** Runs the handler for jobs, and ends them. Without the lock. */
    private void work(List<Leased> jobs) {
        Throwable error = null;
        try {
            handling.handle(jobs);
        } catch (Throwable thrown) {
            // Also an Error: a job must not end the worker.
            error = thrown;
        }
        if (error != null && Errors.find(error, RetryException.class) == null) {
            options.log.log(System.Logger.Level.WARNING, "a handler has failed: " + jobs.get(0).token(), error);
        }
        lock.lock();
        try {
            busy--;
            List<Ending> ends = new ArrayList<>();
            for (Leased job : jobs) {
                Throwable why = job.failure() == null ? error : job.failure();
                if (why != null) {
                    ends.add(Ending.failed(job, why));
                } else if (options.work == null) {
                    ends.add(Ending.done(job));
                } else {
                    forget(Ending.done(job), false);
                }
            }
            end(ends);
            beginSome(List.of());
        } finally {
            lock.unlock();
        }
    }

    /** Does work and the end of its message in one transaction. Without the lock. */
    private void commit(Leased job) throws Exception {
        transactions.run(EndingWork.of(job, () -> over(job), on -> options.work.run(job, on)));
    }

    /** The handler of a job has ended: from now on its token does not change. */
    private void over(Leased job) {
        job.over();
        keeper.remove(job);
    }

    /** Ends jobs, with as few statements as it takes. */
    private void end(Collection<Ending> some) {
        some.forEach(one -> over(one.job()));
        ender.end(some);
    }

    /** A token was used. Without the lock. */
    private void ended(Ending ending, boolean isStale) {
        lock.lock();
        try {
            forget(ending, isStale);
        } finally {
            lock.unlock();
        }
    }

    /**
     * For a job whose token was used. If it was stale, the message that is here again ends in the same way.
     */
    private void forget(Ending ending, boolean isStale) {
        running.remove(ending.job().key());
        Leased again = ending.job().again();
        if (again != null) {
            running.put(again.key(), again);
            if (isStale) {
                end(List.of(ending.of(again)));
            } else if (isStopping) {
                end(List.of(Ending.untried(again)));
            } else {
                beginSome(List.of(again));
            }
        }
        changed.signalAll();
    }

    /** What a worker does with jobs. */
    @FunctionalInterface
    interface Handling {
        void handle(List<Leased> jobs) throws Exception;
    }

    /** What a worker does with a job in a transaction. */
    @FunctionalInterface
    interface Within {
        void run(Leased job, Connection connection) throws Exception;
    }

    /** Makes a worker. */
    public static final class Builder implements Cloneable {
        final JobQueue<?> queue;
        Handling handling;
        int batch = 1;
        System.Logger log = System.getLogger("io.remora.queue");
        private final Within work;
        private DataSource dataSource;
        private Transactions transactions;
        private Duration lease = Sql.LEASE;
        private Duration wait = Duration.ofSeconds(20);
        private int concurrency = 1;
        private String where;
        private ThreadFactory threads = Executors.defaultThreadFactory();

        Builder(JobQueue<?> queue, Within work, Handling handling) {
            this.queue = queue;
            this.work = work;
            this.handling = handling;
            this.dataSource = queue.dataSource;
        }

        /** The worker. It does not run yet. */
        public Worker build() {
            Objects.requireNonNull(dataSource, "a worker needs a DataSource, of its own or of its queue");
            try {
                return new Worker((Builder) clone());
            } catch (CloneNotSupportedException error) {
                throw new AssertionError(error);
            }
        }

        /**
         * Where connections are from; by default that of the queue. A worker has up to three of its own, and
         * with transactions one more for each handler.
         */
        public Builder dataSource(DataSource dataSource) {
            this.dataSource = dataSource;
            return this;
        }

        /**
         * Where the transactions of a {@link JobQueue#transactionWorker} are from; by default the DataSource.
         */
        public Builder transactions(Transactions transactions) {
            this.transactions = transactions;
            return this;
        }

        /**
         * A lease is extended while its job runs. So it is for how long a message is away when its worker is
         * killed. By default 30 seconds.
         */
        public Builder lease(Duration lease) {
            this.lease = Sql.positive(lease, "a lease");
            return this;
        }

        /**
         * For how long the server waits for a message before the worker asks again. By default 20 seconds.
         */
        public Builder wait(Duration wait) {
            this.wait = Sql.notNegative(wait, "a wait");
            return this;
        }

        /** How many handlers run at the same time. By default 1. */
        public Builder concurrency(int concurrency) {
            this.concurrency = Sql.positive(concurrency, "a concurrency");
            return this;
        }

        /** A condition, for example {@code priority < 3}. {@link JobQueue#literal} quotes values. */
        public Builder where(String where) {
            this.where = where;
            return this;
        }

        /** Makes the threads that handlers run in. They are used again. */
        public Builder threads(ThreadFactory threads) {
            this.threads = threads;
            return this;
        }

        /** Is told what went wrong. By default, the logger {@code io.remora.queue}. */
        public Builder log(System.Logger log) {
            this.log = log;
            return this;
        }
    }
}
