/* information_schema.QUEUES, QUEUE_OWNED, QUEUE_READERS and QUEUE_TIMES. */
#ifndef QUEUE_SCHEMA_H
#define QUEUE_SCHEMA_H

int queue_schema_queues_init(void *plugin);
int queue_schema_owned_init(void *plugin);
int queue_schema_readers_init(void *plugin);
int queue_schema_times_init(void *plugin);

#endif
