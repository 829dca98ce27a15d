/* How often the functions were called, for SHOW ENGINE QUEUE STATUS. */
#ifndef QUEUE_FUNCTION_H
#define QUEUE_FUNCTION_H

#include <atomic>

struct queue_calls {
  std::atomic<ulonglong> wait, end, abort, rowid, set_srcid, lease, token;
};
extern queue_calls queue_called;

#endif
