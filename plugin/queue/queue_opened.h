/* A table that a function was given by its name. */
#ifndef QUEUE_OPENED_H
#define QUEUE_OPENED_H

#include <string>

#include "queue_abi.h"

/* A warning of ours. */
void queue_warn(THD *thd, const char *text);

/* Open as long as this lives. */
class queue_opened {
public:
  ~queue_opened()
  {
    if (queue)
      rq_release(queue);
  }
  queue_opened()= default;
  queue_opened(const queue_opened &)= delete;
  queue_opened &operator=(const queue_opened &)= delete;

  const rq_queue *queue= nullptr;

  /* Opens `name` or `db.name`; false with a warning when it is no queue, or not one to be used so. */
  bool open(THD *thd, const std::string &text, privilege_t privileges);
};

#endif
