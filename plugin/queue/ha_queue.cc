/*
  ENGINE=QUEUE: handler and handlerton. See ha_queue.h.
*/
#define MYSQL_SERVER 1

#include <my_global.h>

#include <string>

#include "sql_class.h"
#include "sql_plugin.h"
#include "create_options.h"
#include "table.h"
#include "field.h"
#include "handler.h"
#include <mysql/plugin_audit.h>

#include "ha_queue.h"
#include "queue_schema.h"

handlerton *queue_hton;

/* Rows of a multi-row INSERT are published when they have so many bytes together. */
static const size_t gather_bytes_max= 64 << 20;

struct ha_table_option_struct {
  uint sync;
};

static ha_create_table_option queue_table_options[]= {
    HA_TOPTION_ENUM("sync", sync, "always,interval,none", 0), HA_TOPTION_END};

static rq_slice slice_of(const std::string &text)
{
  return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

/* A queue lives in a folder beside the table's .frm. */
static std::string folder_of(const char *name)
{
  return std::string(name) + ".queue";
}

/*
  Set by a wait, and set back by the server when the connection is reset or changes its user, of which an engine is not
  told otherwise.
*/
static MYSQL_THDVAR_BOOL(owner, PLUGIN_VAR_READONLY | PLUGIN_VAR_NOCMDOPT,
                         "Whether this connection sees the rows of queues that it owns, and no others", nullptr, nullptr,
                         FALSE);

static struct st_mysql_sys_var *queue_variables[]= {MYSQL_SYSVAR(owner), nullptr};

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

static void let_go(queue_connection *connection)
{
  if (connection->held_back)
    rq_let_go(connection->held_back);
  connection->held_back= nullptr;
}

/* A command of the client has ended; one of them is the reset of the connection. */
static void queue_command_ended(THD *thd, unsigned int, const void *event)
{
  if (static_cast<const mysql_event_general *>(event)->event_subclass != MYSQL_AUDIT_GENERAL_STATUS || !queue_hton)
    return;
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection) {
    after_reset(thd, connection);
    let_go(connection);
  }
}

static int queue_close_connection(handlerton *, THD *thd)
{
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection) {
    thd_set_ha_data(thd, queue_hton, nullptr);
    let_go(connection);
    rq_session_free(connection->session, connection->interrupter);
    delete connection;
  }
  return 0;
}

static void queue_kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
  auto *connection= static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
  if (connection)
    rq_interrupt(connection->interrupter);
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

static bool is_variable(const Field *field)
{
  return field->real_type() == MYSQL_TYPE_VARCHAR || (field->flags & BLOB_FLAG);
}

static void describe(const Field *field, rq_column *column)
{
  column->kind= RQ_OPAQUE;
  switch (field->real_type()) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    column->kind= RQ_INTEGER;
    column->one= !(field->flags & UNSIGNED_FLAG);
    break;
  case MYSQL_TYPE_NEWDECIMAL:
    column->kind= RQ_DECIMAL;
    column->one= static_cast<const Field_new_decimal *>(field)->precision;
    column->two= field->decimals();
    break;
  case MYSQL_TYPE_YEAR:
    column->kind= RQ_YEAR;
    break;
  case MYSQL_TYPE_NEWDATE:
    column->kind= RQ_DATE;
    break;
  case MYSQL_TYPE_TIME2:
    column->kind= RQ_TIME;
    column->one= field->decimals();
    break;
  case MYSQL_TYPE_DATETIME2:
    column->kind= RQ_DATETIME;
    column->one= field->decimals();
    break;
  case MYSQL_TYPE_TIMESTAMP2:
    column->kind= RQ_TIMESTAMP;
    column->one= field->decimals();
    break;
  case MYSQL_TYPE_STRING:
    /* UUID and INET6 look like CHAR and are none. */
    if (field->type_handler() != &type_handler_string)
      break;
    /* fall through */
  case MYSQL_TYPE_VARCHAR:
  case MYSQL_TYPE_BLOB:
    if (!field->compression_method()) {
      column->kind= RQ_TEXT;
      column->one= field->charset()->number;
    }
    break;
  default:
    break;
  }
}

