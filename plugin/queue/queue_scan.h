/* How a statement reads a queue: the handler's part that walks over rows. */
#ifndef QUEUE_SCAN_H
#define QUEUE_SCAN_H

#include <vector>

#include "queue_abi.h"
#include "queue_connection.h"
#include "queue_info_columns.h"

/* An open table, as the handler that reads it has it. */
struct queue_table {
  TABLE *table;
  const rq_queue *queue;
  const queue_info_columns *info_columns;
};

/* The walk of a statement over the rows of a table, and what the statement needs while it reads. */
class queue_scan {
public:
  ~queue_scan() { end(); }

  /* Begins a walk over all rows. For ALTER TABLE nobody takes a row from now on. */
  int begin(THD *thd, const queue_table &from);

  /* Reads the next row. */
  int next(THD *thd, const queue_table &from, uchar *record);

  /* Reads the row with this id. */
  int read(THD *thd, const queue_table &from, uchar *record, ulonglong id);

  /* Ends the walk. */
  void end();

  /* Others may take rows again that a DELETE has kept from them. */
  void resume();

  /* The id of the row that was read last. */
  ulonglong current() const { return row_id; }

  /* At the end of a statement. */
  void forget_count() { rows_read= 0; }

  /*
    Warns when the statement has taken or leased more rows than it shows, because of LIMIT or of another
    condition in WHERE. They are the connection's all the same. Called when its rows are sent; where the server
    can tell that early enough, its answer counts the warning.
  */
  void warn_of_hidden_rows(THD *thd, const TABLE *table) const;

private:
  int open_cursor(THD *thd, const queue_table &from);
  int begin_copy(THD *thd, const rq_queue *queue);
  int unpack(const queue_table &from, uchar *record, rq_slice row);

  rq_cursor *cursor= nullptr;
  queue_connection *reader= nullptr;     /* the connection whose cursor it is */
  const rq_queue *paused= nullptr;       /* for DELETE: a queue whose rows nobody takes before they are deleted */
  bool copying= false;                   /* for ALTER: the walk also shows rows that others own */
  ulonglong row_id= 0;
  ulonglong rows_read= 0;                /* by the statement */
  /* The row that the record's BLOBs point into; the cursor overwrites its own copy when it advances. */
  std::vector<uchar> blob_row;
};

#endif
