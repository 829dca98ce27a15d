/*
  What C++ knows of the queue core: handles, slices, codes. Made by cargo xtask header of what is in
  plugin/queue/src: change it there.

  Handles are used by one thread at a time, but for rq_interrupt, which any thread may call, and rq_queue, which
  all share.
*/

#ifndef QUEUE_ABI_H
#define QUEUE_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct rq_queue rq_queue;
typedef struct rq_interrupter rq_interrupter;

/*
 It was done. Every function that returns an `int` returns one of these codes, unless it says otherwise,
 and fills the error when it is another one.
 */
#define RQ_OK 0

/*
 There is no queue in the folder.
 */
#define RQ_MISSING 1

/*
 There is one already.
 */
#define RQ_EXISTS 2

/*
 It was dropped meanwhile.
 */
#define RQ_DROPPED 3

/*
 Its files are damaged, or of a later version.
 */
#define RQ_CORRUPT 4

/*
 A read failed.
 */
#define RQ_DISK 5

/*
 Out of service since a write failed.
 */
#define RQ_FAILED 6

/*
 Too many bytes in one statement.
 */
#define RQ_TOO_LARGE 7

/*
 A wrong condition.
 */
#define RQ_CONDITION 8

/*
 A fault of ours; the queue is out of service.
 */
#define RQ_PANIC 9

/*
 No more rows, or no such row.
 */
#define RQ_END 10

/*
 How a wait ended: rows were taken.
 */
#define RQ_TAKEN 0

/*
 There was nothing for so long.
 */
#define RQ_TIMED_OUT 1

/*
 Somebody interrupted it, or its client is gone.
 */
#define RQ_INTERRUPTED 2

/*
 A table was dropped.
 */
#define RQ_GONE 3

/*
 What a column holds: an integer. `one`: whether it has a sign.
 */
#define RQ_INTEGER 0

/*
 `one`: precision, `two`: scale.
 */
#define RQ_DECIMAL 1

/*
 A year.
 */
#define RQ_YEAR 2

/*
 A date.
 */
#define RQ_DATE 3

/*
 `one`: digits behind the seconds.
 */
#define RQ_TIME 4

/*
 The same.
 */
#define RQ_DATETIME 5

/*
 The same.
 */
#define RQ_TIMESTAMP 6

/*
 `one`: collation.
 */
#define RQ_TEXT 7

/*
 Something that a condition can ask for NULL only.
 */
#define RQ_OPAQUE 8

/*
 `one`: collation.
 */
#define RQ_ENUM 9

/*
 When a queue is synced: with every write.
 */
#define RQ_SYNC_ALWAYS 0

/*
 Before long.
 */
#define RQ_SYNC_INTERVAL 1

/*
 When the system likes to.
 */
#define RQ_SYNC_NONE 2

/*
 A walk over rows, and the row it is at.
 */
typedef struct rq_cursor rq_cursor;

/*
 A queue that nobody takes from.
 */
typedef struct rq_hold rq_hold;

/*
 A connection.
 */
typedef struct rq_session rq_session;

/*
 Bytes that belong to the other side, or to us for the duration of a call.
 */
typedef struct {
  const uint8_t *bytes;
  size_t len;
} rq_slice;

/*
 What the core asks of the server.
 */
typedef struct {
  /*
   For tests: an INSERT of a row that has these bytes panics while it is written; empty: none does.
   */
  rq_slice fault;
  int (*equal)(uint32_t collation, rq_slice one, rq_slice other);
  /*
   Returns the length, or -1 when the literal has no such characters.
   */
  long (*encode)(uint32_t collation, rq_slice literal, uint8_t *out, size_t room);
  /*
   `padded`: with spaces at its end that are none of the text.
   */
  int (*like)(uint32_t collation, rq_slice text, int padded, rq_slice pattern, uint32_t escape);
} rq_server;

/*
 Where the reason of a failure is written, with a 0 behind it.
 */
typedef struct {
  char text[512];
} rq_error;

/*
 A column of a table that is created.
 */
typedef struct {
  rq_slice name;
  /*
   `RQ_INTEGER` and so on; what `one` and `two` are is said there.
   */
  uint32_t kind;
  uint32_t one;
  uint32_t two;
  uint32_t is_variable;
  /*
   Fixed: offset and length; variable: how many are before it.
   */
  uint32_t place;
  uint32_t len;
  /*
   -1: NOT NULL.
   */
  int32_t null_bit;
  /*
   Of an ENUM.
   */
  const rq_slice *members;
  size_t member_count;
} rq_column;

/*
 A table that is created.
 */
