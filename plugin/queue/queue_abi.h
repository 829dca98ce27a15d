/*
  What ha_queue.cc knows of the queue core: handles, slices, codes. plugin/queue/src implements it.

  Every function returns one of the codes below, and fills the error when it is not RQ_OK. Handles are used by one
  thread at a time, but for rq_interrupt, which any thread may call, and rq_queue, which all share.
*/
#ifndef QUEUE_ABI_H
#define QUEUE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RQ_OK = 0,
  RQ_MISSING = 1,   /* there is no queue in the folder */
  RQ_EXISTS = 2,    /* there is one already */
  RQ_DROPPED = 3,   /* it was dropped meanwhile */
  RQ_CORRUPT = 4,   /* its files are damaged, or of a later version */
  RQ_DISK = 5,      /* a read failed */
  RQ_FAILED = 6,    /* out of service since a write failed */
  RQ_TOO_LARGE = 7, /* too many bytes in one statement */
  RQ_CONDITION = 8, /* a condition that is none */
  RQ_PANIC = 9,     /* a fault of ours; the queue is out of service */
  RQ_END = 10       /* no more rows, or no such row */
};

/* How a wait ended, beside the errors. */
enum { RQ_TAKEN = 0, RQ_TIMED_OUT = 1, RQ_INTERRUPTED = 2, RQ_GONE = 3 /* a table was dropped */ };

/* What a column holds: crates/queue/src/condition/schema.rs. */
enum {
  RQ_INTEGER = 0,   /* one: whether it has a sign */
  RQ_DECIMAL = 1,   /* one: precision, two: scale */
  RQ_YEAR = 2,
  RQ_DATE = 3,
  RQ_TIME = 4,      /* one: digits behind the seconds */
  RQ_DATETIME = 5,  /* the same */
  RQ_TIMESTAMP = 6, /* the same */
  RQ_TEXT = 7,      /* one: collation */
  RQ_OPAQUE = 8,
  RQ_ENUM = 9       /* one: collation */
};

typedef struct rq_queue rq_queue;
typedef struct rq_session rq_session;
typedef struct rq_interrupter rq_interrupter;
typedef struct rq_cursor rq_cursor;
typedef struct rq_hold rq_hold;

typedef struct {
  const unsigned char *bytes;
  size_t len;
} rq_slice;

typedef struct {
  char text[512];
} rq_error;

typedef struct {
  rq_slice name;
  uint32_t kind, one, two;
  uint32_t is_variable;
  uint32_t place, len; /* fixed: offset and length; variable: how many are before it */
  int32_t null_bit;    /* -1: NOT NULL */
  const rq_slice *members; /* of an ENUM */
  size_t member_count;
} rq_column;

typedef struct {
  uint32_t sync; /* 0 always, 1 interval, 2 none */
  uint32_t null_bytes, fixed_bytes;
  const rq_column *columns;
  size_t column_count;
} rq_definition;

typedef struct {
  const rq_queue *queue;
  rq_slice condition; /* empty: all rows */
} rq_target;

/* What is in a queue and what happened in it: each number, and the name under which SHOW ENGINE QUEUE STATUS
   has it. */
#define RQ_STATUS_QUEUES(FIELD)                                                                                        \
  FIELD(waiting, "waiting")                                                                                            \
  FIELD(owned, "owned")                                                                                                \
  FIELD(waiters, "waiters")                                                                                            \
  FIELD(bytes, "bytes")                                                                                                \
  FIELD(live_bytes, "bytes_live")                                                                                      \
  FIELD(memory, "memory")                                                                                              \
  FIELD(written_per_s, "written_per_second")                                                                           \
  FIELD(removed_per_s, "removed_per_second")
