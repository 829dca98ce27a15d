/*
  The C interface of the queue core: handles, slices, codes. cargo xtask header makes this file from
  plugin/queue/src: change it there.

  One thread at a time uses a handle, except for rq_interrupt, which any thread may call, and rq_queue, which all
  threads share.
*/

#ifndef QUEUE_ABI_H
#define QUEUE_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct rq_queue rq_queue;
typedef struct rq_interrupter rq_interrupter;

/*
 Success. Every function that returns an `int` returns one of these codes, unless it says otherwise, and
 sets the error with any other code.
 */
#define RQ_OK 0

/*
 There is no queue in the folder.
 */
#define RQ_MISSING 1

/*
 There is a queue in the folder already.
 */
#define RQ_EXISTS 2

/*
 The queue was dropped meanwhile.
 */
#define RQ_DROPPED 3

/*
 Its files are damaged, or were written by a later version.
 */
#define RQ_CORRUPT 4

/*
 A read failed.
 */
#define RQ_DISK 5

/*
 Out of service after a failure, such as a failed sync.
 */
#define RQ_FAILED 6

/*
 Too many bytes in one statement.
 */
#define RQ_TOO_LARGE 7

/*
 The condition is wrong.
 */
#define RQ_CONDITION 8

/*
 A bug in the engine; the queue is out of service.
 */
#define RQ_PANIC 9

/*
 No more rows, or no such row.
 */
#define RQ_END 10

/*
 How many classes of times there are.
 */
#define RQ_CLASSES 10

/*
 How a wait ended: rows were taken.
 */
#define RQ_TAKEN 0

/*
 Nothing came before the timeout.
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
 The type of a column: an integer. `one`: whether it is signed.
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
 `one`: fractional digits.
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
 A type that a condition can only test for NULL.
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
 Within an interval.
 */
#define RQ_SYNC_INTERVAL 1

/*
 When the operating system does so.
 */
#define RQ_SYNC_NONE 2

/*
 A walk shows the rows that wait.
 */
#define RQ_WAITING 0

/*
 All rows, owned or not.
 */
#define RQ_ALL 1

/*
 The rows that nobody owns, also those that are due later.
 */
#define RQ_UNOWNED 2

/*
 The rows that were ended and are kept, and no others.
 */
#define RQ_KEPT 3

/*
 What to do with tokens: end their rows.
 */
#define RQ_ACK 0

/*
 Make their leases longer.
 */
#define RQ_EXTEND 1

/*
 Give their rows back because the work failed.
 */
#define RQ_NACK 2

/*
 Give their rows back as if they had not been leased.
 */
#define RQ_RELEASE 3

/*
 For how long: as the table's policy says.
 */
#define RQ_BACKOFF UINT64_MAX

/*
 A queue whose rows nobody takes.
 */
typedef struct rq_copy rq_copy;

/*
 A walk over rows, and its current row.
 */
typedef struct rq_cursor rq_cursor;

/*
 What delivers the ticks of schedules.
 */
typedef struct rq_scheduler rq_scheduler;

/*
 A connection.
 */
typedef struct rq_session rq_session;

/*
 Bytes that belong to the other side, or, for the duration of a call, to this one.
 */
typedef struct {
  const uint8_t *bytes;
  size_t len;
} rq_slice;

/*
 What the core needs from the server.
 */
typedef struct {
  /*
   For tests: an INSERT of a row with these bytes panics while it is written. Empty for none.
   */
  rq_slice fault;
  /*
   Tells whoever reads the server's error log.
   */
  void (*tell)(rq_slice text);
  int (*equal)(uint32_t collation, rq_slice one, rq_slice other);
  /*
   Returns the length, or -1 when the character set lacks a character of the literal.
   */
  long (*encode)(uint32_t collation, rq_slice literal, uint8_t *out, size_t room);
  /*
   `padded`: whether the text ends with spaces that do not belong to it.
   */
  int (*like)(uint32_t collation, rq_slice text, int padded, rq_slice pattern, uint32_t escape);
  /*
   Converts to UTF-8. Returns the length, or -1 when the text is not of the character set.
   */
  long (*decode)(uint32_t collation, rq_slice text, uint8_t *out, size_t room);
} rq_server;