typedef struct {
  /*
   `RQ_SYNC_ALWAYS` and so on.
   */
  uint32_t sync;
  uint32_t null_bytes;
  uint32_t fixed_bytes;
  const rq_column *columns;
  size_t column_count;
} rq_definition;

/*
 What is in a queue and what happened in it.
 */
typedef struct {
  /*
   When the oldest row came, milliseconds since 1970; 0 when there is none.
   */
  uint64_t oldest_ms;
  uint64_t waiting;
  uint64_t owned;
  uint64_t waiters;
  uint64_t bytes;
  uint64_t live_bytes;
  uint64_t memory;
  uint64_t written_per_s;
  uint64_t removed_per_s;
  uint64_t batches;
  uint64_t removals;
  uint64_t reads;
  uint64_t read_hits;
  uint64_t writes;
  uint64_t syncs;
  uint64_t rows_written;
  uint64_t rows_removed;
  uint64_t compacted;
  uint64_t checkpoints;
  uint64_t maintenance_errors;
  uint64_t wait_immediate;
  uint64_t wait_delayed;
  uint64_t wait_timeout;
  uint64_t handed_over;
  uint64_t restored_by_abort;
  uint64_t restored_by_close;
  uint64_t evaluations;
  uint64_t compiles;
  uint64_t compile_hits;
  uint64_t duplicates;
} rq_status;

/*
 Told of a queue; other than 0 to be told of no more.
 */
typedef int (*rq_each_fn)(void *context, rq_slice folder, const rq_status *status);

/*
 Told of a row that somebody owns; other than 0 to be told of no more.
 */
typedef int (*rq_each_owned_fn)(void *context, rq_slice folder, uint64_t row, uint64_t owner, uint64_t since_ms);

/*
 A queue to wait on.
 */
typedef struct {
  const rq_queue *queue;
  /*
   Empty: all rows.
   */
  rq_slice condition;
} rq_target;

/*
 Asked now and then by a wait; 0 ends it.
 */
