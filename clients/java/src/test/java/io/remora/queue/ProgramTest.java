package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Workers in processes of their own, which are stopped and killed. */
class ProgramTest {
    // As Java ends because of a signal.
    private static final int TERMINATED = 128 + 15;
    private static final int KILLED = 128 + 9;

    private static Process start(Scene s, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(),
                "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Ddriver=" + Scene.DRIVER, "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                "io.remora.queue.Work", s.database));
        command.addAll(List.of(arguments));
        Process made = new ProcessBuilder(command).inheritIO().start();
        s.atEnd(made::destroyForcibly);
        return made;
    }

    private static int end(Process program) throws InterruptedException {
        assertTrue(program.waitFor(Scene.PATIENCE.toSeconds(), TimeUnit.SECONDS), "the program ends");
        return program.exitValue();
    }

    private static JobQueue<String> prepare(Scene s) throws SQLException {
        s.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
        return s.made(JobQueue.builder("jobs").tries(50).backoff(Duration.ZERO, 1, Duration.ZERO));
    }

    @Test
    void aSignalEndsTheWaitAndLetsJobsEnd() throws Exception {
        try (Scene s = new Scene("program_busy")) {
            JobQueue<String> queue = prepare(s);
            Process idle = start(s, "jobs", "plain");
            s.untilWaiting(1);
            idle.destroy();
            // It would wait for ten minutes.
            assertEquals(TERMINATED, end(idle));
            Process program = start(s, "jobs", "transaction");
            s.untilWaiting(1);
            // Its job waits for this table.
            try (Connection holder = s.connection()) {
                Scene.execute(holder, "LOCK TABLES done WRITE");
                s.put(queue, "1");
                s.until("the job waits", () -> s.value("SELECT COUNT(*) FROM information_schema.processlist WHERE db = '"
                        + s.database + "' AND info LIKE 'INSERT INTO done%'").equals("1"));
                program.destroy();
                // The signal was handled when the wait has ended, and the job runs on.
                s.untilWaiting(0);
                assertTrue(program.isAlive());
            }
            assertEquals(TERMINATED, end(program));
            assertEquals(List.of(1, 0), List.of(s.count("done"), s.count("jobs")));
        }
    }

    /** Does 100 jobs with workers that are killed again and again: how often one was done. */
    private static int killAtRandom(String kind) throws Exception {
        try (Scene s = new Scene("program_" + kind)) {
            JobQueue<String> queue = prepare(s);
            List<String> payloads = new ArrayList<>();
            for (int number = 0; number < 100; number++) {
                payloads.add(String.valueOf(number));
            }
            s.putAll(queue, payloads);
            Random chance = new Random(7);
            while (s.count("jobs") > 0) {
                Process program = start(s, "jobs", kind, "0.5");
                int enough = s.count("done") + 10 + chance.nextInt(50);
                s.until("the worker does something", () -> s.count("done") >= enough || s.count("jobs") == 0);
                program.destroyForcibly();
                assertEquals(KILLED, end(program));
            }
            assertEquals(0, s.count("jobs_dead"));
            assertEquals("100", s.value("SELECT COUNT(DISTINCT n) FROM done"));
            return s.count("done");
        }
    }

    @Test
    void noJobIsLostWhenWorkersAreKilled() throws Exception {
        assertTrue(killAtRandom("plain") >= 100);
    }

    @Test
    void jobsInTransactionsAreDoneOnceWhenWorkersAreKilled() throws Exception {
        assertEquals(100, killAtRandom("transaction"));
    }
}