int ha_queue::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  std::vector<rq_column> columns;
  uint fixed= 0, variable= 0;
  for (Field **at= form->field; *at; at++) {
    const Field *field= *at;
    rq_column column{};
    column.name= {reinterpret_cast<const uchar *>(field->field_name.str), field->field_name.length};
    describe(field, &column);
    column.is_variable= is_variable(field);
    if (column.is_variable)
      column.place= variable++;
    else {
      column.place= fixed;
      column.len= field->pack_length();
      fixed+= column.len;
    }
    column.null_bit= -1;
    if (field->null_ptr)
      column.null_bit= static_cast<int>(8 * (field->null_ptr - form->record[0]) + my_bit_log2_uint64(field->null_bit));
    columns.push_back(column);
  }
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
  return fail(rq_rename(slice_of(folder_of(from)), slice_of(folder_of(to)), &error), error);
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
  return published ? published : removed;
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

/* Rows: NULL bits, fixed columns, then length and bytes of the others ---------------------------------------------- */

static void put_length(std::vector<uchar> &out, size_t length)
{
  for (; length >= 0x80; length>>= 7)
    out.push_back(static_cast<uchar>(length | 0x80));
  out.push_back(static_cast<uchar>(length));
}

/* The value of a column that is not of fixed length; none when it is NULL. */
static rq_slice variable_value(const Field *field, my_ptrdiff_t offset)
{
  if (field->is_real_null(offset))
    return {nullptr, 0};
  const uchar *at= field->ptr + offset;
  if (field->flags & BLOB_FLAG) {
    const Field_blob *blob= static_cast<const Field_blob *>(field);
    uchar *bytes;
    memcpy(&bytes, at + blob->pack_length_no_ptr(), sizeof(bytes));
    return {bytes, blob->get_length(at)};
  }
  const uint length_bytes= static_cast<const Field_varstring *>(field)->length_bytes;
  return {at + length_bytes, static_cast<size_t>(length_bytes == 1 ? *at : uint2korr(at))};
}

void ha_queue::pack(const uchar *record, std::vector<uchar> &out) const
{
  const my_ptrdiff_t offset= record - table->record[0];
  out.assign(record, record + table->s->null_bytes);
  for (Field **field= table->field; *field; field++)
    if (!is_variable(*field)) {
      const uchar *at= (*field)->ptr + offset;
      out.insert(out.end(), at, at + (*field)->pack_length());
    }
  for (Field **field= table->field; *field; field++)
    if (is_variable(*field)) {
      rq_slice value= variable_value(*field, offset);
      put_length(out, value.len);
      out.insert(out.end(), value.bytes, value.bytes + value.len);
    }
}

static bool take_length(rq_slice *from, size_t *length)
{
  *length= 0;
  for (uint shift= 0; shift < 35; shift+= 7) {
    if (!from->len)
      return false;
    uchar byte= *from->bytes;
    from->bytes++;
    from->len--;
    *length|= static_cast<size_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return *length <= from->len;
  }
  return false;
}

