/* What the handler and the functions share of a connection. */
#ifndef QUEUE_CONNECTION_H
#define QUEUE_CONNECTION_H

#include "queue_abi.h"

/* What a handlerton calls for a connection has the handlerton as its first argument in older servers. */
#if MYSQL_VERSION_ID < 110800
#define QUEUE_HTON handlerton *hton,
#else
#define QUEUE_HTON
#endif

/* The engine as the server knows it; none while it is not loaded. */
extern handlerton *queue_hton;

/* What a connection has with us. */
struct queue_connection {
  rq_session *session;
  rq_interrupter *interrupter;
  /* Walks over rows that the statement has begun. */
  uint reading;
  /* What queue_peek() said last. */
  longlong peeked;
  /* The statement that rows were taken by last, by its number; 0 when the command that it was part of is
     over. */
  query_id_t taken;
  /* A queue that nobody takes from until the statement has ended. */
  rq_hold *held_back;
};

/* For `taken`: by the statement that calls a function; by an earlier statement of a CALL that is not over. */
static const query_id_t queue_taken_inside= ~static_cast<query_id_t>(0), queue_taken_before= queue_taken_inside - 1;

/* The connection of a session, made when it is first asked for; none when there is no memory or no engine. */
queue_connection *queue_connection_of(THD *thd);

/* The connection has waited: it sees its own rows only. */
void queue_mark_owner(THD *thd);

/* Whether the connection, while it owns nothing, sees rows that others own. */
bool queue_shows_owned(THD *thd);

/*
  Whether a replica would ask its own queues for `what`, or wait in them for it: true with an error. Where the
  server can, it logs such a statement by rows.
*/
bool queue_is_logged_as_text(THD *thd, const char *what);

/* Lets others take again from the queue that the connection held back. */
void queue_let_go(queue_connection *connection);

/* The option --queue-fault, for tests: text in a row that makes the engine fail inside. Empty when it is not
   given. */
const char *queue_fault();

/* How many files all queues together may have open. */
size_t queue_open_files();

/* For the plugin's declaration. */
extern struct st_mysql_sys_var *queue_variables[];
int queue_close_connection(QUEUE_HTON THD *thd);
void queue_kill_query(handlerton *hton, THD *thd, enum thd_kill_levels level);
void queue_command_ended(THD *thd, unsigned int event_class, const void *event);

#endif
