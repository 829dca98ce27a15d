/* ENGINE=QUEUE: the handler, except for reading. See ha_queue.h. */
#define MYSQL_SERVER 1

#include <my_global.h>

#include <string>

#include "sql_class.h"
#include "sql_acl.h"
#include "mysqld.h"
#include "table.h"
#include "handler.h"
#include "sql_table.h"
#ifdef WITH_WSREP
#include "wsrep_on.h"
#endif

#include "ha_queue.h"
#include "queue_opened.h"
#include "queue_order.h"
#include "queue_row.h"
#include "queue_transaction.h"

extern "C" {
/* Exported by the server, but not declared in its headers: the error that the statement ended with, or 0. */
int thd_current_status(THD *thd);
}

/* Rows of a multi-row INSERT are published when they have this many bytes together. */
static const size_t gather_bytes_max= 64 << 20;

/* How many rows of a DELETE are removed at once, with one sync; nobody takes rows meanwhile. */
static const size_t remove_rows_max= 4096;

static rq_slice slice_of(const std::string &text)
{
  return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

/* A queue is in a folder beside the table's .frm. */
static std::string folder_of(const char *name)
{
  return std::string(name) + ".queue";
}

/* Errors
   -----------------------------------------------------------------------------------------------------------
   */

int ha_queue::fail(int code, const rq_error &error) const
{
  switch (code) {
  case RQ_OK:
    return 0;
  case RQ_MISSING:
    return HA_ERR_NO_SUCH_TABLE;
  case RQ_EXISTS:
    return HA_ERR_TABLE_EXIST;
  case RQ_CORRUPT:
    my_printf_error(ER_NOT_KEYFILE, "%s", MYF(0), error.text);
    return HA_ERR_CRASHED;
  default:
    my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
    return HA_ERR_INTERNAL_ERROR;
  }
}

/* Definition
   ------------------------------------------------------------------------------------------------------- */

/*
  The folder of the queue that takes rows without tries left. One that is not there yet may come later. False
  with an error when the user may not insert into it.
*/
static bool queue_grave_of(THD *thd, const TABLE *form, const ha_table_option_struct *options, std::string *folder)
{
  const std::string dead= options->dead ? options->dead : "";
  if (dead.empty())
    return true;
  if (!options->tries) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD needs TRIES: without it a row never runs out of tries", MYF(0));
    return false;
  }
  queue_opened grave;
  const std::string db(form->s->db.str, form->s->db.length), table(form->s->table_name.str, form->s->table_name.length);
  queue_name named(dead);
  if (named.db.empty())
    named.db= db;
  if (!grave.open(thd, named, INSERT_ACL)) {
    if (!grave.is_missing) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD='%s' can't be used: %s", MYF(0), dead.c_str(), grave.why.c_str());
      return false;
    }
    queue_warn(thd, grave.why.c_str(), grave.refused);
  }
  if (grave.db == db && grave.table == table) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD='%s' is the table itself; name another queue", MYF(0), dead.c_str());
    return false;
  }
  char path[FN_REFLEN + 1];
  build_table_filename(path, sizeof(path) - 8, db.c_str(), table.c_str(), ".queue", 0);
  if (grave.queue && rq_leads_to(grave.queue, slice_of(path))) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD='%s' leads back to the table itself: its rows would be tried for ever; "
                    "name a queue that ends elsewhere", MYF(0), dead.c_str());
    return false;
  }
  *folder= grave.folder;
  return true;
}

/* What readers can't go together with. False with an error. */
static bool readers_fit(const ha_table_option_struct *options, bool transactional)
{
  if (!options->readers || !*options->readers)
    return true;
  auto is_set= [](const char *option) { return option && *option; };
  const char *why= nullptr;
  if (!options->keep)
    why= "READERS needs KEEP: a new reader begins with the oldest row that is kept";
  else if (transactional)
    why= "READERS can't go with TRANSACTIONAL=1: a transaction ends a row for all, not for a reader";
  else if (is_set(options->priority) || is_set(options->fifo))
    why= "READERS can't go with PRIORITY or FIFO: each reader is given the rows in the order of their numbers";
  else if (options->tries || is_set(options->backoff) || is_set(options->dead))
    why= "READERS can't go with TRIES, BACKOFF or DEAD: tries are counted for a row, and not for each of its readers";
  else if (is_set(options->failed) || is_set(options->why) || is_set(options->token))
    why= "READERS can't go with FAILED, WHY or TOKEN: they show tries and leases, which readers don't have";
  if (why)
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: %s", MYF(0), why);
  return !why;
}