/*
 A buffer for the reason of a failure, which ends with a 0.
 */
typedef struct {
  char text[512];
} rq_error;

/*
 Called with the name of a column; any result but 0 ends the calls.
 */
typedef int (*rq_each_column_fn)(void *context, rq_slice name);

/*
 A column of a table that is being created.
 */
typedef struct {
  rq_slice name;
  /*
   `RQ_INTEGER` and so on, which also say what `one` and `two` mean.
   */
  uint32_t kind;
  uint32_t one;
  uint32_t two;
  uint32_t is_variable;
  /*
   Fixed: offset and length; variable: how many variable columns are before it.
   */
  uint32_t offset;
  uint32_t len;
  /*
   -1 for NOT NULL.
   */
  int32_t null_bit;
  /*
   The members of an ENUM.
   */
  const rq_slice *members;
  size_t member_count;
} rq_column;

/*
 A table that is being created.
 */
typedef struct {
  /*
   `RQ_SYNC_ALWAYS` and so on.
   */
  uint32_t sync;
  /*
   Whether the queue takes part in transactions.
   */
  int transactional;
  uint32_t null_bytes;
  uint32_t fixed_bytes;
  const rq_column *columns;
  size_t column_count;
  /*
   How many tries a row has; 0 for no limit.
   */
  uint64_t tries;
  /*
   How long a row waits after a failed try, as text; empty for not at all.
   */
  rq_slice backoff;
  /*
   The folder of the queue for rows that have no tries left; empty for none.
   */
  rq_slice dead_letter_folder;
  /*
   Whether what is known of rows is shown.
   */
  int shows_delivery_info;
  /*
   The number of the column that says when a row is due; -1 for none.
   */
  int32_t due;
  /*
   The number of the column that says which rows come first; -1 for none.
   */
  int32_t priority;
  /*
   The number of the column whose rows with the same value are given one after the other; -1 for none.
   */
  int32_t fifo;
  /*
   How many rows with the same value in it may be owned at once.
   */
  uint32_t concurrency;
  /*
   After how many seconds a row is as urgent as one that comes with a priority better by 1; 0: never.
   */
  uint32_t age_s;
  /*
   The number of the column that is the key to whose rows the rate applies; -1 for none.
   */
  int32_t rate_key;
  /*
   The number of the column that is the key by which rows are left out; -1 for none.
   */
  int32_t dedupe;
  /*
   For how long after a row others with its key are left out, milliseconds; 0: while it waits.
   */
  uint64_t dedupe_ms;
  /*
   For how long rows that were ended are kept, milliseconds; 0: not at all.
   */
  uint64_t keep_ms;
  /*
   How many rows may be given within a time, as text; empty for any number.
   */
  rq_slice rate;
  /*
   The names of those who are each given every row, with commas between them; empty for none.
   */
  rq_slice readers;
} rq_definition;

/*
 What is in a queue and what happened in it.
 */
typedef struct {
  /*
   When the oldest row was inserted: milliseconds since 1970; 0 when there is none.
   */
  uint64_t oldest_ms;
  uint64_t waiting;
  uint64_t owned;
  uint64_t leased;
  uint64_t delayed;
  uint64_t dead;
  uint64_t behind;
  uint64_t keys_busy;
  uint64_t transactions;
  uint64_t prepared;
  uint64_t in_doubt;
  uint64_t kept;
  uint64_t waiters;
  uint64_t paused;
  uint64_t keys_paused;
  uint64_t bytes;
  uint64_t live_bytes;
  uint64_t kept_bytes;
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
  uint64_t left_out;
  uint64_t replayed;
  uint64_t leases;
  uint64_t leases_expired;
  uint64_t leases_failed;
  uint64_t leases_refused;
  uint64_t tries_cut;
  uint64_t dead_lettered;
  /*
   How old rows were when they were given, in classes of milliseconds.
   */
  uint64_t waited[RQ_CLASSES];
  /*
   How long those who ended rows had had them.
   */
  uint64_t worked[RQ_CLASSES];
} rq_status;

