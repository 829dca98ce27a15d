/* information_schema.QUEUES, QUEUE_OWNED and QUEUE_READERS. */
#ifndef QUEUE_SCHEMA_H
#define QUEUE_SCHEMA_H

int queue_schema_queues_init(void *plugin);
int queue_schema_owned_init(void *plugin);
int queue_schema_readers_init(void *plugin);

#endif
