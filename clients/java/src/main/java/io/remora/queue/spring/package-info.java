/** Queues in programs with Spring, which the program must have: spring-context and spring-jdbc. */
package io.remora.queue.spring;