int ha_queue::unpack(uchar *record, rq_slice row)
{
  const my_ptrdiff_t offset= record - table->record[0];
  /* BLOBs point into the row, which the cursor replaces when it goes on. */
  kept.assign(row.bytes, row.bytes + row.len);
  rq_slice rest= {kept.data(), kept.size()};
  if (rest.len < table->s->null_bytes)
    return HA_ERR_CRASHED;
  memcpy(record, rest.bytes, table->s->null_bytes);
  rest.bytes+= table->s->null_bytes;
  rest.len-= table->s->null_bytes;
  for (Field **field= table->field; *field; field++)
    if (!is_variable(*field)) {
      const uint length= (*field)->pack_length();
      if (rest.len < length)
        return HA_ERR_CRASHED;
      memcpy((*field)->ptr + offset, rest.bytes, length);
      rest.bytes+= length;
      rest.len-= length;
    }
  for (Field **field= table->field; *field; field++) {
    if (!is_variable(*field))
      continue;
    size_t length;
    if (!take_length(&rest, &length))
      return HA_ERR_CRASHED;
    uchar *at= (*field)->ptr + offset;
    if ((*field)->flags & BLOB_FLAG) {
      const Field_blob *blob= static_cast<const Field_blob *>(*field);
      const uint packed= blob->pack_length_no_ptr();
      uint32 left= static_cast<uint32>(length);
      for (uint byte= 0; byte < packed; byte++, left>>= 8)
        at[byte]= static_cast<uchar>(left);
      memcpy(at + packed, &rest.bytes, sizeof(rest.bytes));
    } else {
      const uint length_bytes= static_cast<Field_varstring *>(*field)->length_bytes;
      if (length + length_bytes > (*field)->pack_length())
        return HA_ERR_CRASHED;
      if (length_bytes == 1)
        *at= static_cast<uchar>(length);
      else
        int2store(at, static_cast<uint16>(length));
      memcpy(at + length_bytes, rest.bytes, length);
    }
    rest.bytes+= length;
    rest.len-= length;
  }
  return 0;
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

void ha_queue::end_scan()
{
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
  if (!connection || rq_scan(connection->session, queue, &cursor))
    return HA_ERR_OUT_OF_MEM;
  reader= connection;
  reader->reading++;
  return 0;
}

/*
  A copy of the table would lose the rows that somebody owns, and bring back those that somebody takes meanwhile: so it
  is made when nobody owns one, and nobody takes one until it has replaced the table.
*/
int ha_queue::hold_back()
{
  queue_connection *connection= queue_connection_of(ha_thd());
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  let_go(connection);
  rq_error error;
  if (int code= rq_hold_back(queue, &connection->held_back, &error))
    return fail(code, error);
  if (connection->held_back)
    return 0;
  my_printf_error(ER_GET_ERRMSG, "Queue: rows are owned; change the table when their owners have ended or aborted",
                  MYF(0));
  return HA_ERR_INTERNAL_ERROR;
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

int ha_queue::write_row(const uchar *buf)
{
  rows.emplace_back();
  pack(buf, rows.back());
  bytes+= rows.back().size();
  return gathering && bytes < gather_bytes_max ? 0 : publish();
}

int ha_queue::end_bulk_insert()
{
  gathering= false;
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

/* SHOW ENGINE QUEUE STATUS ----------------------------------------------------------------------------------------- */

static int add_status(void *context, rq_slice, const rq_status *status)
{
  auto *sum= static_cast<rq_status *>(context);
  const auto *from= reinterpret_cast<const uint64_t *>(status);
  auto *to= reinterpret_cast<uint64_t *>(sum);
  for (size_t at= 0; at < sizeof(rq_status) / sizeof(uint64_t); at++)
    to[at]+= from[at];
  return 0;
}

static bool queue_show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type type)
{
  if (type != HA_ENGINE_STATUS)
    return false;
  rq_status sum{};
  rq_each(add_status, &sum);
  std::string text;
  auto line= [&text](const char *name, ulonglong value) {
    char buffer[80];
    snprintf(buffer, sizeof(buffer), "%-24s%llu\n", name, value);
    text+= buffer;
  };
  text+= "Queues\n";
  line("waiting", sum.waiting);
  line("owned", sum.owned);
  line("waiters", sum.waiters);
  line("bytes", sum.bytes);
  line("bytes_live", sum.live_bytes);
  line("memory", sum.memory);
  text+= "Log\n";
  line("append", sum.batches);
  line("rows_written", sum.rows_written);
  line("rows_removed", sum.rows_removed);
  line("compacted", sum.compacted);
  line("checkpoints", sum.checkpoints);
  line("maintenance_errors", sum.maintenance_errors);
  text+= "Waiting\n";
  line("wait_immediate", sum.wait_immediate);
  line("wait_delayed", sum.wait_delayed);
  line("wait_timeout", sum.wait_timeout);
  line("handed_over", sum.handed_over);
  line("restored_by_abort", sum.restored_by_abort);
  line("restored_by_close", sum.restored_by_close);
  line("evaluation", sum.evaluations);
  line("duplicates", sum.duplicates);
  text+= "Functions\n";
  line("queue_wait", queue_called.wait);
  line("queue_end", queue_called.end);
  line("queue_abort", queue_called.abort);
  line("queue_rowid", queue_called.rowid);
  line("queue_set_srcid", queue_called.set_srcid);
  return print(thd, STRING_WITH_LEN("QUEUE"), "", 0, text.data(), static_cast<uint>(text.size()));
}

/* Collations for the core ------------------------------------------------------------------------------------------ */

static int server_equal(uint32_t collation, rq_slice one, rq_slice other)
{
  CHARSET_INFO *cs= get_charset(collation, MYF(0));
  return cs && !cs->strnncollsp(one.bytes, one.len, other.bytes, other.len);
}

static long server_encode(uint32_t collation, rq_slice literal, unsigned char *out, size_t room)
{
  CHARSET_INFO *cs= get_charset(collation, MYF(0));
  if (!cs)
    return -1;
  uint errors= 0;
  uint32 length= my_convert(reinterpret_cast<char *>(out), static_cast<uint32>(room), cs,
                            reinterpret_cast<const char *>(literal.bytes), static_cast<uint32>(literal.len),
                            &my_charset_utf8mb4_bin, &errors);
  return errors ? -1 : static_cast<long>(length);
}

/* The plugin ------------------------------------------------------------------------------------------------------- */

static handler *queue_create_handler(handlerton *hton, TABLE_SHARE *table, MEM_ROOT *mem_root)
{
  return new (mem_root) ha_queue(hton, table);
}

static const char *queue_extensions[]= {NullS};

static int queue_init(void *plugin)
{
  queue_hton= static_cast<handlerton *>(plugin);
  queue_hton->create= queue_create_handler;
  queue_hton->close_connection= queue_close_connection;
  queue_hton->kill_query= queue_kill_query;
  queue_hton->show_status= queue_show_status;
  queue_hton->table_options= queue_table_options;
  queue_hton->tablefile_extensions= queue_extensions;
  static const rq_server server= {server_equal, server_encode};
  rq_error error;
  /* The core's threads must leave the server's signals to the server. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code= rq_start(&server, &error);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code)
    sql_print_error("Queue: %s", error.text);
  return code;
}

static int queue_deinit(void *)
{
  queue_hton= nullptr;
  return rq_stop();
}

static struct st_mysql_storage_engine queue_engine= {MYSQL_HANDLERTON_INTERFACE_VERSION};

static struct st_mysql_audit queue_audit= {
    MYSQL_AUDIT_INTERFACE_VERSION, nullptr, queue_command_ended, {MYSQL_AUDIT_GENERAL_CLASSMASK}};

static struct st_mysql_information_schema queue_schema= {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

#define QUEUE_SCHEMA(NAME, WHAT, INIT)                                                                                 \
  {MYSQL_INFORMATION_SCHEMA_PLUGIN, &queue_schema, NAME, "remora", WHAT, PLUGIN_LICENSE_GPL, INIT, nullptr, 0x0001,    \
   nullptr, nullptr, "0.1", MariaDB_PLUGIN_MATURITY_GAMMA}

maria_declare_plugin(queue)
{
  MYSQL_STORAGE_ENGINE_PLUGIN, &queue_engine, "QUEUE", "remora", "A queue that is a table", PLUGIN_LICENSE_GPL,
      queue_init, queue_deinit, 0x0001, nullptr, queue_variables, "0.1", MariaDB_PLUGIN_MATURITY_GAMMA
},
{
  MYSQL_AUDIT_PLUGIN, &queue_audit, "QUEUE_RESET", "remora", "Gives rows of queues back when a connection is reset",
      PLUGIN_LICENSE_GPL, nullptr, nullptr, 0x0001, nullptr, nullptr, "0.1", MariaDB_PLUGIN_MATURITY_GAMMA
},
QUEUE_SCHEMA("QUEUES", "What is in queues", queue_schema_queues_init),
QUEUE_SCHEMA("QUEUE_OWNED", "Rows of queues that somebody owns", queue_schema_owned_init)
maria_declare_plugin_end;
