/* The thread that delivers the ticks of schedules. */
#ifndef QUEUE_SCHEDULE_H
#define QUEUE_SCHEDULE_H

/* Starts it; it delivers once the server has started. False without a thread. */
bool queue_start_scheduler();

/* Ends it: when this returns, it runs no statement any more. It may have ended before. */
void queue_stop_scheduler();

#endif
