/* ENGINE=QUEUE: the handler. See ha_queue.h. */
#define MYSQL_SERVER 1

#include <my_global.h>

#include <string>

#include "sql_class.h"
#include "table.h"
#include "handler.h"

#include "ha_queue.h"
#include "queue_row.h"

/* Rows of a multi-row INSERT are published when they have so many bytes together. */
static const size_t gather_bytes_max= 64 << 20;

static rq_slice slice_of(const std::string &text)
{
  return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

/* A queue lives in a folder beside the table's .frm. */
static std::string folder_of(const char *name)
{
  return std::string(name) + ".queue";
}

/* Errors ----------------------------------------------------------------------------------------------------------- */

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

/* Definition ------------------------------------------------------------------------------------------------------- */

int ha_queue::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  if (form->versioned()) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: rows that are taken leave no history; leave SYSTEM VERSIONING out",
                    MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
  uint fixed= 0;
  std::vector<rq_column> columns= queue_columns(form, &fixed);
  rq_definition definition{info->option_struct->sync, form->s->null_bytes, fixed, columns.data(), columns.size()};
  rq_error error;
  return fail(rq_create(slice_of(folder_of(name)), &definition, &error), error);
}

int ha_queue::delete_table(const char *name)
{
  rq_error error;
  return fail(rq_drop(slice_of(folder_of(name)), &error), error);
}

int ha_queue::rename_table(const char *from, const char *to)
{
  rq_error error;
  THD *thd= ha_thd();
  auto *connection= thd ? static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton)) : nullptr;
  const rq_hold *hold= connection ? connection->held_back : nullptr;
  return fail(rq_rename(slice_of(folder_of(from)), slice_of(folder_of(to)), hold, &error), error);
}

int ha_queue::truncate()
{
  rq_error error;
  return fail(rq_truncate(queue, &error), error);
}

int ha_queue::open(const char *name, int, uint)
{
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

int ha_queue::external_lock(THD *, int type)
{
  if (type != F_UNLCK)
    return 0;
  /* What bulk calls did not flush, because the server ended the statement without them. */
  int published= publish();
  int removed= remove();
  gathering= deleting= false;
  end_scan();
  resume();
  return published ? published : removed;
}

/* The end of a statement, under LOCK TABLES too. */
int ha_queue::reset()
{
  resume();
  return 0;
}

void ha_queue::resume()
{
  if (!paused)
    return;
  paused= false;
  rq_resume(queue);
}

/* What there is ---------------------------------------------------------------------------------------------------- */

int ha_queue::optimize(THD *, HA_CHECK_OPT *)
{
  rq_error error;
  return fail(rq_compact(queue, &error), error) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

ha_rows ha_queue::records()
{
  queue_connection *connection= queue_connection_of(ha_thd());
  return connection ? rq_count(connection->session, queue) : HA_POS_ERROR;
}

int ha_queue::info(uint flag)
{
  const ulonglong count= rq_rows(queue);
  /* 0 and 1 have a meaning for the optimiser that a table which others fill must not have. */
  if (flag & HA_STATUS_VARIABLE)
    stats.records= count < 2 ? 2 : count;
  if (flag & HA_STATUS_VARIABLE_EXTRA) {
    rq_status status;
    rq_get_status(queue, &status);
    stats.data_file_length= status.bytes;
    stats.delete_length= status.bytes - MY_MIN(status.bytes, status.live_bytes);
    stats.mean_rec_length= count ? static_cast<ulong>(status.live_bytes / count) : 0;
  }
  return 0;
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

int ha_queue::unpack(uchar *record, rq_slice row)
{
  if (table->s->blob_fields) {
    kept.assign(row.bytes, row.bytes + row.len);
    row.bytes= kept.data();
  }
  return queue_unpack(table, record, row);
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

/* Begun with the first row, not with the scan: queue_wait() in WHERE is evaluated in between. */
int ha_queue::cursor_ready()
{
  if (cursor)
    return 0;
  queue_connection *connection= queue_connection_of(ha_thd());
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  const int command= thd_sql_command(ha_thd());
  if (!paused && (command == SQLCOM_DELETE || command == SQLCOM_DELETE_MULTI) &&
      table->reginfo.lock_type >= TL_FIRST_WRITE) {
    rq_error error;
    if (int code= rq_pause(queue, &error))
      return fail(code, error);
    paused= true;
  }
  if (copying ? rq_hold_scan(connection->held_back, &cursor) : rq_scan(connection->session, queue, &cursor))
    return HA_ERR_OUT_OF_MEM;
  reader= connection;
  reader->reading++;
  return 0;
}

/*
  Nobody takes a row until the copy has replaced the table: it would come back with the copy. Rows that somebody owns are
  copied, and their owners find them there.
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

int ha_queue::rnd_next(uchar *buf)
{
  if (int error= cursor_ready())
    return error;
  rq_slice row;
  rq_error error;
  uint64_t id;
  int code= rq_next(cursor, &id, &row, &error);
  if (code == RQ_END)
    return HA_ERR_END_OF_FILE;
  if (code)
    return fail(code, error);
  current= id;
  if (copying)
    rq_hold_read(reader->held_back);
  return unpack(buf, row);
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

/* Writing ---------------------------------------------------------------------------------------------------------- */

int ha_queue::publish()
{
  if (rows.empty())
    return 0;
  std::vector<rq_slice> slices;
  for (const auto &row : rows)
    slices.push_back({row.data(), row.size()});
  rq_error error;
  queue_connection *connection= queue_connection_of(ha_thd());
  int code= connection ? rq_publish(connection->session, queue, slices.data(), slices.size(), &error) : RQ_DISK;
  rows.clear();
  bytes= 0;
  return fail(code, error);
}

/* What is relayed comes as one unit, however large. */
bool ha_queue::is_relayed() const
{
  const queue_connection *connection= queue_connection_of(ha_thd());
  return connection && rq_has_origin(connection->session);
}

int ha_queue::write_row(const uchar *buf)
{
  if (thd_sql_command(ha_thd()) == SQLCOM_ALTER_TABLE) {
    const queue_connection *connection= queue_connection_of(ha_thd());
    rq_error error;
    if (connection && connection->held_back)
      if (int code= rq_hold_wrote(connection->held_back, queue, &error))
        return fail(code, error);
  }
  rows.emplace_back();
  queue_pack(table, buf, rows.back());
  bytes+= rows.back().size();
  return gathering && (bytes < gather_bytes_max || is_relayed()) ? 0 : publish();
}

int ha_queue::end_bulk_insert()
{
  gathering= false;
  if (thd_sql_command(ha_thd()) == SQLCOM_ALTER_TABLE) {
    const queue_connection *connection= queue_connection_of(ha_thd());
    if (connection && connection->held_back)
      rq_hold_copy(connection->held_back, queue);
  }
  return publish();
}

int ha_queue::remove()
{
  if (doomed.empty())
    return 0;
  rq_error error;
  queue_connection *connection= queue_connection_of(ha_thd());
  int code= connection ? rq_delete(connection->session, queue, doomed.data(), doomed.size(), &error) : RQ_DISK;
  doomed.clear();
  return fail(code, error);
}

int ha_queue::delete_row(const uchar *)
{
  doomed.push_back(current);
  return deleting ? 0 : remove();
}

int ha_queue::end_bulk_delete()
{
  deleting= false;
  return remove();
}
