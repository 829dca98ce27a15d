package io.remora.queue;

import java.time.Duration;

/** A failed try, as the queue is told of it. Equal ones can be told with one statement. The delay is SQL. */
record Failure(String reason, String delay) {
    static Failure of(Throwable error) {
        RetryException retry = Errors.find(error, RetryException.class);
        Throwable told = retry == null ? error : retry;
        String reason = told.getMessage() == null ? told.toString() : told.getMessage();
        if (retry == null || retry.delay() == null) {
            return new Failure(reason, "NULL");
        }
        // The queue would refuse a time before now, and then the message would wait for the end of its lease.
        return new Failure(reason, Sql.seconds(Sql.max(retry.delay(), Duration.ZERO)));
    }
}