/*
  Whether CREATE TABLE ... SELECT is refused, with an error: the server logs no statement that fills a
  queue, so a replica would not have the table, and would stop when it is altered or dropped.
*/
static bool refuses_select(THD *thd)
{
  if (thd_sql_command(thd) != SQLCOM_CREATE_TABLE || !opt_bin_log || !(thd->variables.option_bits & OPTION_BIN_LOG) ||
      !(thd->lex->first_select_lex()->item_list.elements || thd->lex->first_select_lex()->tvc))
    return false;
  my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: CREATE TABLE ... SELECT would not be in the binary log; use CREATE TABLE "
                  "and then INSERT ... SELECT", MYF(0));
  return true;
}

int ha_queue::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  if (refuses_select(ha_thd()))
    return HA_ERR_UNSUPPORTED;
  if (form->versioned()) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: rows that are taken leave no history; leave SYSTEM VERSIONING out",
                    MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
#ifdef WITH_WSREP
  /* The other members would have the table, but none of its rows. */
  if (const THD *thd= ha_thd(); thd && thd->variables.wsrep_on) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                    "Queue: Galera does not replicate queues; after SET SESSION wsrep_on=OFF the queue is made on this member alone", MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
#endif
  const bool transactional= info->transactional == HA_CHOICE_YES;
#ifdef WITH_WSREP
  if (transactional && WSREP_ON) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                    "Queue: a member of a Galera cluster has no transactions with queues; leave TRANSACTIONAL=1 out", MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
#endif
  if (transactional && !queue_can_join(ha_thd()))
    return HA_ERR_UNSUPPORTED;
  const ha_table_option_struct *options= info->option_struct;
  queue_noted noted;
  std::string dead;
  queue_order order;
  if (!queue_noted_of(form, options, &noted) || !queue_order_of(ha_thd(), form, options, noted, &order) ||
      !queue_grave_of(ha_thd(), form, options, &dead) || !readers_fit(options, transactional))
    return HA_ERR_UNSUPPORTED;
  uint fixed= 0;
  std::deque<std::vector<rq_slice>> members;
  std::vector<rq_column> columns= queue_columns(form, noted, &fixed, &members);
  const std::string backoff= options->backoff ? options->backoff : "", readers= options->readers ? options->readers : "";
  rq_definition definition{options->sync, transactional, queue_null_bytes(form, noted), fixed, columns.data(), columns.size(),
                           options->tries, slice_of(backoff), slice_of(dead), noted.any(), order.due, order.priority, order.fifo, order.dedupe,
                           options->dedupe_for * 1000, options->keep * 1000,
                           slice_of(readers)};
  rq_error error;
  return fail(rq_create(slice_of(folder_of(name)), &definition, &error), error);
}

static queue_connection *known_connection(THD *thd)
{
  return thd ? static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton)) : nullptr;
}

int ha_queue::delete_table(const char *name)
{
  rq_error error;
  const int code= rq_drop(slice_of(folder_of(name)), &error);
  if (queue_connection *connection= known_connection(ha_thd()))
    queue_let_go_if_over(connection);
  return fail(code, error);
}

int ha_queue::rename_table(const char *from, const char *to)
{
  rq_error error;
  queue_connection *connection= known_connection(ha_thd());
  const rq_hold *hold= connection ? connection->held_back : nullptr;
  const int code= rq_rename(slice_of(folder_of(from)), slice_of(folder_of(to)), hold, &error);
  if (connection && code)
    queue_let_go(connection);
  else if (connection)
    queue_let_go_if_over(connection);
  return fail(code, error);
}

int ha_queue::truncate()
{
  rq_error error;
  return fail(rq_truncate(queue, &error), error);
}

int ha_queue::open(const char *name, int, uint)
{
  noted= queue_noted();
  if (!queue_noted_of(table, table->s->option_struct, &noted))
    return HA_ERR_CRASHED_ON_USAGE;
  rq_error error;
  return fail(rq_open(slice_of(folder_of(name)), &queue, &error), error);
}

int ha_queue::close()
{
  end_scan();
  resume();
  if (queue)
    rq_release(queue);
  queue= nullptr;
  return 0;
}

/*
  The engine needs no locks of the server. The server calls this before it decides how to log the statement. A
  replica has other rows, so in MIXED mode what is made from these rows is logged by rows.
*/
THR_LOCK_DATA **ha_queue::store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type)
{
  if (type > TL_UNLOCK && type < TL_FIRST_WRITE)
    thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_SYSTEM_TABLE);
  return to;
}

int ha_queue::external_lock(THD *, int type)
{
  if (type != F_UNLCK)
    return 0;
  warn_of_unseen();
  const int error= end_statement();
  end_scan();
  resume();
  return error;
}

/* The end of a statement, also under LOCK TABLES; a statement inside a trigger or a function does not end
   here. */
