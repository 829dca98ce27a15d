package io.remora.queue;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;

/**
 * A worker that tests stop and kill: Work DATABASE QUEUE plain|transaction [SECONDS OF THE LEASE]
 *
 * <p>Each job inserts its payload into the table {@code done} of InnoDB. It fails at its first try if the
 * payload is a multiple of seven.
 */
final class Work {
    private Work() {
    }

    public static void main(String[] arguments) throws Exception {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl(Scene.url(arguments[0], ""));
        pool.setMinimumIdle(0);
        pool.setConnectionTimeout(2000);
        JobQueue<String> queue = JobQueue.builder(arguments[1]).dataSource(pool).build();
        boolean isTransaction = arguments[2].equals("transaction");
        Worker.Builder builder = isTransaction ? queue.transactionWorker(Work::note) : queue.worker(job -> {
            try (Connection connection = pool.getConnection()) {
                note(job, connection);
            }
        });
        if (arguments.length > 3) {
            builder.lease(Duration.ofMillis((long) (1000 * Double.parseDouble(arguments[3]))));
        }
        Worker worker = builder.wait(Scene.LONG).concurrency(3).log(new Book()).build();
        Runtime.getRuntime().addShutdownHook(new Thread(worker::close));
        worker.run();
    }

    private static void note(Job<String> job, Connection connection) throws SQLException {
        if (Integer.parseInt(job.payload()) % 7 == 0 && job.tries() == 1) {
            throw new IllegalStateException("a first try");
        }
        Scene.execute(connection, "INSERT INTO done VALUES (" + job.payload() + ")");
    }
}
