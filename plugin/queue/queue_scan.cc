/* How a statement reads a queue. See queue_scan.h. */
#include "queue_server.h"

#include "queue_error.h"
#include "queue_opened.h"
#include "queue_row.h"
#include "queue_scan.h"

extern "C" {
/* Exported by the server, but not declared in its headers: the error that the statement ended with, or 0. */
int thd_current_status(THD *thd);
}

int queue_scan::unpack(const queue_table &from, uchar *record, rq_slice row)
{
  if (from.table->s->blob_fields) {
    blob_row.assign(row.bytes, row.bytes + row.len);
    row.bytes= blob_row.data();
  }
  if (const int error= queue_unpack(from.table, *from.info_columns, record, row))
    return error;
  rq_delivery_info info;
  if (from.info_columns->any() && rq_last_delivery_info(cursor, &info) == RQ_OK)
    queue_fill_info_columns(from.table, record, *from.info_columns, info);
  return 0;
}

void queue_scan::end()
{
  copying= false;
  if (!cursor)
    return;
  rq_scan_end(cursor);
  cursor= nullptr;
  reader->open_scans--;
}

/* Whether the copy is a queue too: any other table would have rows that were ended, as if they were not. */
static bool copies_kept(THD *thd)
{
  const HA_CREATE_INFO &info= thd->lex->create_info;
  return !(info.used_fields & HA_CREATE_USED_ENGINE) || !info.db_type || info.db_type == queue_hton;
}

/* The walk begins with the first row and not with the scan, because queue_wait() in WHERE is evaluated in
   between. */
int queue_scan::open_cursor(THD *thd, const queue_table &from)
{
  if (cursor)
    return 0;
  queue_connection *connection= queue_connection_of(thd);
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  if (!copying && queue_is_logged_as_statement(thd, "reading a queue"))
    return HA_ERR_UNSUPPORTED;
  const int command= thd_sql_command(thd);
  if (!paused && (command == SQLCOM_DELETE || command == SQLCOM_DELETE_MULTI) &&
      from.table->reginfo.lock_type >= TL_FIRST_WRITE) {
    rq_error error;
    if (int code= rq_hold(from.queue, &error))
      return queue_handler_error(code, error);
    paused= from.queue;
  }
  /* DELETE reads no row that others own: it could not delete it. */
  int sees= RQ_WAITING;
  if (queue_shows_owned(thd))
    sees= command == SQLCOM_SELECT ? RQ_ALL : paused ? RQ_UNOWNED : RQ_WAITING;
  if (queue_shows_kept(thd) && !rq_is_owner(connection->session)) {
    if (paused) {
      my_printf_error(ER_GET_ERRMSG, "Queue: queue_show_kept=ON shows acknowledged rows, which DELETE can't remove; "
                      "SET queue_show_kept = OFF first", MYF(0));
      return HA_ERR_UNSUPPORTED;
    }
    sees= RQ_KEPT;
  }
  if (copying ? rq_copy_scan(connection->alter_copy, copies_kept(thd), &cursor) : rq_scan(connection->session, from.queue, sees, &cursor))
    return HA_ERR_OUT_OF_MEM;
  reader= connection;
  reader->open_scans++;
  return 0;
}

/*
  Nobody takes a row until the copy has replaced the table, because the row would come back with the copy.
  Owned rows are copied too, and their owners find them there.
*/
int queue_scan::begin_copy(THD *thd, const rq_queue *queue)
{
  queue_connection *connection= queue_connection_of(thd);
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  queue_end_copy(connection);
  rq_error error;
  const int code= rq_copy_begin(queue, &connection->alter_copy, &error);
  copying= !code;
  return queue_handler_error(code, error);
}

int queue_scan::begin(THD *thd, const queue_table &from)
{
  end();
  return thd_sql_command(thd) == SQLCOM_ALTER_TABLE ? begin_copy(thd, from.queue) : 0;
}

void queue_scan::resume()
{
  if (paused)
    rq_end_hold(paused);
  paused= nullptr;
}

/*
  Whether the table is copied while others write to it. HA_NO_ONLINE_ALTER prevents that only when the copy is
  a queue too.
*/
static bool is_copied_online(const TABLE *table, bool copying)
{
#if MYSQL_VERSION_ID < 110200
  return false;
#else
  return copying && table->s->online_alter_binlog;
#endif
}

int queue_scan::next(THD *thd, const queue_table &from, uchar *record)
{
  if (int error= open_cursor(thd, from))
    return error;
  /*
    The server applies to the copy what was written meanwhile. It can't tell equal rows apart, and it keeps
    the rows of a failed statement. This is known only at the second row; without a first row nothing is
    applied.
  */
  if (is_copied_online(from.table, copying)) {
    my_printf_error(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON,
                    "Queue: a queue can't be copied while others write to it; use ALTER TABLE ..., LOCK=SHARED", MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
  rq_slice row;
  rq_error error;
  uint64_t id;
  int code= rq_next(cursor, &id, &row, &error);
  if (code == RQ_END)
    return HA_ERR_END_OF_FILE;
  if (code)
    return queue_handler_error(code, error);
  row_id= id;
  rows_read++;
  if (copying)
    rq_copy_read(reader->alter_copy);
  return unpack(from, record, row);
}

/* Whether each row that the statement reads may be shown: it groups none, and its rows go to the client. */
static bool shows_rows(THD *thd)
{
  if (thd_sql_command(thd) != SQLCOM_SELECT || thd->lex->result)
    return false;
  for (SELECT_LEX *select= thd->lex->all_selects_list; select; select= select->next_select_in_list())
    if (select->agg_func_used() || select->group_list.elements || select->options & SELECT_DISTINCT)
      return false;
  return true;
}

void queue_scan::warn_of_hidden_rows(THD *thd, const TABLE *table) const
{
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (!connection || !connection->rows_taken || thd_current_status(thd))
    return;
  const bool taken= connection->taken_by == thd->query_id;
  if (!taken && connection->leased_in != thd->query_id)
    return;
  const bool here= connection->taken_from == queue_text_of_name(table->s->db.str, table->s->table_name.str);
  const bool shown= shows_rows(thd);
  if (!here && !shown)
    return;
  const ulonglong sent= shown ? thd->get_sent_row_count() : rows_read, seen= here ? MY_MIN(sent, rows_read) : sent;
  if (seen >= connection->rows_taken)
    return;
  const char *name= taken ? "queue_wait" : "queue_lease", *from= connection->taken_from.c_str();
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, QUEUE_WARN_HIDDEN,
                      "Queue: the statement took %llu row%s of %s and shows %llu; all that %s() took from %s are owned, also those that "
                      "LIMIT or another condition in WHERE hides; %s('%s:CONDITION') takes only rows that match",
                      static_cast<ulonglong>(connection->rows_taken), connection->rows_taken == 1 ? "" : "s", from, seen, name, from, name,
                      table->s->table_name.str);
  connection->rows_taken= 0;
}

int queue_scan::read(THD *thd, const queue_table &from, uchar *record, ulonglong id)
{
  if (int error= open_cursor(thd, from))
    return error;
  rq_slice row;
  rq_error error;
  row_id= id;
  const int code= rq_read(cursor, id, &row, &error);
  if (code == RQ_END)
    return HA_ERR_RECORD_DELETED;
  return code ? queue_handler_error(code, error) : unpack(from, record, row);
}