#define RQ_STATUS_LOG(FIELD)                                                                                           \
  FIELD(batches, "append")                                                                                             \
  FIELD(removals, "remove")                                                                                            \
  FIELD(reads, "sys_read")                                                                                             \
  FIELD(read_hits, "read_cachehit")                                                                                    \
  FIELD(writes, "sys_write")                                                                                           \
  FIELD(syncs, "sys_sync")                                                                                             \
  FIELD(rows_written, "rows_written")                                                                                  \
  FIELD(rows_removed, "rows_removed")                                                                                  \
  FIELD(compacted, "compacted")                                                                                        \
  FIELD(checkpoints, "checkpoints")                                                                                    \
  FIELD(maintenance_errors, "maintenance_errors")
#define RQ_STATUS_WAITING(FIELD)                                                                                       \
  FIELD(wait_immediate, "wait_immediate")                                                                              \
  FIELD(wait_delayed, "wait_delayed")                                                                                  \
  FIELD(wait_timeout, "wait_timeout")                                                                                  \
  FIELD(handed_over, "handed_over")                                                                                    \
  FIELD(restored_by_abort, "restored_by_abort")                                                                        \
  FIELD(restored_by_close, "restored_by_close")                                                                        \
  FIELD(evaluations, "evaluation")                                                                                     \
  FIELD(compiles, "compile")                                                                                           \
  FIELD(compile_hits, "compile_cachehit")                                                                              \
  FIELD(duplicates, "duplicates")

typedef struct {
  uint64_t oldest_ms; /* when the oldest row came, milliseconds since 1970; 0 when there is none */
#define RQ_STATUS_FIELD(FIELD, NAME) uint64_t FIELD;
  RQ_STATUS_QUEUES(RQ_STATUS_FIELD)
  RQ_STATUS_LOG(RQ_STATUS_FIELD)
  RQ_STATUS_WAITING(RQ_STATUS_FIELD)
#undef RQ_STATUS_FIELD
} rq_status;

/* What the core asks of the server. encode returns the length, or -1 when the literal has no such characters.
   */
typedef struct {
  rq_slice fault; /* for tests: an INSERT of a row that has these bytes panics while it is written; empty: none does */
  int (*equal)(uint32_t collation, rq_slice one, rq_slice other);
  long (*encode)(uint32_t collation, rq_slice literal, unsigned char *out, size_t room);
  /* `padded`: with spaces at its end that are none of the text. */
  int (*like)(uint32_t collation, rq_slice text, int padded, rq_slice pattern, uint32_t escape);
} rq_server;

/* `files_max`: how many files may be open at once for all queues. */
int rq_start(const rq_server *server, size_t files_max, rq_error *error);
int rq_stop(void);

int rq_create(rq_slice folder, const rq_definition *definition, rq_error *error);
int rq_drop(rq_slice folder, rq_error *error);
/* `hold` is null, or of the queue that is being replaced by a changed copy. */
int rq_rename(rq_slice from, rq_slice to, const rq_hold *hold, rq_error *error);
int rq_open(rq_slice folder, const rq_queue **queue, rq_error *error);
/* The same, quicker when the session asks for the same folder again. */
int rq_find(rq_session *session, rq_slice folder, const rq_queue **queue, rq_error *error);
void rq_release(const rq_queue *queue);
int rq_truncate(const rq_queue *queue, rq_error *error);
int rq_compact(const rq_queue *queue, rq_error *error);
/*
  Lets nobody take a row until rq_let_go, which may come after rq_release. Until then rq_open waits when it finds no queue
  in this folder: its successor is on the way. Rows are read by rq_hold_scan and told by rq_hold_read, and each is told
  again by rq_hold_wrote when it goes to the copy; then rq_rename of the copy lets the owners of rows find theirs there.
*/
int rq_hold_back(const rq_queue *queue, rq_hold **hold, rq_error *error);
int rq_hold_scan(const rq_hold *hold, rq_cursor **cursor);
void rq_hold_read(rq_hold *hold);
/*
  Tells that the copy is complete. From now on the server may take either of the two after a crash: what is ended in the one
  is ended in the other.
*/
int rq_hold_complete(rq_hold *hold, const rq_queue *copy, rq_error *error);
int rq_hold_wrote(rq_hold *hold, rq_error *error);
void rq_let_go(rq_hold *hold);
/* Between the two nobody takes a row. */
int rq_pause(const rq_queue *queue, rq_error *error);
void rq_resume(const rq_queue *queue);
/* How many rows are not gone: in no time, unlike the status. */
uint64_t rq_rows(const rq_queue *queue);
int rq_get_status(const rq_queue *queue, rq_status *status);
/* What is in all open queues, and what happened since the start in these and in those that are open no more.
   */
