/* A table that a function got by name. */
#ifndef QUEUE_OPENED_H
#define QUEUE_OPENED_H

#include <string>
#include <utility>

#include "queue_abi.h"

/*
  Numbers of the engine's own errors and warnings; numbers from 50,000 to 51,999 are for others than the server.
  docs/manual/queue-operation.md has them for clients: none may change.
*/
enum queue_number : uint {
  QUEUE_ER_CONDITION= 51001,
  QUEUE_ER_AFTER_READING= 51002,
  QUEUE_ER_NO_JSON= 51003,
  QUEUE_ER_IN_DELETE= 51004,
  QUEUE_ER_ORIGIN= 51005,
  QUEUE_ER_NOT_IN_DOUBT= 51006,
  QUEUE_ER_TWICE= 51007,
  QUEUE_WARN_STALE= 51011,
  QUEUE_WARN_DROPPED= 51012,
  QUEUE_WARN_HIDDEN= 51013,
  QUEUE_WARN_SNAPSHOT= 51014,
  QUEUE_WARN_NO_REASONS= 51015,
  QUEUE_WARN_STUCK= 51016
};

/* Raises a warning of the engine. */
void queue_warn(THD *thd, const char *text, uint number= ER_UNKNOWN_ERROR);

/*
  The name of a table as functions take it: `[db.]table`, which `@reader` and `:condition` may follow. A name that
  has a dot or a colon in it is in backticks.
*/
struct queue_name {
  std::string db, table, rest;
  bool is_quoted= false; /* whether the table's name is in backticks: an @ in it is a part of it */

  explicit queue_name(const std::string &text);
};

/* The table as tokens name it: `db.table`, in backticks where queue_name needs them. */
std::string queue_text_of_name(const std::string &db, const std::string &table);

/* The folder of a table's queue, whether or not there is one. */
std::string queue_folder_of_table(const std::string &db, const std::string &table);

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

  std::string db, table;

  /* The table as tokens name it. */
  std::string name;

  /* The folder of the queue. */
  std::string folder;

  /* Whether it could not be opened because there is no such queue. */
  bool is_missing= false;

  /* Why it could not be opened, and the number of the error; 0 when that was raised. */
  std::string why;
  uint refused= 0;

  /* The reader that `table@reader` named; empty for none. */
  std::string reader;

  /* Whether the statement, or an earlier one of the transaction, reads the table. */
  bool is_read_here(THD *thd) const;

  /* `queue_lock_definition` for this table, which is opened again if it was replaced meanwhile. */
  bool lock(THD *thd);

  /* Whether the user may read only the columns that GRANT names. */
  bool by_columns= false;

  /* As `open`, but @ and the name of one of its readers may follow, and a condition. */
  bool open_for_reader(THD *thd, const queue_name &named, privilege_t privileges);

  /* Opens a table; false when it is not a queue, or can't be used this way. */
  bool open(THD *thd, const queue_name &named, privilege_t privileges);
  bool open(THD *thd, const std::string &text, privilege_t privileges) { return open(thd, queue_name(text), privileges); }

  /* Whether the user may read all columns, or those that the condition asks for; else `why` says why. */
  bool may_show(THD *thd, const rq_slice *condition);

  /* Whether the user may read the column; an empty name is for what no column shows. */
  bool may_read(THD *thd, const std::string &column) const;

private:
  bool find(THD *thd);
  bool refuse(uint number, const std::string &text)
  {
    refused= number;
    why= text;
    return false;
  }
};

#endif
