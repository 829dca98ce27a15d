package io.remora.queue.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.remora.queue.Job;
import io.remora.queue.JobQueue;
import io.remora.queue.Put;
import io.remora.queue.Scene;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.BeanCreationException;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionSystemException;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionTemplate;

class SpringTest {
    /** What the database of a test is called, for the beans. */
    private static Scene scene;

    @Configuration
    @EnableTransactionManagement
    static class Config {
        static final AtomicBoolean FAILS = new AtomicBoolean();

        @Bean(destroyMethod = "")
        DataSource dataSource() {
            return scene.pool;
        }

        @Bean
        PlatformTransactionManager manager(DataSource dataSource) {
            return new JdbcTransactionManager(dataSource) {
                private static final long serialVersionUID = 1;

                @Override
                protected void doCommit(DefaultTransactionStatus status) {
                    if (FAILS.getAndSet(false)) {
                        throw new TransactionSystemException("no COMMIT");
                    }
                    super.doCommit(status);
                }
            };
        }

        @Bean
        JobQueue<String> mails(DataSource dataSource) {
            return Scene.quick("mails", dataSource).build();
        }

        @Bean
        JobQueue<String> orders(DataSource dataSource) {
            return Scene.quick("orders", dataSource).build();
        }

        @Bean
        QueueTemplate template(DataSource dataSource) {
            return new QueueTemplate(dataSource);
        }

        @Bean
        JdbcTemplate jdbc(DataSource dataSource) {
            return new JdbcTemplate(dataSource);
        }

        @Bean
        static QueueListeners listeners() {
            return new QueueListeners();
        }

        @Bean
        Stock stock(JdbcTemplate jdbc) {
            return new Stock(jdbc);
        }

        @Bean
        Listener listener(Stock stock, JdbcTemplate jdbc) {
            return new Listener(stock, jdbc);
        }
    }

    static class Stock {
        private final JdbcTemplate jdbc;

        Stock(JdbcTemplate jdbc) {
            this.jdbc = jdbc;
        }

        @Transactional
        public void note(String what) {
            jdbc.update("INSERT INTO done VALUES (?)", what);
            if (what.startsWith("wrong")) {
                throw new IllegalStateException("wrong");
            }
        }
    }

    static class Listener {
        static final List<String> SEEN = new CopyOnWriteArrayList<>();
        private final Stock stock;
        private final JdbcTemplate jdbc;

        Listener(Stock stock, JdbcTemplate jdbc) {
            this.stock = stock;
            this.jdbc = jdbc;
        }

        @QueueListener(value = "mails", concurrency = 2, lease = 10, where = "payload != 'hidden'")
        void mail(String payload) {
            SEEN.add("mail " + payload);
        }

        @QueueListener(value = "orders", transaction = true)
        void order(Job<String> job) {
            SEEN.add(job.payload() + " " + job.tries() + " " + job.why());
            switch (job.payload() + " " + job.tries()) {
                case "later 1" -> {
                    jdbc.update("INSERT INTO done VALUES ('never')");
                    throw new IllegalStateException("not yet");
                }
                case "commit 1" -> {
                    stock.note("never");
                    Config.FAILS.set(true);
                }
                case "caught 1" -> {
                    try {
                        stock.note("wrong");
                    } catch (IllegalStateException caught) {
                        // Spring has marked the transaction.
                    }
                }
                case "fail 1" -> job.fail("by itself");
                default -> stock.note(job.payload());
            }
        }
    }

    private static AnnotationConfigApplicationContext start(Class<?>... more) throws Exception {
        scene.made(Scene.quick("mails", scene.pool));
        scene.made(Scene.quick("orders", scene.pool));
        scene.run("CREATE TABLE done (what VARCHAR(20)) ENGINE=InnoDB");
        Listener.SEEN.clear();
        AnnotationConfigApplicationContext made = new AnnotationConfigApplicationContext();
        made.register(Config.class);
        List.of(more).forEach(made::register);
        made.refresh();
        return made;
    }

    @Test
    void aPutIsAPartOfSpringsTransaction() throws Exception {
        try (Scene s = new Scene("spring_put")) {
            scene = s;
            try (AnnotationConfigApplicationContext context = start()) {
                context.getBean(QueueListeners.class).stop();
                QueueTemplate template = context.getBean(QueueTemplate.class);
                JobQueue<String> mails = mails(context);
                TransactionTemplate transaction = new TransactionTemplate(context.getBean(PlatformTransactionManager.class));
                transaction.execute(status -> {
                    template.put(mails, "1");
                    status.setRollbackOnly();
                    return null;
                });
                assertEquals(0, s.count("mails"));
                transaction.execute(status -> template.put(mails, "2"));
                template.put(mails, "3", new Put().delay(Duration.ofHours(1)));
                assertEquals(2, s.count("mails"));
                JobQueue<String> nothing = JobQueue.builder("nothing").build();
                assertThrows(DataAccessException.class, () -> template.put(nothing, "1"));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static JobQueue<String> mails(AnnotationConfigApplicationContext context) {
        return context.getBean("mails", JobQueue.class);
    }

    @Test
    void listenersDoTheWorkInTheTransactionsOfTheManager() throws Exception {
        try (Scene s = new Scene("spring_work")) {
            scene = s;
            try (AnnotationConfigApplicationContext context = start()) {
                JobQueue<String> orders = JobQueue.builder("orders").build();
                s.put(mails(context), "a", "hidden", "b");
                s.put(orders, "now", "later", "commit", "caught", "fail");
                s.until("all are done", () -> s.count("mails") == 1 && s.count("orders") == 0);
                assertEquals(List.of("caught", "commit", "fail", "later", "now"), s.rows("SELECT what FROM done ORDER BY what"));
                assertEquals(List.of("caught 1 null", "caught 2 the transaction of the job was marked as rollback-only",
                        "commit 1 null", "commit 2 no COMMIT", "fail 1 null", "fail 2 by itself", "later 1 null",
                        "later 2 not yet", "mail a", "mail b", "now 1 null"), Listener.SEEN.stream().sorted().toList());
            }
            assertEquals(0, s.pool.getHikariPoolMXBean().getActiveConnections());
        }
    }

    @Test
    void theContextStopsAndStartsThem() throws Exception {
        try (Scene s = new Scene("spring_life")) {
            scene = s;
            AnnotationConfigApplicationContext context = start();
            QueueListeners listeners = context.getBean(QueueListeners.class);
            s.untilWaiting(2);
            assertTrue(listeners.isRunning());
            context.stop();
            s.untilWaiting(0);
            assertFalse(listeners.isRunning());
            context.start();
            s.untilWaiting(2);
            context.close();
            s.untilWaiting(0);
            assertEquals(0, s.pool.getHikariPoolMXBean().getActiveConnections());
        }
    }

    static class Wrong {
        @QueueListener("mails")
        void nothing() {
        }
    }

    @Test
    void aMethodWithoutAParameterIsRefused() throws Exception {
        try (Scene s = new Scene("spring_wrong")) {
            scene = s;
            assertThrows(BeanCreationException.class, () -> start(Wrong.class));
        }
    }
}
