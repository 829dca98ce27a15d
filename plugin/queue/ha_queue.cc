/* ENGINE=QUEUE: the handler. See ha_queue.h. */
#include "queue_server.h"

#include "ha_queue.h"
#include "queue_definition.h"
#include "queue_error.h"
#include "queue_row.h"
#include "queue_transaction.h"

extern "C" {
/* Exported by the server, but not declared in its headers: the error that the statement ended with, or 0. */
int thd_current_status(THD *thd);
}

/* Rows of a multi-row INSERT are published when they have this many bytes together. */
static const size_t buffer_bytes_max= 64 << 20;

/* How many rows of a DELETE are removed at once, with one sync; nobody takes rows meanwhile. */
static const size_t remove_rows_max= 4096;

/* Definition
   ------------------------------------------------------------------------------------------------------- */

int ha_queue::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  return queue_create(ha_thd(), name, form, info);
}

int ha_queue::delete_table(const char *name)
{
  rq_error error;
  const int code= rq_drop(queue_slice_of(queue_folder_of(name)), &error);
  if (queue_connection *connection= queue_existing_connection(ha_thd()))
    queue_end_copy_if_over(connection);
  return queue_handler_error(code, error);
}

int ha_queue::rename_table(const char *from, const char *to)
{
  rq_error error;
  queue_connection *connection= queue_existing_connection(ha_thd());
  const rq_copy *copy= connection ? connection->alter_copy : nullptr;
  const int code= rq_rename(queue_slice_of(queue_folder_of(from)), queue_slice_of(queue_folder_of(to)), copy, &error);
  if (connection && code)
    queue_end_copy(connection);
  else if (connection)
    queue_end_copy_if_over(connection);
  return queue_handler_error(code, error);
}

int ha_queue::truncate()
{
  rq_error error;
  return queue_handler_error(rq_truncate(queue, &error), error);
}

int ha_queue::open(const char *name, int, uint)
{
  info_columns= queue_info_columns();
  if (!queue_find_info_columns(table, table->s->option_struct, &info_columns))
    return HA_ERR_CRASHED_ON_USAGE;
  rq_error error;
  return queue_handler_error(rq_open(queue_slice_of(queue_folder_of(name)), &queue, &error), error);
}

int ha_queue::close()
{
  scan.end();
  scan.resume();
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
  scan.warn_of_hidden_rows(ha_thd(), table);
  const int error= end_statement();
  scan.end();
  scan.resume();
  return error;
}

/* The end of a statement, also under LOCK TABLES; a statement inside a trigger or a function does not end
   here. */
int ha_queue::reset()
{
  scan.resume();
  if (ha_thd()->in_sub_stmt)
    return 0;
  scan.warn_of_hidden_rows(ha_thd(), table);
  scan.forget_count();
  return end_statement();
}

/* As the server does with INSERT IGNORE. */
static void tell_left_out(THD *thd, uint64_t rows)
{
  if (rows)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_DUP_ENTRY,
                        "Queue: %llu duplicate row%s discarded: a row with the same DEDUPE key came before",
                        static_cast<ulonglong>(rows), rows == 1 ? " was" : "s were");
}

/*
  A statement is a unit, and now its result is known. The rows that it has published so far are offered or
  removed. The rows that it has not published, because the server ended it without the bulk calls or because
  they are relayed, are published or dropped.
*/
int ha_queue::end_statement()
{
  buffering= deleting= false;
  THD *thd= ha_thd();
  const bool failed= thd_current_status(thd) != 0;
  if (failed)
    discard_statement();
  int result= publish(false);
  if (!result)
    result= remove();
  if (nontransactional && !failed && !result)
    queue_note_nontransactional(thd);
  nontransactional= false;
  queue_connection *connection= queue_existing_connection(thd);
  /* An ALTER that failed will not replace the queue. */
  if (connection && failed)
    queue_end_copy(connection);
  if (!connection || !rq_has_statement_rows(connection->session))
    return result;
  rq_error error;
  uint64_t left_out= 0;
  const int settled= queue_handler_error(rq_end_statement(connection->session, !failed && !result, &left_out, &error), error);
  tell_left_out(thd, left_out);
  return result ? result : settled;
}

/* Nothing of the statement may remain. */
void ha_queue::discard_statement()
{
  to_delete.clear();
  if (rows.empty())
    return;
  rows.clear();
  bytes= 0;
  if (queue_connection *connection= queue_connection_of(ha_thd()))
    rq_forget_origin(connection->session);
}

/* What there is
   ---------------------------------------------------------------------------------------------------- */

int ha_queue::optimize(THD *, HA_CHECK_OPT *)
{
  rq_error error;
  return queue_handler_error(rq_compact(queue, &error), error) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
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

int ha_queue::publish(bool may_still_fail)
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
  if (connection && may_still_fail)
    code= rq_publish_in_statement(connection->session, queue, slices.data(), slices.size(), &error);
  else if (connection)
    code= rq_publish(connection->session, queue, slices.data(), slices.size(), copies, &left_out, &error);
  tell_left_out(ha_thd(), left_out);
  rows.clear();
  bytes= 0;
  nontransactional= nontransactional || (!code && !copies);
  return queue_handler_error(code, error);
}

