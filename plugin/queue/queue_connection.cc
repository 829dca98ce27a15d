/* The queue's state of a connection. See queue_connection.h. */
#include "queue_server.h"

#include "sql_plugin.h"
#include "mysqld.h"
#include <mysql/plugin_audit.h>

#include "queue_connection.h"

extern "C" {
/* Exported by the server, but not declared in its headers. */
int thd_binlog_format(const THD *thd);
}

handlerton *queue_hton;

/*
  A wait sets it. The server resets it when the connection is reset or changes its user, and tells an engine
  in no other way.
*/
static MYSQL_THDVAR_BOOL(owner, PLUGIN_VAR_READONLY | PLUGIN_VAR_NOCMDOPT,
                         "Whether this connection sees only the queue rows that it owns", nullptr, nullptr,
                         FALSE);

static MYSQL_THDVAR_BOOL(show_owned, PLUGIN_VAR_OPCMDARG,
                         "SELECT also shows rows that others own, for example for a dump; a connection that owns rows sees only these",
                         nullptr, nullptr, FALSE);

static MYSQL_THDVAR_BOOL(show_kept, PLUGIN_VAR_OPCMDARG,
                         "Statements that read a queue see only acknowledged rows that are kept (KEEP); a "
                         "connection that owns rows sees only these", nullptr, nullptr, FALSE);

static MYSQL_THDVAR_BOOL(json_strings, PLUGIN_VAR_OPCMDARG,
                         "queue_lease_json() writes numbers as strings, for languages whose numbers have 53 bits", nullptr,
                         nullptr, FALSE);

static unsigned long open_files;

static MYSQL_SYSVAR_ULONG(open_files, open_files, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "Maximum number of open files of all queues; the least recently used are closed when there are "
                          "more. 0: a quarter of open_files_limit",
                          nullptr, nullptr, 0, 0, 1 << 20, 0);

static char *fault;

static MYSQL_SYSVAR_STR(fault, fault, PLUGIN_VAR_READONLY | PLUGIN_VAR_NOSYSVAR | PLUGIN_VAR_RQCMDARG,
                        "For tests: a row with this text makes the engine fail inside, or the server dies at the point of a "
                        "commit that has this name", nullptr, nullptr, "");

struct st_mysql_sys_var *queue_variables[]= {MYSQL_SYSVAR(owner), MYSQL_SYSVAR(show_owned), MYSQL_SYSVAR(show_kept),
                                             MYSQL_SYSVAR(json_strings), MYSQL_SYSVAR(open_files), MYSQL_SYSVAR(fault), nullptr};

const char *queue_fault()
{
  return fault ? fault : "";
}

/* Besides its tables the server needs files for connections and logs. */
size_t queue_open_files()
{
  return open_files ? open_files : MY_MAX(::open_files_limit / 4, 16);
}

void queue_mark_owner(THD *thd)
{
  THDVAR(thd, owner)= TRUE;
}

bool queue_shows_owned(THD *thd)
{
  return THDVAR(thd, show_owned);
}

bool queue_json_strings(THD *thd)
{
  return THDVAR(thd, json_strings);
}

bool queue_shows_kept(THD *thd)
{
  return THDVAR(thd, show_kept);
}

/* Whether a statement of this kind is logged when it changes what is replicated. */
static bool changes_rows(int command)
{
  switch (command) {
  case SQLCOM_INSERT:
  case SQLCOM_INSERT_SELECT:
  case SQLCOM_REPLACE:
  case SQLCOM_REPLACE_SELECT:
  case SQLCOM_UPDATE:
  case SQLCOM_UPDATE_MULTI:
  case SQLCOM_DELETE:
  case SQLCOM_DELETE_MULTI:
  case SQLCOM_LOAD:
  case SQLCOM_CREATE_TABLE:
    return true;
  default:
    return false;
  }
}

/*
  Whether the statement that contains a function or a trigger changes a replicated table, directly or in what
  it calls: all of its tables are open.
*/
static bool outer_changes_rows(THD *thd)
{
  for (const TABLE *table= thd->open_tables; table; table= table->next)
    if (table->reginfo.lock_type >= TL_FIRST_WRITE && !table->s->no_replicate)
      return true;
  return false;
}