/*
 Called with a queue; any result but 0 ends the calls.
 */
typedef int (*rq_each_fn)(void *context, rq_slice folder, const rq_status *status);

/*
 What a reader has before it.
 */
typedef struct {
  rq_slice name;
  uint64_t waiting;
  uint64_t owned;
  /*
   The first row that it has not ended, or the next new one.
   */
  uint64_t next;
  /*
   When that one was inserted: milliseconds since 1970; 0 when there is none.
   */
  uint64_t oldest_ms;
} rq_reader;

/*
 Called with a reader; any result but 0 ends the calls.
 */
typedef int (*rq_each_reader_fn)(void *context, rq_slice folder, const rq_reader *reader);

/*
 A row that somebody owns, for a reader unless that is empty.
 */
typedef struct {
  rq_slice reader;
  uint64_t row;
  /*
   The number of the connection; 0 for a lease.
   */
  uint64_t connection;
  uint64_t since_ms;
  /*
   When its lease or delay is over, milliseconds since 1970; 0 when it has none.
   */
  uint64_t until_ms;
  uint64_t failed;
} rq_owned;

/*
 Called with an owned row; any result but 0 ends the calls.
 */
typedef int (*rq_each_owned_fn)(void *context, rq_slice folder, const rq_owned *owned);

/*
 A queue to wait on.
 */
typedef struct {
  const rq_queue *queue;
  /*
   Empty for all rows.
   */
  rq_slice condition;
  /*
   The name of one of its readers; empty for none.
   */
  rq_slice reader;
} rq_target;

/*
 A wait calls this from time to time; 0 ends the wait.
 */
typedef int (*rq_alive)(void *context);

/*
 The name of a transaction, as X/Open XA defines it.
 */
typedef struct {
  int64_t format;
  rq_slice gtrid;
  rq_slice bqual;
} rq_xid;

/*
 Called with the name of a prepared transaction; any result but 0 says that its decision was forgotten.
 */
typedef int (*rq_each_prepared_fn)(void *context, const rq_xid *xid);

/*
 Tells the coordinator of transactions that it may forget those that it has asked about.
 */
typedef void (*rq_checkpoint_done_fn)(void *cookie);

/*
 What is known of a row besides.
 */
typedef struct {
  /*
   How many of its tries have failed.
   */
  uint64_t failed;
  /*
   Why the last one failed, in UTF-8; empty when nobody said.
   */
  rq_slice why;
  /*
   What ends it, without its table; empty unless the statement has leased it.
   */
  rq_slice token;
} rq_delivery_info;

/*
 Is given a row of a result. A value without bytes is NULL.
 */
typedef void (*rq_each_row_fn)(void *rows, const rq_slice *values, size_t count);

/*
 Runs a statement on the connection of the schedules, and gives each row of its result to `each`. Returns
 0, or the server's number of the error, with its text in `failed`.
 */
typedef unsigned int (*rq_query_fn)(void *connection, rq_slice sql, rq_each_row_fn each, void *rows, rq_error *failed);

/*
 Writes the folder of a table's queue into a buffer.
 */
typedef void (*RqFolderOf)(rq_slice database, rq_slice table, rq_error *folder);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Starts the engine, and opens the queues that take part in transactions, because the server then asks what
 is prepared. `files_max`: how many files may be open at once for all queues.
 */
int rq_start(const rq_server *server, size_t files_max, rq_error *error);

/*
 With `hold`, no row goes from one queue to another by itself until the call without it.
 */
int rq_pause_dead_letters(int hold);

/*
 Stops the engine: everything is synced and its threads have ended.
 */
int rq_stop(void);

/*
 Calls `each` with the name of every column of the queue, or, with a condition, of those that it asks for,
 and with an empty name if it asks for tries. Returns what `each` returned last.
 */
int rq_each_column(const rq_queue *queue, const rq_slice *condition, rq_each_column_fn each, void *context, rq_error *error);

/*
 Whether rows of this queue that have no tries left go to the other folder, at once or by way of others.
 */
