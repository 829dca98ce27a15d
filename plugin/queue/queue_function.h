/* What the handler and the functions share of a connection. */
#ifndef QUEUE_FUNCTION_H
#define QUEUE_FUNCTION_H

#include <atomic>

#include "queue_abi.h"

/* What a connection has with us. */
struct queue_connection {
  rq_session *session;
  rq_interrupter *interrupter;
  /* Walks over rows that the statement has begun. */
  uint reading;
  /* A queue that nobody takes from until the statement has ended. */
  rq_hold *held_back;
};

/* The connection of a session, made when it is first asked for; none when there is no memory or no engine. */
queue_connection *queue_connection_of(THD *thd);

/* The connection has waited: it sees its own rows only. */
void queue_mark_owner(THD *thd);

/* How often the functions were called, for SHOW ENGINE QUEUE STATUS. */
struct queue_calls {
  std::atomic<ulonglong> wait, end, abort, rowid, set_srcid;
};
extern queue_calls queue_called;

#endif
