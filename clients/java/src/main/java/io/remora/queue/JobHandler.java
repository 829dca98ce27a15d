package io.remora.queue;

/** Does the work of a message. See {@link JobQueue#worker}. */
@FunctionalInterface
public interface JobHandler<T> {
    /** Its return ends the message. An exception is a failed try with its text as the reason. */
    void handle(Job<T> job) throws Exception;
}
