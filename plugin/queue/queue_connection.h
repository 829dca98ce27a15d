/* What the handler and the functions share for a connection. */
#ifndef QUEUE_CONNECTION_H
#define QUEUE_CONNECTION_H

#include <string>

#include "queue_abi.h"

/* In older servers the functions that a handlerton has for connections take the handlerton as their first
   argument. */
#if MYSQL_VERSION_ID < 110800
#define QUEUE_HTON handlerton *hton,
#else
#define QUEUE_HTON
#endif

/* The engine as the server knows it; null while it is not loaded. */
extern handlerton *queue_hton;

/* The queue's state of a connection. */
struct queue_connection {
  rq_session *session;
  rq_interrupter *interrupter;
  /* How many scans of queues are open. */
  uint open_scans;
  /* The last result of queue_peek(). */
  longlong peek_end;
  /* The id of the statement that last took rows, or one of the values below; 0 once the command that
     contained it has ended. */
  query_id_t taken_by;
  /* The id of the statement that last took rows, also inside a function or a trigger; never reset. */
  query_id_t waited_in;
  /* The call that took rows, and the one that leased rows, while their statements run. */
  const void *taking_call, *leasing_call;
  /* The call that takes or leases rows in a DO, while that runs. */
  const void *do_call;
  /* The id of the statement that last leased rows, and their table as tokens name it. */
  query_id_t leased_in;
  std::string leased_from;
  /* The stale tokens among those that a function last used, with commas between them. */
  std::string stale_tokens;
  /* How many rows the last wait or lease took, and from which table; 0 once the client was told of them. */
  uint64_t rows_taken;
  std::string taken_from;
  /* The copy that ALTER TABLE makes: nobody takes rows from its queue until the statement has ended. */
  rq_copy *alter_copy;
};

/* Values of `taken_by`: taken inside a function that the statement calls; taken by an earlier statement of a
   CALL that has not ended. */
static const query_id_t queue_taken_inside= ~static_cast<query_id_t>(0), queue_taken_before= queue_taken_inside - 1;

/* The state of a session's connection, made at the first call; null without memory or without the engine. */
queue_connection *queue_connection_of(THD *thd);

/* The same, if it was made already. */
queue_connection *queue_existing_connection(THD *thd);

/* Notes that the connection has waited: it sees only its own rows. */
void queue_mark_owner(THD *thd);

/* Whether the connection, while it owns no rows, sees rows that others own. */
bool queue_shows_owned(THD *thd);

/* Whether SELECT of this connection shows rows that were ended and are kept, and no others. */
bool queue_shows_kept(THD *thd);

/* Whether queue_lease_json() writes numbers as text. */
bool queue_json_strings(THD *thd);

/*
  Whether a replica would run `what` on its own queues, or wait in them: true with an error. Where the server
  can, it logs such a statement by rows.
*/
bool queue_is_logged_as_statement(THD *thd, const char *what);

/*
  Whether nobody got what the statement took: its result could not be sent, or its connection is being ended.
  The server, which ends connections when it stops, is not to blame for the rows, and neither is a pool that
  resets one.
*/
bool queue_is_undelivered(THD *thd);

/* Ends the copy that the connection makes for ALTER TABLE: others take from the queue again. */
void queue_end_copy(queue_connection *connection);

/* The same, once the queue is gone: ALTER has dropped it, or its copy has replaced it. */
void queue_end_copy_if_over(queue_connection *connection);

/* The option --queue-fault, for tests: a row with this text makes the engine fail inside. Empty when it is
   not given. */
const char *queue_fault();

/* How many files all queues together may have open. */
size_t queue_open_files();

/* For the plugin's declaration. */
extern struct st_mysql_sys_var *queue_variables[];
int queue_close_connection(QUEUE_HTON THD *thd);
void queue_kill_query(handlerton *hton, THD *thd, enum thd_kill_levels level);
void queue_command_ended(THD *thd, unsigned int event_class, const void *event);

#endif
