package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.remora.queue.spring.QueueListener;
import io.remora.queue.spring.QueueListeners;
import io.remora.queue.spring.QueueTemplate;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.stereotype.Component;

/** Runs the examples of the README. */
class ReadmeTest {
    record Mail(String to) {}

    static void mail(DataSource dataSource) throws Exception { // new HikariDataSource(...), for example
        JobQueue<Mail> mails = JobQueue.builder("mails", JacksonCodec.of(Mail.class))
                .dataSource(dataSource).tries(3).build();
        try (Connection connection = dataSource.getConnection()) {
            mails.create(connection); // the tables mails and mails_dead, if they are not there
            mails.put(connection, new Mail("ann@example.org"));
        }
        Worker worker = mails.worker(job -> {
            // Again in 10 seconds, then in 20; then it is in mails_dead.
            throw new IOException("no such host: " + job.payload().to());
        }).build();
        Runtime.getRuntime().addShutdownHook(new Thread(worker::close));
        worker.run(); // until SIGTERM
    }

    static void order(Connection connection) throws SQLException {
        JobQueue<String> orders = JobQueue.builder("shop.orders").fifo().build();
        orders.create(connection);
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.execute("INSERT INTO bought VALUES (7)");
        }
        orders.put(connection, "{\"number\":7}", new Put().key("ann").delay(Duration.ofMillis(500)));
        connection.commit(); // the order and its message are there, both or neither
    }

    static void fetch(JobQueue<String> pages, HttpClient client) throws SQLException, InterruptedException {
        pages.worker(job -> {
            HttpRequest request = HttpRequest.newBuilder(URI.create(job.payload())).build();
            int status = client.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
            if (status == 429) {
                throw new RetryException("too many requests", Duration.ofMinutes(1));
            } else if (status != 200) {
                throw new IOException("status " + status);
            }
        }).concurrency(20).lease(Duration.ofMinutes(1)).build().runOnce();
    }

    static boolean send(Connection connection, JobQueue<String> mails) throws SQLException, InterruptedException {
        return mails.take(connection, new Take().wait(Duration.ofSeconds(5)), (job, on) -> {
            try (PreparedStatement statement = on.prepareStatement("INSERT INTO sent VALUES (?)")) {
                statement.setString(1, job.payload());
                statement.executeUpdate();
            }
        }); // false if none came
    }

    @Configuration
    static class Queues {
        @Bean
        JobQueue<String> mails(DataSource dataSource) {
            return JobQueue.builder("mails").dataSource(dataSource).build();
        }

        @Bean
        QueueTemplate queueTemplate(DataSource dataSource) {
            return new QueueTemplate(dataSource); // put(mails, payload) joins the transaction of @Transactional
        }

        @Bean
        static QueueListeners queueListeners() {
            return new QueueListeners(); // runs the methods with @QueueListener
        }
    }

    @Component
    static class Sender {
        @Autowired
        JdbcTemplate jdbc;

        @QueueListener(value = "mails", transaction = true)
        void send(String to) {
            jdbc.update("INSERT INTO sent VALUES (?)", to); // and the end of the message: one COMMIT
        }
    }

    @Test
    void theReadmeHasTheseExamples() throws Exception {
        Path folder = Path.of(System.getProperty("basedir", "."));
        String source = Files.readString(folder.resolve("src/test/java/io/remora/queue/ReadmeTest.java"));
        List<String> examples = Pattern.compile("```java\\n(.*?)```", Pattern.DOTALL)
                .matcher(Files.readString(folder.resolve("README.md"))).results().map(found -> found.group(1)).toList();
        assertEquals(5, examples.size());
        for (String example : examples) {
            assertTrue(source.contains(example.indent(4).replaceAll("(?m)^ +$", "")), example);
        }
    }

    @Test
    void theFirstLinesDoWhatTheySay() throws Exception {
        try (Scene s = new Scene("readme_mail")) {
            Scene.Beside running = new Scene.Beside(() -> mail(s.pool));
            s.until("a try has failed", () -> exists(s, "mails") && s.failures("mails").equals(List.of("1")));
            // In ten seconds, and not at once.
            assertTrue(s.leasedUntil("mails") > System.currentTimeMillis() / 1000.0 + 5);
            running.thread.interrupt();
            assertTrue(running.end() instanceof InterruptedException);
        }
    }

    private static boolean exists(Scene s, String table) throws SQLException {
        return !s.rows("SHOW TABLES LIKE '" + table + "'").isEmpty();
    }

    @Test
    void aMessageAndAnOrder() throws Exception {
        try (Scene s = new Scene("readme_order"); Connection connection = s.connection()) {
            s.run("CREATE TABLE bought (n INT) ENGINE=InnoDB");
            // The database is one of the tests.
            order(Through.of(connection, "shop", s.database));
            assertEquals(List.of(1, 1), List.of(s.count("bought"), s.count("orders")));
        }
    }

    @Test
    void aWorkerThatAsksAServer() throws Exception {
        List<String> asked = new CopyOnWriteArrayList<>();
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            asked.add(exchange.getRequestURI().getPath());
            exchange.sendResponseHeaders(exchange.getRequestURI().getPath().equals("/busy") ? 429 : 200, -1);
            exchange.close();
        });
        server.start();
        String address = "http://127.0.0.1:" + server.getAddress().getPort();
        try (Scene s = new Scene("readme_fetch")) {
            JobQueue<String> pages =
                    s.made(JobQueue.builder("pages").dataSource(s.pool), address + "/ok", address + "/busy");
            fetch(pages, HttpClient.newHttpClient());
            assertEquals(List.of("/busy", "/ok"), asked.stream().sorted().toList());
            assertEquals(List.of("1"), s.failures("pages"));
        } finally {
            server.stop(0);
        }
    }

    @Test
    void oneJobInATransaction() throws Exception {
        try (Scene s = new Scene("readme_send"); Connection connection = s.connection()) {
            s.run("CREATE TABLE sent (mail TEXT) ENGINE=InnoDB");
            JobQueue<String> mails = s.made(JobQueue.builder("mails"), "ann@example.org");
            assertTrue(send(connection, mails));
            assertEquals(List.of("ann@example.org"), s.rows("SELECT mail FROM sent"));
            assertEquals(0, s.count("mails"));
        }
    }

    @Test
    void aListenerInSpring() throws Exception {
        try (Scene s = new Scene("readme_spring")) {
            s.run("CREATE TABLE sent (mail TEXT) ENGINE=InnoDB");
            s.made(JobQueue.builder("mails"));
            AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
            context.registerBean(DataSource.class, () -> s.pool, bean -> bean.setDestroyMethodName(""));
            context.registerBean(JdbcTransactionManager.class, () -> new JdbcTransactionManager(s.pool));
            context.registerBean(JdbcTemplate.class, () -> new JdbcTemplate(s.pool));
            context.register(Queues.class, Sender.class);
            context.refresh();
            try (context) {
                @SuppressWarnings("unchecked")
                JobQueue<String> mails = context.getBean(JobQueue.class);
                context.getBean(QueueTemplate.class).put(mails, "ann@example.org");
                s.until("it is sent", () -> s.rows("SELECT mail FROM sent").equals(List.of("ann@example.org")));
                s.until("it has ended", () -> s.count("mails") == 0);
            }
        }
    }
}
