package io.remora.queue;

import java.util.List;

/** Does the work of several messages. See {@link JobQueue#batchWorker}. */
@FunctionalInterface
public interface BatchHandler<T> {
    /**
     * Its return ends the messages but those for which {@link Job#fail} was called. An exception fails all.
     */
    void handle(List<Job<T>> jobs) throws Exception;
}
