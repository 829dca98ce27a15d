/* The table options of CREATE TABLE ... ENGINE=QUEUE. */
#ifndef QUEUE_OPTIONS_H
#define QUEUE_OPTIONS_H

/* The server declares this name and leaves its members to the engine. */
struct ha_table_option_struct {
  uint sync; /* RQ_SYNC_ALWAYS and so on */
  ulonglong tries;
  const char *backoff, *dead, *failed, *why, *token, *due, *priority, *fifo, *dedupe, *rate, *rate_key, *readers;
  ulonglong concurrency;
  ulonglong age, dedupe_for, keep; /* seconds */
};

/* The default of DEDUPE_FOR, in seconds. */
static const ulonglong queue_dedupe_for= 300;

#endif