/* Relayed rows arrive as one unit, however large. */
bool ha_queue::is_relayed() const
{
  const queue_connection *connection= queue_connection_of(ha_thd());
  return connection && rq_has_origin(connection->session);
}

/* Under LOCK TABLES a trigger's table is not told that the statement has ended; only the connection knows. */
bool ha_queue::sees_statement_end() const
{
  return ha_thd()->locked_tables_mode != LTM_PRELOCKED_UNDER_LOCK_TABLES;
}

/*
  Whether the statement can fail after its last row: in a trigger or a function it is part of another
  statement, and RETURNING is evaluated after the row is written.
*/
bool ha_queue::may_still_fail() const
{
  THD *thd= ha_thd();
  return thd->locked_tables_mode > LTM_LOCK_TABLES || thd->in_sub_stmt ||
         thd->is_bulk_op() ||
         ((thd_sql_command(thd) == SQLCOM_INSERT || thd_sql_command(thd) == SQLCOM_REPLACE) && thd->lex->has_returning());
}

/* Whether the statement's changes to this queue are part of a transaction. A copy that ALTER makes is not. */
bool ha_queue::is_transactional_change() const
{
  return is_transactional() && thd_sql_command(ha_thd()) != SQLCOM_ALTER_TABLE;
}

/* Adds a row with the transaction. */
int ha_queue::write_in_transaction(const uchar *buf)
{
  queue_connection *connection= queue_connection_of(ha_thd());
  if (!connection || !queue_join(ha_thd()))
    return HA_ERR_INTERNAL_ERROR;
  std::vector<uchar> row;
  queue_pack(table, info_columns, buf, row);
  rq_error error;
  return queue_handler_error(rq_tx_publish(connection->session, queue, {row.data(), row.size()}, &error), error);
}

int ha_queue::write_row(const uchar *buf)
{
  if (is_transactional_change()) {
    if (!is_relayed())
      return write_in_transaction(buf);
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
    if (connection && connection->alter_copy)
      if (int code= rq_copy_wrote(connection->alter_copy, &error))
        return queue_handler_error(code, error);
  }
  rows.emplace_back();
  queue_pack(table, info_columns, buf, rows.back());
  bytes+= rows.back().size();
  if (buffering && bytes < buffer_bytes_max)
    return 0;
  const bool open_ended= !copies && (buffering || may_still_fail());
  /* The origin is recorded with the row and can't be taken back. */
  if (open_ended && is_relayed())
    return sees_statement_end() ? 0 : publish(false);
  return publish(open_ended);
}

int ha_queue::end_bulk_insert()
{
  buffering= false;
  THD *thd= ha_thd();
  if (thd_current_status(thd)) {
    discard_statement();
    return 0;
  }
  if (thd_killed(thd)) {
    /* However the server treats the error, it must not report that the rows were inserted. */
    discard_statement();
    return my_errno= HA_ERR_ABORTED_BY_USER;
  }
  if (thd_sql_command(thd) != SQLCOM_ALTER_TABLE) {
    const queue_connection *connection= queue_connection_of(thd);
    /* Rows published before are settled with the statement, so these are too. */
    const bool more= connection && rq_has_statement_rows(connection->session);
    if ((more || may_still_fail()) && is_relayed() && sees_statement_end())
      return 0;
    return my_errno= publish(more || may_still_fail());
  }
  if (int error= publish(false))
    return my_errno= error;
  const queue_connection *connection= queue_connection_of(thd);
  rq_error error;
  if (connection && connection->alter_copy)
    return my_errno= queue_handler_error(rq_copy_complete(connection->alter_copy, queue, &error), error);
  return 0;
}

int ha_queue::remove()
{
  if (to_delete.empty())
    return 0;
  rq_error error{};
  queue_connection *connection= queue_connection_of(ha_thd());
  int code= connection ? RQ_OK : RQ_DISK;
  const bool within= is_transactional_change();
  if (within && !queue_join(ha_thd())) {
    to_delete.clear();
    return HA_ERR_INTERNAL_ERROR;
  }
  for (size_t from= 0; from < to_delete.size() && code == RQ_OK; from+= remove_rows_max)
    code= (within ? rq_tx_delete : rq_delete)(connection->session, queue, to_delete.data() + from, MY_MIN(to_delete.size() - from, remove_rows_max), &error);
  to_delete.clear();
  nontransactional= nontransactional || (!code && !within);
  return queue_handler_error(code, error);
}

int ha_queue::delete_row(const uchar *)
{
  to_delete.push_back(scan.current());
  /* The server commits before it tells the handler of the end. */
  const bool later= !is_transactional_change() && may_still_fail() && sees_statement_end();
  return deleting || later ? 0 : remove();
}

int ha_queue::end_bulk_delete()
{
  deleting= false;
  if (thd_current_status(ha_thd()))
    discard_statement();
  else if (thd_killed(ha_thd())) {
    discard_statement();
    return my_errno= HA_ERR_ABORTED_BY_USER;
  }
  return remove();
}
