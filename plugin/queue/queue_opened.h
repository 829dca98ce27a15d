/* A table that a function got by name. */
#ifndef QUEUE_OPENED_H
#define QUEUE_OPENED_H

#include <string>
#include <utility>

#include "queue_abi.h"

/* Raises a warning of the engine. */
void queue_warn(THD *thd, const char *text);

/* The database and the table of a queue in this folder, `./db/table.queue`, encoded like names of files. */
std::pair<std::string, std::string> queue_names_of(const std::string &folder);

/*
  Has DDL on the queue in this folder wait for the end of the transaction, as after a statement that changes
  rows; waits itself for DDL that is under way. False with an error.
*/
bool queue_lock_definition(THD *thd, const std::string &folder);

/* Keeps the table open as long as this object lives. */
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

  /* The table as tokens name it: `db.table`. */
  std::string name;

  /* The folder of the queue. */
  std::string folder;

  /* Whether it could not be opened because there is no such queue. */
  bool is_missing= false;

  /* The reader that `table@reader` named; empty for none. */
  std::string reader;

  /* Whether the statement, or an earlier one of the transaction, reads the table. */
  bool is_read_here(THD *thd) const;

  /* `queue_lock_definition` for this table, which is opened again if it was replaced meanwhile. */
  bool lock(THD *thd);

  /* As `open`, but the table's name may be followed by @ and the name of one of its readers. */
  bool open_for_reader(THD *thd, const std::string &text, privilege_t privileges);

  /* Opens `name` or `db.name`; false with a warning when the table is not a queue, or can't be used this
     way. */
  bool open(THD *thd, const std::string &text, privilege_t privileges, bool may_be_missing= false);

private:
  bool find(THD *thd, bool may_be_missing);
};

#endif