int ha_queue::reset()
{
  resume();
  if (ha_thd()->in_sub_stmt)
    return 0;
  warn_of_unseen();
  given= 0;
  return end_statement();
}

/* As the server does with INSERT IGNORE. */
static void tell_left_out(THD *thd, uint64_t rows)
{
  if (rows)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_DUP_ENTRY,
                        "Queue: %llu row%s left out, because a row with the same key in the column of DEDUPE came before",
                        static_cast<ulonglong>(rows), rows == 1 ? " was" : "s were");
}

/*
  A statement is a unit, and now its result is known. The rows that it has published so far are offered or
  removed. The rows that it has not published, because the server ended it without the bulk calls or because
  they are relayed, are published or dropped.
*/
int ha_queue::end_statement()
{
  gathering= deleting= false;
  THD *thd= ha_thd();
  const bool failed= thd_current_status(thd) != 0;
  if (failed)
    give_up();
  int result= publish(false);
  if (!result)
    result= remove();
  if (lasting && !failed && !result)
    queue_note_lasting(thd);
  lasting= false;
  queue_connection *connection= known_connection(thd);
  /* An ALTER that failed will not replace the queue. */
  if (connection && failed)
    queue_let_go(connection);
  if (!connection || !rq_is_unsettled(connection->session))
    return result;
  rq_error error;
  uint64_t left_out= 0;
  const int settled= fail(rq_settle(connection->session, !failed && !result, &left_out, &error), error);
  tell_left_out(thd, left_out);
  return result ? result : settled;
}

/* Nothing of the statement may remain. */
void ha_queue::give_up()
{
  doomed.clear();
  if (rows.empty())
    return;
  rows.clear();
  bytes= 0;
  if (queue_connection *connection= queue_connection_of(ha_thd()))
    rq_forget_origin(connection->session);
}

void ha_queue::resume()
{
  if (!paused)
    return;
  paused= false;
  rq_resume(queue);
}

/* What there is
   ---------------------------------------------------------------------------------------------------- */

