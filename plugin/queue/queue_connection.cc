/* What a connection has with queues. See queue_connection.h. */
#define MYSQL_SERVER 1

#include <my_global.h>

#include "sql_class.h"
#include "sql_plugin.h"
#include "handler.h"
#include <mysql/plugin_audit.h>

#include "queue_connection.h"

handlerton *queue_hton;

/*
  Set by a wait, and set back by the server when the connection is reset or changes its user, of which an engine is not
  told otherwise.
*/
static MYSQL_THDVAR_BOOL(owner, PLUGIN_VAR_READONLY | PLUGIN_VAR_NOCMDOPT,
                         "Whether this connection sees the rows of queues that it owns, and no others", nullptr, nullptr,
                         FALSE);

static char *fault;

static MYSQL_SYSVAR_STR(fault, fault, PLUGIN_VAR_READONLY | PLUGIN_VAR_NOSYSVAR | PLUGIN_VAR_RQCMDARG,
                        "For tests: a row with this text makes the engine fail inside", nullptr, nullptr, "");

struct st_mysql_sys_var *queue_variables[]= {MYSQL_SYSVAR(owner), MYSQL_SYSVAR(fault), nullptr};

const char *queue_fault()
{
  return fault ? fault : "";
}

void queue_mark_owner(THD *thd)
{
  THDVAR(thd, owner)= TRUE;
}

static queue_connection *after_reset(THD *thd, queue_connection *connection)
{
  if (!rq_is_owner(connection->session))
    THDVAR(thd, owner)= FALSE;
  else if (!THDVAR(thd, owner)) {
    rq_error error;
    rq_abort(connection->session, &error);
  }
  return connection;
}

queue_connection *queue_connection_of(THD *thd)
{
  if (!queue_hton) {
    my_printf_error(ER_UNKNOWN_STORAGE_ENGINE, "Unknown storage engine 'QUEUE': run sql/queue.sql", MYF(0));
    return nullptr;
  }
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (!connection) {
    connection= new queue_connection();
    if (rq_session_new(thd_get_thread_id(thd), &connection->session, &connection->interrupter)) {
      delete connection;
      return nullptr;
    }
    thd_set_ha_data(thd, queue_hton, connection);
  }
  return after_reset(thd, connection);
}

void queue_let_go(queue_connection *connection)
{
  if (connection->held_back)
    rq_let_go(connection->held_back);
  connection->held_back= nullptr;
}

/* A command of the client has ended; one of them is the reset of the connection. */
void queue_command_ended(THD *thd, unsigned int, const void *event)
{
  if (static_cast<const mysql_event_general *>(event)->event_subclass != MYSQL_AUDIT_GENERAL_STATUS || !queue_hton)
    return;
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection) {
    after_reset(thd, connection);
    queue_let_go(connection);
    rq_peek_end(connection->session);
  }
}

int queue_close_connection(QUEUE_HTON THD *thd)
{
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection) {
    thd_set_ha_data(thd, queue_hton, nullptr);
    queue_let_go(connection);
    rq_session_free(connection->session, connection->interrupter);
    delete connection;
  }
  return 0;
}

void queue_kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection)
    rq_interrupt(connection->interrupter);
}
