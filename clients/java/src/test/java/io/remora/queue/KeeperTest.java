package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;

/** What no server can be made to do at the right moment: answers that come too late. So there is none. */
class KeeperTest {
    /** Answers an extension with the stale tokens. */
    @FunctionalInterface
    private interface Answer {
        String stale(String sql) throws SQLException;
    }

    private static DataSource fake(Answer answer, Runnable abort) {
        String[] asked = new String[1];
        Statement statement = Through.proxy(Statement.class, (self, method, values) -> switch (method.getName()) {
            case "execute" -> {
                asked[0] = (String) values[0];
                yield true;
            }
            case "getResultSet" -> Through.rows("0", answer.stale(asked[0]));
            default -> null;
        });
        Connection connection = Through.proxy(Connection.class, (self, method, values) -> switch (method.getName()) {
            case "createStatement" -> statement;
            case "getAutoCommit" -> true;
            case "getNetworkTimeout" -> 0;
            case "abort" -> {
                abort.run();
                yield null;
            }
            default -> null;
        });
        return Through.proxy(DataSource.class, (self, method, values) -> connection);
    }

    private static Leased leased(String token) {
        return new Leased(token, 1, null, Map.of());
    }

    @Test
    void anAnswerAboutAFormerTokenIsNoneAboutTheJob() throws Exception {
        Leased again = leased("q:1-a");
        Leased ended = leased("q:2-a");
        Leased lost = leased("q:3-a");
        Book told = new Book();
        BlockingQueue<String> extended = new LinkedBlockingQueue<>();
        Keeper[] keeper = new Keeper[1];
        keeper[0] = new Keeper(fake(sql -> {
            extended.add(sql);
            // While the answer is on its way one is leased again, and one has ended.
            again.comesAgain(leased("q:4-a"));
            keeper[0].remove(ended);
            return "q:1-a,q:2-a,q:3-a";
        }, () -> {}), Duration.ofMinutes(1), told);
        for (Leased job : List.of(again, ended, lost)) {
            keeper[0].add(job);
        }
        keeper[0].extend();
        keeper[0].extend();
        extended.remove();
        assertEquals("SELECT queue_extend('q:4-a', '60.000'), queue_stale()", extended.remove());
        assertEquals(List.of(false, false, true), List.of(again.isLost(), ended.isLost(), lost.isLost()));
        assertEquals(1, told.lines().size());
    }

    @Test
    void manyTokensAreExtendedWithAFewStatements() throws Exception {
        BlockingQueue<String> extended = new LinkedBlockingQueue<>();
        Keeper keeper = new Keeper(fake(sql -> {
            extended.add(sql);
            return null;
        }, () -> {}), Duration.ofMinutes(1), new Book());
        for (int number = 0; number < 2 * Sql.TOKENS_AT_ONCE + 1; number++) {
            keeper.add(leased("q:" + number + "-a"));
        }
        keeper.extend();
        assertEquals(3, extended.size());
        assertEquals(2 * Sql.TOKENS_AT_ONCE + 1, String.join(",", extended).split("q:").length - 1);
    }

    @Test
    void theEndOfAKeeperEndsWhatItDoesAndIsNoFailure() throws Exception {
        Book told = new Book();
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch aborted = new CountDownLatch(1);
        Keeper keeper = Keeper.start(fake(sql -> {
            asked.countDown();
            // As a driver, it hears no interrupt.
            while (aborted.getCount() > 0) {
                Thread.onSpinWait();
            }
            throw new SQLException("the connection is broken");
        }, aborted::countDown), Duration.ofMillis(30), told);
        keeper.add(leased("q:1-a"));
        Scene.await("it is asked", asked);
        keeper.close();
        assertEquals(0, aborted.getCount());
        assertEquals(List.of(), told.lines());
    }

    @Test
    void aCloseKeepsAnInterrupt() {
        Keeper keeper = Keeper.start(fake(sql -> null, () -> {}), Duration.ofMinutes(1), new Book());
        Thread.currentThread().interrupt();
        keeper.close();
        assertTrue(Thread.interrupted());
        Keeper other = Keeper.start(fake(sql -> null, () -> {}), Duration.ofMinutes(1), new Book());
        other.close();
        assertFalse(Thread.interrupted());
    }
}