bool queue_is_logged_as_statement(THD *thd, const char *what)
{
  if (thd->is_current_stmt_binlog_format_row())
    return false;
  /* Inside a function or a trigger the server sets its logging state aside until that is over. */
  const bool inside= thd->in_sub_stmt;
  const bool as_text= inside ? opt_bin_log && thd->variables.sql_log_bin &&
                                   thd->variables.binlog_format == BINLOG_FORMAT_STMT
                             : thd_binlog_format(thd) == BINLOG_FORMAT_STMT &&
                                   thd->get_binlog_local_stmt_filter() != THD::BINLOG_FILTER_SET;
  if (!as_text || !(inside ? outer_changes_rows(thd) : changes_rows(thd_sql_command(thd))))
    return false;
  my_printf_error(ER_GET_ERRMSG,
                  "Queue: %s in a statement that changes a replicated table needs binlog_format=ROW or MIXED: a replica "
                  "would read its own queues",
                  MYF(0), what);
  return true;
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

queue_connection *queue_existing_connection(THD *thd)
{
  return thd && queue_hton ? static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton)) : nullptr;
}

bool queue_is_undelivered(THD *thd)
{
  const enum_server_command command= thd->get_command();
  if (abort_loop || command == COM_RESET_CONNECTION || command == COM_CHANGE_USER)
    return false;
  return thd->killed >= KILL_CONNECTION || thd->net.error;
}

void queue_end_copy(queue_connection *connection)
{
  if (connection->alter_copy)
    rq_copy_end(connection->alter_copy);
  connection->alter_copy= nullptr;
}

void queue_end_copy_if_over(queue_connection *connection)
{
  if (connection->alter_copy && rq_copy_is_over(connection->alter_copy))
    queue_end_copy(connection);
}

/*
  When a statement ends in an error, the rows that it took go back, because no client received them; that is a
  failed try if it ended because they could not be sent. A
  statement in a procedure stands for itself, and is part of the CALL; one in a function or a trigger is part
  of the calling statement.
*/
static void give_back_taken(THD *thd, queue_connection *connection, bool failed)
{
  if (!connection->taken_by || thd->in_sub_stmt)
    return;
  rq_error error;
  if (failed && (!thd->spcont || connection->taken_by == thd->query_id || connection->taken_by == queue_taken_inside)) {
    auto *give_back= queue_is_undelivered(thd) ? rq_fail : rq_abort;
    if (rq_is_owner(connection->session) && give_back(connection->session, &error))
      sql_print_error("Queue: %s", error.text);
    connection->taken_by= 0;
  }
  if (!thd->spcont)
    connection->taken_by= 0;
  else if (connection->taken_by == queue_taken_inside)
    connection->taken_by= queue_taken_before;
}

/*
  Called when a statement ends, and when a command of the client ends; one of these is the reset of the
  connection. Not called for what a replica applies: whatever must be done there too is done by the handler.
*/
void queue_command_ended(THD *thd, unsigned int, const void *data)
{
  const auto *event= static_cast<const mysql_event_general *>(data);
  if (event->event_subclass != MYSQL_AUDIT_GENERAL_STATUS || !queue_hton)
    return;
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection) {
    const bool failed= event->general_error_code != 0;
    /* The arguments of a CALL live as long as the procedure runs, but its client was told what it took. */
    if (!thd->in_sub_stmt)
      connection->taking_call= connection->leasing_call= connection->do_call= nullptr;
    give_back_taken(thd, connection, failed);
    /* Ends what the handler was not told about: a statement on a trigger's table under LOCK TABLES. */
    rq_error error;
    uint64_t left_out;
    if (!thd->in_sub_stmt && rq_has_statement_rows(connection->session) && rq_end_statement(connection->session, !failed, &left_out, &error))
      sql_print_error("Queue: %s", error.text);
    after_reset(thd, connection);
    queue_end_copy(connection);
    rq_peek_end(connection->session);
    /* Nobody was told of what a failed statement has leased. */
    if (!thd->in_sub_stmt && rq_leased_end(connection->session, !failed, queue_is_undelivered(thd), &error))
      sql_print_error("Queue: %s", error.text);
  }
}

int queue_close_connection(QUEUE_HTON THD *thd)
{
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection) {
    thd_set_ha_data(thd, queue_hton, nullptr);
    queue_end_copy(connection);
    /* The server, which ends connections when it stops, is not to blame for the rows. */
    rq_session_free(connection->session, connection->interrupter, !abort_loop);
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
