/* information_schema.QUEUES and QUEUE_OWNED. */
#ifndef QUEUE_SCHEMA_H
#define QUEUE_SCHEMA_H

int queue_schema_queues_init(void *plugin);
int queue_schema_owned_init(void *plugin);

#endif
