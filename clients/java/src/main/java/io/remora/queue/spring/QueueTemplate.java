package io.remora.queue.spring;

import io.remora.queue.JobQueue;
import io.remora.queue.Message;
import io.remora.queue.Put;
import java.sql.Connection;
import java.util.Collection;
import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * Puts messages in Spring's transaction, if there is one: workers see them when that commits, and never if it
 * does not. Errors are those of Spring, as with JdbcTemplate.
 */
public final class QueueTemplate {
    private final JdbcTemplate jdbc;

    /** One for the DataSource of the transaction manager. */
    public QueueTemplate(DataSource dataSource) {
        this.jdbc = new JdbcTemplate(dataSource);
    }

    /** Puts a message that is to be given at once, and gives its id. */
    public <T> String put(JobQueue<T> queue, T payload) {
        return put(queue, payload, new Put());
    }

    /** Puts a message, and gives its id. */
    public <T> String put(JobQueue<T> queue, T payload, Put options) {
        return putMany(queue, List.of(new Message<>(payload, options))).get(0);
    }

    /** Puts messages with one statement, all or none of them, and gives their ids. */
    public <T> List<String> putMany(JobQueue<T> queue, Collection<Message<T>> messages) {
        return jdbc.execute((ConnectionCallback<List<String>>) (Connection on) -> queue.putMany(on, messages));
    }
}