int rq_leads_to(const rq_queue *queue, rq_slice folder);

/*
 Makes a queue.
 */
int rq_create(rq_slice folder, const rq_definition *definition, rq_error *error);

/*
 Drops a queue.
 */
int rq_drop(rq_slice folder, rq_error *error);

/*
 Moves a queue to another folder. `hold` is null, or that of the queue that a changed copy replaces.
 */
int rq_rename(rq_slice from, rq_slice to, const rq_copy *copy, rq_error *error);

/*
 Opens a queue; `rq_release` releases it.
 */
int rq_open(rq_slice folder, const rq_queue **queue, rq_error *error);

/*
 Whether reasons of failed tries are kept.
 */
int rq_keeps_reasons(const rq_queue *queue);

/*
 Whether rows that have no tries left could not be moved to where they should go; then the text is why.
 */
int rq_dead_letter_error(const rq_queue *queue, rq_error *why);

/*
 Releases a queue.
 */
void rq_release(const rq_queue *queue);

/*
 Empties a queue.
 */
int rq_truncate(const rq_queue *queue, rq_error *error);

/*
 Rewrites segments that have dead rows.
 */
int rq_compact(const rq_queue *queue, rq_error *error);

/*
 Gives rows again that were ended and are kept: those with numbers from `first` to `last` that were ended
 from `from_ms` to `to_ms`, milliseconds since 1970; to this reader, unless its name is empty. `given`
 receives how many.
 */
int rq_replay(const rq_queue *queue, rq_slice reader, uint64_t first, uint64_t last, uint64_t from_ms, uint64_t to_ms, uint64_t *given, rq_error *error);

/*
 Lets nobody take a row until `rq_end_hold`.
 */
int rq_hold(const rq_queue *queue, rq_error *error);

/*
 Pauses or resumes a queue, over restarts. `changed`: whether it was not so already.
 */
int rq_set_paused(const rq_queue *queue, int paused, int *changed, rq_error *error);

/*
 Pauses or resumes the key with these bytes, over restarts; without one it resumes all keys. `changed`:
 whether it was not so already.
 */
int rq_set_key_paused(const rq_queue *queue, const rq_slice *key, int paused, int *changed, rq_error *error);

/*
 Ends `rq_hold`.
 */
void rq_end_hold(const rq_queue *queue);

/*
 Lets nobody take a row until `rq_copy_end`, which may come after `rq_release`. Until then `rq_open` waits
 when it finds no queue in this folder, because the successor is about to come. Read rows with
 `rq_copy_scan` and note each with `rq_copy_read`; call `rq_copy_wrote` for each that goes to the copy.
 When `rq_rename` then moves the copy here, owners find their rows in it.
 */
int rq_copy_begin(const rq_queue *queue, rq_copy **hold, rq_error *error);

/*
 Begins a walk over all rows of a queue that is held back; with `kept` also over those that were ended and
 are kept, which a copy that is no queue must not have.
 */
int rq_copy_scan(const rq_copy *hold, int kept, rq_cursor **cursor);

/*
 Notes that a row was read to be copied.
 */
void rq_copy_read(rq_copy *hold);

/*
 Notes that the copy is complete. From now on a crash may leave the server with either of the two: a row
 that is ended in one is ended in the other.
 */
int rq_copy_complete(rq_copy *hold, const rq_queue *copy, rq_error *error);

/*
 Notes that the last row that was read goes to the copy. It is an error when another row goes there: owners
 would lose theirs.
 */
int rq_copy_wrote(rq_copy *hold, rq_error *error);

/*
 Whether the queue that is held back is not there any more: it was dropped, or its copy has its place.
 */
int rq_copy_is_over(const rq_copy *hold);

/*
 Ends `rq_copy_begin`.
 */
void rq_copy_end(rq_copy *hold);

/*
 What is in a queue.
 */
int rq_get_status(const rq_queue *queue, rq_status *out);

/*
 What is in all open queues, and what happened since the start in all that were ever open.
 */
int rq_get_total(rq_status *out);

/*
 How many rows are not gone; unlike the status, this takes no time.
 */