int ha_queue::optimize(THD *, HA_CHECK_OPT *)
{
  rq_error error;
  return fail(rq_compact(queue, &error), error) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

ha_rows ha_queue::records()
{
  queue_connection *connection= queue_connection_of(ha_thd());
  if (connection && queue_shows_kept(ha_thd()) && !rq_is_owner(connection->session)) {
    rq_status status;
    rq_get_status(queue, &status);
    return status.kept;
  }
  return connection ? rq_count(connection->session, queue) : HA_POS_ERROR;
}

int ha_queue::info(uint flag)
{
  const ulonglong count= rq_rows(queue);
  /* The optimiser gives 0 and 1 a meaning that must not apply to a table which others fill. */
  if (flag & HA_STATUS_VARIABLE)
    stats.records= count < 2 ? 2 : count;
  if (flag & HA_STATUS_VARIABLE_EXTRA) {
    rq_status status;
    rq_get_status(queue, &status);
    stats.data_file_length= status.bytes;
    stats.delete_length= status.bytes - MY_MIN(status.bytes, status.live_bytes + status.kept_bytes);
    stats.mean_rec_length= count ? static_cast<ulong>(status.live_bytes / count) : 0;
  }
  return 0;
}

/* Writing
   ----------------------------------------------------------------------------------------------------------
   */

int ha_queue::publish(bool may_fail_yet)
{
  if (rows.empty())
    return 0;
  std::vector<rq_slice> slices;
  for (const auto &row : rows)
    slices.push_back({row.data(), row.size()});
  rq_error error{};
  queue_connection *connection= queue_connection_of(ha_thd());
  int code= RQ_DISK;
  uint64_t left_out= 0;
  const bool copies= thd_sql_command(ha_thd()) == SQLCOM_ALTER_TABLE;
  if (connection && may_fail_yet)
    code= rq_publish_unsettled(connection->session, queue, slices.data(), slices.size(), &error);
  else if (connection)
    code= rq_publish(connection->session, queue, slices.data(), slices.size(), copies, &left_out, &error);
  tell_left_out(ha_thd(), left_out);
  rows.clear();
  bytes= 0;
  lasting= lasting || (!code && !copies);
  return fail(code, error);
}

/* Relayed rows arrive as one unit, however large. */
bool ha_queue::is_relayed() const
{
  const queue_connection *connection= queue_connection_of(ha_thd());
  return connection && rq_has_origin(connection->session);
}

/* Under LOCK TABLES a trigger's table is not told that the statement has ended; only the connection knows. */
bool ha_queue::is_told_of_end() const
{
  return ha_thd()->locked_tables_mode != LTM_PRELOCKED_UNDER_LOCK_TABLES;
}

/*
  Whether the statement can fail after its last row: in a trigger or a function it is part of another
  statement, and RETURNING is evaluated after the row is written.
*/
bool ha_queue::may_fail_yet() const
{
  THD *thd= ha_thd();
  return thd->locked_tables_mode > LTM_LOCK_TABLES || thd->in_sub_stmt ||
         thd->is_bulk_op() ||
         ((thd_sql_command(thd) == SQLCOM_INSERT || thd_sql_command(thd) == SQLCOM_REPLACE) && thd->lex->has_returning());
}

/* Whether the statement's changes to this queue are part of a transaction. A copy that ALTER makes is not. */
bool ha_queue::is_within() const
{
  return is_transactional() && thd_sql_command(ha_thd()) != SQLCOM_ALTER_TABLE;
}

/* Adds a row with the transaction. */
int ha_queue::write_within(const uchar *buf)
{
  queue_connection *connection= queue_connection_of(ha_thd());
  if (!connection || !queue_join(ha_thd()))
    return HA_ERR_INTERNAL_ERROR;
  std::vector<uchar> row;
  queue_pack(table, noted, buf, row);
  rq_error error;
  return fail(rq_tx_publish(connection->session, queue, {row.data(), row.size()}, &error), error);
}

int ha_queue::write_row(const uchar *buf)
{
  if (is_within()) {
    if (!is_relayed())
      return write_within(buf);
    /* Its origin is recorded with the row at once. */
    if (queue_in_transaction(ha_thd())) {
      my_printf_error(ER_GET_ERRMSG, "Queue: a relayed row can't be part of a transaction; insert it with autocommit", MYF(0));
      return HA_ERR_UNSUPPORTED;
    }
  }
  const bool copies= thd_sql_command(ha_thd()) == SQLCOM_ALTER_TABLE;
  if (copies) {
    const queue_connection *connection= queue_connection_of(ha_thd());
    rq_error error;
    if (connection && connection->held_back)
      if (int code= rq_hold_wrote(connection->held_back, &error))
        return fail(code, error);
  }
  rows.emplace_back();
  queue_pack(table, noted, buf, rows.back());
  bytes+= rows.back().size();
  if (gathering && bytes < gather_bytes_max)
    return 0;
  const bool open_ended= !copies && (gathering || may_fail_yet());
  /* The origin is recorded with the row and can't be taken back. */
  if (open_ended && is_relayed())
    return is_told_of_end() ? 0 : publish(false);
  return publish(open_ended);
}

int ha_queue::end_bulk_insert()
{
  gathering= false;
  THD *thd= ha_thd();
  if (thd_current_status(thd)) {
    give_up();
    return 0;
  }
  if (thd_killed(thd)) {
    /* However the server treats the error, it must not report that the rows were inserted. */
    give_up();
    return my_errno= HA_ERR_ABORTED_BY_USER;
  }
  if (thd_sql_command(thd) != SQLCOM_ALTER_TABLE) {
    const queue_connection *connection= queue_connection_of(thd);
    /* Rows published before are settled with the statement, so these are too. */
    const bool more= connection && rq_is_unsettled(connection->session);
    if ((more || may_fail_yet()) && is_relayed() && is_told_of_end())
      return 0;
    return my_errno= publish(more || may_fail_yet());
  }
  if (int error= publish(false))
    return my_errno= error;
  const queue_connection *connection= queue_connection_of(thd);
  rq_error error;
  if (connection && connection->held_back)
    return my_errno= fail(rq_hold_complete(connection->held_back, queue, &error), error);
  return 0;
}

int ha_queue::remove()
{
  if (doomed.empty())
    return 0;
  rq_error error{};
  queue_connection *connection= queue_connection_of(ha_thd());
  int code= connection ? RQ_OK : RQ_DISK;
  const bool within= is_within();
  if (within && !queue_join(ha_thd())) {
    doomed.clear();
    return HA_ERR_INTERNAL_ERROR;
  }
  for (size_t from= 0; from < doomed.size() && code == RQ_OK; from+= remove_rows_max)
    code= (within ? rq_tx_delete : rq_delete)(connection->session, queue, doomed.data() + from, MY_MIN(doomed.size() - from, remove_rows_max), &error);
  doomed.clear();
  lasting= lasting || (!code && !within);
  return fail(code, error);
}

int ha_queue::delete_row(const uchar *)
{
  doomed.push_back(current);
  /* The server commits before it tells the handler of the end. */
  const bool later= !is_within() && may_fail_yet() && is_told_of_end();
  return deleting || later ? 0 : remove();
}

int ha_queue::end_bulk_delete()
{
  deleting= false;
  if (thd_current_status(ha_thd()))
    give_up();
  else if (thd_killed(ha_thd())) {
    give_up();
    return my_errno= HA_ERR_ABORTED_BY_USER;
  }
  return remove();
}
