/* ENGINE=QUEUE: how the handler reads. See ha_queue.h. */
#define MYSQL_SERVER 1

#include <my_global.h>

#include "sql_class.h"
#include "table.h"
#include "handler.h"

#include "ha_queue.h"
#include "queue_opened.h"
#include "queue_row.h"

extern "C" {
/* Exported by the server, but not declared in its headers: the error that the statement ended with, or 0. */
int thd_current_status(THD *thd);
}

int ha_queue::unpack(uchar *record, rq_slice row)
{
  if (table->s->blob_fields) {
    kept.assign(row.bytes, row.bytes + row.len);
    row.bytes= kept.data();
  }
  if (const int error= queue_unpack(table, noted, record, row))
    return error;
  rq_known known;
  if (noted.any() && rq_last_known(cursor, &known) == RQ_OK)
    queue_note(table, record, noted, known);
  return 0;
}

void ha_queue::end_scan()
{
  copying= false;
  if (!cursor)
    return;
  rq_scan_end(cursor);
  cursor= nullptr;
  reader->reading--;
}

/* The walk begins with the first row and not with the scan, because queue_wait() in WHERE is evaluated in
   between. */
int ha_queue::cursor_ready()
{
  if (cursor)
    return 0;
  queue_connection *connection= queue_connection_of(ha_thd());
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  if (!copying && queue_is_logged_as_text(ha_thd(), "reading a queue"))
    return HA_ERR_UNSUPPORTED;
  const int command= thd_sql_command(ha_thd());
  if (!paused && (command == SQLCOM_DELETE || command == SQLCOM_DELETE_MULTI) &&
      table->reginfo.lock_type >= TL_FIRST_WRITE) {
    rq_error error;
    if (int code= rq_pause(queue, &error))
      return fail(code, error);
    paused= true;
  }
  /* DELETE reads no row that others own: it could not delete it. */
  int sees= RQ_WAITING;
  if (queue_shows_owned(ha_thd()))
    sees= command == SQLCOM_SELECT ? RQ_ALL : paused ? RQ_UNOWNED : RQ_WAITING;
  if (queue_shows_kept(ha_thd()) && !rq_is_owner(connection->session)) {
    if (paused) {
      my_printf_error(ER_GET_ERRMSG, "Queue: with queue_show_kept=ON the rows are those that were ended, and DELETE would delete "
                      "others; SET queue_show_kept = OFF first", MYF(0));
      return HA_ERR_UNSUPPORTED;
    }
    sees= RQ_KEPT;
  }
  if (copying ? rq_hold_scan(connection->held_back, copies_kept(), &cursor) : rq_scan(connection->session, queue, sees, &cursor))
    return HA_ERR_OUT_OF_MEM;
  reader= connection;
  reader->reading++;
  return 0;
}

/*
  Nobody takes a row until the copy has replaced the table, because the row would come back with the copy.
  Owned rows are copied too, and their owners find them there.
*/
int ha_queue::hold_back()
{
  queue_connection *connection= queue_connection_of(ha_thd());
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  queue_let_go(connection);
  rq_error error;
  const int code= rq_hold_back(queue, &connection->held_back, &error);
  copying= !code;
  return fail(code, error);
}

/* Whether the copy is a queue too: any other table would have rows that were ended, as if they were not. */
bool ha_queue::copies_kept() const
{
  const HA_CREATE_INFO &info= ha_thd()->lex->create_info;
  return !(info.used_fields & HA_CREATE_USED_ENGINE) || !info.db_type || info.db_type == queue_hton;
}

int ha_queue::rnd_init(bool scan)
{
  if (scan)
    end_scan();
  if (scan && thd_sql_command(ha_thd()) == SQLCOM_ALTER_TABLE)
    return hold_back();
  return 0;
}

int ha_queue::rnd_end()
{
  end_scan();
  return 0;
}

/*
  Whether the table is copied while others write to it. HA_NO_ONLINE_ALTER prevents that only when the copy is
  a queue too.
*/
bool ha_queue::is_copied_online() const
{
#if MYSQL_VERSION_ID < 110200
  return false;
#else
  return copying && table->s->online_alter_binlog;
#endif
}

int ha_queue::rnd_next(uchar *buf)
{
  if (int error= cursor_ready())
    return error;
  /*
    The server applies to the copy what was written meanwhile. It can't tell equal rows apart, and it keeps
    the rows of a failed statement. This is known only at the second row; without a first row nothing is
    applied.
  */
  if (is_copied_online()) {
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
    return fail(code, error);
  current= id;
  given++;
  if (copying)
    rq_hold_read(reader->held_back);
  return unpack(buf, row);
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

/*
  The statement has taken or leased more rows than it shows, because of LIMIT or of another condition in WHERE.
  They are the connection's all the same. Called when its rows are sent; where the server can tell that early enough, its
  answer counts the warning.
*/
void ha_queue::warn_of_unseen()
{
  THD *thd= ha_thd();
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (!connection || !connection->got || thd_current_status(thd))
    return;
  const bool taken= connection->taken == thd->query_id;
  if (!taken && connection->leased != thd->query_id)
    return;
  const bool here= connection->got_from == queue_text_of_name(table->s->db.str, table->s->table_name.str);
  const bool shown= shows_rows(thd);
  if (!here && !shown)
    return;
  const ulonglong sent= shown ? thd->get_sent_row_count() : given, seen= here ? MY_MIN(sent, given) : sent;
  if (seen >= connection->got)
    return;
  const char *name= taken ? "queue_wait" : "queue_lease", *from= connection->got_from.c_str();
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, QUEUE_WARN_HIDDEN,
                      "Queue: the statement took %llu row%s of %s and shows %llu; what %s() took from %s is owned, even if "
                      "LIMIT or another condition in WHERE does not show it; %s('%s:CONDITION') takes what matches and nothing else",
                      static_cast<ulonglong>(connection->got), connection->got == 1 ? "" : "s", from, seen, name, from, name,
                      table->s->table_name.str);
  connection->got= 0;
}

void ha_queue::position(const uchar *)
{
  int8store(ref, current);
}

int ha_queue::rnd_pos(uchar *buf, uchar *pos)
{
  if (int error= cursor_ready())
    return error;
  rq_slice row;
  rq_error error;
  current= uint8korr(pos);
  int code= rq_read(cursor, current, &row, &error);
  if (code == RQ_END)
    return HA_ERR_RECORD_DELETED;
  return code ? fail(code, error) : unpack(buf, row);
}