int rq_get_total(rq_status *status);
/* Calls `each` for every open queue with its folder; stops when it returns other than 0. */
int rq_each(int (*each)(void *context, rq_slice folder, const rq_status *status), void *context);
/* Calls `each` for every owned row of every open queue. */
int rq_each_owned(int (*each)(void *context, rq_slice folder, uint64_t row, uint64_t owner, uint64_t since_ms),
                  void *context);

int rq_session_new(uint64_t number, rq_session **session, rq_interrupter **interrupter);
void rq_session_free(rq_session *session, rq_interrupter *interrupter);
void rq_interrupt(const rq_interrupter *interrupter);
int rq_is_owner(const rq_session *session);
/* The first owned row's id, 0 when there is none. */
uint64_t rq_owned_row(rq_session *session);
uint64_t rq_count(const rq_session *session, const rq_queue *queue);
/* The next publish carries this; slot 0 to 63. */
int rq_set_origin(rq_session *session, uint32_t slot, int overwrite, uint64_t row);
/* Whether the next publish carries an origin: it is one unit then, however large. */
int rq_has_origin(const rq_session *session);
/* What a relay says of the first owned row, as text; RQ_END when there is none. */
int rq_origin(rq_session *session, rq_error *text, rq_error *error);
/* The next publish carries this, which rq_origin wrote; RQ_END when it is no such text. */
int rq_set_origin_text(rq_session *session, rq_slice text);

int rq_publish(rq_session *session, const rq_queue *queue, const rq_slice *rows, size_t count, rq_error *error);
/* The same for a statement that may fail yet: nobody sees or takes the rows until rq_settle. */
int rq_publish_unsettled(rq_session *session, const rq_queue *queue, const rq_slice *rows, size_t count,
                         rq_error *error);
int rq_is_unsettled(const rq_session *session);
/* Lets those rows be taken, or without `keep` be gone. */
int rq_settle(rq_session *session, int keep, rq_error *error);
/* The statement that rq_set_origin was for has failed. */
void rq_forget_origin(rq_session *session);
int rq_delete(rq_session *session, const rq_queue *queue, const uint64_t *rows, size_t count, rq_error *error);
/* timeout_ms below 0: for ever. `alive` is asked now and then; 0 ends the wait. */
int rq_wait(rq_session *session, const rq_target *targets, size_t count, size_t rows_max, int64_t timeout_ms,
            int (*alive)(void *context), void *context, int *outcome, size_t *target, rq_error *error);
int rq_end(rq_session *session, rq_error *error);
int rq_abort(rq_session *session, rq_error *error);

/*
  The next rq_scan of this queue begins at this row and shows rows that somebody owns too, until rq_peek_end. Returns the
  row before which it will end, 0 after a fault of ours.
*/
uint64_t rq_peek(rq_session *session, const rq_queue *queue, uint64_t from);
void rq_peek_end(rq_session *session);
/* With `all` an owner sees what it owns, and who is none what somebody owns too. */
int rq_scan(rq_session *session, const rq_queue *queue, int all, rq_cursor **cursor);
/* The row belongs to the cursor until its next use. */
int rq_next(rq_cursor *cursor, uint64_t *id, rq_slice *row, rq_error *error);
/* Reads a row by its id, into the cursor. */
int rq_read(rq_cursor *cursor, uint64_t id, rq_slice *row, rq_error *error);
void rq_scan_end(rq_cursor *cursor);

#ifdef __cplusplus
}
#endif
#endif