uint64_t rq_rows(const rq_queue *queue);

/*
 The end of a class of times in milliseconds; 0 for the last one, which has none.
 */
uint64_t rq_class_end(size_t class_);

/*
 Calls `each` for every open queue with its folder.
 */
int rq_each(rq_each_fn each, void *context);

/*
 Calls `each` for every reader of every open queue.
 */
int rq_each_reader(rq_each_reader_fn each, void *context);

/*
 Calls `each` for every owned row of every open queue.
 */
int rq_each_owned(rq_each_owned_fn each, void *context);

/*
 Begins a connection.
 */
int rq_session_new(uint64_t number, rq_session **session, rq_interrupter **interrupter);

/*
 Ends a connection; the rows that it owned go back. With `died` that is a failed try, in queues that count
 them. A transaction is rolled back, but a prepared one stays prepared.
 */
void rq_session_free(rq_session *session, rq_interrupter *interrupter, int died);

/*
 Ends the current wait.
 */
void rq_interrupt(const rq_interrupter *interrupter);

/*
 Whether the connection sees only its own rows.
 */
int rq_is_owner(const rq_session *session);

/*
 The id of the first row that the connection owns; 0 when there is none.
 */
uint64_t rq_owned_row(rq_session *session);

/*
 The folder of the queue whose rows the connection owns, or of the copy that is about to replace it; 0 when
 it owns none.
 */
int rq_owned_folder(rq_session *session, rq_error *folder);

/*
 How many rows of a queue the connection sees.
 */
uint64_t rq_count(const rq_session *session, const rq_queue *queue);

/*
 Like `rq_open`, but faster when the session asks for the same folder again.
 */
int rq_find(rq_session *session, rq_slice folder, const rq_queue **queue, rq_error *error);

/*
 The next `rq_scan` of this queue begins at this row and includes owned rows, until `rq_peek_end`. Returns
 the row before which it will end, or 0 after a bug in the engine.
 */
uint64_t rq_peek(rq_session *session, const rq_queue *queue, uint64_t from);

/*
 Ends `rq_peek`.
 */
void rq_peek_end(rq_session *session);

/*
 Begins a walk over the rows that the connection sees. An owner sees the rows that it owns, and any other
 connection those that `sees` says: `RQ_WAITING` and so on.
 */
int rq_scan(rq_session *session, const rq_queue *queue, int sees, rq_cursor **cursor);

/*
 Sets the origin of the next publish. The slot is 0 to 63, otherwise `RQ_END`. Row 0: no origin.
 */
int rq_set_origin(rq_session *session, uint32_t slot, int overwrite, uint64_t row);

/*
 Whether the next publish has an origin: it is then one unit, however large.
 */
int rq_has_origin(const rq_session *session);

/*
 The origin that a relay sends with the first owned row, as text; `RQ_END` when there is none.
 */
int rq_origin(rq_session *session, rq_error *text, rq_error *error);

/*
 Sets the origin of the next publish from a text that `rq_origin` wrote; `RQ_END` when it is another text.
 */
int rq_set_origin_text(rq_session *session, rq_slice text);

/*
 Drops the origin, because the statement that `rq_set_origin` was for has failed.
 */
void rq_forget_origin(rq_session *session);

/*
 Adds rows. Unless they are relayed, or are `copied` from another table, those that are doubles are left
 out, and counted.
 */
int rq_publish(rq_session *session, const rq_queue *queue, const rq_slice *rows, size_t count, int copied, uint64_t *left_out, rq_error *error);

/*
 Adds rows for a statement that may still fail: nobody sees or takes them until `rq_end_statement`.
 */
int rq_publish_in_statement(rq_session *session, const rq_queue *queue, const rq_slice *rows, size_t count, rq_error *error);

/*
 Whether the connection has rows from `rq_publish_in_statement`.
 */
int rq_has_statement_rows(const rq_session *session);

/*
 Lets others take the rows from `rq_publish_in_statement`, but for doubles, which are left out and counted;
 or, without `keep`, removes them.
 */
int rq_end_statement(rq_session *session, int keep, uint64_t *left_out, rq_error *error);

