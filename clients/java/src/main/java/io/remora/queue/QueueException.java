package io.remora.queue;

import java.sql.SQLException;

/** What this package itself refuses. Errors of the driver come out as they are. */
public class QueueException extends SQLException {
    private static final long serialVersionUID = 1;

    QueueException(String message) {
        super(message);
    }
}
