package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;

/** Messages that come again while their jobs are here, and servers that are away. */
class AgainTest {
    private static final Through.Way NOT_NOW = (sql, run) -> {
        throw new SQLException("not now");
    };

    @Test
    void aJobThatTakesLongerThanItsLeaseRunsOnce() throws Exception {
        try (Scene s = new Scene("longer_job")) {
            JobQueue<String> queue = s.made(Scene.quick("longer", s.pool), "1");
            List<Integer> seen = new CopyOnWriteArrayList<>();
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                // Until it was extended twice. The other handler would get it if it were not.
                s.untilExtended("longer", 1.5);
                seen.add(job.tries());
                worker[0].stop();
            }).lease(Duration.ofSeconds(3)).concurrency(2).build();
            worker[0].run();
            assertEquals(List.of(1), seen);
            assertEquals(0, s.count("longer"));
        }
    }

    @Test
    void aMessageThatComesAgainIsNotRunAgainButKept() throws Exception {
        try (Scene s = new Scene("again_kept")) {
            // It does not extend, so that the lease ends.
            JobQueue<String> queue = s.made(Scene.quick("again", s.through("queue_extend", NOT_NOW)), "1");
            List<Integer> ran = new CopyOnWriteArrayList<>();
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                ran.add(job.tries());
                String token = job.token();
                long fence = job.fence();
                s.until("it comes again", () -> job.tries() > 1 && !job.token().equals(token) && job.fence() > fence);
                worker[0].stop();
            }).lease(Duration.ofMillis(500)).concurrency(2).log(new Book()).build();
            worker[0].run();
            assertEquals(List.of(1), ran);
            assertEquals(List.of(0, 0), List.of(s.count("again"), s.count("again_dead")));
        }
    }

    @Test
    void aMessageThatIsBackBeforeItsEndIsKnownRunsAgainWhenThereIsRoom() throws Exception {
        try (Scene s = new Scene("back")) {
            List<String> ran = new CopyOnWriteArrayList<>();
            AtomicInteger running = new AtomicInteger();
            AtomicInteger most = new AtomicInteger();
            AtomicInteger leases = new AtomicInteger();
            CountDownLatch returned = new CountDownLatch(1);
            CountDownLatch otherBegan = new CountDownLatch(1);
            CountDownLatch known = new CountDownLatch(1);
            List<Thread> ending = new CopyOnWriteArrayList<>();
            DataSource from = s.through("SELECT queue_", (sql, run) -> {
                if (sql.contains("queue_lease") && !ran.isEmpty()) {
                    WorkerTest.quietly("it is returned", returned);
                }
                if (run.run().contains("token")) {
                    leases.incrementAndGet();
                }
                if (sql.contains("queue_nack")) {
                    returned.countDown();
                    // The answer is held back until the other message runs: this one came again before it.
                    WorkerTest.quietly("the other one runs", otherBegan);
                    ending.add(Thread.currentThread());
                    known.countDown();
                }
            });
            JobQueue<String> queue = s.made(Scene.quick("back", from), "1", "2");
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                ran.add(job.payload() + " " + job.tries());
                most.accumulateAndGet(running.incrementAndGet(), Math::max);
                try {
                    if (job.payload().equals("2")) {
                        assertEquals(3, leases.get());
                        otherBegan.countDown();
                        Scene.await("it is known", known);
                        s.until("it has been seen to", () -> ending.get(0).getState() == Thread.State.WAITING);
                        // One that began too early has time for that.
                        s.count("back");
                    } else if (job.tries() == 1) {
                        throw new RetryException("once more", Duration.ZERO);
                    } else {
                        worker[0].stop();
                    }
                } finally {
                    running.decrementAndGet();
                }
            }).wait(Scene.PATIENCE).build();
            worker[0].run();
            assertEquals(List.of("1 1", "2 1", "1 2"), ran);
            assertEquals(1, most.get());
            assertEquals(0, s.count("back"));
        }
    }

    @Test
    void aMessageWhoseLeaseEndsBeforeItsEndIsToldEnds() throws Exception {
        try (Scene s = new Scene("late_end")) {
            Book told = new Book();
            List<Integer> ran = new CopyOnWriteArrayList<>();
            AtomicInteger leases = new AtomicInteger();
            Worker[] worker = new Worker[1];
            DataSource from = s.through("SELECT queue_", (sql, run) -> {
                // The server does not hear of the end until the message was leased again.
                if (sql.contains("queue_ack") && leases.get() < 2) {
                    throw new SQLException("not now");
                }
                if (run.run().contains("token") && leases.incrementAndGet() == 2) {
                    worker[0].stop();
                }
            });
            JobQueue<String> queue = s.made(Scene.quick("late", from), "1");
            worker[0] = queue.worker(job -> ran.add(job.tries())).lease(Duration.ofMillis(500)).concurrency(2).log(told).build();
            worker[0].run();
            assertEquals(List.of(1), ran);
            assertEquals(0, s.count("late"));
            assertTrue(told.has("came too late"));
        }
    }

    @Test
    void aJobIsToldThatSomebodyElseHasItsMessage() throws Exception {
        try (Scene s = new Scene("lost_job")) {
            Book told = new Book();
            CountDownLatch stolen = new CountDownLatch(1);
            DataSource from = s.through("queue_extend", (sql, run) -> {
                WorkerTest.quietly("it is stolen", stolen);
                run.run();
            });
            JobQueue<String> queue = s.made(Scene.quick("lost", from), "1");
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                assertFalse(job.isLost());
                worker[0].stop();
                s.value("SELECT queue_lease_json(600, 1, 'lost', 60)");
                stolen.countDown();
                s.until("it is told", job::isLost);
                throw new IllegalStateException("lost");
            }).lease(Duration.ofMillis(500)).log(told).build();
            worker[0].run();
            assertTrue(told.has("has ended while its job runs"));
            // It was given once more: the lease that ended is a failed try, and the late failure is none.
            assertEquals(List.of("1"), s.failures("lost"));
        }
    }

    @Test
    void aMessageThatWasLostAndComesAgainIsExtendedAgain() throws Exception {
        try (Scene s = new Scene("found")) {
            CountDownLatch stolen = new CountDownLatch(1);
            AtomicInteger leases = new AtomicInteger();
            DataSource from = s.through("SELECT queue_", (sql, run) -> {
                // The thief is the first to get it when its lease has ended.
                if (sql.contains("queue_extend") || sql.contains("queue_lease") && leases.incrementAndGet() > 1) {
                    WorkerTest.quietly("it is stolen", stolen);
                }
                run.run();
            });
            JobQueue<String> queue = s.made(Scene.quick("found", from), "1");
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                s.value("SELECT queue_lease_json(0.3, 1, 'found', 60)");
                String token = job.token();
                stolen.countDown();
                s.until("it comes again", () -> !job.token().equals(token));
                s.untilExtended("found", 0.5);
                assertEquals(List.of(3, false), List.of(job.tries(), job.isLost()));
                worker[0].stop();
            }).lease(Duration.ofSeconds(2)).concurrency(2).log(new Book()).build();
            worker[0].run();
            assertEquals(0, s.count("found"));
        }
    }

    @Test
    void aWorkerContinuesWhenTheServerWasAway() throws Exception {
        try (Scene s = new Scene("away"); Bridge bridge = new Bridge()) {
            JobQueue<String> queue = s.made(Scene.quick("away", s.pool(Scene.url(bridge.port(), s.database, ""), 5, true)), "1");
            Book told = new Book();
            List<String> ran = new CopyOnWriteArrayList<>();
            CountDownLatch began = new CountDownLatch(1);
            CountDownLatch mayEnd = new CountDownLatch(1);
            Worker worker = queue.worker(job -> {
                ran.add(job.payload() + " " + job.tries());
                began.countDown();
                Scene.await("it may end", mayEnd);
            }).wait(Scene.LONG).concurrency(2).log(told).build();
            worker.start();
            Scene.await("it begins", began);
            s.untilWaiting(1);
            bridge.shut();
            s.untilWaiting(0);
            s.put(queue, "2");
            mayEnd.countDown();
            // The job has ended, and the server does not know yet.
            for (String text : List.of("ends of jobs could not be told", "the queue can't be asked")) {
                s.until(text, () -> told.has(text));
            }
            assertEquals(List.of("0"), s.failures("away"));
            bridge.reopen();
            s.until("both are done", () -> s.count("away") == 0);
            worker.close();
            assertEquals(List.of("1 1", "2 1"), ran);
        }
    }

    @Test
    void aWorkerStopsAlsoWhenTheServerIsAway() throws Exception {
        try (Scene s = new Scene("stays_away"); Bridge bridge = new Bridge()) {
            JobQueue<String> queue = s.made(Scene.quick("away", s.pool(Scene.url(bridge.port(), s.database, ""), 5, true)), "1");
            Book told = new Book();
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                bridge.shut();
                worker[0].stop();
            }).lease(Duration.ofSeconds(1)).log(told).build();
            worker[0].run();
            assertTrue(told.has("it comes again when its lease has ended"));
            // Its lease ends by itself.
            assertEquals(2, s.taken(queue, new Take().wait(Scene.PATIENCE)).tries());
        }
    }

    @Test
    void anExtensionThatIsNotAnsweredDoesNotHoldUpTheNext() throws Exception {
        try (Scene s = new Scene("silent"); Bridge bridge = new Bridge()) {
            JobQueue<String> queue = s.made(Scene.quick("silent", s.pool(Scene.url(bridge.port(), s.database, "&connectTimeout=1000"), 5, true)), "1");
            Book told = new Book();
            Worker[] worker = new Worker[1];
            worker[0] = queue.worker(job -> {
                s.untilExtended("silent", 0.5);
                // Nothing arrives any more, and nothing is closed.
                bridge.pass.writeLock().lock();
                try {
                    s.until("it is seen", () -> told.has("leases could not be extended"));
                } finally {
                    bridge.pass.writeLock().unlock();
                }
                s.untilExtended("silent", 0.5);
                worker[0].stop();
            }).lease(Duration.ofSeconds(3)).log(told).build();
            worker[0].run();
            assertEquals(0, s.count("silent"));
        }
    }

    @Test
    void aWaitThatCannotBeKilledEndsWithItsConnection() throws Exception {
        try (Scene s = new Scene("unkilled"); Bridge bridge = new Bridge()) {
            JobQueue<String> queue = s.made(Scene.quick("q", s.pool));
            Connection on = java.sql.DriverManager.getConnection(
                    Scene.url(bridge.port(), s.database, "&connectTimeout=500"));
            Scene.Beside taking = new Scene.Beside(() -> queue.take(on, new Take().wait(Scene.LONG), (job, connection) -> { }));
            s.untilWaiting(1);
            bridge.pass.writeLock().lock();
            try {
                taking.thread.interrupt();
                assertTrue(taking.end() instanceof InterruptedException);
                assertTrue(on.isClosed());
            } finally {
                bridge.pass.writeLock().unlock();
            }
            bridge.shut();
            s.untilWaiting(0);
            s.put(queue, "1");
            assertEquals(1, s.taken(queue).tries());
            assertNull(s.taken(queue));
        }
    }
}