/*
 Takes rows, or waits for them; owned rows are acknowledged first. With `within` that is part of the
 transaction if the queue takes part in transactions; `rq_tx_add_taken` then adds the taken rows. A
 `timeout_ms` below 0 is none. `alive` is called from time to time. `outcome` receives `RQ_TAKEN` and so
 on, `taken` the index of the target.
 */
int rq_wait(rq_session *session, const rq_target *targets, size_t count, size_t rows_max, int within, int64_t timeout_ms, rq_alive alive, void *context, int *outcome, size_t *taken, rq_error *error);

/*
 Ends the owned rows: they are gone.
 */
int rq_end(rq_session *session, rq_error *error);

/*
 Gives the owned rows back.
 */
int rq_abort(rq_session *session, rq_error *error);

/*
 Gives the owned rows back because nobody could be told of them: a failed try, in queues that count them.
 */
int rq_fail(rq_session *session, rq_error *error);

/*
 Deletes rows that the connection owns and rows that nobody owns.
 */
int rq_delete(rq_session *session, const rq_queue *queue, const uint64_t *rows, size_t count, rq_error *error);

/*
 Like `rq_wait`, but the rows are leased for this time, and what the connection owns stays as it is. The
 next walks over the queue, until `rq_leased_end`, show what was leased and nothing else.
 */
int rq_lease(rq_session *session, const rq_target *targets, size_t count, size_t rows_max, uint64_t lease_ms, int64_t timeout_ms, rq_alive alive, void *context, int *outcome, size_t *taken, rq_error *error);

/*
 The tokens of the rows that the statement leased last, with a comma between them, each after `table` and a
 colon. The text belongs to the session until its next use. `RQ_END` when it has leased nothing.
 */
int rq_leased_tokens(rq_session *session, rq_slice table, rq_slice *text, rq_error *error);

/*
 The rows that the statement leased last, as a JSON array of objects with `token`, `try`, `row`, and
 `why` its last try failed if somebody said so and `with_why`;
 otherwise like `rq_leased_tokens`. With `strings` numbers in rows are text.
 */
int rq_leased_json(rq_session *session, rq_slice table, int with_why, int strings, rq_slice *text, rq_error *error);

/*
 How many rows the statement leased last.
 */
uint64_t rq_leased_rows(const rq_session *session);

/*
 Whether rows of the queue can be shown as JSON; otherwise the error is the column that can't.
 */
int rq_has_json(const rq_queue *queue, rq_error *column);

/*
 Forgets what the statement has leased; without `keep`, because it has failed, the rows go back. With
 `died`, because its client could not be told, that is a failed try.
 */
int rq_leased_end(rq_session *session, int keep, int died, rq_error *error);

/*
 Does something (`RQ_ACK` and so on) with tokens of a queue, which have a comma between them. `ms` is the
 new length of the leases, or the delay of what is given back (`RQ_BACKOFF` for that of the policy), and
 `why` is why its try failed. With `within`, rows are ended by the transaction. `stale` receives the tokens
 that were not good, with a comma between them; it belongs to the session until its next use.
 */
int rq_use_tokens(rq_session *session, const rq_queue *queue, int what, rq_slice tokens, uint64_t ms, rq_slice why, int within, rq_slice *stale, rq_error *error);

/*
 Whether the queue takes part in transactions.
 */
int rq_is_transactional(const rq_queue *queue);

/*
 Whether the connection owns rows of a queue that takes part in transactions.
 */
int rq_owns_transactional(rq_session *session);

/*
 Adds a row when the transaction is committed. Nobody sees it before.
 */
int rq_tx_publish(rq_session *session, const rq_queue *queue, rq_slice row, rq_error *error);

/*
 Like `rq_delete`, but the rows are gone at the transaction's commit, and come back at its rollback.
 */
int rq_tx_delete(rq_session *session, const rq_queue *queue, const uint64_t *rows, size_t count, rq_error *error);

/*
 Like `rq_end`, but rows of a queue that takes part in transactions are gone when the transaction is
 committed, and come back when it is rolled back.
 */