typedef int (*rq_alive)(void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Starts the engine. `files_max`: how many files may be open at once for all queues.
 */
int rq_start(const rq_server *server, size_t files_max, rq_error *error);

/*
 Stops the engine: everything is synced and its threads have ended.
 */
int rq_stop(void);

/*
 Makes a queue.
 */
int rq_create(rq_slice folder, const rq_definition *definition, rq_error *error);

/*
 Drops a queue.
 */
int rq_drop(rq_slice folder, rq_error *error);

/*
 Gives a queue another folder. `hold` is null, or of the queue that is being replaced by a changed copy.
 */
int rq_rename(rq_slice from, rq_slice to, const rq_hold *hold, rq_error *error);

/*
 Opens a queue; `rq_release` lets go of it.
 */
int rq_open(rq_slice folder, const rq_queue **queue, rq_error *error);

/*
 Lets go of a queue.
 */
void rq_release(const rq_queue *queue);

/*
 Empties a queue.
 */
int rq_truncate(const rq_queue *queue, rq_error *error);

/*
 Rewrites what has dead rows.
 */
int rq_compact(const rq_queue *queue, rq_error *error);

/*
 Lets nobody take a row until `rq_resume`.
 */
int rq_pause(const rq_queue *queue, rq_error *error);

/*
 Ends what `rq_pause` began.
 */
void rq_resume(const rq_queue *queue);

/*
 Lets nobody take a row until `rq_let_go`, which may come after `rq_release`. Until then `rq_open` waits
 when it finds no queue in this folder: its successor is on the way. Rows are read by `rq_hold_scan` and
 told by `rq_hold_read`, and each is told again by `rq_hold_wrote` when it goes to the copy; then
 `rq_rename` of the copy lets the owners of rows find theirs there.
 */
int rq_hold_back(const rq_queue *queue, rq_hold **hold, rq_error *error);

/*
 Begins a walk over all rows of a queue that is held back.
 */
int rq_hold_scan(const rq_hold *hold, rq_cursor **cursor);

/*
 Notes that a row was read to be copied.
 */
void rq_hold_read(rq_hold *hold);

/*
 Tells that the copy is complete. From now on the server may take either of the two after a crash: what is
 ended in the one is ended in the other.
 */
int rq_hold_complete(rq_hold *hold, const rq_queue *copy, rq_error *error);

/*
 Notes that the row that was read last goes to the copy; an error when it is another one, and owners would
 lose theirs.
 */
int rq_hold_wrote(rq_hold *hold, rq_error *error);

/*
 Ends what `rq_hold_back` began.
 */
void rq_let_go(rq_hold *hold);

/*
 What is in a queue.
 */
int rq_get_status(const rq_queue *queue, rq_status *out);

/*
 What is in all open queues, and what happened since the start in these and in those that are open no more.
 */
int rq_get_total(rq_status *out);

/*
 How many rows are not gone: in no time, unlike the status.
 */
uint64_t rq_rows(const rq_queue *queue);

/*
 Calls `each` for every open queue with its folder.
 */
int rq_each(rq_each_fn each, void *context);

/*
 Calls `each` for every owned row of every open queue.
 */
int rq_each_owned(rq_each_owned_fn each, void *context);

/*
 Begins a connection.
 */
int rq_session_new(uint64_t number, rq_session **session, rq_interrupter **interrupter);

/*
 Ends a connection; what it owned goes back.
 */
void rq_session_free(rq_session *session, rq_interrupter *interrupter);

/*
 Ends the wait that is going on.
 */
void rq_interrupt(const rq_interrupter *interrupter);

/*
 Whether the connection sees its own rows only.
 */
int rq_is_owner(const rq_session *session);

/*
 The id of the first row that the connection owns, 0 when there is none.
 */
uint64_t rq_owned_row(rq_session *session);

/*
 How many rows of a queue the connection sees.
 */
uint64_t rq_count(const rq_session *session, const rq_queue *queue);

/*
 As `rq_open`, quicker when the session asks for the same folder again.
 */
int rq_find(rq_session *session, rq_slice folder, const rq_queue **queue, rq_error *error);

/*
 The next `rq_scan` of this queue begins at this row and shows rows that somebody owns too, until
 `rq_peek_end`. Returns the row before which it will end, 0 after a fault of ours.
 */
uint64_t rq_peek(rq_session *session, const rq_queue *queue, uint64_t from);

/*
 Ends what `rq_peek` began.
 */
void rq_peek_end(rq_session *session);

/*
 Begins a walk over the rows that the connection sees. With `all` an owner sees what it owns, and who is
 none what somebody owns too.
 */
int rq_scan(rq_session *session, const rq_queue *queue, int all, rq_cursor **cursor);

/*
 The next publish carries this; slot 0 to 63, otherwise `RQ_END`. Row 0: it carries nothing.
 */
int rq_set_origin(rq_session *session, uint32_t slot, int overwrite, uint64_t row);

/*
 Whether the next publish carries an origin: it is one unit then, however large.
 */
int rq_has_origin(const rq_session *session);

/*
 What a relay says of the first owned row, as text; `RQ_END` when there is none.
 */
int rq_origin(rq_session *session, rq_error *text, rq_error *error);

/*
 The next publish carries this, which `rq_origin` wrote; `RQ_END` when it is no such text.
 */
int rq_set_origin_text(rq_session *session, rq_slice text);

/*
 The statement that `rq_set_origin` was for has failed.
 */
void rq_forget_origin(rq_session *session);

/*
 Adds rows.
 */
int rq_publish(rq_session *session, const rq_queue *queue, const rq_slice *rows, size_t count, rq_error *error);

/*
 The same for a statement that may fail yet: nobody sees or takes the rows until `rq_settle`.
 */
int rq_publish_unsettled(rq_session *session,
                         const rq_queue *queue,
                         const rq_slice *rows,
                         size_t count,
                         rq_error *error);

/*
 Whether the connection has rows that `rq_publish_unsettled` has added.
 */
int rq_is_unsettled(const rq_session *session);

/*
 Lets what `rq_publish_unsettled` has added be taken, or without `keep` be gone.
 */
int rq_settle(rq_session *session, int keep, rq_error *error);

/*
 Takes rows, or waits for them; what was owned is consumed first. `timeout_ms` below 0: for ever. `alive`
 is asked now and then. `outcome` is `RQ_TAKEN` and so on, `taken` the place of the target in the list.
 */
int rq_wait(rq_session *session,
            const rq_target *targets,
            size_t count,
            size_t rows_max,
            int64_t timeout_ms,
            rq_alive alive,
            void *context,
            int *outcome,
            size_t *taken,
            rq_error *error);

/*
 Lets the owned rows be gone.
 */
int rq_end(rq_session *session, rq_error *error);

/*
 Gives the owned rows back.
 */
int rq_abort(rq_session *session, rq_error *error);

/*
 Deletes rows that the connection owns or nobody does.
 */
int rq_delete(rq_session *session, const rq_queue *queue, const uint64_t *rows, size_t count, rq_error *error);

/*
 The next row. It belongs to the cursor until its next use.
 */
int rq_next(rq_cursor *cursor, uint64_t *id, rq_slice *row, rq_error *error);

/*
 Reads a row by its id, into the cursor.
 */
int rq_read(rq_cursor *cursor, uint64_t id, rq_slice *row, rq_error *error);

/*
 Ends a walk.
 */
void rq_scan_end(rq_cursor *cursor);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUEUE_ABI_H */
