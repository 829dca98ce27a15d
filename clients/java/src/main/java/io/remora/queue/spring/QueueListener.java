package io.remora.queue.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method of a bean that does the work of messages. {@link QueueListeners} calls it. Its one parameter is
 * the payload or a {@link io.remora.queue.Job}. Its return ends the message, and an exception is a failed
 * try.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface QueueListener {
    /** The name of the bean that is the {@link io.remora.queue.JobQueue}. */
    String value();

    /**
     * Whether the work and the end of the message are one transaction, that of the transaction manager:
     * JdbcTemplate and all that uses the same one are a part of it.
     */
    boolean transaction() default false;

    /** How many messages are worked on at the same time. */
    int concurrency() default 1;

    /**
     * For how many seconds a message is away when the program is killed. A lease is extended while its job
     * runs.
     */
    int lease() default 30;

    /** A condition, for example {@code priority < 3}. */
    String where() default "";
}