int rq_tx_end(rq_session *session, rq_error *error);

/*
 Makes the rows that the connection has just taken a part of the transaction, if their queue takes part in
 transactions.
 */
int rq_tx_add_taken(rq_session *session, rq_error *error);

/*
 A statement of the transaction has ended; without `keep`, what it did is undone. With `died`, because its
 client could not be told, what it has taken is a failed try, in queues that count them.
 */
int rq_tx_statement(rq_session *session, int keep, int died, rq_error *error);

/*
 Makes a savepoint and returns its number, or 0 after a bug in the engine.
 */
uint64_t rq_tx_savepoint(rq_session *session);

/*
 Undoes what arrived after a savepoint, which stays.
 */
int rq_tx_roll_back_to(rq_session *session, uint64_t savepoint, rq_error *error);

/*
 Removes a savepoint.
 */
void rq_tx_release(rq_session *session, uint64_t savepoint);

/*
 Begins what `rq_tx_prepare` does, so that it shares the writes of others. After an error the transaction
 must be rolled back.
 */
int rq_tx_begin_prepare(rq_session *session, const rq_xid *xid, rq_error *error);

/*
 The coordinator has committed the transaction and remembers it until `rq_request_checkpoint` is answered.
 */
void rq_tx_commit_ordered(rq_session *session);

/*
 Makes the transaction durable, so that it can be committed or rolled back also after a crash. After an
 error it must be rolled back.
 */
int rq_tx_prepare(rq_session *session, const rq_xid *xid, rq_error *error);

/*
 Commits the transaction. After an error it is rolled back.
 */
int rq_tx_commit(rq_session *session, rq_error *error);

/*
 Rolls the transaction back. With `died`, because its connection has ended, what it has taken and not ended
 is a failed try, in queues that count them.
 */
int rq_tx_rollback(rq_session *session, int died, rq_error *error);

/*
 Calls `each` with the XID of every transaction that is prepared in a queue and waits for a coordinator.
 */
int rq_each_prepared(rq_each_prepared_fn each, void *context);

/*
 Commits the prepared transaction with this XID in all queues, or, without `commit`, rolls it back.
 `RQ_MISSING` when there is none.
 */
int rq_decide(const rq_xid *xid, int commit, rq_error *error);

/*
 Makes the commits that the coordinator remembers durable, but for those that are under way.
 */
int rq_sync_commits(rq_error *error);

/*
 The coordinator asks whether it may forget what is in order by now. `forget` is called with the cookie
 when it may: before this returns, or later by any thread.
 */
void rq_request_checkpoint(rq_checkpoint_done_fn forget, void *cookie);

/*
 The next row. It belongs to the cursor until its next use.
 */
int rq_next(rq_cursor *cursor, uint64_t *id, rq_slice *row, rq_error *error);

/*
 Reads a row by its id, into the cursor.
 */
int rq_read(rq_cursor *cursor, uint64_t id, rq_slice *row, rq_error *error);

/*
 What is known of the last row besides, in queues that were made with `noted`. The texts belong to the
 cursor until its next use.
 */
int rq_last_delivery_info(rq_cursor *cursor, rq_delivery_info *known);

/*
 Ends a walk.
 */
void rq_scan_end(rq_cursor *cursor);

/*
 What delivers ticks, until `rq_scheduler_free`.
 */
rq_scheduler *rq_scheduler_new(void);

/*
 Frees it.
 */
void rq_scheduler_free(rq_scheduler *scheduler);

/*
 Delivers the ticks that have come. `connection` is for `query`; `tell` writes into the error log.
 `sleep_ms`: in how many milliseconds to call this again.
 */
int rq_scheduler_pass(rq_scheduler *scheduler, rq_query_fn query, void *connection, RqFolderOf folder_of, void (*tell)(rq_slice text), uint64_t *sleep_ms, rq_error *error);

/*
 When a schedule comes next after a time; both in microseconds since 1970, and with `INT64_MIN` after now.
 */
int rq_next_tick(rq_slice spec, rq_slice zone, int64_t after_us, int64_t *next_us, rq_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUEUE_ABI_H */
