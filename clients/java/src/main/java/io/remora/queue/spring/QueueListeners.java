package io.remora.queue.spring;

import io.remora.queue.Job;
import io.remora.queue.JobQueue;
import io.remora.queue.Worker;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.sql.DataSource;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.BeanFactoryAware;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.transaction.PlatformTransactionManager;

/**
 * Runs the methods with {@link QueueListener}: a worker for each. It starts with the context, and stops
 * before what the methods use; the jobs that run end first. Let a static method of a configuration make it as
 * a bean.
 */
public final class QueueListeners implements BeanPostProcessor, BeanFactoryAware, SmartLifecycle {
    private final Map<String, Listener> found = new LinkedHashMap<>();
    private List<Worker> workers = List.of();
    private BeanFactory beans;

    private record Listener(Object bean, Method method, QueueListener options) {
    }

    @Override
    public void setBeanFactory(BeanFactory factory) {
        beans = factory;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        Class<?> type = AopUtils.getTargetClass(bean);
        Map<Method, QueueListener> methods = MethodIntrospector.selectMethods(type,
                (MethodIntrospector.MetadataLookup<QueueListener>) method ->
                        AnnotatedElementUtils.findMergedAnnotation(method, QueueListener.class));
        methods.forEach((method, options) -> {
            if (method.getParameterCount() != 1) {
                throw new IllegalStateException(method + " has not one parameter, the payload or a Job");
            }
            Method callable = AopUtils.selectInvocableMethod(method, bean.getClass());
            callable.setAccessible(true);
            synchronized (found) {
                found.put(name + "." + method, new Listener(bean, callable, options));
            }
        });
        return bean;
    }

    @Override
    public void start() {
        List<Worker> made = new ArrayList<>();
        synchronized (found) {
            found.values().forEach(listener -> made.add(worker(listener)));
        }
        workers = made;
        workers.forEach(Worker::start);
    }

    private Worker worker(Listener listener) {
        QueueListener options = listener.options();
        JobQueue<?> queue = beans.getBean(options.value(), JobQueue.class);
        Worker.Builder builder;
        if (options.transaction()) {
            builder = queue.transactionWorker((job, connection) -> call(listener, job));
            builder.transactions(new SpringTransactions(beans.getBean(PlatformTransactionManager.class),
                    beans.getBean(DataSource.class)));
        } else {
            builder = queue.worker(job -> call(listener, job));
        }
        return builder.dataSource(beans.getBean(DataSource.class)).concurrency(options.concurrency())
                .lease(Duration.ofSeconds(options.lease())).where(options.where().isEmpty() ? null : options.where())
                .build();
    }

    private static void call(Listener listener, Job<?> job) throws Exception {
        boolean wantsJob = listener.method().getParameterTypes()[0] == Job.class;
        try {
            listener.method().invoke(listener.bean(), wantsJob ? job : job.payload());
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw error;
        }
    }

    @Override
    public boolean isRunning() {
        return workers.stream().anyMatch(Worker::isRunning);
    }

    /** All stop at the same time. */
    @Override
    public void stop() {
        workers.forEach(Worker::stop);
        workers.forEach(Worker::close);
    }

    @Override
    public void stop(Runnable callback) {
        Thread waiting = new Thread(() -> {
            stop();
            callback.run();
        }, "remora-queue-stop");
        waiting.start();
    }

    /** It starts after what others have made ready, and stops before. */
    @Override
    public int getPhase() {
        return DEFAULT_PHASE - 100;
    }
}
